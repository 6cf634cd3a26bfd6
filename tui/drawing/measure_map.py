"""A measure of every head of a model as a map: values, and the place of each head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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


class GridLine(NamedTuple):
    """What stands at the left of a line of the map, and the number of its layer; None in a stack's heading."""

    text: str
    row: int | None = None


@dataclass(frozen=True, slots=True)
class HeadGrid:
    """The lines of a map and the size of its cells.

    Attributes
    ----------
    width, height : columns and lines per head.
    gutter : columns of the layers' names.
    columns : heads of the widest layer.
    """

    lines: tuple[GridLine, ...] = ()
    width: int = 1
    height: int = 1
    gutter: int = 0
    columns: int = 0

    def fits(self, width: int, height: int) -> bool:
        """Return whether all heads are in view in a room."""
        return self.gutter + self.columns * self.width <= width and len(self.lines) <= height

    def top(self, row: int) -> int:
        """Return the first line of a row."""
        return next(place for place, line in enumerate(self.lines) if line.row == row)

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


def lay_out_heads(layers: Sequence[LayerOutline], width: int, height: int, *, is_narrow_told: bool) -> HeadGrid:
    """Choose the largest cells that bring all heads into view, or else the smallest.

    They grow in steps of two columns, and look about square.

    Parameters
    ----------
    layers : of the model, stack by stack.
    width, height : of the room, without the line of head numbers.
    is_narrow_told : whether levels can be told apart in one column.
    """
    columns = max(layer.heads for layer in layers)
    gutter = max(len(str(layer.name)) for layer in layers) + 1
    stacks = {layer.stack for layer in layers}
    headings = len(stacks) if len(stacks) > 1 else 0
    across, down = (width - gutter) // columns, (height - headings) // len(layers)
    if down < 2 or across < 4:
        across, down = 1 if is_narrow_told and across < 2 else 2, 1
    else:
        across -= across % 2
        down = min(down, across * 3 // 4)
        across = min(across, 4 * down)
    lines: list[GridLine] = []
    for row, layer in enumerate(layers):
        if headings and (row == 0 or layers[row - 1].stack != layer.stack):
            lines.append(GridLine(layer.stack))
        lines += [GridLine("" if line else str(layer.name), row) for line in range(down)]
    return HeadGrid(tuple(lines), across, down, gutter, columns)
