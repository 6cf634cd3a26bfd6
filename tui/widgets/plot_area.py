"""Plots with numbers at the left, and the plot of a head's values over the checkpoints of a training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

from tui.drawing.cells import runs_of
from tui.drawing.levels import Ink, ValueScale
from tui.drawing.numbers import brief_number
from tui.drawing.plots import (
    LINE,
    UNDER_CURSOR,
    Curve,
    Mark,
    Plot,
    column_of,
    draw_plot,
    line_colours,
    row_of,
    ticks_of,
)
from tui.drawing.text import escape_text, write_apart
from tui.widgets.scroll_area import StyledWidget, ink_of


def tick_width(ticks: Iterable[float]) -> int:
    """Return the columns of the widest number at an axis; 0 without any."""
    return max((len(brief_number(tick, 3)) for tick in ticks), default=0)


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

    def paint_rows(
        self, plot: Plot, scale: ValueScale, ticks: Iterable[float], left: int
    ) -> Iterator[Iterable[Segment]]:
        """Paint the rows of a plot, each with ``left`` columns of an axis before it."""
        label, rows = self.get_component_rich_style("plot--label"), len(plot.marks)
        numbers = {row_of(tick, scale, rows): f"{brief_number(tick, 3)}┤" for tick in ticks}
        for row, (characters, marks) in enumerate(zip(plot.characters, plot.marks, strict=True)):
            axis = [Segment(f"{numbers.get(row, '│'):>{left}}", label)] if left else []
            yield axis + [
                Segment("".join(characters[start:end]), self._style_of(int(marks[start])))
                for start, end in runs_of(marks)
            ]

    def _style_of(self, mark: int) -> Style:
        value = "value" if self._is_coloured else "value-plain"
        parts = {Mark.VALUE: value, Mark.CHANCE: "chance", Mark.CUT: "label"}
        if mark & UNDER_CURSOR:
            return self.get_component_rich_style("plot--cursor")
        if mark >= LINE:
            return self.line_style(mark - LINE) + self.blank_style
        return self.blank_style if mark == Mark.BLANK else self.get_component_rich_style(f"plot--{parts[Mark(mark)]}")


class StepCurve(PlotArea):
    """Draws a head's values over the checkpoints, those by chance, and further lines with their own signs."""

    DEFAULT_CSS = """
    StepCurve { padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._curve: Curve | None = None
        self._steps: tuple[str, ...] = ()
        self._cursor = 0
        self._lines: list[Iterable[Segment]] = []

    def show(self, curve: Curve | None, steps: tuple[str, ...], cursor: int) -> None:
        """Draw a curve with the cursor on a checkpoint; None clears it."""
        self._curve, self._steps, self._cursor = curve, steps, cursor
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; draw the curve, its axis and the steps once for all of them."""
        self._lines = [] if self._curve is None or self.size.height < 2 else list(self._draw_lines(self._curve))
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint a line of the curve, or the steps below it."""
        line = self._lines[y] if y < len(self._lines) else ()
        return Strip(line).adjust_cell_length(self.size.width, self.blank_style)

    def _draw_lines(self, curve: Curve) -> Iterator[Iterable[Segment]]:
        finite, rows = curve.finite, self.size.height - 1
        low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
        scale = ValueScale(low, high if high > low else 1.0)
        ticks = ticks_of(scale, max(rows // 2, 2))
        left = tick_width(ticks) + 1
        room = max(self.size.width - left, 1)
        yield from self.paint_rows(draw_plot(curve, scale, room, rows, cursor=self._cursor), scale, ticks, left)
        # The step of the cursor, the last, the first, and of the others as many as stand apart.
        count = len(self._steps)
        steps = ((at, escape_text(self._steps[at])) for at in (self._cursor, count - 1, *range(count - 1)))
        foot = write_apart(((column_of(at, count, room) - len(step) // 2, step) for at, step in steps), room)[0]
        yield [Segment(f"{'':{left}}{foot}", self.get_component_rich_style("plot--label"))]
