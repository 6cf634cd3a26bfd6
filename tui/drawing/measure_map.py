"""A measure of every head of a model as a map: values, and the place of each head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.table import Cell, Table
from engine.values.views import OVERVIEW
from tui.drawing.text import write_apart


@dataclass(frozen=True)
class MeasureMap:
    """A measure of all heads.

    Attributes
    ----------
    measure : a numeric column of the table of heads.
    order : place of each head's cell, layer by layer.
    cells : of each head, as in the table: empty where undefined; None while unknown.
    """

    measure: str
    order: Mapping[Head, int]
    cells: tuple[Cell | None, ...]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The cells as numbers, (heads,); NaN without one."""
        numbers = [math.nan if cell is None or isinstance(cell, str) else cell for cell in self.cells]
        return np.array(numbers, dtype=np.float64)

    @cached_property
    def finite(self) -> NDArray[np.float64]:
        """The finite numbers, in the order of the heads."""
        return self.values[np.isfinite(self.values)]

    @cached_property
    def numbers(self) -> int:
        """Number of heads with a number, which may be infinite."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    @property
    def known(self) -> int:
        """Number of heads whose cell is known."""
        return len(self.cells) - self.cells.count(None)

    def cell(self, head: Head) -> Cell | None:
        """Return one head's cell."""
        return self.cells[self.order[head]]

    def place(self, value: float) -> int:
        """Return the place of a value: 1 for the largest; equal values share a place."""
        return int(np.count_nonzero(self.values > value)) + 1

    def extremes(self, count: int) -> tuple[tuple[Head, ...], tuple[Head, ...]]:
        """Return up to ``count`` heads with the largest values, largest first, and with the smallest.

        No head is in both lists.
        """
        heads, known = tuple(self.order), np.flatnonzero(np.isfinite(self.values))
        order = known[np.argsort(self.values[known], kind="stable")]
        count = min(count, len(order) // 2)
        return tuple(heads[place] for place in order[::-1][:count]), tuple(heads[place] for place in order[:count])

    def table(self) -> Table:
        """Return the heads under ``stack, layer, head`` and the measure's name; unknown cells are empty."""
        heads = zip(self.order, self.cells, strict=True)
        rows = ((head.stack, head.layer, head.label, cell) for head, cell in heads)
        return Table.of_rows(OVERVIEW, ("stack", "layer", "head", self.measure), rows)


@dataclass(frozen=True, slots=True)
class GridLine:
    """A line of the map.

    Attributes
    ----------
    text : at its left: the name of a layer, or of a stack.
    rows : numbers of its layers: none in a stack's heading, two where each has half a line.
    """

    text: str
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HeadGrid:
    """The lines of a map and the size of its cells.

    Attributes
    ----------
    width, height : columns and lines per head.
    gutter : columns of the layers' names.
    columns : heads of the widest layer.
    is_halved : whether a head takes half a line, and a line shows two layers.
    """

    lines: tuple[GridLine, ...]
    width: int
    height: int
    gutter: int
    columns: int
    is_halved: bool = False

    def fits(self, width: int, height: int) -> bool:
        """Return whether all heads are in view in a room."""
        return self.gutter + self.columns * self.width <= width and len(self.lines) <= height

    def top(self, row: int) -> int:
        """Return the first line of a row."""
        return next(place for place, line in enumerate(self.lines) if row in line.rows)

    def header(self, cursor: int) -> tuple[str, range]:
        """Write as many numbers of heads over their columns as fit, and always the cursor's.

        Returns
        -------
        line : from the gutter on, as wide as all columns.
        marked : which of its characters are the cursor's number.
        """
        longest = len(str(self.columns - 1))
        room = max(self.columns * self.width, longest)
        step = next(each for each in (1, 2, 4, 8, 16, 32) if each * self.width > longest or each == 32)
        labels = [(column * self.width, str(column)) for column in (cursor, *range(0, self.columns, step))]
        fitting = (each for each in labels[1:] if each[0] + len(each[1]) <= room)  # else over another column
        return write_apart([labels[0], *fitting], room)


NO_HEADS = HeadGrid((), 1, 1, 0, 0)
"""The map of no model."""


def _count_headings(layers: Sequence[LayerOutline]) -> int:
    stacks = {layer.stack for layer in layers}
    return len(stacks) if len(stacks) > 1 else 0


def lay_out_heads(
    layers: Sequence[LayerOutline], width: int, height: int, *, is_narrow_told: bool, is_halved: bool = False
) -> HeadGrid:
    """Choose the largest cells that bring all heads into view, or else the smallest.

    They grow in steps of two columns, and look about square.

    Parameters
    ----------
    layers : of the model, stack by stack.
    width, height : of the room, without the line of head numbers.
    is_narrow_told : whether levels can be told apart in one column.
    is_halved : whether two layers share a line.
    """
    columns = max(layer.heads for layer in layers)
    gutter = max(len(str(layer.name)) for layer in layers) + 1
    across, down = (width - gutter) // columns, (height - _count_headings(layers)) // len(layers)
    if is_halved or down < 2 or across < 4:
        across, down = 1 if is_narrow_told and across < 2 else 2, 1
    else:
        across -= across % 2
        down = min(down, across * 3 // 4)
        across = min(across, 4 * down)
    return HeadGrid(_lines(layers, down, is_halved), across, down, gutter, columns, is_halved)


def _lines(layers: Sequence[LayerOutline], down: int, is_halved: bool) -> tuple[GridLine, ...]:
    has_headings = _count_headings(layers) > 0
    lines: list[GridLine] = []
    for row, layer in enumerate(layers):
        begins = row == 0 or layers[row - 1].stack != layer.stack
        if begins and has_headings:
            lines.append(GridLine(layer.stack))
        if is_halved and not begins and len(lines[-1].rows) == 1:
            lines[-1] = GridLine(lines[-1].text, (row - 1, row))
        else:
            lines += [GridLine(str(layer.name) if place == 0 else "", (row,)) for place in range(down)]
    return tuple(lines)
