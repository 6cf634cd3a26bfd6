"""The range of values that a map or a plot shows, and what stands for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tui.drawing.levels import Ink, Levels, Scale, levels_of

BINS = 4
"""Bars of a histogram per cube root of the number of values: twice Rice's rule, since they are narrow."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ValueScale:
    """The range of values that a map or a plot shows.

    Attributes
    ----------
    scale : linear, or logarithmic with both ends above zero.
    is_signed : whether zero is in its middle.
    is_whole : whether all values are whole numbers.
    """

    low: float
    high: float
    scale: Scale = "linear"
    is_signed: bool = False
    is_whole: bool = False

    def heights(self, values: FloatArray) -> FloatArray:
        """Map values to heights from 0, at or below the lower end, to 1; NaN for what is not finite."""
        low, high, finite = self.low, self.high, np.where(np.isfinite(values), values, np.nan)
        if high <= low:
            return finite * 0.0 + 0.5
        if self.scale == "log":
            low, high, finite = float(np.log(low)), float(np.log(high)), np.log(np.maximum(finite, low))
        return np.clip((finite - low) / (high - low), 0.0, 1.0)

    def value(self, height: float) -> float:
        """Return the value at a height."""
        if self.scale == "log":
            return float(np.exp(np.log(self.low) + height * (np.log(self.high) - np.log(self.low))))
        return self.low + height * (self.high - self.low)

    def levels(self, values: FloatArray, ink: Ink, cells: int) -> NDArray[np.uint8]:
        """Sort values into ``cells`` levels, lowest first, or into those of signed values.

        Those that are not finite have `tui.drawing.levels.NOT_FINITE`.
        """
        if self.is_signed:
            return Levels("linear", self.high, ink, is_signed=True).of(np.asarray(values, dtype=np.float64))
        return levels_of(self.heights(values), "linear", 1.0, cells)

    def bins(self, columns: int, count: int) -> int:
        """Choose the number of bars of a histogram; one for each whole number where they fit."""
        span = round(self.high - self.low) + 1
        if self.is_whole and self.scale == "linear" and span <= columns:
            return span
        return max(1, min(columns, math.ceil(BINS * math.pow(count, 1 / 3))))

    def bin_of(self, values: FloatArray, bins: int) -> NDArray[np.intp]:
        """Return the bar of each finite value."""
        heights = np.nan_to_num(self.heights(values))
        if self.is_whole and self.scale == "linear" and bins == round(self.high - self.low) + 1:
            return np.rint(heights * (bins - 1)).astype(np.intp)
        return np.minimum((heights * bins).astype(np.intp), bins - 1)


def scale_of(values: FloatArray, wanted: Scale, is_signed: bool) -> ValueScale | None:
    """Choose the scale of finite values; None without values.

    A logarithmic scale starts at the smallest value above zero, and needs values that are not negative.

    Examples
    --------
    >>> scale_of(np.array([0.0, 2.0, 8.0]), "log", False)
    ValueScale(low=2.0, high=8.0, scale='log', is_signed=False, is_whole=True)
    >>> scale_of(np.array([-0.5, 0.25]), "log", True)
    ValueScale(low=-0.5, high=0.5, scale='linear', is_signed=True, is_whole=False)
    """
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    is_whole = bool((values == np.rint(values)).all())
    if is_signed:
        largest = max(abs(low), abs(high))
        return ValueScale(-largest, largest, "linear", True)
    if wanted == "log" and low >= 0 and high > 0:
        return ValueScale(float(values[values > 0].min()), high, "log", is_whole=is_whole)
    return ValueScale(low, high, is_whole=is_whole)


def glyphs_of(ink: Ink, width: int, is_signed: bool) -> tuple[str, ...]:
    """Return the characters of each level's cell, 1 or an even number wide.

    Unsigned levels start with the second of the ink: the lowest looks like no head.

    Examples
    --------
    >>> glyphs_of(Ink.SHADES, 1, False), glyphs_of(Ink.SHADES, 2, False)[:3]
    (('░', '▒', '▓', '█'), (' ░', '░░', '░▒'))
    """
    if width == 1 and ink is Ink.SHADES:
        return tuple("░▒▓█")
    cells = Levels("linear", 1.0, ink, is_signed=True).cells if is_signed else ink.cells[1:]
    return tuple(cell[0] if width == 1 else cell * (width // 2) for cell in cells)
