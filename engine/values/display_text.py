"""Texts for people: escapes for invisible characters, and counts and sizes of things."""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_IN_LINES = re.compile(r"[^\n\t]+")


def visible(text: str) -> str:
    r"""Write control, format and private-use characters as escapes, so that no text can steer a terminal.

    Examples
    --------
    >>> visible("a\nb\x1b[31m"), visible(visible("a\nb"))
    ('a\\nb\\x1b[31m', 'a\\nb')
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )


def visible_lines(text: str) -> str:
    r"""Write escapes as `visible` does, but keep line ends and tabs."""
    return text if text.isprintable() else _IN_LINES.sub(lambda found: visible(found[0]), text)


def plural(word: str, count: int) -> str:
    """Add an s unless there is one."""
    return word if count == 1 else f"{word}s"


def quantity(count: int, word: str) -> str:
    """Write a count with its word: ``1 head``, ``4 heads``."""
    return f"{count} {plural(word, count)}"


def span(first: int, last: int) -> str:
    """Write a range: ``0 to 11``, ``0 alone``."""
    return f"{first} to {last}" if first < last else f"{first} alone"


def size(stored_bytes: int) -> str:
    """Write a number of bytes."""
    amount = float(stored_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
