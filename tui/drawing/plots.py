"""A curve in character cells: bars of eighths of a cell before the area that chance would fill."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tui.drawing.curves import Curve, Span


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
    columns : which value each column shows, see `tui.drawing.curves.columns_of`.
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
