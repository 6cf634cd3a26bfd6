"""How many heads have which value of a measure, as bars over the colours of its map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.drawing.curves import Curve, Span
from tui.drawing.levels import Ink
from tui.drawing.measure_map import MeasureMap, MeasureScale
from tui.drawing.plots import COLOUR_PLOT, SHADE_PLOT, Mark, Plot, draw_plot
from tui.drawing.ticks import brief

_WIDEST_BAR = 4
"""Columns that a bar takes at most."""

_DIGITS = 3
"""Of the numbers at both ends."""


class Histogram(Widget, can_focus=False):
    """Bars of how many heads have which value; below them the scale, which explains the map's colours."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"histogram--bar", "histogram--cursor", "histogram--label"}
    DEFAULT_CSS = """
    Histogram {
        width: 100%; height: 4; padding: 0 1;
        & > .histogram--bar { color: $text-primary; }
        & > .histogram--cursor { color: $success; text-style: bold; }
        & > .histogram--label { color: $text-muted; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._map: MeasureMap | None = None
        self._scale: MeasureScale | None = None
        self._value: float | None = None
        self._ink = Ink.COLOUR
        self._glyphs: Sequence[str] = ()
        self._styles: Sequence[Style] = ()
        self._drawn: tuple[Plot, range, str, str] | None = None

    def show(
        self,
        shown: MeasureMap,
        scale: MeasureScale | None,
        value: float | None,
        ink: Ink,
        glyphs: Sequence[str],
        styles: Sequence[Style],
    ) -> None:
        """Draw a measure's values.

        Parameters
        ----------
        shown, scale : as the map shows them.
        value : under the map's cursor, below whose bar the scale is marked; None where there is none.
        ink, glyphs, styles : what the map's levels look like.
        """
        self._map, self._scale, self._ink, self._glyphs, self._styles = shown, scale, ink, glyphs, styles
        self._value = value
        self._draw()
        self.refresh()

    def mark(self, value: float | None) -> None:
        """Mark the bar of another value."""
        old = self._drawn
        self._value = value
        self._draw()
        if old is None or self._drawn is None:
            self.refresh()
            return
        left = 2 + len(self._drawn[2])  # the padding, the number at the lower end and a blank
        for columns in {old[1], self._drawn[1]}:
            if columns:
                self.refresh(Region(left + columns.start, self.size.height - 1, len(columns), 1))

    def on_resize(self) -> None:
        """Draw for the new size; it has been painted in it before it is told."""
        self._draw()
        self.refresh()

    def _draw(self) -> None:
        """Count, and draw the bars, that of the cursor marked."""
        self._drawn = None
        shown, scale, rows = self._map, self._scale, self.size.height - 1
        if shown is None or scale is None or rows < 1:
            return
        low, high = brief(scale.low, _DIGITS), brief(scale.high, _DIGITS)
        room = self.size.width - len(low) - len(high) - 2
        if room < 1:
            return
        bins = scale.bins(room, len(shown.finite))
        width = min(room // bins, _WIDEST_BAR)
        counts = np.bincount(scale.bin_of(shown.finite, bins), minlength=bins).astype(np.float64)
        glyphs = COLOUR_PLOT if self._ink is Ink.COLOUR else SHADE_PLOT
        columns = np.repeat(np.arange(bins), width)
        curve, span = Curve("", counts, None, ""), Span(float(counts.max()), 0.0)
        plot = draw_plot(curve, span, columns, rows, baseline=False, glyphs=glyphs)
        marked = range(0)
        if self._value is not None and np.isfinite(self._value):
            place = int(scale.bin_of(np.array([self._value]), bins)[0])
            marked = range(place * width, (place + 1) * width)
        self._drawn = plot, marked, low, high

    def render_line(self, y: int) -> Strip:
        """Paint a line of bars, or the scale below them."""
        width = self.size.width
        label = self.get_component_rich_style("histogram--label")
        blank = Style(bgcolor=label.bgcolor)
        if self._drawn is not None and self._drawn[0].marks.shape[0] != self.size.height - 1:
            self._draw()  # painted in another size, of which it is told after that
        if self._drawn is None or self._scale is None:
            return Strip.blank(width, blank)
        plot, marked, low, high = self._drawn
        rows, columns = plot.marks.shape
        if y < rows:
            segments = [Segment(" " * (len(low) + 1), blank)]
            bar = self.get_component_rich_style("histogram--bar")
            for character, mark in zip(plot.characters[y].tolist(), plot.marks[y].tolist(), strict=True):
                segments.append(Segment(character, blank if mark == Mark.BLANK else bar))
            return Strip(Segment.simplify(segments)).adjust_cell_length(width, blank)
        steps = (np.arange(columns) + 0.5) / columns
        levels = self._scale.levels(np.array([self._scale.value(step) for step in steps]), self._ink, len(self._glyphs))
        cells = [Segment(low + " ", label)]
        for column, level in enumerate(levels.tolist()):
            style = self._styles[level if len(self._styles) > 1 else 0]
            text = self._glyphs[level][-1]
            if column in marked:
                text, style = "▴", self.get_component_rich_style("histogram--cursor")
            cells.append(Segment(text, style))
        cells.append(Segment(f" {high}", label))
        return Strip(Segment.simplify(cells)).adjust_cell_length(width, blank)
