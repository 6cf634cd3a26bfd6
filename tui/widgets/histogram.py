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

from tui.drawing.levels import Ink
from tui.drawing.measure_map import MeasureMap, MeasureScale
from tui.drawing.numbers import brief
from tui.drawing.plots import COLOUR_PLOT, SHADE_PLOT, Curve, Span, draw_plot

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
        self._lines: list[Strip] = []

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
        before = self._map, self._scale, self._ink, self._glyphs, self._styles
        self._map, self._scale, self._ink, self._glyphs, self._styles = shown, scale, ink, glyphs, styles
        self.mark(value)
        if before != (shown, scale, ink, glyphs, styles):
            self.refresh()

    def mark(self, value: float | None) -> None:
        """Mark the bar of another value."""
        if value != self._value:
            self._value = value
            self.refresh(Region(0, self.size.height - 1, self.size.width, 1))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; what all of them need is found once."""
        self._lines = self._paint() if self._map is not None and self._scale is not None else []
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Give a line of bars, or the scale below them."""
        blank = Style(bgcolor=self.get_component_rich_style("histogram--label").bgcolor)
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.adjust_cell_length(self.size.width, blank)

    def _paint(self) -> list[Strip]:
        """Count, and paint bars, and below them the scale with a mark under the cursor's bar."""
        shown, scale, rows = self._map, self._scale, self.size.height - 1
        assert shown is not None
        assert scale is not None
        low, high = brief(scale.low, _DIGITS), brief(scale.high, _DIGITS)
        room = self.size.width - len(low) - len(high) - 2
        if rows < 1 or room < 1:
            return []
        bins = scale.bins(room, len(shown.finite))
        width = min(room // bins, _WIDEST_BAR)
        counts = np.bincount(scale.bin_of(shown.finite, bins), minlength=bins).astype(np.float64)
        glyphs = COLOUR_PLOT if self._ink is Ink.COLOUR else SHADE_PLOT
        columns = np.repeat(np.arange(bins), width)
        curve, span = Curve("", counts, None, ""), Span(float(counts.max()), 0.0)
        plot = draw_plot(curve, span, columns, rows, baseline=False, glyphs=glyphs)
        bar, label = (self.get_component_rich_style(f"histogram--{part}") for part in ("bar", "label"))
        lines = [Strip([Segment(f"{'':{len(low)}} {''.join(row)}", bar)]) for row in plot.characters.tolist()]
        under = -1
        if self._value is not None and np.isfinite(self._value):
            under = int(scale.bin_of(np.array([self._value]), bins)[0])
        steps = np.array([scale.value((column + 0.5) / len(columns)) for column in range(len(columns))])
        cells = [Segment(low + " ", label)]
        for place, level in zip(
            columns.tolist(), scale.levels(steps, self._ink, len(self._glyphs)).tolist(), strict=True
        ):
            if place == under:
                cells.append(Segment("▴", self.get_component_rich_style("histogram--cursor")))
            else:
                cells.append(Segment(self._glyphs[level][-1], self._styles[level if len(self._styles) > 1 else 0]))
        return [*lines, Strip(Segment.simplify([*cells, Segment(f" {high}", label)]))]
