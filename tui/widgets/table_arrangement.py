"""Which rows of a table stand on the screen, in which order, and how wide its columns are."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.values.filters import Filter
from engine.values.table import CHANCE, Cell
from tui.widgets.table_columns import Columns

Row = Sequence[Cell]

AT_ONCE = 2000
"""Rows up to which all this takes a few milliseconds; more are seen to on a thread of their own."""

STEP = 500
"""Rows that a filter is tried on between two looks at whether that is wanted still."""


_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")
"""A number, or the sizes of a tensor."""


@dataclass(frozen=True)
class Wanted:
    """A table, and what a person wants to see of it.

    Attributes
    ----------
    names : of all columns.
    rows : each as long as ``names``.
    places : the numbers of the columns that are shown; where they agree in all rows some are not.
    frozen : how many of those stay at the left.
    kept_by : the filter whose rows are shown; None for all.
    sort : the name of the column that sorts them, and whether the largest come first; None as they came.
    columns : how wide those are that are shown; None as wide as their names and cells want to be.
    """

    names: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    places: tuple[int, ...] = ()
    frozen: int = 0
    kept_by: Filter | None = None
    sort: tuple[str, bool] | None = None
    columns: Columns | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the columns that are shown."""
        return tuple(self.names[place] for place in self.places)

    @property
    def compared(self) -> tuple[str, ...]:
        """The names of the columns that the filter compares and that would not stay at the left."""
        names = frozenset() if self.kept_by is None else self.kept_by.columns
        return tuple(name for name in self.shown[self.frozen :] if name in names)

    @property
    def lined_up(self) -> tuple[int, ...]:
        """The numbers of the columns from left to right: those that stay, then what the filter compares, then the rest.

        A measure and what chance gives for it are moved together.
        """
        fixed, others = self.places[: self.frozen], self.places[self.frozen :]
        first = {name.removesuffix(CHANCE) for name in self.compared}
        return (*fixed, *sorted(others, key=lambda place: self.names[place].removesuffix(CHANCE) not in first))

    def is_of_same_rows(self, other: Wanted) -> bool:
        """Say whether another one shows the same columns of the same rows."""
        return self.rows is other.rows and (self.places, self.frozen) == (other.places, other.frozen)


@dataclass(frozen=True)
class Arrangement:
    """A table as it stands on the screen.

    Attributes
    ----------
    wanted : what was wanted.
    columns : that are shown.
    kept : the numbers of the rows that the filter leaves, as they came.
    order : the same from the first line to the last.
    """

    wanted: Wanted
    columns: Columns
    kept: Sequence[int]
    order: Sequence[int]


class NotWantedError(Exception):
    """Work is given up of which nobody waits for the end."""


def arrange(
    wanted: Wanted, before: Arrangement, write: Callable[[Cell], str], goes_on: Callable[[], bool]
) -> Arrangement:
    """Filter and sort rows, and measure columns; what is as it was before is not worked out again.

    Parameters
    ----------
    wanted : the table.
    before : what stood on the screen before.
    write : turns a cell into what is shown.
    goes_on : asked from time to time whether this is wanted still.

    Raises
    ------
    NotWantedError : when it is not.
    """
    is_known = wanted.is_of_same_rows(before.wanted)
    columns = before.columns
    if not is_known:
        columns = wanted.columns or Columns.of(wanted.shown, _by_column(wanted, goes_on), wanted.frozen, write)
    columns = columns.in_order([wanted.names[place] for place in wanted.lined_up])
    kept = before.kept
    if not is_known or wanted.kept_by is not before.wanted.kept_by:
        kept = range(len(wanted.rows)) if wanted.kept_by is None else list(_kept(wanted, wanted.kept_by, goes_on))
    if wanted.sort is None or wanted.sort[0] not in wanted.names:
        return Arrangement(wanted, columns, kept, kept)
    name, is_descending = wanted.sort
    place = wanted.names.index(name)
    order = ordered(kept, [row[place] for row in wanted.rows], is_descending)
    return Arrangement(wanted, columns, kept, order)


def ordered(places: Sequence[int], cells: Sequence[Cell], is_descending: bool) -> list[int]:
    """Sort places of rows by a column's cells; those without anything come last either way.

    Examples
    --------
    >>> ordered([0, 1, 2, 3], [2.0, "", 3, "b"], True)
    [3, 2, 0, 1]
    """
    present = [place for place in places if not _is_missing(cells[place])]
    absent = [place for place in places if _is_missing(cells[place])]
    present.sort(key=lambda place: _sort_key(cells[place]), reverse=is_descending)
    return present + absent


def _is_missing(cell: Cell) -> bool:
    """Say whether a cell holds nothing that could be compared."""
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _sort_key(cell: Cell) -> tuple[bool, float, str]:
    """Order numbers by size and texts by alphabet, numbers first; shapes, and numbers in texts, by how many they make.

    Examples
    --------
    >>> sorted(["all", "768x192", "2048x192", "10", "9"], key=_sort_key)
    ['9', '10', '768x192', '2048x192', 'all']
    """
    if isinstance(cell, int | float):
        return False, float(cell), ""
    cell = cell or ""
    return True, math.prod(map(int, cell.split("x"))) if _SHAPE.fullmatch(cell) else math.inf, cell


def _by_column(wanted: Wanted, goes_on: Callable[[], bool]) -> Iterator[list[Cell]]:
    """Yield the cells of the columns that are shown; one call for all would keep every other thread waiting."""
    for place in wanted.places:
        _look(goes_on)
        yield [row[place] for row in wanted.rows]


def _kept(wanted: Wanted, kept_by: Filter, goes_on: Callable[[], bool]) -> Iterator[int]:
    """Yield the numbers of the rows that a filter leaves."""
    for start in range(0, len(wanted.rows), STEP):
        _look(goes_on)
        for number in kept_by.matches(wanted.rows[start : start + STEP]):
            yield start + number


def _look(goes_on: Callable[[], bool]) -> None:
    """Give the work up unless it is wanted still."""
    if not goes_on():
        raise NotWantedError


class Arranger:
    """Has tables arranged, small ones at once and large ones beside the event loop: one at a time, then the newest.

    Parameters
    ----------
    write : turns a cell into what is shown.
    use : given each arrangement that is made.
    """

    def __init__(self, write: Callable[[Cell], str], use: Callable[[Arrangement], None]) -> None:
        self._write = write
        self._use = use
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self.done = Arrangement(Wanted(), Columns(), (), ())
        self.wanted = self.done.wanted

    @property
    def is_done(self) -> bool:
        """Whether what is wanted is what stands on the screen."""
        return self.done.wanted is self.wanted

    def want(self, wanted: Wanted) -> None:
        """Have a table arranged; until it is, what was arranged before stays."""
        self.wanted = wanted
        if len(wanted.rows) <= AT_ONCE:
            self._take(arrange(wanted, self.done, self._write, lambda: True))
        elif self._task is None:
            self._task = asyncio.create_task(self._work())

    def stop(self) -> None:
        """Give up what is under way."""
        self._is_stopped = True

    def _take(self, made: Arrangement) -> None:
        """Keep an arrangement, and have it shown."""
        self.done = made
        self._use(made)

    async def _work(self) -> None:
        """Arrange what is wanted, and again while there is something newer."""
        try:
            while not self.is_done:
                wanted, before = self.wanted, self.done
                made = await asyncio.to_thread(arrange, wanted, before, self._write, lambda: not self._is_stopped)
                if not self.is_done:  # a message or a small table may stand there since
                    self._take(made)
        except NotWantedError:
            return
        finally:
            self._task = None
