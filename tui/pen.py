"""How cells are written to the terminal in few bytes: what is set already is not said again.

Rich writes each piece of text with the whole of its style before it and a reset behind it: forty bytes for one cell of
a map. Here only what is another than before is said, such as the one colour that changes, and for a blank nothing of
the colour that a letter would have. Where few styles take turns, as in a column of bars, what is of one style is
written together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.style import Style
from textual.strip import Strip

_OFF = {
    "1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29", "21": "24",
    "51": "54", "52": "54", "53": "55",
}  # fmt: skip
"""The code of an attribute, and the one that ends it (ECMA-48, 8.3.117)."""

_SEEN_ON_BLANKS = {"4", "7", "9", "21", "51", "52", "53"}
"""The attributes that show the colour of letters where there is no letter."""


class Look(NamedTuple):
    """How a cell looks, in codes of the terminal.

    Attributes
    ----------
    attributes : such as "1" for bold.
    ground : the colour behind the letter, such as "48;5;16"; empty for the terminal's own.
    ink : the colour of the letter, likewise; None where none is seen.
    """

    attributes: tuple[str, ...] = ()
    ground: str = ""
    ink: str | None = ""


PLAIN = Look()
"""What a terminal writes in after a reset."""

VERBATIM = Look(("verbatim",))
"""Stands for text that is sent with its codes as it is, and leaves the terminal as after a reset."""


class Run(NamedTuple):
    """Text of one look, each character of which takes one cell, unless the look is ``VERBATIM``."""

    row: int
    column: int
    text: str
    look: Look


@lru_cache(maxsize=16384)
def looks(style: Style | None, system: ColorSystem) -> tuple[Look, Look]:
    """Give how a letter of a style looks, and how a blank."""
    if style is None:
        return PLAIN, PLAIN._replace(ink=None)
    codes = [code for code in Strip.render_ansi(style, system).split(";") if code]
    attributes: list[str] = []
    ground = ink = ""
    while codes:
        code = codes.pop(0)
        if code in ("38", "48"):
            rest = 4 if codes[0] == "2" else 2
            code, codes = ";".join((code, *codes[:rest])), codes[rest:]
        if code in _OFF:
            attributes.append(code)
        elif code.startswith(("4", "10")):
            ground = "" if code == "49" else code
        else:
            ink = "" if code == "39" else code
    look = Look(tuple(attributes), ground, ink)
    return look, look if _SEEN_ON_BLANKS.intersection(attributes) else look._replace(ink=None)


def written(runs: Sequence[Run]) -> str:
    """Write runs in the shorter of two orders, as they come and by their looks; at the end all is as after a reset."""
    in_turn = _in_order(runs)
    if len({run.look for run in runs}) == len(runs):
        return in_turn
    return min(in_turn, _in_order(sorted(runs, key=_order)), key=len)


def _order(run: Run) -> tuple[bool, tuple[str, ...], str, str]:
    """Sort what is sent as it is, and may be wider than it seems, before what stands behind it."""
    attributes, ground, ink = run.look
    return run.look is not VERBATIM, attributes, ground, ink or ""


def _in_order(runs: Iterable[Run]) -> str:
    """Write runs one after the other."""
    parts: list[str] = []
    row = column = -1
    now = PLAIN
    for run in runs:
        if run.row != row or run.column < column:
            parts.append(f"\x1b[{run.row + 1};{run.column + 1}H")
        elif run.column > column:
            step = run.column - column
            parts.append(f"\x1b[{step if step > 1 else ''}C")
        if run.look is VERBATIM:
            codes, now = "" if now == PLAIN else "0", PLAIN
            row = -1  # how far such text takes the cursor is for the terminal to say
        else:
            codes, now = _change(now, run.look)
            row, column = run.row, run.column + len(run.text)
        if codes:
            parts.append(f"\x1b[{codes}m")
        parts.append(run.text)
    if now != PLAIN:
        parts.append("\x1b[0m")
    return "".join(parts)


@lru_cache(maxsize=16384)
def _change(now: Look, look: Look) -> tuple[str, Look]:
    """Give the codes that lead from one look to another, and how it looks then."""
    ends = {_OFF[each]: None for each in now.attributes if each not in look.attributes}
    codes = [*ends, *(each for each in look.attributes if each not in now.attributes or _OFF[each] in ends)]
    ink = now.ink if look.ink is None else look.ink
    if ink != now.ink:
        codes.append(ink or "39")
    if look.ground != now.ground:
        codes.append(look.ground or "49")
    return ";".join(codes), Look(look.attributes, look.ground, ink)
