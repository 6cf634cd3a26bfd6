"""Spells tokens so that they can be told apart: special tokens, and parts of a character.

A special token that the tokenizer added has one pair of signs, one that was typed another, and text none: ``[CLS]``
that the model reads as text looks like text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import TypeVar

from rich.cells import cell_len
from rich.text import Text

from engine.values.attention import AttentionMap, PooledMap, Sentence, Spelling, TokenKind
from engine.values.display_text import plural
from tui.drawing.text import escape_text, fit

AnyMap = TypeVar("AnyMap", AttentionMap, PooledMap)

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

_SIGNS: dict[TokenKind, tuple[str, str]] = {"special": ("«", "»"), "added": ("‹", "›")}
"""Signs before and after a special token, by kind."""

_MEANINGS: dict[TokenKind, str] = {
    "text": "",
    "special": "special, typed or unknown text",
    "added": "not typed",
}


@lru_cache(maxsize=16384)
def spell_token(token: str, kind: TokenKind, whole: str = "", part: int = 0) -> str:
    r"""Spell one token; its spaces stay.

    Parameters
    ----------
    whole : if the token is some bytes of a character, the text of which it is a part.
    part : its number, from 1.

    Examples
    --------
    >>> spell_token("[CLS]", "added"), spell_token("[CLS]", "special"), spell_token("[CLS]", "text")
    ('‹[CLS]›', '«[CLS]»', '[CLS]')
    >>> spell_token("\\xb8", "text", " 中", 2)
    '中₂'
    """
    shown = escape_text(token)
    if whole:
        shown = escape_text(whole).strip() + str(part).translate(SUBSCRIPTS)
    if kind != "text":
        before, behind = _SIGNS[kind]
        shown = f"{before}{shown}{behind}"
    return shown or "∅"


def spell_tokens(tokens: Sequence[str], spellings: Sequence[Spelling]) -> tuple[str, ...]:
    """Spell tokens, given their spellings."""
    return tuple(
        spell_token(token, each.kind, each.whole, each.part) for token, each in zip(tokens, spellings, strict=True)
    )


def spell_map(shown: AnyMap, sentence: Sentence) -> AnyMap:
    """Spell the tokens of a map that are bytes of a character; leave the others."""
    if not sentence.has_parts:
        return shown
    queries, keys = (
        tuple(
            spell_token(token, "text", each.whole, each.part) if each.whole else token
            for token, each in zip(tokens, sentence.spellings_along(tokens), strict=True)
        )
        for tokens in (shown.query_tokens, shown.key_tokens)
    )
    return replace(shown, query_tokens=queries, key_tokens=keys)


def token_meaning(spelling: Spelling, token: str) -> str:
    """Explain a token that is not plain text; empty for plain text."""
    if spelling.whole:
        return f'{escape_text(token)}: some bytes of "{escape_text(spelling.whole).strip()}"'
    return _MEANINGS[spelling.kind]


def token_count(sentence: Sentence) -> str:
    """Describe the number of tokens, and how many the model reads.

    Examples
    --------
    >>> token_count(Sentence("a", (1,), ("a",), 1, limit=64)), token_count(Sentence("a b", (1,), ("a",), 2, limit=1))
    ('1/64 tokens', '2/1 tokens: cut')
    """
    count = str(sentence.full_length) if sentence.limit is None else f"{sentence.full_length}/{sentence.limit}"
    said = plural("token", max(sentence.full_length, sentence.limit or 0))
    return f"{count} {said}{'' if sentence.full_length == len(sentence.ids) else ': cut'}"


def token_strip(sentence: Sentence, width: int, *, at: int | None = None) -> Text:
    """Write tokens in one line of ``width`` cells, with bars between them and their number at the end.

    Parameters
    ----------
    at : place in the text, in characters, near which tokens are shown; None for the beginning.
    """
    count = token_count(sentence)
    room = max(width - len(count) - 2, 8)
    spellings = sentence.spellings_along(sentence.tokens)
    first = 0 if at is None else _first(sentence, room, at)
    line = Text(no_wrap=True, end="")
    if first:
        line.append("…│", "dim")
    last = first
    labels = spell_tokens(sentence.tokens[first : first + room], spellings[first : first + room])
    for last, (label, each) in enumerate(zip(labels, spellings[first:], strict=False), first + 1):
        if line.cell_len + cell_len(label) + 2 > room and last > first + 1:
            last -= 1
            break
        line.append(fit(label, min(cell_len(label), room)), "" if each.kind == "text" else "bold")
        line.append("│", "dim")
    if last < len(sentence.tokens):
        line.append("…", "dim")
    line.append(" " * max(width - line.cell_len - len(count), 1))
    return line.append(count, "dim" if sentence.full_length == len(sentence.ids) else "bold")


def _first(sentence: Sentence, room: int, at: int) -> int:
    """Choose the first token to show, so that the one near a place of the text is well in view.

    Tokens are taken to be as long as their share of the text.
    """
    ends = list(accumulate(map(len, sentence.tokens)))
    first = used = 0
    if ends:
        first = min(bisect_left(ends, at * ends[-1] / max(len(sentence.text), 1)), len(ends) - 1)
    while first > 0 and used + cell_len(sentence.tokens[first]) + 3 < room * 3 // 4:
        used += cell_len(sentence.tokens[first]) + 1
        first -= 1
    return first
