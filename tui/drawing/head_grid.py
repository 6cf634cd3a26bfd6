"""Where the heads of a model stand on a map: a line or two for each layer, stacks one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.values.model import LayerOutline

_CELLS = ((4, 2), (2, 1), (1, 1))
"""Columns and lines that a cell may take, the best first; the last is taken where none fits."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the map.

    Attributes
    ----------
    text : what stands at its left: the layer's name, or that of the stack which begins.
    row : which layer it shows, counted from the first; None for a stack's heading.
    """

    text: str
    row: int | None


@dataclass(frozen=True, slots=True)
class HeadGrid:
    """A map's lines and the size of its cells.

    Attributes
    ----------
    lines : from the first to the last.
    width, height : columns and lines that a head takes.
    gutter : columns that the names of layers take.
    columns : heads of the widest layer.
    """

    lines: tuple[Line, ...]
    width: int
    height: int
    gutter: int
    columns: int

    def top(self, row: int) -> int:
        """Give the first line of a row."""
        return next(place for place, line in enumerate(self.lines) if line.row == row)

    def header(self, cursor: int | None) -> tuple[str, range]:
        """Write numbers of heads over their columns, as many as there is room for, and the cursor's in any case.

        Returns
        -------
        line : from the gutter on, as wide as all columns.
        marked : which of its characters are the cursor's number.
        """
        longest = len(str(self.columns - 1))
        step = next(each for each in (1, 2, 4, 8, 16, 32) if each * self.width > longest or each == 32)
        room = max(self.columns * self.width, longest)
        line = [" "] * room
        for column in range(0, self.columns, step):
            _write(line, column * self.width, str(column))
        if cursor is None:
            return "".join(line), range(0)
        number = str(cursor)
        start = min(cursor * self.width, room - len(number))
        for place in range(max(start - 1, 0), min(start + len(number) + 1, room)):
            line[place] = " "
        _write(line, start, number)
        return "".join(line), range(start, start + len(number))


def lay_out_heads(layers: Sequence[LayerOutline], width: int, height: int, *, is_narrow_told: bool) -> HeadGrid:
    """Choose the largest cells with which all heads are in view; the smallest where they never are.

    Parameters
    ----------
    layers : of the model, stack by stack.
    width, height : columns and lines there are, without that of the heads' numbers.
    is_narrow_told : whether levels can be told apart in a cell of one column.
    """
    stacks = list(dict.fromkeys(layer.stack for layer in layers))
    headings = len(stacks) if len(stacks) > 1 else 0
    columns = max(layer.heads for layer in layers)
    gutter = max(len(str(layer.name)) for layer in layers) + 1
    sizes = _CELLS if is_narrow_told else _CELLS[:-1]
    across, down = next(
        (
            (across, down)
            for across, down in sizes
            if gutter + columns * across <= width and headings + len(layers) * down <= height
        ),
        next(((across, 1) for across, _ in sizes[1:] if gutter + columns * across <= width), (sizes[-1][0], 1)),
    )
    lines: list[Line] = []
    for row, layer in enumerate(layers):
        if headings and (row == 0 or layers[row - 1].stack != layer.stack):
            lines.append(Line(layer.stack, None))
        lines += [Line(str(layer.name) if place == 0 else "", row) for place in range(down)]
    return HeadGrid(tuple(lines), across, down, gutter, columns)


def _write(line: list[str], start: int, text: str) -> None:
    """Write into a line as far as it goes."""
    if start + len(text) <= len(line):
        line[start : start + len(text)] = text
