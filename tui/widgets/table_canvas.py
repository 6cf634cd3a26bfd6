"""The part of a table that paints: rows and columns only where they are in view, with names that stay at the left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from engine.values.table import Cell
from tui.drawing.text import centred
from tui.widgets.table_arrangement import Arrangement, Row
from tui.widgets.table_fitting import fitted
from tui.widgets.table_lines import Lines
from tui.widgets.table_rows import TableRows

STRUCK = Style(strike=True)
"""How a row is drawn whose head is switched off."""


class TableCanvas(TableRows, can_focus=False):
    """Paints rows under named columns; knows on which cell its cursor is, but not which keys move it.

    Attributes
    ----------
    strikes : says of a row whether it is struck out; None where none is.
    why_none : what stands below the names of the columns where a filter leaves no row.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--head", "table--cell", "table--row", "table--cursor"}
    DEFAULT_CSS = """
    TableCanvas {
        width: 100%; height: 1fr; background: $surface; scrollbar-size: 1 1;
        & > .table--head { color: $text-muted; text-style: bold; }
        & > .table--cell { color: $text; }
        & > .table--row { background: $boost; color: $text; }
        & > .table--cursor { color: $success; text-style: bold reverse; }
    }
    """

    class Moved(Message):
        """The cursor is on another cell, or on another table's."""

    selects: ClassVar[bool] = False
    """Whether what the cursor is on is selected, so that nothing but a person moves it to another row."""

    class Arranged(Message):
        """Other rows are shown, or the same in another order."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.strikes: Callable[[Row], bool] | None = None
        self.why_none = ""
        self._drawn: tuple[str, ...] = ()
        self._compared: tuple[str, ...] = ()

    def show_message(self, message: str) -> None:
        """Say why there are no rows."""
        self._awaited = None
        self._arranger.want(replace(self._arranger.wanted, rows=(), kept_by=None))
        self.message = message
        self.virtual_size = Size(0, 0)
        self.refresh()

    def say_none(self, why: str) -> None:
        """Say in the place of the rows why a filter leaves none; nothing where it leaves some."""
        if why != self.why_none:
            self.why_none = why
            self.refresh()

    def _use(self, made: Arrangement) -> None:
        """Show a table as it has been arranged, with the cursor on the row that waits for it, or where it was."""
        names, before, compared = made.columns.names, self._drawn, made.wanted.compared
        self._places = made.wanted.lined_up
        if names != before:
            self._drawn = names
            row, column = self.cursor
            if before and before[column] in names:  # a column more or less, as where all rows agreed so far
                self.cursor = (row, names.index(before[column]))
            else:
                self.cursor = (0, min(made.wanted.frozen, max(len(names) - 1, 0)))
                self.scroll_to(0, 0, animate=False, immediate=True)
        if compared and compared != self._compared:
            self.cursor = (self.cursor[0], names.index(compared[0]))
        self._compared = compared
        self.cursor = (min(self.cursor[0], max(len(made.order) - 1, 0)), self.cursor[1])
        self._lay_out()
        if self._arranger.is_done:
            place, self._awaited = self._awaited, None
            self.go_to(place)
            self._reveal()
        self.post_message(self.Arranged())
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Give the columns the room that there is now; the cursor's stays in view, and none is seen from its middle."""
        self._lay_out()
        self._reveal()

    def watch_show_vertical_scrollbar(self) -> None:
        """Give them a cell less once rows can be scrolled, or one more; the size, of which they are told, stays."""
        super().watch_show_vertical_scrollbar()
        self._lay_out()
        self._reveal()

    def watch_show_horizontal_scrollbar(self) -> None:
        """Bring the cursor's column into view once columns can be scrolled, which is after it was put there."""
        super().watch_show_horizontal_scrollbar()
        self._reveal()

    def _lay_out(self) -> None:
        """Fit the columns into the room; a message has none."""
        if self.message:
            return
        made = self._shown
        self._columns = fitted(made.columns, self._room, self.size.height)
        self.virtual_size = Size(self._columns.scrolled_width(self._room), len(made.order) + self._columns.head)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Paint the names of the columns, or a row."""
        width, height = self.size
        plain = self.get_component_rich_style("table--cell")
        if self.message:
            return Strip([Segment(centred(self.message, width, height)[y], plain)], width)
        lines = self._lines(self.text)
        if y < self.head:
            head = self.get_component_rich_style("table--head")
            return lines.names(y - self.head, self._shown.wanted.sort, head).adjust_cell_length(width, head)
        place = y - self.head + self.scroll_offset.y
        if self.why_none and not self.order:
            said = centred(self.why_none, width, height - self.head)[y - self.head]
            return Strip([Segment(said, plain)], width)
        if place >= len(self.order):
            return Strip.blank(width, Style(bgcolor=plain.bgcolor))
        is_current = place == self.cursor[0]
        style = self.get_component_rich_style("table--row") if is_current else plain
        row, places = self.rows[self.order[place]], self._places
        if self.strikes is not None and self.strikes(row):
            style += STRUCK
        is_marked = is_current and self.has_focus
        marked = {self.cursor[1]: self.get_component_rich_style("table--cursor")} if is_marked else {}
        return lines.row(lambda column: row[places[column]], style, marked).adjust_cell_length(width, style)

    def _lines(self, text: Callable[[Cell], str]) -> Lines:
        """Give what paints lines of the columns that are in view, where cells are written so."""
        room = self._room or self._columns.starts[-1]  # before there is any, as much as there may be
        return Lines(self._columns, self.scroll_offset.x, room, text)

    def written(self, cells: Sequence[Cell], text: Callable[[Cell], str]) -> str:
        """Write a line that is none of the rows, each of its cells below those of its column, as far as it is in view.

        Parameters
        ----------
        cells : of the line, one for each column.
        text : writes a cell.
        """
        return self._lines(text).row(cells.__getitem__, Style(), {}).text

    @property
    def head(self) -> int:
        """Lines that the names of the columns take."""
        return self._columns.head

    @property
    def frozen(self) -> int:
        """How many columns stay at the left."""
        return self._columns.frozen

    @property
    def beyond(self) -> int:
        """How many columns there are behind the last one that is seen whole."""
        return self._columns.beyond(self.scroll_offset.x, self._room) if self.order else 0

    def column_at(self, x: int) -> int:
        """Find the column at a cell of a line."""
        return self._columns.at(x, self.scroll_offset.x)

    @property
    def _room(self) -> int:
        """Cells of a line, without the scrollbar, which would cover a number's last digit."""
        return self.scrollable_content_region.width

    def put(self, row: int, column: int) -> None:
        """Put the cursor on a cell within the table, and show it."""
        if not self.order:
            return
        old = self.cursor
        row, column = max(0, min(row, len(self.order) - 1)), max(0, min(column, len(self.columns) - 1))
        self.cursor = (row, column)
        for place in {old[0], row}:
            y = place - self.scroll_offset.y + self.head
            if self.head <= y < self.size.height:
                self.refresh(Region(0, y, self.size.width, 1))
        self._reveal()
        self._home = self.place
        if self._awaited is not None:
            self._awaited = self.place  # what is being arranged leaves the cursor where it has been put since
        if old != self.cursor:
            self.post_message(self.Moved())

    @property
    def rows_in_view(self) -> int:
        """How many rows there is room for."""
        return max(1, self.scrollable_content_region.height - self.head)

    def _reveal(self) -> None:
        """Scroll as little as brings the cursor into view, once there is one: a table that is not seen has no room."""
        if not self.order or not self.size:
            return
        row, column = self.cursor
        top, left = self.scroll_offset.y, self.scroll_offset.x
        new_left = self._columns.revealed(column, left, self._room)
        height = self.rows_in_view
        new_top = min(max(top, row - height + 1), row, max(len(self.order) - height, 0))
        if (new_top, new_left) != (top, left):
            self.scroll_to(new_left, new_top, animate=False, immediate=True)

    def go_to(self, place: int | None) -> None:
        """Put the cursor on one of the rows, counted as they came, once it is shown; None leaves it where it is."""
        if place is None:
            return
        if not self._arranger.is_done:
            self._awaited = place
        elif place in self.order:
            self.put(self.order.index(place), self.cursor[1])

    def begin_next_at(self, place: int | None) -> None:
        """Put the cursor on one of the rows that are shown next, before any move that has been made ahead of them."""
        if place is not None:
            self._awaited = place

    def go_to_column(self, name: str) -> None:
        """Put the cursor on a column, if it is shown."""
        if name in self.columns:
            self.put(self.cursor[0], self.columns.index(name))

    def on_unmount(self) -> None:
        """Leave no work behind that the end of the program would wait for."""
        self._arranger.stop()
