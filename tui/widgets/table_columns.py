"""The columns of a table: their widths, their titles, and which of them are in view."""

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
"""Width up to which a name stays on one line."""

Title = tuple[str, str]
"""Upper and lower line; the upper is mostly empty."""

PLACES = {"rank": "#", "rank_other": "# other", "rank_after": "# after"}
"""Titles of columns that number a list; a "rank" elsewhere is that of a matrix."""


def titles(columns: Sequence[str], cells: Sequence[int] | None = None) -> tuple[Title, ...]:
    """Write titles over columns, in the words of their names; a chance column beside its measure is just "chance".

    Parameters
    ----------
    columns : their names, as in files.
    cells : widths of the columns' cells where room is scarce; names are broken down to them.

    Examples
    --------
    >>> titles(["layer", "qk_identity_distance", "qk_identity_distance_chance"])
    (('', 'layer'), ('QK identity', 'distance'), ('', 'chance'))
    >>> titles(["from_layer"], [1]), titles(["from_layer"], [10])
    ((('from', 'layer'),), (('', 'from layer'),))
    """
    before = ["", *columns]
    return tuple(
        ("", CHANCE.lstrip("_")) if name == f"{last}{CHANCE}" else _break_title(_words(name), room)
        for last, name, room in zip(before, columns, cells or [NARROW] * len(columns), strict=False)
    )


def _words(name: str) -> str:
    if name in PLACES:
        return PLACES[name]
    return " ".join(word.upper() if word.upper() in MATRICES else word for word in name.split("_"))


def _break_title(name: str, room: int) -> Title:
    places = [place for place, character in enumerate(name) if character == " "]
    if cell_len(name) <= room or not places:
        return "", name
    place = min(places, key=lambda place: max(place, len(name) - place - 1))
    return name[:place], name[place + 1 :]


WIDEST = 32
"""Width of a text at most; all of it stands below the table."""

GAP = 2
"""Cells between two columns."""

MEASURED = 300
"""Rows up to which every cell is formatted to find the width of its column."""

LEAST = 5
"""Width below which the rest of a column is not worth showing."""

NARROW_NAME = 5
"""Least width of the columns that name the row, where they give way to others."""

LONG_NAME = 0.6
"""Share of a line that these columns take at most, so that numbers fit beside them."""

NARROW_TITLE = 3
"""Least width of such a column where no number would fit beside it."""

NARROW_TOKEN = 8
"""Least width of a token where not all columns fit; all of it stands below the table."""

TOKENS_SHARE = 7
"""A token takes at most one over this of a line where not all columns fit."""

TEXTS_SHARE = 4
"""A text takes at most one over this, so that two stand beside the columns that name the row."""

SHORT_NAME = 8
"""Width up to which a name always stays on one line."""


