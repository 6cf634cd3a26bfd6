"""A head's values as a curve over the checkpoints of a training."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip

from tui.drawing.numbers import brief_number
from tui.drawing.plots import NOTHING, Curve, column_of, draw_plot, row_of, ticks_of
from tui.drawing.text import escape_text, write_apart
from tui.drawing.value_scale import ValueScale
from tui.widgets.plot_area import PlotArea


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
        self._drawn = NOTHING
        self._ticks: dict[int, str] = {}

    def show(self, curve: Curve | None, steps: tuple[str, ...], cursor: int) -> None:
        """Draw a curve with the cursor on a checkpoint; None clears it."""
        self._curve, self._steps, self._cursor = curve, steps, cursor
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; draw the curve and its axis once for all of them."""
        rows = self.size.height - 1
        self._drawn, self._ticks = NOTHING, {}
        if self._curve is not None and rows > 0:
            finite = self._curve.finite
            low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
            scale = ValueScale(low, high if high > low else 1.0)
            ticks = ticks_of(scale, max(rows // 2, 2))
            self._ticks = {row_of(each, scale, rows): brief_number(each, 3) for each in ticks}
            self._drawn = draw_plot(self._curve, scale, self._room, rows, cursor=self._cursor)
        return super().render_lines(crop)

    @property
    def _left(self) -> int:
        return max(map(len, self._ticks.values()), default=0) + 1

    @property
    def _room(self) -> int:
        return max(self.size.width - self._left, 1)

    def render_line(self, y: int) -> Strip:
        """Paint a line of the curve, or the steps below it."""
        width, rows = self.size.width, len(self._drawn.marks)
        label = self.get_component_rich_style("plot--label")
        if self._curve is None or not rows or y > rows:
            return Strip.blank(width, self.blank_style)
        if y == rows:
            return Strip([Segment(f"{'':{self._left}}{self._foot()}", label)]).adjust_cell_length(width, label)
        tick = f"{self._ticks[y]}┤" if y in self._ticks else "│"
        return Strip(self.paint_row(f"{tick:>{self._left}}", self._drawn, y))

    def _foot(self) -> str:
        """Write the step of the cursor, the last, the first, and of the others as many as stand apart."""
        count = len(self._steps)
        order = self._cursor, count - 1, *range(count - 1)
        steps = ((column_of(place, count, self._room), escape_text(self._steps[place])) for place in order)
        return write_apart(((column - len(step) // 2, step) for column, step in steps), self._room)[0]
