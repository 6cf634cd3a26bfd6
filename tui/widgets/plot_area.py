"""Paints the rows of plots: numbers at the left, then curves and the cursor on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from tui.drawing.cells import runs_of
from tui.drawing.levels import Ink
from tui.drawing.plots import LINE, UNDER_CURSOR, Mark, Plot, line_colours
from tui.toolkit.styled_widget import StyledWidget
from tui.widgets.scroll_area import ink_of


class PlotArea(StyledWidget, can_focus=False):
    """A widget that draws plots."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "plot--label", "plot--value", "plot--value-plain", "plot--chance", "plot--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    PlotArea {
        width: 1fr; height: 1fr;
        & > .plot--label { color: $text-muted; }
        & > .plot--value { color: $primary; }
        & > .plot--value-plain { color: $text; }
        & > .plot--chance { color: $text-muted; }
        & > .plot--cursor { color: $success; }
    }
    """

    @property
    def _is_coloured(self) -> bool:
        return ink_of(self.app) is Ink.COLOUR

    @property
    def blank_style(self) -> Style:
        """The style of cells without anything."""
        return Style(bgcolor=self.get_component_rich_style("plot--label").bgcolor)

    def line_style(self, number: int) -> Style:
        """Return the style of a line, also used by legends."""
        if not self._is_coloured:
            return self.get_component_rich_style("plot--value-plain")
        return Style(color=Color.from_rgb(*line_colours(self.background_colors[1].rgb)[number]))

    def paint_row(self, label: str, plot: Plot, row: int) -> Iterator[Segment]:
        """Paint a row of a plot, with what stands at the left of it."""
        if label:
            yield Segment(label, self.get_component_rich_style("plot--label"))
        characters, marks = plot.characters[row], plot.marks[row]
        for start, end in runs_of(marks):
            yield Segment("".join(characters[start:end]), self._style_of(int(marks[start])))

    def _style_of(self, mark: int) -> Style:
        """Return the style of a mark of `tui.drawing.plots`."""
        value = "value" if self._is_coloured else "value-plain"
        parts = {Mark.VALUE: value, Mark.CHANCE: "chance", Mark.CUT: "label"}
        if mark & UNDER_CURSOR:
            return self.get_component_rich_style("plot--cursor")
        if mark >= LINE:
            return self.line_style(mark - LINE) + self.blank_style
        return self.blank_style if mark == Mark.BLANK else self.get_component_rich_style(f"plot--{parts[Mark(mark)]}")
