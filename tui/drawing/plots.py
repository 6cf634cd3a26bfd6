"""Singular values as curves of braille dots, eight per cell, with their axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from tui.drawing.levels import FloatArray, Scale, ValueScale
from tui.drawing.numbers import brief_number
from tui.drawing.ramps import Rgb, lightness
from tui.drawing.text import first_fitting, write_apart
from tui.drawing.token_spelling import SUBSCRIPTS

_DECADES = 6
"""The logarithmic scale spans fewer decades than this."""

FurtherCurve = tuple[str, FloatArray]
"""The name and the values of a further curve in a plot, as many as the plot's own; NaN where there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What a plot draws.

    Attributes
    ----------
    matrix : that has the values (``QK``).
    values : (r,) singular values, largest first.
    baseline : (r,) values by chance, or None.
    summary : a few words beside the name.
    lines : further curves; their order decides signs and colours.
    is_drawn : whether the values are drawn; with lines alone, they only give the range of the cursor.
    cut : how many values count, if that is marked.
    """

    matrix: str
    values: FloatArray
    baseline: FloatArray | None
    summary: str
    lines: tuple[FurtherCurve, ...] = ()
    is_drawn: bool = True
    cut: int | None = None

    @property
    def finite(self) -> FloatArray:
        """All finite values, those by chance and of further curves too."""
        baseline = () if self.baseline is None else (self.baseline,)
        every: FloatArray = np.concatenate([self.values, *baseline, *(values for _, values in self.lines)])
        finite: FloatArray = every[np.isfinite(every)]
        return finite


def scale_of_curve(curve: Curve, wanted: Scale) -> ValueScale:
    """Choose the range of a plot: from the largest value to zero, or to the power of ten below the smallest.

    The logarithmic scale spans less than six decades; smaller values, zeros too, are at its lower edge.

    Examples
    --------
    >>> brief_number(scale_of_curve(Curve("Q", np.array([3.0, 0.5, 0.02, 0.0]), None, ""), "log").low)
    '0.01'
    """
    finite = curve.finite
    positive = finite[finite >= np.finfo(np.float64).tiny]
    if not positive.size:
        return ValueScale(0.0, 1.0)
    top = float(positive.max())
    if wanted == "linear":
        return ValueScale(0.0, top)
    lowest = max(log10(positive.min()), log10(top) + 1 - _DECADES)
    # Rounding must not move a smallest value that is a power of ten into the decade below.
    low = 10.0 ** floor(lowest + 1e-9)
    return ValueScale(low if low < top * (1 - 1e-9) else top / 10, top, "log")


def column_of(index: int, count: int, width: int) -> int:
    """Return the column of a value in a plot, from zero; the first and the last value are at the edges.

    Examples
    --------
    >>> [column_of(index, 9, 5) for index in (0, 4, 8)], column_of(0, 1, 5)
    ([0, 2, 4], 0)
    """
    return round(index * (2 * width - 1) / max(count - 1, 1)) // 2


def index_at(column: int, count: int, width: int) -> int:
    """Return the index of the value nearest to a column.

    Examples
    --------
    >>> [index_at(column, 9, 5) for column in (0, 2, 4)], index_at(3, 1, 5)
    ([0, 4, 8], 0)
    """
    return round(column * max(count - 1, 0) / max(width - 1, 1))


def read_value(curve: Curve, index: int, width: int = 120) -> str:
    """Describe the value at ``index`` (from zero): its share of the energy, and the value by chance.

    A plot with lines also gives their values; one with lines alone, only the cursor's place.

    Examples
    --------
    >>> curve = Curve("QK", np.array([2.0, 1.0]), np.array([1.5, 1.25]), "")
    >>> read_value(curve, 1)
    'QK σ₂ = 1 · energy 20.00 %, sum 100.00 % · chance 1.25'
    >>> read_value(curve, 1, 50)
    'QK σ₂ = 1 · energy 20.00 % · chance 1.25'
    >>> read_value(curve, 1, 16)
    'QK 1 chance 1.25'
    >>> read_value(Curve("QK", curve.values, None, "", (("other", np.array([3.0, 2.5])),)), 1, 20)
    'QK 1 other 2.5'
    """
    chance = "" if curve.baseline is None else f" · chance {brief_number(float(curve.baseline[index]), 4)}"
    named = f"{curve.matrix} σ{str(index + 1).translate(SUBSCRIPTS)}"
    if not curve.is_drawn:
        return f"{named}{chance}"
    name = f"{named} = {brief_number(float(curve.values[index]), 4)}"
    name += "".join(f" · {line} {brief_number(float(values[index]), 4)}" for line, values in curve.lines)
    values = np.nan_to_num(curve.values, posinf=0.0, neginf=0.0)
    largest = float(np.abs(values).max(initial=0.0))
    if not largest:
        return name + chance
    energy = (values / largest) ** 2  # divided first: 1e200 squared overflows
    share, so_far = (f"{100 * part / energy.sum():.2f} %" for part in (energy[index], energy[: index + 1].sum()))
    said = [f"{name}{energy}{chance}" for energy in (f" · energy {share}, sum {so_far}", f" · energy {share}", "")]
    beside = curve.lines or (() if curve.baseline is None else (("chance", curve.baseline),))
    numbers = ((curve.matrix, curve.values), *beside)
    for digits in (4, 3, 2):
        said.append(" ".join(f"{name} {brief_number(float(values[index]), digits)}" for name, values in numbers))
    return first_fitting(width, *said)


class Mark(IntEnum):
    """What a cell of a plot shows; decides its style."""

    BLANK = 0
    VALUE = 1
    """The curve of the plot's own values."""
    CHANCE = 2
    CUT = 3
    """The number of values that count, and the last of them."""


