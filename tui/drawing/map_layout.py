"""How maps of attention share a pane: labels along both axes, larger cells for long sentences, tiles for many heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar, overload

from rich.cells import cell_len

from engine.values.attention import AT_ONCE
from tui.drawing.text import fit, label, stack_text

T = TypeVar("T")

CELL_WIDTH = 2
"""Columns per cell: two make it nearly square, and hold any character of a label."""

LARGEST = 8
"""Lines of the largest cell."""

NEARLY_SQUARE = 1.5, 3.0
"""Columns for each line of a larger cell, at least and at most."""

ACROSS = 4
"""Columns of a cell from which on its key is written in one line, with a blank behind it."""

_HIGHEST_HEADER = 2
"""Lines of a key's label over a narrow cell."""

_WIDEST_TOKEN = 16
_HALF_TOKEN = 8
"""Columns of a token beside cells of half a line, which are drawn to see as many as possible."""
_CORNERS = ("query ↓ key →", "q ↓ k →", "")
_LEAST_TOKEN = 4
"""Columns that a token must have beside its index; with fewer the index is left out."""


Sides = tuple[bool, bool]
"""Whether a map has the labels of its queries beside it, and those of its keys above."""

BOTH_SIDES = (True, True)


@dataclass(frozen=True, slots=True)
class Axes:
    """The labels of a map, laid out for a pane.

    Attributes
    ----------
    rows : label of each query, index and token, ``gutter`` cells wide.
    columns : label of each key, ``header`` lines as wide as a cell, ending in the last.
    marks : how many lines, the last ones, of each column's label are set off under the cursor.
    gutter, header : width of the row labels and height of the column labels.
    corner : says what runs along the axes; it stands in the last line of the header, ``gutter`` cells wide.
    cell, lines : columns and lines per cell; a cell of one column takes half a line, so that a line has two rows.
    """

    rows: Sequence[str]
    columns: Sequence[Sequence[str]]
    marks: Sequence[int]
    gutter: int
    header: int
    corner: str
    cell: int = CELL_WIDTH
    lines: int = 1

    def on(self, sides: Sides) -> Axes:
        """Leave out the labels of a side where another map beside or above has them."""
        has_queries, has_keys = sides
        axes = self if has_queries else replace(self, rows=[""] * len(self.rows), gutter=0, corner="")
        return axes if has_keys else replace(axes, marks=[0] * len(self.marks), header=0)

    @property
    def is_halved(self) -> bool:
        """Whether a line shows two rows of cells."""
        return self.cell == 1

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the whole map with its labels."""
        return self.gutter + self.cell * len(self.columns), self.header + self.line_of(len(self.rows) + self.is_halved)

    def line_of(self, row: int) -> int:
        """Give the first line of a row of cells, below the header."""
        return row // 2 if self.is_halved else row * self.lines

    def row_at(self, line: int) -> int:
        """Give the row of cells, of two the upper one, on a line below the header."""
        return line * 2 if self.is_halved else line // self.lines

    def room(self, width: int, height: int) -> tuple[int, int]:
        """Count the rows and columns of cells that a pane has room for, at least one of each."""
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
    """Label the single weights of a short map, or blocks, or of a long map only those labels that are seen.

    Where the pane has room for the whole of a short map in larger cells, they are the largest for which it has.

    Parameters
    ----------
    query_tokens, key_tokens, block, width, height : as in `lay_out_blocks`.
    cell : columns per cell at least.
    sides : which labels there are.
    """
    if cell == 1 or block > 1 or len(query_tokens) * len(key_tokens) > AT_ONCE:
        return lay_out_blocks(query_tokens, key_tokens, block, width, height, cell).on(sides)
    smallest = lay_out(query_tokens, key_tokens, width, height, cell).on(sides)
    room, (narrowest, widest) = (width - smallest.gutter) // max(len(key_tokens), 1), NEARLY_SQUARE
    for lines in range(min(LARGEST, height // max(len(query_tokens), 1)), 1, -1):
        columns = min(room, int(widest * lines), _WIDEST_TOKEN + 1)
        if columns >= max(narrowest * lines, cell):
            axes = lay_out(query_tokens, key_tokens, width, height, columns, lines).on(sides)
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
    """Give the labels at most a quarter of the pane's height, and a quarter of its width or a little more.

    Parameters
    ----------
    query_tokens, key_tokens : the texts along both axes, as the model reads them.
    width, height : of the pane in cells.
    cell, lines : columns and lines per cell of the map.
    """
    queries = [label(token) for token in query_tokens]
    keys = [label(token) for token in key_tokens]
    heights = [_height(key, cell) for key in keys]

    header = min(max(heights, default=1), max(1, (height + 2) // 4))
    if len(queries) * lines < height < len(queries) * lines + header:
        header = 1  # with which all of it is seen
    index = len(str(max(len(queries) - 1, 0)))
    room = max(width // 4, min(12, width // 2)) - 1
    token = min(max((cell_len(query) for query in queries), default=1), _WIDEST_TOKEN)
    with_index = room >= index + 1 + min(token, _LEAST_TOKEN)
    token = max(1, min(token, room - index - 1 if with_index else room))
    rows = [fit(query, token, align="right") + " " for query in queries]
    if with_index:
        rows = [f"{number:>{index}} {row}" for number, row in enumerate(rows)]
    gutter = token + 1 + (index + 1 if with_index else 0)
    return Axes(
        rows=tuple(rows),
        columns=tuple(_written(key, header, cell) for key in keys),
        marks=tuple(min(needed, header) for needed in heights),
        gutter=gutter,
        header=header,
        corner=next(fit(text, gutter) for text in _CORNERS if len(text) < gutter or not text),
        cell=cell,
        lines=lines,
    )


def _height(key: str, cell: int) -> int:
    """Count the lines that a key's label takes over a cell."""
    return 1 if cell >= ACROSS else min(-(-max(cell_len(key), 1) // cell), _HIGHEST_HEADER)


def _written(key: str, header: int, cell: int) -> tuple[str, ...]:
    """Write a key's label over a cell, in so many lines."""
    return (fit(key, cell - 1) + " ",) if cell >= ACROSS else tuple(stack_text(key, header, cell))


class _Lazily(Sequence[T]):
    """A sequence whose members are made when they are asked for: of thousands of labels a screen shows dozens."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        if isinstance(place, slice):
            return [self._make(each) for each in range(*place.indices(self._count))]
        if not -self._count <= place < self._count:
            raise IndexError(place)
        return self._make(place % self._count)


def lay_out_blocks(
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    block: int,
    width: int,
    height: int,
    cell: int = CELL_WIDTH,
) -> Axes:
    """Label blocks: of queries by the first one's index and token, of keys by the first one's index.

    A key that is alone has its token in place of the index; an index for which there are too few lines is left out.
    Over cells of one column some indices are written across, each beginning over its key.
    The room they get depends on the number of tokens alone, so that nothing moves when the blocks become larger or
    smaller, and no label is made before it is seen.

    Parameters
    ----------
    query_tokens, key_tokens : the texts along both axes of the whole map.
    block : queries, and keys, of a block.
    width, height : of the pane in cells.
    cell : columns per cell of the map; one where a cell takes half a line.
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
        whole = str(number * block)  # a part of it would be taken for another one
        is_fitting = len(whole) < cell if cell >= ACROSS else len(whole) <= header * cell
        return whole if is_fitting else "…"

    def column(number: int) -> Sequence[str]:
        if cell > 1:
            return _written(key(number), header, cell)
        tick, place = number - number % step, number % step
        text = str(tick * block)
        return text[place] if place < len(text) and tick + len(text) <= columns else " "

    def mark(number: int) -> int:
        return 1 if cell == 1 else min(_height(key(number), cell), header)

    rows, columns = (-(-len(tokens) // block) for tokens in (query_tokens, key_tokens))
    return Axes(
        rows=_Lazily(rows, row),
        columns=_Lazily(columns, column),
        marks=_Lazily(columns, mark),
        gutter=gutter,
        header=header,
        corner=next(fit(text, gutter) for text in _CORNERS if len(text) < gutter or not text),
        cell=cell,
    )


def fitting_block(queries: int, keys: int, rows: int, columns: int) -> int:
    """Give the smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, … for which a map's blocks fit into so many rows and columns.

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
    zoom : columns of the screen that a cell takes.
    zoom_down : rows of the screen that a cell takes, at most twice as many or half as many.
    rows_per_line : of those rows, two where the halves of a character have colours of their own.
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

    def line_of(self, number: int, top: int, height: int) -> int:
        """Say which line is to be the topmost of so many in view, now ``top``, so that a tile is seen whole if it can.

        It is one on which a row of tiles begins, as no map is to be seen without its name.

        Examples
        --------
        >>> tiles = Tiles(9, 2, 8, 3, 1, 1, 1)
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
        >>> Tiles(4, 2, 8, 3, 1, 1, 1).at(12, 5), Tiles(4, 2, 8, 3, 1, 1, 1).at(9, 0)
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
    Tiles(count=4, columns=2, width=28, height=7, block=1, zoom=2, zoom_down=1, rows_per_line=2)
    >>> lay_out_tiles(12, 10, 10, 66, 44, 2)
    Tiles(count=12, columns=3, width=20, height=10, block=1, zoom=2, zoom_down=2, rows_per_line=2)
    """
    best: tuple[tuple[int, int, int], Tiles] | None = None
    for columns in range(max(count, 1), 0, -1):
        rows = -(-count // columns)
        across, down = (width + GAP) // columns - GAP, height // max(rows, 1) - 1
        if across < NARROWEST or down < LOWEST:
            continue
        tiles = _tiles(count, columns, queries, keys, across, down, rows_per_line)
        rank = (tiles.block, -tiles.zoom * tiles.zoom_down, rows * columns - count)
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
    most_across, most_down = max(across // max(cells, 1), 1), max(down * rows_per_line // max(rows, 1), 1)
    zoom, zoom_down = min(most_across, 2 * most_down), min(most_down, 2 * most_across)
    width = min(max(cells * zoom, NARROWEST), across)
    return Tiles(count, columns, width, -(-rows * zoom_down // rows_per_line), block, zoom, zoom_down, rows_per_line)
