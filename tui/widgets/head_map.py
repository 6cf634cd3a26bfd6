"""All heads of a model as cells of layers × heads, with a cursor: one measure at a glance."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.head_map_canvas import HeadMapCanvas
from tui.widgets.paging import lines_of, paging


class HeadMap(HeadMapCanvas, can_focus=True):
    """Shows a measure of all heads and moves a cursor over them, by keys and by the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Previous layer", show=False, id="overview.up"),
        Binding("down,j", "move(1, 0)", "Next layer", show=False, id="overview.down"),
        Binding("left,h", "move(0, -1)", "Previous head", show=False, id="overview.left"),
        Binding("right,l", "move(0, 1)", "Next head", show=False, id="overview.right"),
        *paging("overview", "A page of layers"),
        Binding("home", "edge(False)", "First head of the layer", show=False, id="overview.first_head"),
        Binding("end", "edge(True)", "Last head of the layer", show=False, id="overview.last_head"),
        Binding("gg,ctrl+home", "layer_edge(False)", "First layer", show=False, id="overview.first"),
        Binding("G,ctrl+end", "layer_edge(True)", "Last layer", show=False, id="overview.last"),
        Binding("enter", "choose", "Go into the head", show=False, id="overview.choose"),
    ]

    class Moved(Message):
        """A person moved the cursor to another head."""

    class Chosen(Message):
        """A person wants to go into the head under the cursor."""

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the head that was clicked; a click on the cursor goes into the head.

        A click on the name of a layer goes to that layer; of two that share a line, to the other one where the cursor
        is on one of them.
        """
        offset, grid = event.get_content_offset(self), self.grid
        if offset is None or grid is None:
            return
        place = offset.y - 1 + self.scroll_offset.y
        column = (offset.x - grid.gutter + self.scroll_offset.x) // grid.width
        if offset.y < 1 or place >= len(grid.lines):
            return
        rows = grid.lines[place].rows
        if offset.x < grid.gutter:
            if rows:
                self._go(rows[-1] if self.cursor[0] == rows[0] else rows[0], self.cursor[1])
            return
        row = self._row_at(rows, event.pointer_y % 1)
        if row is None or column >= self.rows[row].heads:
            return
        if (row, column) == self.cursor:
            self.action_choose()
        else:
            self._go(row, column)

    def _row_at(self, rows: tuple[int, ...], share: float) -> int | None:
        """Say which of a line's layers is meant.

        Parameters
        ----------
        rows : that the line shows.
        share : how far down in the line the mouse is; 0 of most terminals, which tell no more than the line. There
            it is the one that the cursor is on, or the upper one.
        """
        if len(rows) < 2:
            return rows[0] if rows else None
        is_lower = share >= 0.5 if share else self.cursor[0] == rows[1]
        return rows[is_lower]

    def _go(self, row: int, column: int) -> None:
        """Move the cursor as a person asked for."""
        old = self.cursor
        self.put(row, column)
        if old != self.cursor:
            self.post_message(self.Moved())

    def action_move(self, rows: int, columns: int) -> None:
        """Move by layers and heads."""
        self._go(self.cursor[0] + rows, self.cursor[1] + columns)

    def action_page(self, pages: float) -> None:
        """Move by as many layers as are in view, less one."""
        lines = self.scrollable_content_region.height - 1
        rows = lines if self.grid is None else self.grid.rows_in(lines)
        self._go(self.cursor[0] + lines_of(pages, rows - 1), self.cursor[1])

    def action_edge(self, last: bool) -> None:
        """Move to the layer's first or last head."""
        self._go(self.cursor[0], self.grid.columns if last and self.grid is not None else 0)

    def action_layer_edge(self, last: bool) -> None:
        """Move to the first or the last layer."""
        self._go(len(self.rows) - 1 if last else 0, self.cursor[1])

    def action_choose(self) -> None:
        """Say that a person wants to go into the head."""
        self.post_message(self.Chosen())
