"""How the columns of a table share a line that has too little room for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import add

from engine.values.table import Kind, kind_of
from tui.drawing.titles import Title, titles
from tui.widgets.table_columns import LEAST, Columns, starts_of, widths_of

LOW = 8
"""Lines of a table below which each is a row's rather than the beginnings of names."""

NARROW_NAME = 5
"""Cells that what a row is of has at least, where what stands beside it would be cut."""

LONG_NAME = 0.6
"""The part of a line that what a row is of takes at most, so that numbers stay beside it."""

NARROW_TITLE = 3
"""Cells that a column at the left keeps of its name, where no number beside it would fit."""

NARROW_TOKEN = 8
"""Cells that a token has at least where the columns do not all fit; all of it stands below the table too."""

TOKENS_SHARE = 7
"""The part of a line that a token takes at most there, so that its numbers stay beside it."""

SHORT_NAME = 8
"""Cells up to which a name stays on one line in any case."""


def fitted(columns: Columns, room: int, lines: int = LOW) -> Columns:
    """Be sparing where columns do not all fit.

    Then tokens are cut, and what a row is of where the first column beside it would be. Names that are wider than
    what stands below them go on two lines if more columns are seen so, and are cut before a number is.

    Parameters
    ----------
    columns : as wide as they want to be.
    room : cells of a line; of 0 nothing is known, as where a table has not been shown yet.
    lines : of the table; where they are few, names take one unless more columns are seen with two.
    """
    if not room or columns.starts[-1] <= room:
        return columns
    allowed = [max(needed, SHORT_NAME) for needed in columns.cells]
    on_one = tuple(("", f"{upper}{lower}") for upper, lower in columns.titles)
    first = (on_one,) if lines < LOW else ()
    ways = [_sparing(columns, over, room) for over in (*first, columns.titles, titles(columns.names, allowed))]
    return max(ways, key=lambda way: sum(map(room.__ge__, map(add, way.starts, way.cells))))


def _sparing(columns: Columns, over: tuple[Title, ...], room: int) -> Columns:
    """Cut tokens, then what stays at the left where it leaves too little, then names that are wider than what is left.

    Where nothing helps no column stays at the left, so that every one can be brought into view.
    """
    widest_token = max(NARROW_TOKEN, room // TOKENS_SHARE)
    own = columns.widths if over is columns.titles else widths_of(columns.cells, over)
    widths = [
        min(width, widest_token) if kind_of(name) is Kind.TOKEN else width
        for name, width in zip(columns.names, own, strict=True)
    ]
    left, scrolled = range(columns.frozen), range(columns.frozen, len(widths))
    free = room
    if left and scrolled:
        longest = max(NARROW_NAME, int(room * LONG_NAME))
        widths[: columns.frozen] = [min(width, longest) for width in widths[: columns.frozen]]
        _give_way(widths, [NARROW_NAME] * len(left), room - widths[columns.frozen], columns.gap)
        number = max((columns.cells[place] for place in scrolled if columns.numeric[place]), default=0)
        least = [max(NARROW_TITLE, min(columns.cells[place], NARROW_NAME)) for place in left]
        _give_way(widths, least, room - number, columns.gap)
        second = columns.frozen + 1
        if second < len(widths) and not columns.numeric[second - 1] and columns.numeric[second]:
            _give_way(widths, least, room - widths[second - 1] - columns.gap - columns.cells[second], columns.gap)
        free = room - starts_of(widths, columns.gap)[columns.frozen]
    frozen = columns.frozen
    if free < LEAST:
        frozen, free, widths = 0, max(room, NARROW_NAME), list(own)
    widths[frozen:] = [min(width, free) for width in widths[frozen:]]
    return replace(columns, frozen=frozen, titles=over, widths=tuple(widths), starts=starts_of(widths, columns.gap))


def _give_way(widths: list[int], least: Sequence[int], edge: int, gap: int) -> None:
    """Make the first columns narrower, the widest first, until they end where others should begin.

    Parameters
    ----------
    widths : of all columns; changed.
    least : how wide each of the first stays, unless it is narrower.
    edge : where the others should begin.
    gap : cells between two.
    """
    lacking = starts_of(widths, gap)[len(least)] - edge
    for place in sorted(range(len(least)), key=lambda place: -widths[place]):
        kept = min(widths[place], max(least[place], widths[place] - max(lacking, 0)))
        lacking, widths[place] = lacking - widths[place] + kept, kept
