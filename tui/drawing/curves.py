"""Singular values on a scale: where each stands in a plot, which of them a column shows, and how they read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tui.drawing.levels import Scale
from tui.drawing.numbers import brief
from tui.drawing.token_spelling import SUBSCRIPTS

FloatArray = NDArray[np.float64]

_DECADES = 6
"""The logarithmic scale goes down from the largest value by less than so many."""

_WIDEST_BAR = 4
"""Columns that one value may take where there are more columns than values."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A further curve in a plot, drawn as a line over what else there is.

    Attributes
    ----------
    name : whose values they are.
    values : as many as the plot's own, not a number where it has none.
    """

    name: str
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What one plot draws.

    Attributes
    ----------
    matrix : what the values belong to (``QK``).
    values : (r,) singular values, largest first.
    baseline : (r,) what chance gives for each of them, or None.
    summary : a few words to stand beside the name.
    lines : further curves; the number of each in the plot says which sign and colour stand for it.
    has_bars : whether the values are drawn, as bars; where all are lines, they only say how far the cursor goes.
    """

    matrix: str
    values: FloatArray
    baseline: FloatArray | None
    summary: str
    lines: tuple[Line, ...] = ()
    has_bars: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """The part of the number line that a plot shows.

    Attributes
    ----------
    top : the value at the upper edge; zero when there is nothing to show.
    decades : how many powers of ten below it the lower edge is; zero on the linear scale, whose lower edge is zero.
    """

    top: float
    decades: float

    @property
    def foot(self) -> float:
        """The value at the lower edge."""
        return float(self.top * 10.0**-self.decades) if self.decades else 0.0

    def heights(self, values: FloatArray) -> FloatArray:
        """Place values between 0, the lower edge and whatever is below it or not a number, and 1, the upper edge."""
        if self.top <= 0:
            return np.zeros(len(values))
        share = np.clip(_finite(values) / self.top, 0.0, 1.0)
        if not self.decades:
            return share
        heights: FloatArray = 1.0 + np.log10(np.maximum(share, 10.0**-self.decades)) / self.decades
        return heights


def span_of(curve: Curve, scale: Scale) -> Span:
    """Choose what a plot shows: from the largest value down to zero, or to the power of ten below the smallest.

    The logarithmic scale ends within six decades; what is smaller, zeros too, stands at the lower edge.

    Examples
    --------
    >>> brief(span_of(Curve("Q", np.array([3.0, 0.5, 0.02, 0.0]), None, ""), "log").foot)
    '0.01'
    """
    baseline = () if curve.baseline is None else (curve.baseline,)
    shown = _finite(np.concatenate([curve.values, *baseline, *(line.values for line in curve.lines)]))
    positive = shown[shown > 0]
    if not positive.size:
        return Span(0.0, 0.0)
    top = float(positive.max())
    if scale == "linear":
        return Span(top, 0.0)
    exponent = float(np.log10(top))
    lowest = exponent + max(float(np.log10(positive.min())) - exponent, 1.0 - _DECADES)
    # A smallest value that is itself a power of ten must not, by rounding, start a decade further down.
    decades = exponent - float(np.floor(lowest + 1e-9))
    return Span(top, decades if decades > 1e-9 else 1.0)


def columns_of(count: int, width: int, *, has_bars: bool = True) -> NDArray[np.intp]:
    """Choose which value each column of a plot shows, from zero.

    With more values than columns they are sampled evenly, the first and the last always among them: nothing is averaged
    away, and in a sorted curve nothing can hide between two samples but steps. With fewer, each takes as many whole
    columns as there are for all, up to four, so that equal bars look equal; the plot may then end early. Lines without
    bars always have the whole width.

    Examples
    --------
    >>> columns_of(9, 5).tolist(), columns_of(2, 5).tolist(), columns_of(2, 5, has_bars=False).tolist()
    ([0, 2, 4, 6, 8], [0, 0, 1, 1], [0, 0, 0, 1, 1])
    """
    if count > width or (count and not has_bars):
        return np.rint(np.linspace(0, count - 1, max(width, 0))).astype(np.intp)
    return np.repeat(np.arange(count), min(width // count, _WIDEST_BAR) if count else 0)


def columns_under(index: int, columns: NDArray[np.intp]) -> range:
    """Find the columns that show a value, or the one nearest to it.

    Examples
    --------
    >>> columns_under(3, columns_of(9, 5)), columns_under(1, columns_of(2, 5))
    (range(1, 2), range(2, 4))
    """
    if not columns.size:
        return range(0)
    nearest = columns[np.abs(columns - index).argmin()]
    return range(int(np.searchsorted(columns, nearest)), int(np.searchsorted(columns, nearest, side="right")))


def read_value(curve: Curve, index: int, width: int = 120) -> str:
    """Say everything about the value at ``index`` (from zero): its share of the energy, and what chance gives.

    Of a plot with lines it says their values too; of one that has nothing else, only where the cursor is.

    Examples
    --------
    >>> curve = Curve("QK", np.array([2.0, 1.0]), np.array([1.5, 1.25]), "")
    >>> read_value(curve, 1)
    'QK σ₂ = 1 · energy 20.00 % · cumulative 100.00 % · chance 1.25'
    >>> read_value(curve, 1, 50)
    'QK σ₂ = 1 · 20.00 % Σ 100.00 % · chance 1.25'
    >>> read_value(curve, 1, 16)
    'QK 1 chance 1.25'
    >>> read_value(Curve("QK", curve.values, None, "", (Line("other", np.array([3.0, 2.5])),)), 1, 22)
    'QK 1 other 2.5'
    """
    chance = "" if curve.baseline is None else f" · chance {brief(float(curve.baseline[index]), 4)}"
    named = f"{curve.matrix} σ{str(index + 1).translate(SUBSCRIPTS)}"
    if not curve.has_bars:
        return f"{named}{chance}"
    name = f"{named} = {brief(float(curve.values[index]), 4)}"
    name += "".join(f" · {line.name} {brief(float(line.values[index]), 4)}" for line in curve.lines)
    values = _finite(curve.values)
    largest = float(np.abs(values).max(initial=0.0))
    if not largest:
        return name + chance
    energy = (values / largest) ** 2  # divided first: the square of 1e200 is no float64
    share, so_far = (f"{100 * part / energy.sum():.2f} %" for part in (energy[index], energy[: index + 1].sum()))
    long, short, shortest = f"energy {share} · cumulative {so_far}", f"{share} Σ {so_far}", f"Σ {so_far}"
    said = [f"{name} · {energy}{chance}" for energy in (long, short, shortest)]
    if not curve.lines:
        said.append(f"{name}{chance}")
    said += [_in_few_words(curve, index, digits) for digits in (4, 3, 2)]
    return next((text for text in said if len(text) <= width), said[-1])


def _in_few_words(curve: Curve, index: int, digits: int) -> str:
    """Write a value and what chance gives, or what lines have, and hardly more."""
    beside = [(line.name, line.values) for line in curve.lines]
    if not beside and curve.baseline is not None:
        beside = [("chance", curve.baseline)]
    numbers = (f" {name} {brief(float(values[index]), digits)}" for name, values in beside)
    return f"{curve.matrix} {brief(float(curve.values[index]), digits)}{''.join(numbers)}"


def _finite(values: FloatArray) -> FloatArray:
    """Take what is not a number, or infinite, as nothing."""
    return np.where(np.isfinite(values), values, 0.0)
