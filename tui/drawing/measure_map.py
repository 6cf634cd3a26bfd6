"""One measure of every head of a model, and how it becomes levels: a column of the table of all heads as a map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import Head
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
    """Give what is written in a cell of each level, so many characters wide: 1, 2 or 4.

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
