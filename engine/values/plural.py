"""Numbers of things, as one says them."""

from __future__ import annotations


def plural(word: str, count: int) -> str:
    """Give the word for so many things.

    Examples
    --------
    >>> plural("head", 0), plural("head", 1), plural("head", 2)
    ('heads', 'head', 'heads')
    """
    return word if count == 1 else f"{word}s"


def counted(count: int, word: str) -> str:
    """Say how many things there are.

    Examples
    --------
    >>> counted(1, "head"), counted(12, "head")
    ('1 head', '12 heads')
    """
    return f"{count} {plural(word, count)}"


def span(first: int, last: int) -> str:
    """Say which numbers there are.

    Examples
    --------
    >>> span(0, 7), span(0, 0)
    ('0 to 7', '0 alone')
    """
    return f"{first} to {last}" if first < last else f"{first} alone"
