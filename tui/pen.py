"""How cells are written to the terminal in few bytes: what is set already is not said again.

Rich writes each piece of text with the whole of its style before it and a reset behind it: forty bytes for one cell of
a map. Here only what is another than before is said, such as the one colour that changes, and for a blank nothing of
the colour that a letter would have. Where few styles take turns, as in a column of bars, what is of one style is
written together. What is set last stays set, and the next update begins with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.style import Style
from textual.strip import Strip

from tui.cursor_moves import UNKNOWN_PLACE, Place, moved
from tui.ordering import cheap_order

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


FEW = 64
"""Runs of which a good order is looked for; the time for it grows with their square."""

_MANY_BLANKS = re.compile(" {11,}")
"""So many blanks that a code for them, and one that goes on behind them, are fewer bytes."""


class Terminal(NamedTuple):
    """What is written on.

    Attributes
    ----------
    width : in cells; behind the last one terminals differ in where the cursor is.
    erases : whether it erases cells at a code, in the colour that is behind letters.
    """

    width: int
    erases: bool = False


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


def written(runs: Sequence[Run], terminal: Terminal, now: Look = PLAIN) -> tuple[str, Look]:
    """Write runs in the shortest of three orders, and say how the terminal writes from then on.

    They are as they come, by their looks, or, where they are few, so that the codes between them are short.

    Parameters
    ----------
    runs : what is written.
    terminal : on which they are written.
    now : how it writes.
    """
    in_turn = _in_order(runs, terminal, now)
    if len({run.look for run in runs} | {now}) > len(runs):
        return in_turn
    orders = [in_turn, _in_order(sorted(runs, key=_order), terminal, now)]
    if len(runs) <= FEW:
        orders.append(_in_order(_with_short_codes(runs, terminal, now), terminal, now))
    return min(orders, key=lambda order: len(order[0]))


def _order(run: Run) -> tuple[bool, tuple[str, ...], str, str]:
    """Sort what is sent as it is, and may be wider than it seems, before what stands behind it."""
    attributes, ground, ink = run.look
    return run.look is not VERBATIM, attributes, ground, ink or ""


def _with_short_codes(runs: Sequence[Run], terminal: Terminal, now: Look) -> Iterator[Run]:
    """Give first what is sent as it is, then the others in an order in which few codes lead from each to the next."""
    yield from (run for run in runs if run.look is VERBATIM)
    left = [run for run in runs if run.look is not VERBATIM]
    looks = list(dict.fromkeys(run.look for run in left))
    kinds = [looks.index(run.look) for run in left]
    begins = [(run.row, run.column) for run in left]
    befores = [(_behind(run, terminal), run.look) for run in left]
    befores.append((UNKNOWN_PLACE, PLAIN if len(left) < len(runs) else now))
    costs = []
    for place, look in befores:
        changes = [len(_codes(_change(look, other)[0])) for other in looks]
        costs.append([len(moved(place, to)) + changes[kind] for to, kind in zip(begins, kinds, strict=True)])
    yield from (left[at] for at in cheap_order(costs))


def _in_order(runs: Iterable[Run], terminal: Terminal, now: Look) -> tuple[str, Look]:
    """Write runs one after the other, and say how the terminal writes from then on."""
    parts: list[str] = []
    place = UNKNOWN_PLACE
    for run in runs:
        parts.append(moved(place, (run.row, run.column)))
        if run.look is VERBATIM:
            codes, now = "" if now == PLAIN else "0", PLAIN
        else:
            codes, now = _change(now, run.look)
        parts.append(_codes(codes))
        parts.append(_sent(run, terminal)[0])
        place = _behind(run, terminal)
    return "".join(parts), now


def _codes(codes: str) -> str:
    """Write the codes that change a look, where there are any."""
    return f"\x1b[{codes}m" if codes else ""


def _behind(run: Run, terminal: Terminal) -> Place:
    """Say where the cursor is once a run is written, where that is the same on every terminal."""
    column = run.column + _sent(run, terminal)[1]
    return UNKNOWN_PLACE if run.look is VERBATIM or column >= terminal.width else (run.row, column)


def _sent(run: Run, terminal: Terminal) -> tuple[str, int]:
    """Give what is sent for a run, many blanks as one code (ECMA-48, 8.3.38), and how far the cursor goes.

    A code leaves the cursor where it is. What shows the colour of letters on a blank is not of it.
    """
    text, look = run.text, run.look
    if (
        not terminal.erases
        or "     " not in text
        or not _SEEN_ON_BLANKS.isdisjoint(look.attributes)
        or look is VERBATIM
    ):
        return text, len(text)
    kept = text.rstrip(" ")
    blanks = len(text) - len(kept)
    code = f"\x1b[{blanks}X"
    if len(code) >= blanks:
        kept, code = text, ""
    return _MANY_BLANKS.sub(_over_blanks, kept) + code, len(kept)


def _over_blanks(blanks: re.Match[str]) -> str:
    """Erase blanks, and go on behind them."""
    count = len(blanks[0])
    return f"\x1b[{count}X\x1b[{count}C"


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
