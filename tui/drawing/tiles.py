"""How the small maps of many heads share a pane."""

from __future__ import annotations

from dataclasses import dataclass

from tui.drawing.axes import fitting_block

GAP = 2
"""Columns between two tiles."""

NARROWEST, LOWEST = 8, 3
"""Columns of a tile, and lines of its map, with which all tiles are still shown at once."""

SCROLLED = 12, 6
"""Columns and lines of a map where so many heads are there that they have to be scrolled."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles in rows, each a line for the head's name and its map below.

    Attributes
    ----------
    count : how many tiles.
    columns : of tiles.
    width, height : columns and lines of a tile's map.
    block : queries, and keys, of a cell of the map.
    zoom : columns of the screen that a cell takes, and as many of its rows.
    rows_per_line : of those rows, two where the halves of a character have colours of their own.
    """

    count: int
    columns: int
    width: int
    height: int
    block: int
    zoom: int
    rows_per_line: int = 1

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return -(-self.count // self.columns)

    @property
    def pitch(self) -> tuple[int, int]:
        """Columns and lines from one tile to the next."""
        return self.width + GAP, self.height + 1

    def line_of(self, number: int, top: int, height: int) -> int:
        """Say which line is to be the topmost of so many in view, now ``top``, so that a tile is seen whole if it can.

        It is one on which a row of tiles begins, as no map is to be seen without its name.

        Examples
        --------
        >>> tiles = Tiles(9, 2, 8, 3, 1, 1)
        >>> [tiles.line_of(number, 0, 9) for number in range(9)], tiles.line_of(2, 8, 9)
        ([0, 0, 0, 0, 4, 4, 8, 8, 12], 4)
        """
        _, down = self.pitch
        row, first, count = number // self.columns, -(-top // down), max(height // down, 1)
        return max(min(first, row), row - count + 1) * down

    def scrolled_height(self, height: int) -> int:
        """Count the lines of all tiles and below them, so that every line that `line_of` gives can be the topmost."""
        lines = self.rows * self.pitch[1]
        return lines if lines <= height else max(lines, self.line_of(self.count - 1, 0, height) + height)

    def origin(self, number: int) -> tuple[int, int]:
        """Give the column and the line of a tile's name."""
        across, down = self.pitch
        return number % self.columns * across, number // self.columns * down

    def at(self, x: int, y: int) -> int | None:
        """Find the tile at a column and a line.

        Examples
        --------
        >>> Tiles(4, 2, 8, 3, 1, 1).at(12, 5), Tiles(4, 2, 8, 3, 1, 1).at(9, 0)
        (3, None)
        """
        across, down = self.pitch
        column, row = x // across, y // down
        number = row * self.columns + column
        inside = x >= 0 and y >= 0 and column < self.columns and x % across < self.width and number < self.count
        return number if inside else None


def lay_out_tiles(count: int, queries: int, keys: int, width: int, height: int, rows_per_line: int) -> Tiles:
    """Give the maps of some heads as much detail as a pane has room for, all at once unless they are very many.

    Parameters
    ----------
    count : of heads.
    queries, keys : of each map.
    width, height : of the pane in cells.
    rows_per_line : rows of a map that a line of the screen shows: two where half a cell can have a colour of its own.

    Examples
    --------
    >>> lay_out_tiles(4, 14, 14, 58, 20, 2)
    Tiles(count=4, columns=2, width=14, height=7, block=1, zoom=1, rows_per_line=2)
    >>> lay_out_tiles(12, 10, 10, 66, 44, 2)
    Tiles(count=12, columns=3, width=20, height=10, block=1, zoom=2, rows_per_line=2)
    """
    best: tuple[tuple[int, int, int], Tiles] | None = None
    for columns in range(max(count, 1), 0, -1):
        rows = -(-count // columns)
        across, down = (width + GAP) // columns - GAP, height // max(rows, 1) - 1
        if across < NARROWEST or down < LOWEST:
            continue
        tiles = _tiles(count, columns, queries, keys, across, down, rows_per_line)
        rank = (tiles.block, -tiles.zoom, rows * columns - count)
        if best is None or rank < best[0]:
            best = rank, tiles
    if best is not None:
        return best[1]
    across, down = SCROLLED[0], min(SCROLLED[1], max(height - 1, 1))
    columns = max((width + GAP) // (across + GAP), 1)
    return _tiles(count, columns, queries, keys, min(across, max(width, 1)), down, rows_per_line)


def _tiles(count: int, columns: int, queries: int, keys: int, across: int, down: int, rows_per_line: int) -> Tiles:
    """Choose the blocks for tiles of a size at most, and how large their cells can be drawn."""
    block = fitting_block(queries, keys, down * rows_per_line, across)
    rows, cells = -(-queries // block), -(-keys // block)
    zoom = max(min(down * rows_per_line // max(rows, 1), across // max(cells, 1)), 1)
    width = min(max(cells * zoom, NARROWEST), across)
    return Tiles(count, columns, width, -(-rows * zoom // rows_per_line), block, zoom, rows_per_line)
