"""Filters and sorts the rows of a table, and measures its columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.values.filters import Filter
from engine.values.table import Cell, Row
from tui.widgets.table_columns import Columns

STEP = 500
"""Rows filtered at a time; one call for all would block other threads."""

_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")
"""A number, or the shape of a tensor."""


@dataclass(frozen=True)
class TableRequest:
    """A table, and which of its rows and columns to show.

    Attributes
    ----------
    places : numbers of the visible columns, from left to right.
    frozen : how many of them stay at the left.
    kept_by : the filter; None keeps all rows.
    sort : name of the column that sorts the rows, and whether the largest come first; None for the original order.
    columns : widths of the visible columns; None for what their titles and cells need.
    """

    names: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    places: tuple[int, ...] = ()
    frozen: int = 0
    kept_by: Filter | None = None
    sort: tuple[str, bool] | None = None
    columns: Columns | None = None


@dataclass(frozen=True)
class Arrangement:
    """A table as it stands on the screen.

    Attributes
    ----------
    wanted : the request.
    columns : the visible ones.
    kept : numbers of the rows that the filter leaves, in the original order.
    order : the same, sorted.
    """

    wanted: TableRequest = field(default_factory=TableRequest)
    columns: Columns = field(default_factory=Columns)
    kept: Sequence[int] = ()
    order: Sequence[int] = ()


def arrange(wanted: TableRequest, before: Arrangement, write: Callable[[Cell], str]) -> Arrangement:
    """Filter and sort rows and measure columns; reuse what has not changed since the arrangement before."""
    rows, columns, kept = wanted.rows, before.columns, before.kept
    shown_before = before.wanted.places, before.wanted.frozen
    is_known = rows is before.wanted.rows and (wanted.places, wanted.frozen) == shown_before
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
    """Sort numbers of rows by a column's cells; rows without a value come last in both directions.

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