UNDER_CURSOR = 8
"""Added to the mark of a cell under the cursor."""

LINE = 16
"""Marks of lines start here; the line's number is added."""

SIGNS = "●▲■◆○△□◇"
"""Tell lines apart without colour."""

_TICK = 1.5
"""Average rows per number on an axis."""

_APART = 4
"""Columns between signs of different lines."""


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """Drawn curves.

    Attributes
    ----------
    characters : (rows, columns), top row first.
    marks : (rows, columns) `Mark`, or `LINE` plus a line's number, plus `UNDER_CURSOR`.
    """

    characters: NDArray[np.str_]
    marks: NDArray[np.uint8]


# Okabe and Ito's palette (2008), told apart without red-green vision, its dark blue made lighter to be seen on black;
# and below, where the background is light, the same hues darker. Black and white are left to words.
_ON_DARK: tuple[Rgb, ...] = (
    (230, 159, 0), (86, 180, 233), (0, 178, 128), (240, 228, 66), (90, 140, 255), (233, 110, 30), (220, 140, 190),
    (190, 190, 190),
)  # fmt: skip
_ON_LIGHT: tuple[Rgb, ...] = (
    (166, 106, 0), (20, 110, 170), (0, 110, 80), (120, 110, 0), (30, 40, 170), (170, 60, 0), (150, 60, 120),
    (80, 80, 80),
)  # fmt: skip


@lru_cache(maxsize=32)
def line_colours(background: Rgb) -> tuple[Rgb, ...]:
    """Return the colour of each line on a background."""
    return _ON_DARK if float(lightness(np.array(background))) < 50 else _ON_LIGHT


def draw_plot(
    curve: Curve, scale: ValueScale, width: int, rows: int, *, baseline: bool = True, cursor: int | None = None
) -> Plot:
    """Draw the values as a curve, those by chance as a dotted one, and lines with signs.

    Later ones cover earlier ones: chance, values, lines, signs. Signs of each line have columns of their own, so that a
    line shows even where it runs along another.

    Parameters
    ----------
    curve, scale : what to draw, over which range of values.
    baseline : whether to draw the values by chance.
    cursor : index of the marked value, from zero.

    Examples
    --------
    >>> plot = draw_plot(Curve("Q", np.array([8.0, 1.0]), np.array([4.0, 4.0]), ""), ValueScale(0.0, 8.0), 4, 2)
    >>> ["".join(row) for row in plot.characters]
    ['⠑⢄  ', '⠁⠁⠑⢄']
    """
    marks = np.full((rows, width), Mark.BLANK, dtype=np.uint8)
    characters = np.full((rows, width), " ")
    if not rows or not width:
        return Plot(characters, marks)
    drawn: list[tuple[int, NDArray[np.bool_]]] = []
    if baseline and curve.baseline is not None:
        drawn.append((Mark.CHANCE, _dots(scale.heights(curve.baseline), width, rows, is_dotted=True)))
    if curve.is_drawn:
        drawn.append((Mark.VALUE, _dots(scale.heights(curve.values), width, rows)))
    lines = [_dots(scale.heights(values), width, rows) for _, values in curve.lines]
    for mark, dots in (*drawn, *((LINE + number, dots) for number, dots in enumerate(lines))):
        cells = _cells(dots)
        characters[cells], marks[cells] = _braille(dots)[cells], mark
    apart = _APART * max(len(lines), 2)
    for number, dots in enumerate(lines):
        for column in range(number * _APART % width, width, apart):
            if (rows_of := np.flatnonzero(_cells(dots)[:, column])).size:
                characters[rows_of[0], column], marks[rows_of[0], column] = SIGNS[number], LINE + number
    if curve.cut is not None and curve.is_drawn:
        _mark_cut(characters, marks, curve.cut, len(curve.values))
    if cursor is not None:
        _mark_cursor(characters, marks, column_of(cursor, len(curve.values), width))
    return Plot(characters, marks)


