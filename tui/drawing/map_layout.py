"""Lays out attention maps in a pane: labels on both axes, larger cells for long sentences, tiles for many heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from rich.cells import cell_len

from engine.values.attention import AT_ONCE
from tui.drawing.text import clusters, fit, label, stack_text

CELL_WIDTH = 2
"""Columns per cell: two make it nearly square and hold any character."""

LARGEST = 8
"""Lines per cell at most."""

NEARLY_SQUARE = 1.5, 3.0
"""Columns per line of a larger cell, at least and at most."""

ACROSS = 4
"""Columns per cell from which its key is written in one line, before a blank."""

_HIGHEST_HEADER = 2
"""Lines of a key's label over a narrow cell, read across."""

_HIGHEST_DOWN = 8
"""Lines of a key's label that is read down."""

_WIDEST_TOKEN = 16
_HALF_TOKEN = 8
"""Columns of a token beside cells of half a line, which leave more room for cells."""
_CORNERS = ("query ↓ key →", "q ↓ k →", "")
_LEAST_TOKEN = 4
"""Columns that a token needs beside its index; with fewer, the index is left out."""


Sides = tuple[bool, bool]
"""Whether a map has labels of queries at its left, and of keys above."""

BOTH_SIDES = (True, True)


@dataclass(frozen=True, slots=True)
class Axes:
    """The labels of a map, laid out for a pane.

    Attributes
    ----------
    rows, columns : how many there are of them.
    row : gives the label of a query: index and token, ``gutter`` cells wide.
    column : gives the label of a key: ``header`` lines as wide as a cell.
    gutter, header : width of the row labels and height of the column labels.
    cell, lines : columns and lines per cell; with one column, a cell is half a line.
    """

    rows: int
    columns: int
    row: Callable[[int], str]
    column: Callable[[int], Sequence[str]]
    gutter: int
    header: int
    cell: int = CELL_WIDTH
    lines: int = 1

    def with_labels(self, sides: Sides) -> Axes:
        """Leave out the labels of a side that a neighbouring map shows."""
        has_queries, has_keys = sides
        axes = self if has_queries else replace(self, row=lambda _: "", gutter=0)
        return axes if has_keys else replace(axes, header=0)

    def label_top(self, column: int) -> int:
        """Return the first line of the header that a key's label takes; a blank label takes the last."""
        lines = self.column(column)
        return next((line for line, text in enumerate(lines) if text.strip()), len(lines) - 1)

    @property
    def corner(self) -> str:
        """The names of the axes in the last line of the header, ``gutter`` cells wide."""
        return next(fit(text, self.gutter) for text in _CORNERS if len(text) < self.gutter or not text)

    @property
    def is_halved(self) -> bool:
        """Whether a line shows two rows of cells."""
        return self.cell == 1

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the whole map with its labels."""
        return self.gutter + self.cell * self.columns, self.header + self.line_of(self.rows + self.is_halved)

    def line_of(self, row: int) -> int:
        """Return the first line of a row of cells, below the header."""
        return row // 2 if self.is_halved else row * self.lines

    def row_at(self, line: int) -> int:
        """Return the row of cells on a line below the header; the upper of two."""
        return line * 2 if self.is_halved else line // self.lines

    def room(self, width: int, height: int) -> tuple[int, int]:
        """Return the rows and columns of cells that fit into a pane, at least one of each."""
        return max(self.row_at(height - self.header), 1), max((width - self.gutter) // self.cell, 1)


@lru_cache(maxsize=16)
def axes_of(
    query_tokens: tuple[str, ...],
    key_tokens: tuple[str, ...],
    block: int,
    width: int,
    height: int,
    cell: int = CELL_WIDTH,
    sides: Sides = BOTH_SIDES,
) -> Axes:
    """Label single weights of a short map, or blocks, or only the visible labels of a long map.

    If a short map fits whole, its cells are as large as fit; ``cell`` is the least number of columns per cell.
    """
    if cell == 1 or block > 1 or len(query_tokens) * len(key_tokens) > AT_ONCE:
        return lay_out_blocks(query_tokens, key_tokens, block, width, height, cell).with_labels(sides)
    smallest = lay_out(query_tokens, key_tokens, width, height, cell).with_labels(sides)
    room, (narrowest, widest) = (width - smallest.gutter) // max(len(key_tokens), 1), NEARLY_SQUARE
    for lines in range(min(LARGEST, height // max(len(query_tokens), 1)), 1, -1):
        columns = min(room, int(widest * lines), _WIDEST_TOKEN + 1)
        if columns >= max(narrowest * lines, cell):
            axes = lay_out(query_tokens, key_tokens, width, height, columns, lines).with_labels(sides)
            if axes.size[1] <= height:
                return axes
    return smallest


def lay_out(
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    width: int,
    height: int,
    cell: int = CELL_WIDTH,
    lines: int = 1,
) -> Axes:
    """Give labels at most a quarter of the pane's height, or what a whole map leaves, and a quarter of its width.

    Keys of narrow cells are read down where the lines above the whole map hold at least as much of them.
    """
    queries = [label(token) for token in query_tokens]
    keys = [label(token) for token in key_tokens]
    across, spare = cell, height - len(queries) * lines
    heights = [1 if cell >= ACROSS else min(-(-max(cell_len(key), 1) // cell), _HIGHEST_HEADER) for key in keys]
    down = [min(cell_len(key), _HIGHEST_DOWN, max(spare, 1)) for key in keys]
    is_narrow = cell < ACROSS and all(columns == 1 for key in keys for _, columns in clusters(key))
    if is_narrow and max(down, default=1) >= min(max(map(cell_len, keys), default=1), _HIGHEST_HEADER * cell):
        across, heights = 1, down

    header = min(max(heights, default=1), max(1, (height + 2) // 4 if across == cell else spare))
    if 0 < spare < header:
        header = 1  # which brings the whole map into view
    index = len(str(max(len(queries) - 1, 0)))
    room = max(width // 4, min(12, width // 2)) - 1
    token = min(max((cell_len(query) for query in queries), default=1), _WIDEST_TOKEN)
    with_index = room >= index + 1 + min(token, _LEAST_TOKEN)
    token = max(1, min(token, room - index - 1 if with_index else room))
    rows = [fit(query, token, align="right") + " " for query in queries]
    if with_index:
        rows = [f"{number:>{index}} {row}" for number, row in enumerate(rows)]
    gutter = token + 1 + (index + 1 if with_index else 0)
    labels = [_key_label(key, header, cell, across) for key in keys]
    return Axes(len(rows), len(keys), rows.__getitem__, labels.__getitem__, gutter, header, cell, lines)


def _key_label(key: str, header: int, cell: int, across: int) -> tuple[str, ...]:
    """Write a key's label over a cell, with ``across`` columns on each line."""
    if cell >= ACROSS:
        return (fit(key, cell - 1) + " ",)
    lines = stack_text(key, header, across)
    return tuple(lines if across == cell else (f"{line:^{cell}}" for line in lines))