@dataclass(frozen=True)
class Columns:
    """Columns side by side; the first ones stay at the left while the others scroll.

    Attributes
    ----------
    frozen : how many stay at the left.
    numeric : whether each holds numbers.
    cells : width that each column's cells need, without its title.
    gap : cells between two columns.
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
        """Where each column starts while nothing is scrolled, and where one more would."""
        return starts_of(self.widths, self.gap)

    @classmethod
    def of(
        cls, names: tuple[str, ...], by_column: Iterable[Sequence[Cell]], frozen: int, write: Callable[[Cell], str]
    ) -> Columns:
        """Make columns as wide as their titles and formatted cells need."""
        needed, numeric = list[int](), list[bool]()
        for name, cells in zip(names, by_column, strict=False):
            needed.append(min(WIDEST, widest(cells, write)))
            numeric.append(any(_is_number(cell, kind_of(name)) for cell in cells))
        over = titles(names)
        widths = widths_of(needed, over)
        return cls(names, frozen, tuple(numeric), over, widths, tuple(needed))

    @classmethod
    def of_numbers(cls, names: tuple[str, ...], name_width: int, value_width: int, gap: int) -> Columns:
        """Make columns of numbers with a fixed width, after one without a title for the names of the rows."""
        numbers = names[1:]
        widths = (name_width, *(value_width for _ in numbers))
        over = (("", ""), *(("", name) for name in numbers))
        return cls(names, 1, (False, *(True for _ in numbers)), over, widths, widths, gap)

    @property
    def head(self) -> int:
        """Lines of the titles, whichever columns are in view."""
        return 2 if any(upper for upper, _ in self.titles) else 1

    @property
    def edge(self) -> int:
        """Where the first scrolling column starts."""
        return self.starts[self.frozen]

    @property
    def width(self) -> int:
        """Width of all columns side by side."""
        return self.ends[-1] if self.widths else 0

    def scrolled_width(self, room: int) -> int:
        """Return the width of all columns, with enough space after them for the last to start at the edge."""
        width, edge = self.width, self.edge
        if width <= room:
            return width
        first = next((each for each in self._firsts if width - each <= room - edge), edge)
        return max(width, first - edge + room)

    def in_view(self, left: int, room: int) -> Iterator[tuple[int, range]]:
        """Yield each column in view with its range of cells; at an edge, one with too little room is left out.

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
            if len(seen) >= min(LEAST, self.widths[column], room):
                yield column, seen
                painted = seen.stop

    def title(self, column: int, room: int, is_free: bool, *, line: int, sort: tuple[str, bool] | None) -> str:
        """Write a line of a column's title, with a sign where the column sorts the rows.

        Parameters
        ----------
        is_free : whether the sign may take the cell to the right of the room.
        line : -1 for the last.
        sort : name of the column that sorts the rows, and whether the largest come first.
        """
        shown = self.titles[column][line]
        align: Literal["left", "right"] = "right" if self.numeric[column] else "left"
        if line < -1 or sort is None or sort[0] != self.names[column] or not room:
            return fit(shown, room, align=align)
        for_name = room if is_free and cell_len(shown) >= room else room - 1
        signed = fit(shown, min(cell_len(shown), for_name)) + ("▾" if sort[1] else "▴")
        return fit(signed, max(room, cell_len(signed)), align=align)

    def cell(self, column: int, text: str, room: int) -> str:
        """Fit a formatted cell into its room; a number that does not fit becomes "…", never a part of it."""
        is_number = self.numeric[column]
        if is_number and text[-1:].isdigit() and room < cell_len(text):
            text = "…"
        if column < self.frozen and not is_number:  # long names differ at their end
            return fit_end(text, room)
        return fit(text, room, align="right" if is_number else "left")

    def column_at(self, x: int, left: int) -> int:
        """Return the column at a cell of a line."""
        place = x if x < self.edge else x + left
        return min(bisect_right(self.starts, place) - 1, len(self.names) - 1)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where each column ends while nothing is scrolled."""
        return tuple(start + width for start, width in zip(self.starts[:-1], self.widths, strict=True))

    @property
    def _firsts(self) -> tuple[int, ...]:
        """Starts of the columns that may come first after the frozen ones: all but chance columns."""
        scrolled = range(self.frozen, len(self.names))
        return (*(self.starts[each] for each in scrolled if not self._is_chance(each)), self.starts[-1])

    def _is_chance(self, column: int) -> bool:
        return column > self.frozen and self.names[column] == f"{self.names[column - 1]}{CHANCE}"

    def scroll_to_column(self, column: int, left: int, room: int) -> int:
        """Return how far to scroll to bring a column into view, together with its measure or chance.

        A column starts where the frozen ones end.
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
    """Return the widths that cells and titles need."""
    return tuple(
        max(needed, cell_len(upper), cell_len(lower)) for needed, (upper, lower) in zip(cells, over, strict=True)
    )


def starts_of(widths: Sequence[int], gap: int) -> tuple[int, ...]:
    """Return where each column starts, and where one more would."""
    return tuple(accumulate((width + gap for width in widths), initial=0))


