"""What cannot be seen, written as an escape: in tokens of every table, and in all that a terminal is sent as text."""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_IN_LINES = re.compile(r"[^\n\t]+")


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


def visible_lines(text: str) -> str:
    r"""Write escapes as `visible` does, but keep the ends of lines and tabs.

    Examples
    --------
    >>> visible_lines("a\tb\nc\x1b]0;d\x07")
    'a\tb\nc\\x1b]0;d\\x07'
    """
    return text if text.isprintable() else _IN_LINES.sub(lambda found: visible(found[0]), text)