def lay_out_blocks(
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    block: int,
    width: int,
    height: int,
    cell: int = CELL_WIDTH,
) -> Axes:
    """Label blocks: rows by the first query's index and token, columns by the first key's index.

    A key that is alone has its token instead; an index that does not fit is left out. Over cells of one column, some
    indices are written across, each starting over its key.

    The room for labels depends only on the number of tokens, so that zooming does not move the map, and labels are made
    on demand: of thousands a screen shows dozens.

    Parameters
    ----------
    block : queries, and keys, per block.
    cell : columns per cell; one where a cell is half a line.
    """
    index = len(str(max(len(query_tokens) - 1, 0)))
    digits = len(str(max(len(key_tokens) - 1, 0)))
    header = 1 if cell == 1 or cell >= ACROSS else min(_HIGHEST_HEADER, max(1, (height + 2) // 4))
    step = 5 if digits < _LEAST_TOKEN else 10
    room = max(width // 4, min(12, width // 2)) - 1
    with_token = room >= index + 1 + _LEAST_TOKEN
    token = min(_WIDEST_TOKEN if cell > 1 else _HALF_TOKEN, room - index - 1) if with_token else 0
    gutter = min(index, max(room, 1)) + 1 + (token + 1 if with_token else 0)

    def row(number: int) -> str:
        first = number * block
        text = fit(label(query_tokens[first]), token, align="right")
        return fit(f"{first:>{index}} {text} " if with_token else f"{first:>{index}}", gutter)

    def key(number: int) -> str:
        if block == 1:
            return label(key_tokens[number])
        whole = str(number * block)  # never in part, which would be another index
        is_fitting = len(whole) < cell if cell >= ACROSS else len(whole) <= header * cell
        return whole if is_fitting else "…"

    def column(number: int) -> Sequence[str]:
        if cell > 1:
            return _key_label(key(number), header, cell, cell)
        tick, place = number - number % step, number % step
        text = str(tick * block)
        return text[place] if place < len(text) and tick + len(text) <= columns else " "

    rows, columns = (-(-len(tokens) // block) for tokens in (query_tokens, key_tokens))
    return Axes(rows, columns, row, column, gutter, header, cell)


def fitting_block(queries: int, keys: int, rows: int, columns: int) -> int:
    """Return the smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, … that fits a map's blocks into some rows and columns.

    Examples
    --------
    >>> fitting_block(20, 20, 40, 60), fitting_block(1000, 1000, 40, 60), fitting_block(8192, 8192, 14, 21)
    (1, 32, 768)
    """
    needed = max(-(-queries // max(rows, 1)), -(-keys // max(columns, 1)))
    power = 1
    while True:
        for block in (power, power * 3 // 2):
            if block >= needed:
                return block
        power *= 2


GAP = 2
"""Columns between two tiles."""

NARROWEST, LOWEST = 8, 3
"""Columns of a tile and lines of its map, at least, where all tiles are in view."""

SCROLLED = 12, 6
"""Columns and lines of a map where there are so many heads that they scroll."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles in rows: each is a line for the head's name and its map below.

    Attributes
    ----------
    width, height : columns and lines of a tile's map.
    block : queries, and keys, per cell.
    zoom : columns of the screen per cell.
    zoom_down : rows of the screen per cell, between half and twice as many.
    rows_per_line : rows of the screen per line: two where both halves of a character can be coloured.
    """

    count: int
    columns: int
    width: int
    height: int
    block: int
    zoom: int
    zoom_down: int
    rows_per_line: int = 1

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return -(-self.count // self.columns)

    @property
    def pitch(self) -> tuple[int, int]:
        """Columns and lines from one tile to the next."""
        return self.width + GAP, self.height + 1

    def origin(self, number: int) -> tuple[int, int]:
        """Return the column and line of a tile's name."""
        across, down = self.pitch
        return number % self.columns * across, number // self.columns * down

    def tile_at(self, x: int, y: int) -> int | None:
        """Return the tile at a column and a line.

        Examples
        --------
        >>> Tiles(4, 2, 8, 3, 1, 1, 1).tile_at(12, 5), Tiles(4, 2, 8, 3, 1, 1, 1).tile_at(9, 0)
        (3, None)
        """
        across, down = self.pitch
        column, row = x // across, y // down
        number = row * self.columns + column
        inside = x >= 0 and y >= 0 and column < self.columns and x % across < self.width and number < self.count
        return number if inside else None


def lay_out_tiles(count: int, queries: int, keys: int, width: int, height: int, rows_per_line: int) -> Tiles:
    """Show the maps of all heads at once, as detailed as fits; very many heads scroll.

    Parameters
    ----------
    rows_per_line : rows of a map per line of the screen: two where half a cell can be coloured.

    Examples
    --------
    >>> lay_out_tiles(4, 14, 14, 58, 20, 2)
    Tiles(count=4, columns=2, width=28, height=7, block=1, zoom=2, zoom_down=1, rows_per_line=2)
    >>> lay_out_tiles(12, 10, 10, 66, 44, 2)
    Tiles(count=12, columns=3, width=20, height=10, block=1, zoom=2, zoom_down=2, rows_per_line=2)
    """
    fitting: list[Tiles] = []
    for columns in range(max(count, 1), 0, -1):
        across, down = (width + GAP) // columns - GAP, height // max(-(-count // columns), 1) - 1
        if across >= NARROWEST and down >= LOWEST:
            fitting.append(_tiles(count, columns, queries, keys, across, down, rows_per_line))
    if fitting:
        return min(fitting, key=lambda tiles: (tiles.block, -tiles.zoom * tiles.zoom_down, tiles.rows * tiles.columns))
    across, down = SCROLLED[0], min(SCROLLED[1], max(height - 1, 1))
    columns = max((width + GAP) // (across + GAP), 1)
    return _tiles(count, columns, queries, keys, min(across, max(width, 1)), down, rows_per_line)


def _tiles(count: int, columns: int, queries: int, keys: int, across: int, down: int, rows_per_line: int) -> Tiles:
    """Choose the blocks for tiles of a size at most, and the size of their cells."""
    block = fitting_block(queries, keys, down * rows_per_line, across)
    rows, cells = -(-queries // block), -(-keys // block)
    most_across, most_down = max(across // max(cells, 1), 1), max(down * rows_per_line // max(rows, 1), 1)
    zoom, zoom_down = min(most_across, 2 * most_down), min(most_down, 2 * most_across)
    width = min(max(cells * zoom, NARROWEST), across)
    return Tiles(count, columns, width, -(-rows * zoom_down // rows_per_line), block, zoom, zoom_down, rows_per_line)
