"""Several curves in one plot: lines told apart by colour, and by signs along them that need no colour."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tui.drawing.curves import Curve, Span
from tui.drawing.plots import UNDER_CURSOR, Mark, Plot, PlotGlyphs
from tui.drawing.ramps import Rgb, lightness

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
    >>> from tui.drawing.curves import Line
    >>> from tui.drawing.plots import SHADE_PLOT
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
