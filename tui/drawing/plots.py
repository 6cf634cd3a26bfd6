"""Singular values as curves in character cells: where each stands on a scale, bars before chance, lines with signs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tui.drawing.levels import Scale
from tui.drawing.numbers import brief
from tui.drawing.ramps import Rgb, lightness
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


class Mark(IntEnum):
    """What a cell of a plot shows, which decides its style."""

    BLANK = 0
    BAR = 1
    BAR_BEFORE_CHANCE = 2
    """The top of a bar, and above it the area of chance."""
    CHANCE = 3
    """The area of chance above a bar."""
    CHANCE_OVER_BAR = 4
    """The upper edge of that area, drawn over a bar that is higher."""


_LONGEST_CURSOR = 6
"""Rows of a plot up to which the cursor takes the whole bar."""

UNDER_CURSOR = 8
"""Added to the mark of a cell that shows the cursor."""


@dataclass(frozen=True, slots=True)
class PlotGlyphs:
    """The characters of a plot.

    Attributes
    ----------
    bar, chance : a cell of a bar and of the area of chance, by how many eighths of it are filled, 0 to 8.
    edge : the upper edge of the area low, in the middle and high in a cell of a bar.
    hair : the cursor above a bar.
    bar_under_cursor : a full cell of the bar under the cursor, where colour does not tell.
    line : a line low, in the middle and high in a cell; empty where colour does not tell lines apart.
    signs : what tells lines apart without colour, one character for each.
    """

    bar: str
    chance: str
    edge: str
    hair: str
    bar_under_cursor: str
    line: str
    signs: str


_SIGNS = "●▲■◆○△□◇"
COLOUR_PLOT = PlotGlyphs(" ▁▂▃▄▅▆▇█", " ▁▂▃▄▅▆▇█", "_─‾", "│", "█", "_─‾", _SIGNS)
SHADE_PLOT = PlotGlyphs(" ▁▂▃▄▅▆▇█", "    ░░░░░", "_─‾", "│", "▒", "", _SIGNS)


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A drawn curve.

    Attributes
    ----------
    characters : (rows, columns) one character each, the top row first.
    marks : (rows, columns) the `Mark` of each, and `UNDER_CURSOR`.
    """

    characters: NDArray[np.str_]
    marks: NDArray[np.uint8]


NOTHING = Plot(np.zeros((0, 0), dtype=np.str_), np.zeros((0, 0), dtype=np.uint8))
"""Before anything is drawn."""


