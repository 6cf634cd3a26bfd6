"""Filters and sorts the rows of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.values.filters import Filter
from engine.values.table import Cell, Row
from tui.widgets.table_columns import Columns

_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")
"""A number, or the shape of a tensor."""


@dataclass(frozen=True)
class TableRows:
    """A table as it stands on the screen.

    Attributes
    ----------
    rows : all of them, with all columns.
    places : numbers of the visible columns, from left to right.
    frozen : how many of them stay at the left.
    kept_by : the filter; None keeps all rows.
    sort : name of the column that sorts the rows, and whether the largest come first; None for the original order.
    columns : the visible ones, as wide as their titles and cells need.
    """

    names: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    places: tuple[int, ...] = ()
    frozen: int = 0
    kept_by: Filter | None = None
    sort: tuple[str, bool] | None = None
    columns: Columns = field(default_factory=Columns)

    @cached_property
    def order(self) -> Sequence[int]:
        """Numbers of the rows that the filter leaves, sorted."""
        kept = range(len(self.rows)) if self.kept_by is None else self.kept_by.matches(self.rows)
        if self.sort is None:
            return kept
        name, is_descending = self.sort
        place = self.names.index(name)
        return sort_places(kept, [row[place] for row in self.rows], is_descending)


def sort_places(places: Sequence[int], cells: Sequence[Cell], is_descending: bool) -> list[int]:
    """Sort numbers of rows by a column's cells; rows without a value come last in both directions.

    Examples
    --------
    >>> sort_places([0, 1, 2, 3], [2.0, "", 3, "b"], True)
    [3, 2, 0, 1]
    """
    absent = {place for place in places if cells[place] in (None, "") or cells[place] != cells[place]}  # NaN
    present = [place for place in places if place not in absent]
    present.sort(key=lambda place: _sort_key(cells[place]), reverse=is_descending)
    return [*present, *(place for place in places if place in absent)]


def _sort_key(cell: Cell) -> tuple[bool, float, str]:
    """Sort numbers by size, then texts; shapes, and numbers in texts, by their number of entries.

    Examples
    --------
    >>> sorted(["all", "768x192", "2048x192", "10", "9"], key=_sort_key)
    ['9', '10', '768x192', '2048x192', 'all']
    """
    if isinstance(cell, int | float):
        return False, float(cell), ""
    cell = cell or ""
    return True, math.prod(map(int, cell.split("x"))) if _SHAPE.fullmatch(cell) else math.inf, cell
