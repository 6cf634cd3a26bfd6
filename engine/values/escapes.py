"""Texts of tokens as every table writes them: what cannot be seen as an escape."""

from __future__ import annotations

import unicodedata

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def visible(text: str) -> str:
    r"""Write control, format and unassigned-use characters as escapes, so that no text can steer a terminal.

    Examples
    --------
    >>> visible("a\nb\x1b[31m"), visible(visible("a\nb"))
    ('a\\nb\\x1b[31m', 'a\\nb')
    """
    if text.isprintable():
        return text
    return "".join(
        _ESCAPES.get(character) or character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _INVISIBLE
        else character
        for character in text
    )