def draw_plot(
    curve: Curve, span: Span, columns: NDArray[np.intp], rows: int, *, baseline: bool, glyphs: PlotGlyphs
) -> Plot:
    """Draw the values that ``columns`` choose as bars, and behind them the area that chance would fill.

    A value above the lower edge is at least an eighth of a cell high, so that it is told from nothing. Where a bar is
    higher than chance, the area's edge is drawn over it; in the cell of the bar's own top the bar alone is drawn.

    Parameters
    ----------
    curve, span : what is drawn, on which part of the number line.
    columns : which value each column shows, see `tui.drawing.plots.columns_of`.
    rows : height of the plot in cells.
    baseline : whether chance is drawn.
    glyphs : the characters to draw with.

    Examples
    --------
    >>> curve = Curve("Q", np.array([8.0, 4.0, 1.0]), np.array([3.0, 3.0, 3.0]), "")
    >>> plot = draw_plot(curve, Span(8.0, 0.0), np.arange(3), 2, baseline=True, glyphs=SHADE_PLOT)
    >>> ["".join(row) for row in plot.characters]
    ['█  ', '‾‾▂']
    """
    below = np.arange(rows - 1, -1, -1)[:, None]  # (rows, 1) cells under each row

    def fill(values: NDArray[np.float64]) -> NDArray[np.intp]:
        heights = span.heights(values)
        eighths = np.maximum(np.rint(heights * rows * 8), heights > 0)
        return np.clip(eighths - 8 * below, 0, 8).astype(np.intp)  # (rows, columns)

    bar = fill(curve.values[columns]) if curve.has_bars else np.zeros((rows, len(columns)), dtype=np.intp)
    characters = np.array(list(glyphs.bar))[bar]
    marks = np.where(bar > 0, Mark.BAR, Mark.BLANK).astype(np.uint8)
    if baseline and curve.baseline is not None:
        chance = fill(curve.baseline[columns])
        above = (bar == 0) & (chance > 0)
        characters = np.where(above, np.array(list(glyphs.chance))[chance], characters)
        marks[above] = Mark.CHANCE
        marks[(bar > 0) & (bar < 8) & (chance >= 4) & (chance > bar)] = Mark.BAR_BEFORE_CHANCE
        edge = (bar == 8) & (chance > 0) & (np.vstack([np.zeros_like(chance[:1]), chance[:-1]]) == 0)
        characters = np.where(edge, np.array(list(glyphs.edge))[np.minimum(chance * 3 // 8, 2)], characters)
        marks[edge] = Mark.CHANCE_OVER_BAR
    return Plot(characters, marks)


def with_cursor(plot: Plot, columns: range, glyphs: PlotGlyphs, *, has_bars: bool = True) -> Plot:
    """Draw the cursor in a plot: down from the top of the bar, in a high plot only around it and at the foot.

    A high plot's whole column would be most of what a move of the cursor writes to the terminal. Where nothing is drawn
    as bars it is at the upper edge in place of around a top.
    """
    characters, marks = plot.characters.copy(), plot.marks.copy()
    last = len(marks) - 1
    for column in columns:
        empty = np.isin(marks[:, column], (Mark.BLANK, Mark.CHANCE))
        top = int(empty.sum()) if has_bars else 0  # a bar stands on the last row, so what is empty is above it
        for row in range(max(top - 1, 0), last + 1):
            if last >= _LONGEST_CURSOR and top + 1 < row < last:
                continue
            if empty[row]:
                characters[row, column] = glyphs.hair
            elif characters[row, column] == glyphs.bar[8]:
                characters[row, column] = glyphs.bar_under_cursor
            marks[row, column] += UNDER_CURSOR
    return Plot(characters, marks)


MOST_LINES = 8
"""As many as there are signs and colours."""

LINE = 16
"""Begins the marks of cells that show a line; its number is added."""

OVER_BAR = 32
"""Added to such a mark where the line is drawn over a bar."""

OVER_CHANCE = 64
"""Added to such a mark where the line is drawn over the area of chance."""

_APART = 3
"""Least number of columns between two signs of a plot whose lines have colours; one line's own are further apart."""

# Okabe and Ito's palette (2008), told apart without red-green vision, its dark blue made lighter to be seen on black;
# and below, where the background is light, the same hues darker. Black and white are left to bars and words.
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
    """Give the colour of each line on a background."""
    return _ON_DARK if float(lightness(np.array(background))) < 50 else _ON_LIGHT


def draw_lines(curve: Curve, span: Span, columns: NDArray[np.intp], rows: int, glyphs: PlotGlyphs) -> Plot:
    """Draw a plot's lines by themselves; a cell without a line has no character and the mark of a blank.

    A later line covers an earlier one. Signs come last, each line's in columns of its own, so that every line is seen
    even where several run on top of each other; where colour does not tell lines apart there is nothing but signs.

    Parameters
    ----------
    curve, span, columns, rows, glyphs : as for `tui.drawing.plots.draw_plot`.

    Examples
    --------
    >>> from tui.drawing.plots import Line
    >>> lines = (Line("a", np.array([8.0, 4.0, 0.0])), Line("b", np.array([1.0, 4.0, np.nan])))
    >>> curve = Curve("Q", lines[0].values, None, "", lines, has_bars=False)
    >>> ["".join(row) for row in draw_lines(curve, Span(8.0, 0.0), np.arange(3), 2, SHADE_PLOT).characters]
    ['●', '▲▲']
    """
    characters = np.full((rows, len(columns)), "", dtype="<U1")
    marks = np.full((rows, len(columns)), Mark.BLANK, dtype=np.uint8)
    if not rows:
        return Plot(characters, marks)
    apart = max(_APART * len(curve.lines), 2 * _APART) if glyphs.line else len(curve.lines)
    with_signs: list[tuple[NDArray[np.intp], NDArray[np.intp], int]] = []
    for number, line in enumerate(curve.lines):
        heights = span.heights(line.values[columns])
        thirds = np.clip(np.ceil(heights * rows * 3).astype(np.intp) - 1, 0, rows * 3 - 1)
        seen = np.flatnonzero(heights > 0)  # (columns that have the line,)
        at = rows - 1 - thirds[seen] // 3
        characters[at, seen] = np.array(list(glyphs.line))[thirds[seen] % 3] if glyphs.line else glyphs.signs[number]
        marks[at, seen] = LINE + number
        own = seen % apart == (number * apart) // max(len(curve.lines), 1)
        with_signs.append((at[own], seen[own], number))
    for at, seen, number in with_signs:
        characters[at, seen] = glyphs.signs[number]
        marks[at, seen] = LINE + number
    return Plot(characters, marks)


def with_lines(plot: Plot, lines: Plot, cursor: range) -> Plot:
    """Put lines over a plot of bars in which the cursor is drawn already; it is in some columns, or in none."""
    shown = lines.marks != Mark.BLANK
    under = np.zeros_like(plot.marks)
    under[:, cursor.start : cursor.stop] = UNDER_CURSOR
    behind = np.where(np.isin(plot.marks, (Mark.BAR, Mark.CHANCE_OVER_BAR)), OVER_BAR, 0)
    behind[(plot.marks == Mark.CHANCE) & (plot.characters == "█")] = OVER_CHANCE
    over = np.where(under == 0, behind, 0).astype(np.uint8)
    return Plot(
        np.where(shown, lines.characters, plot.characters), np.where(shown, lines.marks | under | over, plot.marks)
    )


_NARROWEST, LOWEST = 18, 2
"""Least size of a plot: a name, a number and a line of bars."""

LOWEST_LINES = 4
"""Least height of a plot of lines, which in fewer rows all run through the same one."""

_WIDE_ENOUGH, _HIGH_ENOUGH = 72, 10
"""Beyond these a plot gains little."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns of plots.

    Attributes
    ----------
    columns, rows : how many.
    """

    columns: int
    rows: int

    def places(self, count: int) -> list[int]:
        """List the number of the plot at each place, row by row.

        In a high grid the plots follow each other down its columns, in a wide one along its rows, so that those that
        belong together stay together.

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
        """List the numbers of the plots down the first column, then down the next.

        Examples
        --------
        >>> Grid(2, 3).walk(6), Grid(3, 2).walk(6)
        ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
        """
        places = self.places(count)
        return [number for column in range(self.columns) for number in places[column :: self.columns]]


def choose_grid(count: int, width: int, height: int, lowest: int = LOWEST) -> Grid | None:
    """Choose the grid that leaves most room for bars, or None when ``count`` plots do not fit together.

    Parameters
    ----------
    count : how many plots.
    width, height : of the pane.
    lowest : the height that a plot has at least, with its name.

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
