"""How a map is looked at: where the cursor is, and how many weights a cell holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.values.attention import MapWindow, Pooling

SCROLLED = 128
"""Tokens up to which a map begins with its single weights, even where they do not fit; a longer one begins whole."""

Counts = tuple[int, int]
"""Queries and keys, or rows and columns of cells."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A way of looking at a map of so many queries and keys.

    Attributes
    ----------
    counts : queries and keys of the map.
    cursor : query and key, from zero; with larger cells, those of one weight in the cell.
    block : queries, and keys, of a cell.
    is_fitted : whether the whole map is in view, and is to stay so in a pane of another size.
    pooling : which weight stands for a cell.
    """

    counts: Counts = (0, 0)
    cursor: tuple[int, int] = (0, 0)
    block: int = 1
    is_fitted: bool = False
    pooling: Pooling = "max"

    def on(self, counts: Counts, fitting: Callable[[], int]) -> Lens:
        """Look at a map of some size: at another one of the same size in the same way, at any other from its beginning.

        Parameters
        ----------
        fitting : finds the smallest block with which all of it is in view.
        """
        is_fitted = self.is_fitted if counts == self.counts else max(counts) > SCROLLED
        block = fitting() if is_fitted else self.block if counts == self.counts else 1
        return replace(self, counts=counts, is_fitted=is_fitted, block=block).at(*self.cursor)

    def at(self, query: int, key: int) -> Lens:
        """Put the cursor on a weight, or on the nearest that the map has."""
        queries, keys = self.counts
        return replace(self, cursor=(max(min(query, queries - 1), 0), max(min(key, keys - 1), 0)))

    def step(self, rows: int, columns: int, block: int) -> Lens:
        """Go to the first query and key of the cell so many cells of a block away; at an edge the cursor stays."""
        query, key = (
            old if (cell := min(max(old // block + step, 0), (count - 1) // block)) == old // block else cell * block
            for old, step, count in zip(self.cursor, (rows, columns), self.counts, strict=True)
        )
        return self.at(query, key)

    def cell(self, block: int) -> tuple[int, int]:
        """Give the row and column of the cell under the cursor, when cells are blocks of some size."""
        return self.cursor[0] // block, self.cursor[1] // block

    def zoomed(self, block: int, fitting: int) -> Lens:
        """Make cells of another size, up to one with which the whole map is in view."""
        is_in = block < self.block
        return replace(self, block=max(min(block, fitting), 1), is_fitted=not is_in and block >= fitting)

    @property
    def whole(self) -> MapWindow:
        """All of the map, as it is looked at."""
        rows, columns = (range(-(-count // self.block)) for count in self.counts)
        return MapWindow(self.block, rows, columns, self.pooling)

    def around(self, seen: tuple[range, range] | None, cells: Counts, share: float) -> MapWindow:
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
