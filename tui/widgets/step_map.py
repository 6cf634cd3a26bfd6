"""A map of layers or heads by the checkpoints of a training, with a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.strip import Strip

from tui.drawing.cells import merged_cells
from tui.drawing.levels import NOT_FINITE
from tui.drawing.measure_map import MeasureScale, glyphs_of
from tui.drawing.numbers import brief_number
from tui.drawing.text import fit
from tui.toolkit.keys import lines_of, paging_bindings
from tui.widgets.scroll_area import CellGrid

_WIDEST, _HIGHEST = 6, 3
"""Columns and lines per cell at most."""

_NOTHING = 1e-6
"""Of the largest value: what is smaller is written as zero in the legend."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StepValues:
    """The values of a map.

    Attributes
    ----------
    rows : names of the rows.
    steps : name of each checkpoint: its step, if it has one.
    values : (rows, checkpoints); NaN where unknown.
    scale : turns values into levels, the same for all maps of a screen; None while nothing is known.
    """

    rows: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    values: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    scale: MeasureScale | None = None


def chosen_columns(count: int, room: int) -> list[int]:
    """Choose the checkpoints for some columns: all, or an even spread with both ends.

    Examples
    --------
    >>> chosen_columns(3, 5), chosen_columns(10, 4)
    ([0, 1, 2], [0, 3, 6, 9])
    """
    if count <= max(room, 1):
        return list(range(count))
    return [round(place * (count - 1) / max(room - 1, 1)) for place in range(max(room, 1))]


def step_line(steps: Sequence[str], width: int) -> str:
    """Write as many steps as stand apart over the columns of a map, and always the last.

    Examples
    --------
    >>> step_line(["0", "1", "2", "4", "8"], 2), step_line(["10", "20", "30"], 2)
    ('0 1 2 4 8 ', '10  30')
    """
    line = [" "] * (len(steps) * width)
    if not steps:
        return ""
    last = max(min((len(steps) - 1) * width, len(line) - len(steps[-1])), 0)
    taken = 0
    for place, step in enumerate(steps[:-1]):
        start = place * width
        if start >= taken and start + len(step) < last:
            line[start : start + len(step)] = step
            taken = start + len(step) + 1
    line[last : last + len(steps[-1])] = steps[-1]
    return "".join(line)