def _is_number(cell: Cell, kind: Kind) -> bool:
    """Return whether a cell holds a number; one in a column of words, as layers beside ``embedding``, is a text."""
    return isinstance(cell, int | float) or (kind not in TEXTS and isinstance(cell, str) and cell.isdecimal())


def widest(cells: Sequence[Cell], write: Callable[[Cell], str]) -> int:
    """Return the width of a column's longest text; with many rows, format only the likely ones."""
    if len(cells) <= MEASURED:
        return max((cell_len(write(cell)) for cell in cells), default=0)
    kinds = set(map(type, cells))  # most columns of the table of heads hold only floats
    texts = [cell for cell in cells if isinstance(cell, str)] if str in kinds else []
    whole = [cell for cell in cells if isinstance(cell, int)] if int in kinds else []
    extremes: list[Cell] = [max(texts, key=len, default=""), *([min(whole), max(whole)] if whole else [])]
    has_sign = any(isinstance(cell, int | float) and cell < 0 for cell in cells)
    least = LONGEST + has_sign if float in kinds else 0
    return max(least, widest([*texts[: MEASURED - len(extremes)], *extremes], write))


def fit_columns(columns: Columns, room: int) -> Columns:
    """Save room where not all columns fit.

    Tokens and texts are cut, and so are the names of rows if the first column beside them would be. Titles wider than
    their cells go on two lines if that shows more columns, and are cut before a number is.

    Parameters
    ----------
    columns : as wide as they need.
    room : cells of a line; 0 if unknown, as before a table is shown.
    """
    if not room or columns.starts[-1] <= room:
        return columns
    allowed = [max(needed, SHORT_NAME) for needed in columns.cells]
    ways = [_save_room(columns, over, room) for over in (columns.titles, titles(columns.names, allowed))]
    return max(ways, key=lambda way: sum(map(room.__ge__, map(add, way.starts, way.cells))))


def _save_room(columns: Columns, over: tuple[Title, ...], room: int) -> Columns:
    """Cut tokens and texts, then frozen columns, the widest first, if they leave too little, then titles.

    Where nothing helps no column is frozen, so that each can be brought into view.
    """
    own = columns.widths if over is columns.titles else widths_of(columns.cells, over)
    longest = {Kind.TOKEN: max(NARROW_TOKEN, room // TOKENS_SHARE), Kind.TEXT: max(NARROW, room // TEXTS_SHARE)}
    widths = [min(width, longest.get(kind_of(name), width)) for name, width in zip(columns.names, own, strict=True)]
    left, scrolled = range(columns.frozen), range(columns.frozen, len(widths))
    free = room
    if left and scrolled:
        longest_name = max(NARROW_NAME, int(room * LONG_NAME))
        widths[: columns.frozen] = [min(width, longest_name) for width in own[: columns.frozen]]
        first = columns.frozen
        numbers = (columns.cells[place] for place in scrolled if columns.numeric[place])
        needed = max((widths[first], *numbers))
        if columns.numeric[first : first + 2] == (False, True):
            needed = max(needed, widths[first] + columns.gap + columns.cells[first + 1])
        lacking = starts_of(widths, columns.gap)[first] + needed - room
        for place in sorted(left, key=lambda place: -widths[place]):
            least = max(NARROW_TITLE, min(columns.cells[place], NARROW_NAME))
            kept = min(widths[place], max(least, widths[place] - max(lacking, 0)))
            lacking, widths[place] = lacking - widths[place] + kept, kept
        free = room - starts_of(widths, columns.gap)[columns.frozen]
    frozen = columns.frozen
    if free < LEAST:
        frozen, free, widths = 0, max(room, NARROW_NAME), list(own)
    widths[frozen:] = [min(width, free) for width in widths[frozen:]]
    return replace(columns, frozen=frozen, titles=over, widths=tuple(widths))
