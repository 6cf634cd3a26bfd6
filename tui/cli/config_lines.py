"""The lines of a configuration file: where something is set in it, and what is wrong with one that is no TOML."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui.drawing.text import fit, harmless

EXAMPLE = "attn-tui config --example"
"""Prints all that can stand in the file."""

SHOWN = 40
"""Cells of a line that are shown to know it by."""

_NUMBER = re.compile(r", line (\d+): ")

_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_NAME = rf"({_PART}(?:\s*\.\s*{_PART})*)"
_TABLE = re.compile(rf"\s*\[+\s*{_NAME}\s*\]")
_SET = re.compile(rf"\s*{_NAME}\s*=")

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

_MISTAKES = (
    ("Invalid value", 'a text stands in quotes, theme = "dark", numbers, true and false without'),
    ("Illegal character", "a text ends with the quote that it begins with, on the same line"),
    ("Cannot overwrite", "it is there twice; one is enough"),
    ("Cannot declare", "it is there twice; one is enough"),
    ("Expected '='", "write name = value"),
)
"""What the reader of TOML says, and what would be right."""


def line_of(name: str, text: str) -> int | None:
    r"""Give the number of the line in which a setting or a key is set, or else of what it is in, or of what is in it.

    Examples
    --------
    >>> text = 'ascii = true\n[keys]\nmap.up = "n"\n[keys.tree]\nup = "m"\n'
    >>> [line_of(name, text) for name in ("ascii", "map.up", "tree.up", "keys", "map", "map.down")]
    [1, 3, 5, 2, 3, 2]
    """
    wanted = (name, f"keys.{name}")
    table, near = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _TABLE.match(line)) is not None:
            here = table = _plain(match[1])
        elif (match := _SET.match(line)) is not None:
            here = f"{table}.{_plain(match[1])}".lstrip(".")
        else:
            continue
        if here in wanted:
            return number
        if any(f"{each}.".startswith(f"{here}.") or here.startswith(f"{each}.") for each in wanted):
            near.setdefault(here, number)
    return near[max(near, key=len)] if near else None


def by_line(problems: Sequence[str]) -> tuple[str, ...]:
    """Put what is wrong in the order of the lines that it is in, behind what is in none.

    Examples
    --------
    >>> by_line(["c.toml, line 10: x", "c.toml, line 2: y", "ATTN_TUI_THEME=pink: z"])
    ('ATTN_TUI_THEME=pink: z', 'c.toml, line 2: y', 'c.toml, line 10: x')
    """
    found = [_NUMBER.search(each) for each in problems]
    numbers = [0 if match is None else int(match[1]) for match in found]
    return tuple(each for _, each in sorted(zip(numbers, problems, strict=True), key=lambda pair: pair[0]))


def _plain(name: str) -> str:
    """Write a name without quotes, and without spaces around its dots."""
    return ".".join(part.strip("\"'") for part in re.findall(_PART, name))


def not_toml(said: str, text: str) -> tuple[int, str]:
    r"""Give the line that ends a file's being TOML, and say what is wrong with it, and what would be right.

    Parameters
    ----------
    said : by the reader of TOML.
    text : the file.

    Examples
    --------
    >>> not_toml("Expected '=' after a key in a key/value pair (at line 2, column 7)", "ascii = true\ntheme")
    (2, "theme: Expected '=' after a key in a key/value pair (column 7); write name = value")
    """
    lines = text.splitlines() or [""]
    match = _AT.search(said)
    number, column = (int(match[1]), match[2]) if match is not None and match[1] else (len(lines), "")
    why = said[: match.start()] if match is not None else said
    right = next((right for begun, right in _MISTAKES if begun in why), f"{EXAMPLE} shows how it is written")
    where = f" (column {column})" if column else ""
    written = fit(harmless(lines[min(number, len(lines)) - 1].strip()), SHOWN).rstrip()
    return number, f"{written}: {why}{where}; {right}"
