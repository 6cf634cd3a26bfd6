"""How well what can be done fits what is typed into the palette."""

from __future__ import annotations

import re
from collections.abc import Sequence

EXACT, BEGINS, WORDS, WITHIN, LETTERS, NOT = 5, 4, 3, 2, 1, 0
"""From what is called just so, over what begins so or has words that do, to what has no more than the letters."""

_WORD = re.compile(r"\w+")


def fit_of(typed: str, name: str, said: str) -> int:
    """Say how well a command fits what is typed; see `EXACT` and what follows it.

    Letters by themselves are found where each piece of them begins a word or goes on in it, and where the pieces are
    few: what has them anywhere is not what is meant.

    Parameters
    ----------
    typed : into the palette, in any case.
    name : the word by which it can be typed elsewhere, such as ``next-head``.
    said : what it does.

    Examples
    --------
    >>> [fit_of(typed, "next-head", "Next head") for typed in ("next head", "next", "head", "ext", "nexthd", "nd")]
    [5, 4, 3, 2, 1, 0]
    >>> fit_of("nxt lay", "next-layer", "Next layer"), fit_of("parquet", "", "previous"), fit_of("yank", "", "any key")
    (1, 0, 0)
    >>> fit_of("patterns", "export-again", "Export as last time, at first what is on screen")
    0
    """
    wanted = " ".join(typed.lower().split())
    texts = (name.lower(), name.lower().replace("-", " "), said.lower())
    if not wanted:
        return NOT
    if wanted in texts:
        return EXACT
    if any(each.startswith(wanted) for each in texts):
        return BEGINS
    words = [word for each in texts for word in _WORD.findall(each)]
    if all(any(word.startswith(part) for word in words) for part in wanted.split()):
        return WORDS
    if any(wanted in each for each in texts):
        return WITHIN
    return LETTERS if any(_is_in_few_pieces(wanted, each) for each in texts[1:]) else NOT


def _is_in_few_pieces(wanted: str, text: str) -> bool:
    """Say whether a text has the letters in their order, two or more to a word of it on the whole.

    Those of a word begin with its first one.
    """
    letters = "".join(wanted.split())
    words = _WORD.findall(text.replace("-", " "))
    most = (len(letters) + 1) // 2
    return any(_is_spread(letters, words[place:], most) for place in range(len(words)))


def _is_spread(letters: str, words: Sequence[str], most: int) -> bool:
    """Say whether letters are spread over words that follow each other, each word's from its first on, so many at most.

    Examples
    --------
    >>> [_is_spread(letters, ["next", "head"], 2) for letters in ("nexthd", "nxhe", "nd", "xthd", "nh")]
    [True, True, False, False, True]
    """
    if not letters:
        return True
    if not words or most < 1 or letters[0] != words[0][0]:
        return False
    taken, at = 1, 1
    reached = [taken]
    while taken < len(letters) and (at := words[0].find(letters[taken], at) + 1):
        taken += 1
        reached.append(taken)
    return any(_is_spread(letters[each:], words[1:], most - 1) for each in reversed(reached))
