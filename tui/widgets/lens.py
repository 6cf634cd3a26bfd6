"""How a map is looked at: where the cursor is, and how many weights a cell holds."""

from __future__ import annotations

from engine.values.attention import MapWindow, Pooling

SCROLLED = 128
"""Tokens up to which a map begins with its single weights, even where they do not fit; a longer one begins whole."""


class Lens:
    """The state of looking at a map of so many queries and keys.

    Attributes
    ----------
    counts : queries and keys of the map.
    cursor : query and key, from zero; with larger cells, those of one weight in the cell.
    block : queries, and keys, of a cell.
    is_fitted : whether the whole map is in view, and is to stay so in a pane of another size.
    pooling : which weight stands for a cell.
    """

    def __init__(self) -> None:
        self.counts = (0, 0)
        self.cursor = (0, 0)
        self.block = 1
        self.is_fitted = False
        self.pooling: Pooling = "max"

    def is_new(self, queries: int, keys: int) -> bool:
        """Turn to a map; say whether it has another size than the one before, whose cells tell nothing about it."""
        if (queries, keys) == self.counts:
            return False
        self.counts = (queries, keys)
        self.cursor = (min(self.cursor[0], queries - 1), min(self.cursor[1], keys - 1))
        return True

    def open(self, fitting: int) -> None:
        """Begin with a map, given the smallest block with which all of it is in view."""
        self.is_fitted = max(self.counts) > SCROLLED
        self.block = fitting if self.is_fitted else 1

    def fit_again(self, fitting: int) -> bool:
        """Keep the whole map in view; say whether that takes other cells."""
        if not self.is_fitted or self.block == fitting:
            return False
        self.block = fitting
        return True

    def move_to(self, query: int, key: int) -> bool:
        """Put the cursor on a weight, or on the nearest that the map has; say whether it was elsewhere."""
        queries, keys = self.counts
        before, self.cursor = self.cursor, (min(max(query, 0), queries - 1), min(max(key, 0), keys - 1))
        return self.cursor != before

    def step(self, rows: int, columns: int, block: int) -> tuple[int, int]:
        """Find the first query and key of the cell so many cells of a block away; at an edge, where the cursor is."""
        query, key = (
            old if (cell := min(max(old // block + step, 0), (count - 1) // block)) == old // block else cell * block
            for old, step, count in zip(self.cursor, (rows, columns), self.counts, strict=True)
        )
        return query, key

    def cell(self, block: int) -> tuple[int, int]:
        """Give the row and column of the cell under the cursor, when cells are blocks of some size."""
        return self.cursor[0] // block, self.cursor[1] // block

    def closer(self, block: int, place: tuple[int, int] | None) -> bool:
        """Make cells smaller, at a place if one is given; say whether they were larger than one weight."""
        if self.block == 1:
            return False
        self.cursor = place or self.cursor
        self.block, self.is_fitted = max(block, 1), False
        return True

    def wider(self, block: int, fitting: int) -> bool:
        """Make cells larger, until all of the map is in view; say whether some was not."""
        if self.block >= fitting:
            return False
        self.block, self.is_fitted = min(block, fitting), block >= fitting
        return True

    def look_as(self, other: Lens) -> bool:
        """Take the cells that another map is looked at with; say whether they were others."""
        before = self.block, self.pooling
        self.block, self.pooling, self.is_fitted = other.block, other.pooling, other.is_fitted
        return before != (self.block, self.pooling)

    @property
    def whole(self) -> MapWindow:
        """All of the map, as it is looked at."""
        rows, columns = (range(-(-count // self.block)) for count in self.counts)
        return MapWindow(self.block, rows, columns, self.pooling)

    def around(self, seen: tuple[range, range] | None, cells: tuple[int, int], share: float) -> MapWindow:
        """Give what is in view and some more on every side; where nothing is in view yet, what is near the cursor.

        Parameters
        ----------
        seen : rows and columns of cells in view; None where those in view are of another size.
        cells : rows and columns that the pane has room for.
        share : how much more, of what the pane has room for.
        """
        near = tuple(range(at - count, at + count) for at, count in zip(self.cell(self.block), cells, strict=True))
        rows, columns = (
            range(each.start - int(share * count), each.stop + int(share * count))
            for each, count in zip(seen or near, cells, strict=True)
        )
        return MapWindow(self.block, rows, columns, self.pooling).within(*self.counts)
