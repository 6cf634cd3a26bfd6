"""A measure of every head of a model as a map: its values, their levels, and where each head stands."""

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
from tui.drawing.levels import Ink, Levels, Scale, levels_of

BINS = 4
"""Bars of a histogram for the cube root of the number of values: twice as many as Rice's rule, for they are narrow."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class MeasureMap:
    """A measure of all heads.

    Attributes
    ----------
    measure : a numeric column of the table of all heads.
    order : every head of the model, layer by layer, and where its cell stands.
    cells : of each head, as the table has it: empty where nothing is defined; None while it is not known.
    """

    measure: str
    order: Mapping[Head, int]
    cells: tuple[Cell | None, ...]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The cells as numbers, (heads,); not a number where there is none."""
        numbers = [math.nan if cell is None or isinstance(cell, str) else cell for cell in self.cells]
        return np.array(numbers, dtype=np.float64)

    @cached_property
    def finite(self) -> NDArray[np.float64]:
        """The numbers that are known and finite, in the order of the heads."""
        return self.values[np.isfinite(self.values)]

    @cached_property
    def numbers(self) -> int:
        """How many heads have a number, which may be infinite."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    @property
    def known(self) -> int:
        """How many heads' cells are known."""
        return len(self.cells) - self.cells.count(None)

    def cell(self, head: Head) -> Cell | None:
        """Give one head's cell."""
        return self.cells[self.order[head]]

    def place(self, value: float) -> int:
        """Count down from the largest to a value: 1 for the largest, and the same for heads that are alike."""
        return int(np.count_nonzero(self.values > value)) + 1

    def extremes(self, count: int) -> tuple[tuple[Head, ...], tuple[Head, ...]]:
        """List the heads with the largest values, the largest first, and those with the smallest, the smallest first.

        Parameters
        ----------
        count : how many of each; a head is in one of both lists alone.
        """
        heads, known = tuple(self.order), np.flatnonzero(np.isfinite(self.values))
        order = known[np.argsort(self.values[known], kind="stable")]
        count = min(count, len(order) // 2)
        return tuple(heads[place] for place in order[::-1][:count]), tuple(heads[place] for place in order[:count])

    def table(self) -> Table:
        """Give the heads under ``stack, layer, head`` and the measure's name; a cell that is not known is empty."""
        heads = zip(self.order, self.cells, strict=True)
        rows = ((head.stack, head.layer, head.label, cell) for head, cell in heads)
        return Table.of_rows(OVERVIEW, ("stack", "layer", "head", self.measure), rows)


@dataclass(frozen=True, slots=True)
class MeasureScale:
    """The part of the number line that a map of a measure shows.

    Attributes
    ----------
    low, high : its ends.
    scale : linear, or logarithmic, for which both ends are above zero.
    is_signed : whether zero is its middle.
    is_whole : whether all values on it are whole numbers.
    """

    low: float
    high: float
    scale: Scale = "linear"
    is_signed: bool = False
    is_whole: bool = False

    def heights(self, values: FloatArray) -> FloatArray:
        """Place values between 0, the lower end, and 1, the upper one; what is no number stays so."""
        low, high, kept = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.scale == "log":
            low, high, kept = float(np.log(low)), float(np.log(high)), np.log(np.maximum(kept, low))
        if high <= low:
            return np.where(np.isfinite(kept), 0.5, kept)
        with np.errstate(invalid="ignore"):
            share: FloatArray = np.where(np.isinf(kept), kept, np.clip((kept - low) / (high - low), 0.0, 1.0))
        return share

    def value(self, height: float) -> float:
        """Give the value at a height."""
        if self.scale == "log":
            return float(np.exp(np.log(self.low) + height * (np.log(self.high) - np.log(self.low))))
        return self.low + height * (self.high - self.low)

    def levels(self, values: FloatArray, ink: Ink, cells: int) -> NDArray[np.uint8]:
        """Sort values into levels, lowest first; those that are not finite have `tui.drawing.levels.NOT_FINITE`.

        Parameters
        ----------
        values : of any shape.
        ink : what tells levels apart.
        cells : how many levels there are, without signs.
        """
        if self.is_signed:
            return Levels("linear", self.high, ink, is_signed=True).of(np.asarray(values, dtype=np.float64))
        return levels_of(self.heights(values), "linear", 1.0, cells)

    def bins(self, columns: int, count: int) -> int:
        """Choose how many bars so many values have in so many columns; each whole number has its own where they fit."""
        span = round(self.high - self.low) + 1
        if self.is_whole and self.scale == "linear" and span <= columns:
            return span
        return max(1, min(columns, math.ceil(BINS * math.pow(count, 1 / 3))))

    def bin_of(self, values: FloatArray, bins: int) -> NDArray[np.intp]:
        """Say into which bar each finite value falls."""
        heights = np.nan_to_num(self.heights(values))
        if self.is_whole and self.scale == "linear" and bins == round(self.high - self.low) + 1:
            return np.rint(heights * (bins - 1)).astype(np.intp)
        return np.minimum((heights * bins).astype(np.intp), bins - 1)


def scale_of(values: FloatArray, wanted: Scale, is_signed: bool) -> MeasureScale | None:
    """Choose the scale for finite values; None where there are none.

    The logarithmic scale begins at the least value above zero, and is for values that are not below it.

    Examples
    --------
    >>> scale_of(np.array([0.0, 2.0, 8.0]), "log", False)
    MeasureScale(low=2.0, high=8.0, scale='log', is_signed=False, is_whole=True)
    >>> scale_of(np.array([-0.5, 0.25]), "log", True)
    MeasureScale(low=-0.5, high=0.5, scale='linear', is_signed=True, is_whole=False)
    """
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    is_whole = bool((values == np.rint(values)).all())
    if is_signed:
        largest = max(abs(low), abs(high))
        return MeasureScale(-largest, largest, "linear", True)
    if wanted == "log" and low >= 0 and high > 0:
        return MeasureScale(float(values[values > 0].min()), high, "log", is_whole=is_whole)
    return MeasureScale(low, high, is_whole=is_whole)


def glyphs_of(ink: Ink, width: int, is_signed: bool) -> tuple[str, ...]:
    """Give what is written in a cell of each level, so many characters wide: 1, or an even number.

    Without a sign the lowest level of the ink is left out, which nobody could tell from where there is no head.

    Examples
    --------
    >>> glyphs_of(Ink.SHADES, 1, False), glyphs_of(Ink.SHADES, 2, False)[:3]
    (('░', '▒', '▓', '█'), (' ░', '░░', '░▒'))
    """
    if width == 1 and ink is Ink.SHADES:
        return tuple("░▒▓█")
    cells = Levels("linear", 1.0, ink, is_signed=True).cells if is_signed else ink.cells[1:]
    return tuple(cell[0] if width == 1 else cell * (width // 2) for cell in cells)


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

    def fits(self, width: int, height: int) -> bool:
        """Say whether all heads are in view in so many columns and lines."""
        return self.gutter + self.columns * self.width <= width and len(self.lines) <= height

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

    They grow in steps of two columns, and are neither much taller nor much wider than they are square on a screen.

    Parameters
    ----------
    layers : of the model, stack by stack.
    width, height : columns and lines there are, without that of the heads' numbers.
    is_narrow_told : whether levels can be told apart in a cell of one column.
    is_halved : whether two layers are to share a line.
    """
    columns = max(layer.heads for layer in layers)
    gutter = max(len(str(layer.name)) for layer in layers) + 1
    across, down = (width - gutter) // columns, (height - _headings(layers)) // len(layers)
    if is_halved or down < 2 or across < 4:
        across, down = 1 if is_narrow_told and across < 2 else 2, 1
    else:
        across -= across % 2
        down = min(down, across * 3 // 4)
        across = min(across, 4 * down)
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
