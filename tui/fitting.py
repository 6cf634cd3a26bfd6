"""How well what can be done fits what is typed into the palette."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from textual.fuzzy import FuzzySearch

EXACT, BEGINS, WORDS, WITHIN, LETTERS, NOT = 5, 4, 3, 2, 1, 0
"""From what is called just so, over what begins so or has words that do, to what has no more than the letters."""

_WORD = re.compile(r"\w+")
_SEARCH = FuzzySearch()


def fit_of(typed: str, name: str, said: str) -> int:
    """Say how well a command fits what is typed; see `EXACT` and what follows it.

    Letters by themselves are found where they come in few pieces: what has them anywhere is not what is meant.

    Parameters
    ----------
    typed : into the palette, in any case.
    name : the word by which it can be typed elsewhere, such as ``next-head``.
    said : what it does.

    Examples
    --------
    >>> [fit_of(typed, "next-head", "Next head") for typed in ("next head", "next", "head", "ext", "nexthd", "nd")]
    [5, 4, 3, 2, 1, 0]
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
    """Say whether a text has the letters in their order, two or more to a piece on the whole."""
    score, places = _SEARCH.match(wanted, text)
    return score > 0 and 2 * _pieces(places) <= len(wanted) + 1


def _pieces(places: Sequence[int]) -> int:
    """Count runs of places that follow each other."""
    return 1 + sum(after != before + 1 for before, after in pairwise(places))
