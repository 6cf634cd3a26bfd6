"""What parts of a view's title say, in fewer and fewer words."""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.text import Text

LESS_THIS_MODEL = "other model less this one"
"""What is looked at where a map is the difference of two models'."""

CELL = re.compile(r'\bquery (\d+) (".*"), key (\d+) (".*")')
"""A cell of the map; its tokens may hold what else stands between parts."""

OFF = re.compile(r"with (?:(\d+) heads|(.+?)) off\b")
"""Heads that are switched off: how many, or which."""

_BY_MEAN, _LESS = " by mean", " less all on"
"""How they are off, and what they are compared with, in few words."""

SHORTER = (
    (re.compile(r"\blayer (\d+)"), r"L\1"),
    (CELL, r"q \1 \2 k \3 \4"),
    (re.compile(r'\bq (\d+) ".*" k (\d+) ".*"'), r"q \1 k \2"),
    (re.compile(r"\bnot the (?:mean|rollout): (?=q \d)"), ""),
    (re.compile(f"^{LESS_THIS_MODEL}$"), "other less this"),
)
"""What is said in fewer words first: a layer's name, and a cell of the map, at last without its tokens and alone."""

MEANS = (
    (re.compile(r"^((?:\S+ )?L\d+), mean over heads$"), r"mean of \1"),
    (re.compile(r"^((?:\S+ )?H\d+), mean over layers$"), r"mean of \1"),
    (re.compile(r"^((?:\S+ )?)mean over layers and heads$"), r"\1mean of all"),
)
"""Of what a map is the mean, in fewer words, where all else that can be missed is."""

MEAN_OF_ALL = (re.compile(r"^((?:\S+ )?)mean of all$"), r"\1mean")
"""The mean of which a difference is, where its sign would not be seen else."""

_MINUS = re.compile(r"\b(?:(other) less this|(\d+ off) less all (on))$")
"""What is looked at where a map is a difference, of which the sign is left at last."""


def shorter(pattern: re.Pattern[str], words: str | Callable[[re.Match[str]], str], text: Text) -> Text:
    """Put few words in the place of what is said in more."""
    match = pattern.search(text.plain)
    if match is None:
        return text
    said = match.expand(words) if isinstance(words, str) else words(match)
    return Text.assemble(text[: match.start()], said, text[match.end() :])


def off_in_few_words(text: Text) -> Text:
    """Name the heads that are off, or count them where they are many, without words that could be missed."""
    said = text.plain
    match = OFF.match(said)
    if match is None:
        return text
    way = _BY_MEAN * bool(re.search(r"off by (its|their) mean", said)) + _LESS * ("less with all on" in said)
    return Text((f"{match[1]} heads off" if match[1] else f"{match[2]} off") + way)


def off_counted(text: Text) -> Text:
    """Count the heads that are off."""
    said = text.plain
    match = re.match(r"((?:\S+\.)?L\d+H\d+(?:, \S+)*|\d+ heads) off\b", said)
    if match is None:
        return text
    number = match[1].count(",") + 1 if match[1][0] == "L" else match[1].split()[0]
    return Text(f"{number} off{_LESS * (_LESS in said)}")


def is_less(text: Text) -> bool:
    """Say whether it is that something is looked at less something else, in few words."""
    return _MINUS.search(text.plain) is not None


def with_minus(text: Text) -> Text:
    """Write a difference with its sign.

    Examples
    --------
    >>> [with_minus(Text(said)).plain for said in ("other less this", "2 off less all on", "L0H1")]
    ['other−this', '2 off−on', 'L0H1']
    """
    return shorter(_MINUS, lambda match: f"{match[1]}−this" if match[1] else f"{match[2]}−{match[3]}", text)
