"""The columns of a table: how wide they are, which are in view, and in which order one puts the rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from operator import add
from typing import Literal

from rich.cells import cell_len

from engine.values.heads import MATRICES
from engine.values.table import CHANCE, TEXTS, Cell, Kind, kind_of
from tui.drawing.numbers import LONGEST
from tui.drawing.text import fit, fit_end

NARROW = 12
"""Cells up to which a name stays on one line."""

Title = tuple[str, str]
"""The upper line, mostly empty, and the lower one."""

PLACES = {"rank": "#", "rank_other": "# other", "rank_after": "# after"}
"""Columns that number a list; ranks are those of matrices."""


def titles(columns: Sequence[str], cells: Sequence[int] | None = None) -> tuple[Title, ...]:
    """Write over columns what they hold, in the words of their names; chance beside its measure is called just that.

    Parameters
    ----------
    columns : the names, as files have them.
    cells : how wide each column's cells are where there is little room, so that no name is wider without need.

    Examples
    --------
    >>> titles(["layer", "qk_identity_distance", "qk_identity_distance_chance"])
    (('', 'layer'), ('QK identity', 'distance'), ('', 'chance'))
    >>> titles(["from_layer"], [1]), titles(["from_layer"], [10])
    ((('from', 'layer'),), (('', 'from layer'),))
    """
    before = ["", *columns]
    return tuple(
        ("", CHANCE.lstrip("_")) if name == f"{last}{CHANCE}" else _on_two_lines(_words(name), room)
        for last, name, room in zip(before, columns, cells or [NARROW] * len(columns), strict=False)
    )


def _words(name: str) -> str:
    """Write a column's name as words, with matrices in capitals, and a place in a list as ``#``."""
    if name in PLACES:
        return PLACES[name]
    return " ".join(word.upper() if word.upper() in MATRICES else word for word in name.split("_"))


def _on_two_lines(name: str, room: int) -> Title:
    """Break a long name between two of its words, where that makes it narrowest."""
    places = [place for place, character in enumerate(name) if character == " "]
    if cell_len(name) <= room or not places:
        return "", name
    place = min(places, key=lambda place: max(place, len(name) - place - 1))
    return name[:place], name[place + 1 :]


WIDEST = 32
"""Cells that a text takes at most; the line below the table shows all of it."""

GAP = 2
"""Cells between two columns."""

MEASURED = 300
"""Rows up to which every cell is written to find out how wide its column is."""

LEAST = 5
"""Cells from which on a column of numbers is worth its place where it is cut."""


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


