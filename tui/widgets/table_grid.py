"""A table of any size, with a cursor that keys and the mouse move."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.paging import lines_of, paging
from tui.widgets.table_canvas import TableCanvas


class TableGrid(TableCanvas, can_focus=True):
    """Shows rows under named columns, with a cursor on one cell; any column can sort them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1, 0)", "Next row", show=False, id="table.down"),
        Binding("k,up", "step(-1, 0)", "Previous row", show=False, id="table.up"),
        Binding("l,right", "step(0, 1)", "Next column", show=False, id="table.right"),
        Binding("h,left", "step(0, -1)", "Previous column", show=False, id="table.left"),
        *paging("table"),
        Binding("gg,ctrl+home", "row_edge(False)", "First row", show=False, id="table.first"),
        Binding("G,ctrl+end", "row_edge(True)", "Last row", show=False, id="table.last"),
        Binding("home", "column_edge(False)", "First column", show=False, id="table.first_column"),
        Binding("end", "column_edge(True)", "Last column", show=False, id="table.last_column"),
        Binding("o", "sort", "Sort by this column: down, up, as it was", show=False, id="table.sort"),
        Binding("enter", "choose", "Go to this row's head", show=False, id="table.choose"),
    ]

    class Chosen(Message):
        """A person wants to go to what the row under the cursor is about."""

    class Turned(Message):
        """Other columns are in view."""

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Tell that other columns are in view, whoever has scrolled."""
        super().watch_scroll_x(old_value, new_value)
        self.post_message(self.Turned())

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; on a column's name, sort by it."""
        offset = event.get_content_offset(self)
        if offset is None or not self.order:
            return
        column = self.column_at(offset.x)
        if offset.y < self.head:
            self.put(self.cursor[0], column)
            self.action_sort()
        else:
            self.put(offset.y - self.head + self.scroll_offset.y, column)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        """Scroll on by a column."""
        self._turn(event, 1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        """Scroll back by a column."""
        self._turn(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll on by a column where a wheel that turns one way only is to go sideways."""
        if event.shift or event.ctrl:
            self._turn(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll back by a column, likewise."""
        if event.shift or event.ctrl:
            self._turn(event, -1)

    def _turn(self, event: events.MouseEvent, step: int) -> None:
        """Scroll by a column, with what chance gives for it; the toolkit would by cells."""
        event.stop()
        event.prevent_default()
        self.scroll_to(self._columns.turned(self.scroll_offset.x, step), None, animate=False, immediate=True)

    def action_step(self, rows: int, columns: int) -> None:
        """Move by rows and columns."""
        self.put(self.cursor[0] + rows, self.cursor[1] + columns)

    def action_page(self, pages: float) -> None:
        """Move by as many rows as are in view."""
        self.put(self.cursor[0] + lines_of(pages, self.rows_in_view), self.cursor[1])

    def action_row_edge(self, last: bool) -> None:
        """Move to the first or the last row."""
        self.put(len(self.order) - 1 if last else 0, self.cursor[1])

    def action_column_edge(self, last: bool) -> None:
        """Move to the first column that scrolls, or to the last."""
        self.put(self.cursor[0], len(self.columns) - 1 if last else self.frozen)

    def action_sort(self) -> None:
        """Sort by the cursor's column, largest first; again: smallest first; again: as the rows came.

        The cursor goes to the first row, which is what one sorts for.
        """
        if self.row is not None:
            self.sort_by(self.column)

    def action_choose(self) -> None:
        """Say which row a person wants to go to."""
        self.post_message(self.Chosen())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to what the table is in where there is no row to choose."""
        return action != "choose" or self.row is not None
