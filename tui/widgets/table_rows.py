"""Which rows of a table stand on the screen, in which order, and how wide its columns are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.values.filters import Filter
from engine.values.table import Cell, Row
from tui.widgets.table_columns import Columns

STEP = 500
"""Rows that a filter is tried on at a time: one call for all would keep every other thread waiting."""

_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")
"""A number, or the sizes of a tensor."""


@dataclass(frozen=True)
class TableRequest:
    """A table, and what a person wants to see of it.

    Attributes
    ----------
    names : of all columns.
    rows : each as long as ``names``.
    places : the numbers of the columns that are shown, from left to right.
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

    def is_of_same_cells(self, other: TableRequest) -> bool:
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

    wanted: TableRequest = field(default_factory=TableRequest)
    columns: Columns = field(default_factory=Columns)
    kept: Sequence[int] = ()
    order: Sequence[int] = ()


def arrange(wanted: TableRequest, before: Arrangement, write: Callable[[Cell], str]) -> Arrangement:
    """Filter and sort rows, and measure columns; what is as it was before is not worked out again.

    Parameters
    ----------
    wanted : the table.
    before : what stood on the screen before.
    write : turns a cell into what is shown.
    """
    rows, columns, kept = wanted.rows, before.columns, before.kept
    is_known = wanted.is_of_same_cells(before.wanted)
    if not is_known:
        by_column = ([row[place] for row in rows] for place in wanted.places)
        shown = tuple(wanted.names[place] for place in wanted.places)
        columns = wanted.columns or Columns.of(shown, by_column, wanted.frozen, write)
    if wanted.kept_by is None:
        kept = range(len(rows))
    elif not is_known or wanted.kept_by is not before.wanted.kept_by:
        starts, matches = range(0, len(rows), STEP), wanted.kept_by.matches
        kept = [start + number for start in starts for number in matches(rows[start : start + STEP])]
    if wanted.sort is None:
        return Arrangement(wanted, columns, kept, kept)
    name, is_descending = wanted.sort
    place = wanted.names.index(name)
    return Arrangement(wanted, columns, kept, sort_places(kept, [row[place] for row in rows], is_descending))


def sort_places(places: Sequence[int], cells: Sequence[Cell], is_descending: bool) -> list[int]:
    """Sort places of rows by a column's cells; those without anything come last either way.

    Examples
    --------
    >>> sort_places([0, 1, 2, 3], [2.0, "", 3, "b"], True)
    [3, 2, 0, 1]
    """
    present = [place for place in places if not _is_missing(cells[place])]
    absent = [place for place in places if _is_missing(cells[place])]
    present.sort(key=lambda place: _sort_key(cells[place]), reverse=is_descending)
    return present + absent


def _is_missing(cell: Cell) -> bool:
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