@dataclass(frozen=True)
class Columns:
    """Columns side by side, of which the first stay at the left while the others are scrolled.

    Attributes
    ----------
    names : of the columns.
    frozen : how many stay at the left.
    numeric : whether a column holds numbers.
    titles : what stands over each.
    widths : of each, in cells of the screen.
    cells : how many of them each column's cells need, whatever its name is.
    gap : cells between two.
    """

    names: tuple[str, ...] = ()
    frozen: int = 0
    numeric: tuple[bool, ...] = ()
    titles: tuple[Title, ...] = ()
    widths: tuple[int, ...] = ()
    cells: tuple[int, ...] = ()
    gap: int = GAP

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each column begins while nothing is scrolled, and where one more would."""
        return starts_of(self.widths, self.gap)

    @classmethod
    def of(
        cls, names: tuple[str, ...], by_column: Iterable[Sequence[Cell]], frozen: int, write: Callable[[Cell], str]
    ) -> Columns:
        """Make columns as wide as their names and cells want to be.

        Parameters
        ----------
        names : of the columns.
        by_column : the cells of each.
        frozen : how many columns stay at the left.
        write : turns a cell into what is shown.
        """
        needed, numeric = list[int](), list[bool]()
        for name, cells in zip(names, by_column, strict=False):
            needed.append(min(WIDEST, widest(cells, write)))
            numeric.append(any(_is_number(cell, kind_of(name)) for cell in cells))
        over = titles(names)
        widths = widths_of(needed, over)
        return cls(names, frozen, tuple(numeric), over, widths, tuple(needed))

    @classmethod
    def evenly(cls, names: tuple[str, ...], name_width: int, value_width: int, gap: int) -> Columns:
        """Make columns of numbers that stay as wide whatever comes, behind one without a title that names the rows.

        Parameters
        ----------
        names : of all, first that of the rows' names, which stays at the left.
        name_width, value_width : in cells of the screen.
        gap : cells between two.
        """
        numbers = names[1:]
        widths = (name_width, *(value_width for _ in numbers))
        over = (("", ""), *(("", name) for name in numbers))
        return cls(names, 1, (False, *(True for _ in numbers)), over, widths, widths, gap)

    @property
    def head(self) -> int:
        """Lines that the names take, whichever columns are in view: rows stay where they are as one goes on."""
        return 2 if any(upper for upper, _ in self.titles) else 1

    @property
    def edge(self) -> int:
        """Where the first column begins that does not stay at the left."""
        return self.starts[self.frozen]

    @property
    def width(self) -> int:
        """Cells that all columns take side by side."""
        return self._ends[-1] if self.widths else 0

    def scrolled_width(self, room: int) -> int:
        """Give the width of all columns; if there is less room, so much that the last can begin at the edge."""
        width, edge = self.width, self.edge
        if width <= room:
            return width
        first = next((each for each in self._firsts if width - each <= room - edge), edge)
        return max(width, first - edge + room)

    def beyond(self, left: int, room: int) -> int:
        """Count the columns behind the last one that is seen whole; parameters as in `in_view`."""
        return len(self.names) - max(self.frozen, bisect_right(self._ends, left + room))

    def in_view(self, left: int, room: int) -> Iterator[tuple[int, range]]:
        """Go through the columns that are in view, each with where it is seen.

        Parameters
        ----------
        left : how far the columns are scrolled.
        room : cells of a line.
        """
        first = max(self.frozen, bisect_right(self.starts, self.edge + left) - 1)
        last = min(len(self.names), bisect_right(self.starts, left + room))
        painted = 0
        for column in (*range(self.frozen), *range(first, last)):
            start = self.starts[column] - (0 if column < self.frozen else left)
            seen = range(max(start, painted), min(start + self.widths[column], room))
            if seen:
                yield column, seen
                painted = seen.stop

    def title(self, column: int, line: int, sort: tuple[str, bool] | None, room: int, *, is_free: bool) -> str:
        """Write a line of a column's name, counted from the last, with a sign where it sorts the rows.

        Parameters
        ----------
        column : which.
        line : -1 for the last.
        sort : the name of the column that sorts the rows, and whether the largest come first.
        room : cells that there are.
        is_free : whether the sign may stand in the cell behind them, where the name leaves it none.
        """
        shown = self.titles[column][line]
        align: Literal["left", "right"] = "right" if self.numeric[column] else "left"
        if line < -1 or sort is None or sort[0] != self.names[column] or not room:
            return fit(shown, room, align=align)
        for_name = room if is_free and cell_len(shown) >= room else room - 1
        signed = fit(shown, min(cell_len(shown), for_name)) + ("▾" if sort[1] else "▴")
        return fit(signed, max(room, cell_len(signed)), align=align)

    def cell(self, column: int, text: str, room: int) -> str:
        """Write a cell into the room it has; of a number that does not fit no digits, which would be read for it.

        Where little is left of a column of numbers none is written: the small ones alone would stand there.
        """
        is_number = self.numeric[column]
        if is_number and text[-1:].isdigit() and (room < cell_len(text) or room < min(LEAST, self.widths[column])):
            text = "…"
        if column < self.frozen and not is_number:  # what tells long names apart is at their end
            return fit_end(text, room)
        return fit(text, room, align="right" if is_number else "left")

    def at(self, x: int, left: int) -> int:
        """Find the column at a cell of a line, while they are scrolled so far."""
        place = x if x < self.edge else x + left
        return min(bisect_right(self.starts, place) - 1, len(self.names) - 1)

    @property
    def _ends(self) -> tuple[int, ...]:
        """Where each column ends while nothing is scrolled."""
        return tuple(start + width for start, width in zip(self.starts[:-1], self.widths, strict=True))

    @property
    def _firsts(self) -> tuple[int, ...]:
        """Where those columns begin that can be the first behind those that stay: chance says nothing by itself."""
        scrolled = range(self.frozen, len(self.names))
        return (*(self.starts[each] for each in scrolled if not self._is_chance(each)), self.starts[-1])

    def turned(self, left: int, step: int) -> int:
        """Give how far the columns are scrolled that are scrolled one further, or back, as a wheel does."""
        places = [each - self.edge for each in self._firsts[:-1]] or [0]
        at = bisect_right(places, left) if step > 0 else bisect_left(places, left) - 1
        return places[max(0, min(at, len(places) - 1))]

    def _is_chance(self, column: int) -> bool:
        """Say whether a column is what chance gives for the one before it, which is scrolled with it."""
        return column > self.frozen and self.names[column] == f"{self.names[column - 1]}{CHANCE}"

    def revealed(self, column: int, left: int, room: int) -> int:
        """Scroll as little as brings a column into view, and with what chance gives the measure that it is of.

        A column begins where those that stay at the left end.
        """
        if column < self.frozen:
            return left
        end, free = self.starts[column] + self.widths[column], room - self.edge
        first = column - 1 if self._is_chance(column) and end - self.starts[column - 1] <= free else column
        start = self.starts[first] - self.edge
        wanted = min(max(left, end - self.edge - free), start)
        places = self._firsts if not self._is_chance(first) else self.starts[self.frozen :]
        starts = [each - self.edge for each in places]
        return starts[bisect_left(starts, wanted)]


def widths_of(cells: Sequence[int], over: Sequence[Title]) -> tuple[int, ...]:
    """Give columns the cells that they need, and their names."""
    return tuple(
        max(needed, cell_len(upper), cell_len(lower)) for needed, (upper, lower) in zip(cells, over, strict=True)
    )


def starts_of(widths: Sequence[int], gap: int = GAP) -> tuple[int, ...]:
    """Say where each column begins, and where one more would."""
    return tuple(accumulate((width + gap for width in widths), initial=0))


def _is_number(cell: Cell, kind: Kind) -> bool:
    """Say whether a cell holds a number; one that stands among words, as layers beside ``embedding``, is a text."""
    return isinstance(cell, int | float) or (kind not in TEXTS and isinstance(cell, str) and cell.isdecimal())


def widest(cells: Sequence[Cell], write: Callable[[Cell], str]) -> int:
    """Give how many cells of the screen a column's longest text takes; of very many rows not each is written for that.

    Parameters
    ----------
    cells : of the column.
    write : turns one into what is shown.
    """
    if len(cells) <= MEASURED:
        return max((cell_len(write(cell)) for cell in cells), default=0)
    kinds = set(map(type, cells))  # a table of all heads has many columns of nothing but floats
    texts = [cell for cell in cells if isinstance(cell, str)] if str in kinds else []
    whole = [cell for cell in cells if isinstance(cell, int)] if int in kinds else []
    extremes: list[Cell] = [max(texts, key=len, default=""), *([min(whole), max(whole)] if whole else [])]
    has_sign = any(isinstance(cell, int | float) and cell < 0 for cell in cells)
    least = LONGEST + has_sign if float in kinds else 0
    return max(least, widest([*texts[: MEASURED - len(extremes)], *extremes], write))


def fit_columns(columns: Columns, room: int, lines: int = LOW) -> Columns:
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
    on_one = tuple(("", f"{upper} {lower}".strip()) for upper, lower in columns.titles)
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
    return replace(columns, frozen=frozen, titles=over, widths=tuple(widths))


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