def _dots(heights: FloatArray, width: int, rows: int, *, is_dotted: bool = False) -> NDArray[np.bool_]:
    """Draw a curve in (4 rows, 2 columns) dots per cell, top first.

    A value at the lower edge has no dot, one above it at least one. Values are joined by straight lines.

    Parameters
    ----------
    heights : (n,) from 0 to 1; NaN without a value.
    is_dotted : whether to draw only every second column, and no steep joints.
    """
    high = 4 * rows
    at = np.linspace(0, len(heights) - 1, 2 * width)
    level = np.ceil(np.interp(at, np.arange(len(heights)), heights) * high - 1e-9) - 1  # from the foot
    dot = np.arange(high)[::-1, None]
    if is_dotted:
        return np.asarray((level == dot) & (np.arange(2 * width) % 2 == 0))
    before = np.concatenate([level[:1], level[:-1]])
    before = np.where(np.isnan(before), level, before)
    return np.asarray((np.minimum(level, before + 1) <= dot) & (dot <= np.maximum(level, before - 1)))


def _cells(dots: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which cells have a dot."""
    return np.asarray(dots.reshape(len(dots) // 4, 4, -1, 2).any(axis=(1, 3)))


def _braille(dots: NDArray[np.bool_]) -> NDArray[np.str_]:
    weights = np.array([[1, 8], [2, 16], [4, 32], [64, 128]], dtype=np.uint32)
    codes = np.einsum("rdcs,ds->rc", dots.reshape(len(dots) // 4, 4, -1, 2), weights, dtype=np.uint32)
    return np.where(codes == 0, ord(" "), codes + 0x2800).astype(np.uint32).view("<U1")


def _mark_cut(characters: NDArray[np.str_], marks: NDArray[np.uint8], cut: int, count: int) -> None:
    if not 0 < cut < count:
        return
    column, words = column_of(cut - 1, count, marks.shape[1]), f"{cut}"
    free = marks[:, column] == Mark.BLANK
    characters[free, column], marks[free, column] = "┊", Mark.CUT
    for first in (column + 1, column - len(words)):
        place = slice(first, first + len(words))
        rows = np.flatnonzero((marks[:, place] == Mark.BLANK).all(axis=1)) if first >= 0 else np.zeros(0)
        if rows.size and place.stop <= marks.shape[1]:
            characters[rows[0], place], marks[rows[0], place] = list(words), Mark.CUT
            return


def _mark_cursor(characters: NDArray[np.str_], marks: NDArray[np.uint8], column: int) -> None:
    free = (marks[:, column] == Mark.BLANK) | (marks[:, column] == Mark.CUT)
    characters[free, column], marks[free, column] = "│", Mark.BLANK
    marks[:, column] += UNDER_CURSOR


def ticks_of(scale: ValueScale, rows: int) -> tuple[float, ...]:
    """Choose round numbers for an axis, largest first: as many as stand apart.

    Examples
    --------
    >>> [ticks_of(ValueScale(0.0, 4.1), rows) for rows in (2, 6, 12)]
    [(4.1, 0.0), (4.0, 2.0, 0.0), (4.0, 3.0, 2.0, 1.0, 0.0)]
    >>> [brief_number(tick) for tick in ticks_of(ValueScale(0.01, 4.1, "log"), 9)]
    ['3', '1', '0.3', '0.1', '0.03', '0.01']
    """
    if rows < 2:
        return ()
    if scale.low < 0:
        return scale.high, scale.low
    for ticks in _round_numbers(scale):
        if len(ticks) * _TICK <= rows + 1 and len({row_of(tick, scale, rows) for tick in ticks}) == len(ticks):
            break
    return ticks


def row_of(value: float, scale: ValueScale, rows: int) -> int:
    """Return the row of a value in a plot, from the top."""
    height = float(scale.heights(np.array([value]))[0])
    return min(int((1 - height) * rows), rows - 1)


def _round_numbers(scale: ValueScale) -> Iterator[tuple[float, ...]]:
    """Yield sets of round numbers within a plot, from many to two, each largest first."""
    exponent = floor(log10(scale.high))
    if scale.scale == "linear":
        steps = (factor * 10.0 ** (exponent + power) for power in (-1, 0) for factor in (1, 2, 5))
        for step in steps:
            if 0 < step <= scale.high:
                yield tuple(step * number for number in range(int(scale.high / step + 1e-9), -1, -1))
        yield (scale.high, 0.0)
        return
    lowest = round(log10(scale.low))
    for factors in ((5, 2, 1), (3, 1), (1,)):
        numbers = (factor * 10.0**power for power in range(exponent, lowest - 1, -1) for factor in factors)
        yield tuple(number for number in numbers if number <= scale.high * (1 + 1e-9))
    for step in range(2, exponent - lowest + 1):
        yield tuple(10.0**power for power in range(exponent, lowest - 1, -1) if (power - lowest) % step == 0)
    yield (scale.high, 10.0**lowest)


def index_line(count: int, width: int) -> str:
    """Write numbers of values below a plot, from one: the first, round ones, and the last.

    Examples
    --------
    >>> index_line(32, 40)
    '1    5    10     15    20    25       32'
    """
    steps = (factor * 10**power for power in range(len(str(count))) for factor in (1, 2, 5))
    gap = 3 + len(str(count))
    step = next((step for step in steps if step * width >= gap * count), count)
    numbers = dict.fromkeys((1, count, *range(step, count - step // 2, step)))
    places = (column_of(number - 1, count, width) - len(str(number)) // 2 for number in numbers)
    return write_apart(zip(places, map(str, numbers), strict=True), width)[0]


def bars(values: FloatArray, rows: int) -> list[str]:
    """Draw non-negative values as bars in eighths of a cell; any value above zero shows.

    Examples
    --------
    >>> bars(np.array([8.0, 3.0, 0.0]), 2)
    ['█  ', '█▆ ']
    """
    share = values / max(float(values.max(initial=0.0)), 1e-300)
    eighths = np.maximum(np.rint(share * rows * 8), share > 0).astype(np.intp)
    filled = np.clip(eighths - 8 * np.arange(rows - 1, -1, -1)[:, None], 0, 8)
    return ["".join(row) for row in np.array(list(" ▁▂▃▄▅▆▇█"))[filled]]


_NARROWEST, LOWEST = 18, 2
"""Least size of a plot: a name, a number and a line of dots."""

LOWEST_LINES = 4
"""Least height of a plot of lines; in fewer rows they all fall into one."""

_WIDE_ENOUGH, _HIGH_ENOUGH = 40, 10
"""Beyond these a plot gains little."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns of plots."""

    columns: int
    rows: int

    def places(self, count: int) -> list[int]:
        """Return the number of the plot at each place, row by row.

        Plots follow each other down the columns of a high grid and along the rows of a wide one, so that circuits stay
        together.

        Examples
        --------
        >>> Grid(2, 3).places(6), Grid(3, 2).places(6)
        ([0, 3, 1, 4, 2, 5], [0, 1, 2, 3, 4, 5])
        """
        if self.rows < self.columns:
            return list(range(count))
        order = [column * self.rows + row for row in range(self.rows) for column in range(self.columns)]
        return [number for number in order if number < count]

    def walk(self, count: int) -> list[int]:
        """Return the numbers of the plots down the first column, then down the next.

        Examples
        --------
        >>> Grid(2, 3).walk(6), Grid(3, 2).walk(6)
        ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
        """
        places = self.places(count)
        return [number for column in range(self.columns) for number in places[column :: self.columns]]


def choose_grid(count: int, width: int, height: int, lowest: int = LOWEST) -> Grid | None:
    """Choose the grid with most room for curves; None if ``count`` plots do not fit.

    A plot with its name is at least ``lowest`` lines high.

    Examples
    --------
    >>> choose_grid(6, 56, 16), choose_grid(6, 80, 11)
    (Grid(columns=2, rows=3), Grid(columns=3, rows=2))
    >>> choose_grid(6, 30, 40), choose_grid(6, 30, 5)
    (Grid(columns=1, rows=6), None)
    """
    best, chosen = 0, None
    for columns in (2, 3, 1):
        rows = max(-(-count // columns), 1)
        across, down = width // columns, height // rows
        room = min(down - 1, _HIGH_ENOUGH) * min(across - 8, _WIDE_ENOUGH)
        if across >= _NARROWEST and down >= lowest and room > best:
            best, chosen = room, Grid(columns, rows)
    return chosen
