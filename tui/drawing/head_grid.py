"""Where the heads of a model stand on a map: lines for each layer, or half a line; stacks below each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.values.outline import LayerOutline

_CELLS = ((4, 2), (2, 1), (1, 1))
"""Columns and lines that a cell may take, the best first; the last is taken where none fits."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the map.

    Attributes
    ----------
    text : what stands at its left: the layer's name, or that of the stack which begins.
    rows : which layers it shows, counted from the first: none for a stack's heading, two where each has half a line.
    """

    text: str
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HeadGrid:
    """A map's lines and the size of its cells.

    Attributes
    ----------
    lines : from the first to the last.
    width, height : columns and lines that a head takes.
    gutter : columns that the names of layers take.
    columns : heads of the widest layer.
    is_halved : whether a head takes half a line, and a line shows two layers.
    """

    lines: tuple[Line, ...]
    width: int
    height: int
    gutter: int
    columns: int
    is_halved: bool = False

    def top(self, row: int) -> int:
        """Give the first line of a row."""
        return next(place for place, line in enumerate(self.lines) if row in line.rows)

    def rows_in(self, lines: int) -> int:
        """Say how many rows so many lines show."""
        return 2 * lines if self.is_halved else lines // self.height

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
        number = "" if cursor is None else str(cursor)
        start = 0 if cursor is None else min(cursor * self.width, room - len(number))
        for column in range(0, self.columns, step):
            at, text = column * self.width, str(column)
            if not number or at > start + len(number) or at + len(text) < start:  # a part of one would be another head
                _write(line, at, text)
        _write(line, start, number)
        return "".join(line), range(start, start + len(number))


def fewest_lines(layers: Sequence[LayerOutline]) -> int:
    """Say how many lines a map takes of which each layer has one."""
    return len(layers) + _headings(layers)


def _headings(layers: Sequence[LayerOutline]) -> int:
    """Count the headings of stacks; a single stack has none."""
    stacks = {layer.stack for layer in layers}
    return len(stacks) if len(stacks) > 1 else 0


def lay_out_heads(
    layers: Sequence[LayerOutline], width: int, height: int, *, is_narrow_told: bool, is_halved: bool = False
) -> HeadGrid:
    """Choose the largest cells with which all heads are in view; the smallest where they never are.

    Parameters
    ----------
    layers : of the model, stack by stack.
    width, height : columns and lines there are, without that of the heads' numbers.
    is_narrow_told : whether levels can be told apart in a cell of one column.
    is_halved : whether two layers are to share a line.
    """
    columns = max(layer.heads for layer in layers)
    gutter = max(len(str(layer.name)) for layer in layers) + 1
    sizes = _CELLS if is_narrow_told else _CELLS[:-1]
    fitting = [size for size in sizes if gutter + columns * size[0] <= width]
    across, down = next(
        (size for size in fitting if _headings(layers) + len(layers) * size[1] <= height and not is_halved),
        next(((across, 1) for across, _ in fitting if across < _CELLS[0][0]), (sizes[-1][0], 1)),
    )
    return HeadGrid(_lines(layers, down, is_halved), across, down, gutter, columns, is_halved)


def _lines(layers: Sequence[LayerOutline], down: int, is_halved: bool) -> tuple[Line, ...]:
    """Put layers below each other, of which each takes so many lines, or each two share one."""
    has_headings = _headings(layers) > 0
    lines: list[Line] = []
    for row, layer in enumerate(layers):
        begins = row == 0 or layers[row - 1].stack != layer.stack
        if begins and has_headings:
            lines.append(Line(layer.stack))
        if is_halved and not begins and len(lines[-1].rows) == 1:
            lines[-1] = Line(lines[-1].text, (row - 1, row))
        else:
            lines += [Line(str(layer.name) if place == 0 else "", (row,)) for place in range(down)]
    return tuple(lines)


def _write(line: list[str], start: int, text: str) -> None:
    """Write into a line as far as it goes."""
    if start + len(text) <= len(line):
        line[start : start + len(text)] = text