class StepMap(CellGrid):
    """Shows one value per row and checkpoint.

    Attributes
    ----------
    shown : the values.
    message : stands in place of missing values.
    is_spread : whether every checkpoint has a column; otherwise only as many as fit.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Row above", show=False, id="steps.up"),
        Binding("down,j", "move(1, 0)", "Row below", show=False, id="steps.down"),
        Binding("left,h", "move(0, -1)", "Checkpoint before", show=False, id="steps.left"),
        Binding("right,l", "move(0, 1)", "Next checkpoint", show=False, id="steps.right"),
        *paging_bindings("steps", "A page of rows"),
        Binding("home", "edge(False)", "First checkpoint", show=False, id="steps.first_step"),
        Binding("end", "edge(True)", "Last checkpoint", show=False, id="steps.last_step"),
        Binding("gg,ctrl+home", "row_edge(False)", "First row", show=False, id="steps.first"),
        Binding("G,ctrl+end", "row_edge(True)", "Last row", show=False, id="steps.last"),
        Binding("enter", "choose", "Open the checkpoint", show=False, id="steps.choose"),
    ]

    DEFAULT_CSS = """
    StepMap {
        padding: 0 0 0 1;
        & > .area--label-cursor { text-style: bold; }
    }
    """

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.shown = StepValues()
        self.message = ""
        self.is_spread = False
        self._columns: list[int] = []
        self._width = self._height = 1

    def show(self, shown: StepValues, cursor: tuple[int, int], message: str = "") -> None:
        """Draw other values, with the cursor on a row and a checkpoint."""
        self.shown, self.message = shown, message
        self.cursor = self.nearest(*cursor)
        self.lay_out_cells()
        self.refresh()
        self.call_after_refresh(self.reveal)

    @property
    def extent(self) -> tuple[int, int]:
        """Number of rows, and of checkpoints."""
        return len(self.shown.rows), len(self.shown.steps)

    @property
    def _gutter(self) -> int:
        return 1 + max(map(cell_len, self.shown.rows), default=0)

    def action_move(self, rows: int, columns: int) -> None:
        """Move by rows and by visible checkpoints."""
        row, checkpoint = self.cursor
        if columns and self._columns:
            place = self._place(checkpoint) + columns
            checkpoint = self._columns[max(0, min(place, len(self._columns) - 1))]
        self.go(row + rows, checkpoint)

    def action_page(self, pages: float) -> None:
        """Move by the rows in view, less one."""
        rows = (self.scrollable_content_region.height - 1) // self._height
        self.action_move(lines_of(pages, rows - 1), 0)

    def action_spread(self) -> None:
        """Show every checkpoint, or only as many as fit."""
        self.is_spread = not self.is_spread
        self.lay_out_cells()
        self.refresh()
        self.call_after_refresh(self.reveal)

    def lay_out_cells(self) -> None:
        """Choose the visible checkpoints and the size of the cells."""
        rows, checkpoints = self.extent
        room = max(self.size.width - self._gutter, 1)
        self._columns = list(range(checkpoints)) if self.is_spread else chosen_columns(checkpoints, room)
        if self.cursor[1] not in self._columns and self._columns:
            self._columns[self._place(self.cursor[1])] = self.cursor[1]
        width = min(room // max(len(self._columns), 1), _WIDEST)
        self._width = max(width - width % 2, 1)
        self._height = max(1, min((self.size.height - 1) // max(rows, 1), _HIGHEST))
        self.virtual_size = Size(self._gutter + self._width * len(self._columns), 1 + self._height * rows)

    def _place(self, checkpoint: int) -> int:
        """Return the column nearest to a checkpoint."""
        return int(np.argmin(np.abs(np.array(self._columns) - checkpoint)))

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell; give its checkpoint a column if it has none."""
        checkpoint = self.nearest(row, column)[1]
        if checkpoint in self._columns:
            super().put(row, column)
        else:
            self.cursor = self.nearest(row, column)
            self.lay_out_cells()
            self.refresh()

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into view."""
        if not self.size or not self._columns:
            return
        line, column = self.cursor[0] * self._height, self._place(self.cursor[1]) * self._width
        room = self.scrollable_content_region.width - self._gutter
        self.reveal_cells(range(column, column + self._width), range(line, line + self._height), room)

    def repaint(self, *cells: tuple[int, int]) -> None:
        """Repaint the lines of some cells, and the steps above them."""
        top = 1 - self.scroll_offset.y
        lines = (
            Region(0, top + row * self._height, self.size.width + 1, self._height) for row in {row for row, _ in cells}
        )
        self.refresh(Region(0, 0, self.size.width + 1, 1), *(each for each in lines if each.y > 0))

    def render_line(self, y: int) -> Strip:
        """Paint the steps, or a line of a row's cells."""
        width, shown, left = self.size.width, self.shown, self.scroll_offset.x
        plain = self.get_component_rich_style("area--label")
        blank = Style(bgcolor=plain.bgcolor)
        if not shown.rows or shown.scale is None:
            return self.message_line(self.message, y, plain)
        marked = self.get_component_rich_style("area--label-cursor")
        room = width - self._gutter
        if y == 0:
            return Strip([Segment(" " * self._gutter, blank), *self._heading(plain, marked).crop(left, left + room)])
        row, line = divmod(y - 1 + self.scroll_offset.y, self._height)
        if row >= len(shown.rows):
            return Strip.blank(width, blank)
        is_here = row == self.cursor[0]
        text = fit(shown.rows[row], self._gutter - 1) if not line else ""
        name = Segment(f"{text}{'':{self._gutter - cell_len(text)}}", marked if is_here else plain)
        cells = Strip(self._cells(row, shown.scale)).crop(left, left + room)
        return Strip([name, *cells]).adjust_cell_length(width, blank)

    def _heading(self, plain: Style, marked: Style) -> Strip:
        """Write the steps; that of the cursor replaces what is in its way."""
        line = step_line([self.shown.steps[each] for each in self._columns], self._width)
        step, place = self.shown.steps[self.cursor[1]], self._place(self.cursor[1]) * self._width
        start = max(min(place, len(line) - len(step)), 0)
        before, after = line[:start], line[start + len(step) :]
        if before and before[-1] != " ":
            before = before[: before.rfind(" ") + 1].ljust(start)
        if after and after[0] != " ":
            after = after[after.find(" ") :].rjust(len(after)) if " " in after else " " * len(after)
        return Strip([Segment(before, plain), Segment(step, marked), Segment(after, plain)])

    def _cells(self, row: int, scale: MeasureScale) -> list[Segment]:
        glyphs = self._glyphs(scale, self._width)
        levels = scale.levels(self.shown.values[row, self._columns], self.ink, len(glyphs))
        others = {NOT_FINITE: (f"{'·':^{self._width}}", self.get_component_rich_style("area--label"))}
        place = self._place(self.cursor[1]), self.get_component_rich_style("area--cursor")
        cursor = place if row == self.cursor[0] else None
        return list(merged_cells(levels, glyphs, self._styles(scale), others, cursor=cursor))

    def legend(self) -> Text:
        """Return the levels between the smallest and the largest value; empty without values."""
        scale = self.shown.scale
        text = Text()
        if scale is None:
            return text
        styles, glyphs = self._styles(scale), self._glyphs(scale, 1)
        low = -scale.high if scale.is_signed else scale.low
        text.append(f"{brief_number(low if abs(low) > _NOTHING * scale.high else 0.0, 3)} ")
        if len(styles) > 1:
            for style in styles:
                text.append(" ", Style(bgcolor=style.bgcolor))
        else:
            text.append("".join(glyphs))
        return text.append(f" {brief_number(scale.high, 3)}")

    def _glyphs(self, scale: MeasureScale, width: int) -> tuple[str, ...]:
        """Return what is written in a cell of each level; without signs the lowest is blank, as no cell is missing."""
        lowest, *others = glyphs_of(self.ink, width, scale.is_signed)
        return (lowest if scale.is_signed else " " * width, *others)

    def _styles(self, scale: MeasureScale) -> tuple[Style, ...]:
        """Return the style of each level; without signs the lowest, which is invisible, is left out."""
        styles = self.styles_of_levels(is_signed=scale.is_signed)
        return styles if scale.is_signed or len(styles) == 1 else styles[1:]

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked cell; open its checkpoint if the cursor is there already."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y < 1 or offset.x < self._gutter:
            return
        row = (offset.y - 1 + self.scroll_offset.y) // self._height
        place = (offset.x - self._gutter + self.scroll_offset.x) // self._width
        if row < len(self.shown.rows) and place < len(self._columns):
            self.click(row, self._columns[place])
