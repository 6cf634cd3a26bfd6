"""How cells are written to the terminal in few bytes: what is set already is not said again.

Rich writes each piece of text with the whole of its style before it and a reset behind it: forty bytes for one cell of
a map. Here only what is another than before is said, such as the one colour that changes, and for a blank nothing of
the colour that a letter would have. Where few styles take turns, as in a column of bars, what is of one style is
written together. What is set last stays set, and the next update begins with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

RESET = "\x1b[0m"
"""Has a terminal write as it did before anybody set anything."""

VERBATIM = Look(("verbatim",))
"""Stands for text that is sent with its codes as it is, and leaves the terminal as after a reset."""


Place = tuple[int, int]
"""Row and column of the terminal's cursor."""

UNKNOWN_PLACE: Place = (-1, -1)
"""Where the cursor is, when only the terminal can tell."""

FEW = 64
"""Runs of which the best order is looked for one by one; the time for it grows with their square."""


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


def written(runs: Sequence[Run], width: int, now: Look = PLAIN) -> tuple[str, Look]:
    """Write runs in the shortest of three orders, and say how the terminal writes from then on.

    They are as they come, by their looks, or, where they are few, each time that which costs least next.

    Parameters
    ----------
    runs : what is written.
    width : of the terminal; behind its last cell terminals differ in where the cursor is.
    now : how the terminal writes.
    """
    in_turn = _in_order(runs, width, now)
    if len({run.look for run in runs} | {now}) > len(runs):
        return in_turn
    orders = [in_turn, _in_order(sorted(runs, key=_order), width, now)]
    if len(runs) <= FEW:
        orders.append(_in_order(_nearest_first(runs, width, now), width, now))
    return min(orders, key=lambda order: len(order[0]))


def _order(run: Run) -> tuple[bool, tuple[str, ...], str, str]:
    """Sort what is sent as it is, and may be wider than it seems, before what stands behind it."""
    attributes, ground, ink = run.look
    return run.look is not VERBATIM, attributes, ground, ink or ""


def _nearest_first(runs: Sequence[Run], width: int, now: Look) -> Iterator[Run]:
    """Give first what is sent as it is, then each time the run that the fewest codes lead to."""
    yield from (run for run in runs if run.look is VERBATIM)
    left = [run for run in runs if run.look is not VERBATIM]
    place, now = UNKNOWN_PLACE, PLAIN if len(left) < len(runs) else now
    while left:
        costs = [len(_move(place, (run.row, run.column))) + len(_change(now, run.look)[0]) for run in left]
        run = left.pop(costs.index(min(costs)))
        yield run
        place, now = _behind(run, width), _change(now, run.look)[1]


def _in_order(runs: Iterable[Run], width: int, now: Look) -> tuple[str, Look]:
    """Write runs one after the other, and say how the terminal writes from then on."""
    parts: list[str] = []
    place = UNKNOWN_PLACE
    for run in runs:
        parts.append(_move(place, (run.row, run.column)))
        if run.look is VERBATIM:
            codes, now = "" if now == PLAIN else "0", PLAIN
        else:
            codes, now = _change(now, run.look)
        if codes:
            parts.append(f"\x1b[{codes}m")
        parts.append(run.text)
        place = _behind(run, width)
    return "".join(parts), now


def _behind(run: Run, width: int) -> Place:
    """Say where the cursor is once a run is written, where that is the same on every terminal."""
    column = run.column + len(run.text)
    return UNKNOWN_PLACE if run.look is VERBATIM or column >= width else (run.row, column)


@lru_cache(maxsize=16384)
def _move(place: Place, to: Place) -> str:
    """Give the shortest codes that take the cursor from a place to another (ECMA-48, 8.3.18 to 8.3.22, and VPA)."""
    row, column = to
    absolute = f"\x1b[{row + 1};{column + 1}H"
    if place == UNKNOWN_PLACE:
        return absolute
    down, right = row - place[0], column - place[1]
    across = _shorter(right, "C", "D", f"\x1b[{column + 1}G")
    if -3 <= right < 0:
        across = "\b" * -right
    return min(_shorter(down, "B", "A", f"\x1b[{row + 1}d") + across, absolute, key=len)


def _shorter(steps: int, ahead: str, back: str, absolute: str) -> str:
    """Write steps on a line or a column by their number, or as where they lead, whichever is shorter."""
    if not steps:
        return ""
    number = "" if abs(steps) == 1 else str(abs(steps))
    return min(f"\x1b[{number}{ahead if steps > 0 else back}", absolute, key=len)


@lru_cache(maxsize=16384)
def _change(now: Look, look: Look) -> tuple[str, Look]:
    """Give the codes that lead from one look to another, and how it looks then.

    Where less stays than goes, all is set anew.
    """
    ends = {_OFF[each]: None for each in now.attributes if each not in look.attributes}
    codes = [*ends, *(each for each in look.attributes if each not in now.attributes or _OFF[each] in ends)]
    ink = now.ink if look.ink is None else look.ink
    if ink != now.ink:
        codes.append(ink or "39")
    if look.ground != now.ground:
        codes.append(look.ground or "49")
    changed = ";".join(codes), look._replace(ink=ink)
    if not codes:
        return changed
    anew = ";".join(filter(None, ("0", *look.attributes, look.ink, look.ground))), look._replace(ink=look.ink or "")
    return min(changed, anew, key=lambda each: len(each[0]))
