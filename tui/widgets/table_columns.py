"""The cells of one column: in which order they put the rows, and how much room they take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.cells import cell_len

from engine.values.tables import Cell

MEASURED = 300
"""Rows up to which every cell is written to find out how wide its column is."""

LONGEST_NUMBER = 8
"""Cells that a number takes which is not whole."""


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
    least = LONGEST_NUMBER if float in kinds else 0
    return max(least, widest([*texts[: MEASURED - len(extremes)], *extremes], write))


def _is_missing(cell: Cell) -> bool:
    """Say whether a cell holds nothing that could be compared."""
    return cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _sort_key(cell: Cell) -> tuple[bool, float, str]:
    """Order numbers by size and texts by alphabet, numbers first."""
    return (True, 0.0, cell) if isinstance(cell, str) else (False, float(cell), "")
