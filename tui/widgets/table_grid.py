"""A table of any size, with a cursor that keys and the mouse move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.toolkit.messages import Told
from tui.widgets.kept_moves import KeptMoves, Move
from tui.widgets.paging import lines_of, paging
from tui.widgets.table_arrangement import Arrangement
from tui.widgets.table_canvas import TableCanvas

NO_ROWS = "there are no rows yet"
"""Said where a key is about a row."""


class TableGrid(TableCanvas, can_focus=True):
    """Shows rows under named columns, with a cursor on one cell; any column can sort them.

    Attributes
    ----------
    is_moved : whether a person has moved the cursor to its row since it was put where it was to begin with, or on the
        first of rows that have been sorted, which nobody has chosen.
    is_growing : whether a filter that leaves no rows so far may leave some of what is still worked out.
    """

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
        Binding("enter", "choose('head')", "Go to this row's head", show=False, id="table.choose"),
        Binding("enter", "choose('token')", "Show what this token's logit is made of", show=False, id="table.token"),
    ]

    leads: Callable[[], str] = staticmethod(lambda: "head")
    """Says what the row under the cursor leads to, a head, a token, or nothing; whoever the table is of knows."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self._kept = KeptMoves()
        self.is_moved = False
        self.is_growing = False
        self._late: list[Move] = []

    class Chosen(Message):
        """A person wants to go to what the row under the cursor is about."""

    class Turned(Message):
        """Other columns are in view."""

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Tell that other columns are in view, whoever has scrolled."""
        super().watch_scroll_x(old_value, new_value)
        self.post_message(self.Turned())

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is, or go where its row leads; on a column's name, sort by it."""
        offset = event.get_content_offset(self)
        if offset is None or not self.order:
            return
        column = self.column_at(offset.x)
        if offset.y < self.head:
            self.put(self.cursor[0], column)
            self.action_sort()
        else:
            row, before = offset.y - self.head + self.scroll_offset.y, self.cursor
            self.is_moved = True
            self.put(row, column)
            if (row, column) == before and self.leads():
                self.action_choose(self.leads())

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

    def expect(self, rows: object) -> None:
        """Keep moves for rows that are being worked out; None where it is not known yet which."""
        self._kept.expect(rows, self.cursor[1], self.columns, is_empty=not self.order)

    def catch_up(self, *, is_placed: bool) -> None:
        """Make the moves again that were made while these rows were worked out.

        Parameters
        ----------
        is_placed : whether the cursor has been put on a row of these; else it is where it was moved to meanwhile.
        """
        moves = self._kept.take()
        if is_placed or self._kept.has_been_empty:
            self._late += moves
            self._make_late_moves()
        if self.is_arranged and not self.is_growing:
            self._late = []  # no row has come that they could be made on

    def show_message(self, message: str, *, is_waiting: bool = False) -> None:
        """Say why there are no rows, or none yet."""
        super().show_message(message)
        self._kept.has_been_empty = True
        if not is_waiting:
            for move in self._kept.take():
                self.call_later(move)  # as it would be done now that no row comes

    def say(self, message: str) -> None:
        """Say something else why there are no rows."""
        if self.message and message != self.message:
            self.message = message
            self.refresh()

    def _use(self, made: Arrangement) -> None:
        """Show a table as it has been arranged."""
        super()._use(made)
        self._make_late_moves()

    def _make_late_moves(self) -> None:
        """Make moves on rows that have come, once they are arranged, from the column that the cursor was on before."""
        if self._late and self.order and self.is_arranged:
            moves, self._late = self._late, []
            column, columns = self._kept.begun
            if columns == self.columns:
                self.put(self.cursor[0], column)
            for move in moves:
                move()

    def on_blur(self) -> None:
        """Leave the rows that come alone once something else is looked at."""
        self._kept.forget()
        self._late = []

    def _move(self, move: Move) -> None:
        """Move, and again on the rows that are expected; where a filter leaves none so far, on the first that come."""
        self._kept.add(move)
        if self._is_to_come:
            self._await(move)
        else:
            move()

    def _move_by(self, rows: int, columns: int) -> None:
        """Move by rows, to one that is chosen so, and by columns."""
        self.is_moved = self.is_moved or bool(rows)
        self.put(self.cursor[0] + rows, self.cursor[1] + columns)

    @property
    def _is_to_come(self) -> bool:
        """Whether there is no row yet, and none that was asked for as a whole, but one may come."""
        return self.is_growing and not self.order and not self._kept.is_expecting

    @property
    def is_expecting(self) -> bool:
        """Whether rows are being worked out, or arranged, and those on screen, if any, are not these."""
        return self._kept.is_expecting or self._is_to_come or not self.is_arranged

    @property
    def awaits_others(self) -> bool:
        """Whether the rows on screen, if any, are there only until others have been worked out."""
        return self._kept.is_expecting

    def _await(self, move: Move) -> None:
        """Move from here as soon as there is a row."""
        if not self._late:
            self._kept.begun = (self.cursor[1], self.columns)
        self._late.append(move)

    def action_step(self, rows: int, columns: int) -> None:
        """Move by rows and columns."""
        self._move(partial(self._move_by, rows, columns))

    def action_page(self, pages: float) -> None:
        """Move by as many rows as are in view."""
        self._move(lambda: self._move_by(lines_of(pages, self.rows_in_view), 0))

    def action_row_edge(self, last: bool) -> None:
        """Move to the first or the last row."""
        self._move(partial(self._move_to_edge, last))

    def _move_to_edge(self, last: bool) -> None:
        """Move to the first or the last row, which is chosen so."""
        self.is_moved = True
        self.put(len(self.order) - 1 if last else 0, self.cursor[1])

    def action_column_edge(self, last: bool) -> None:
        """Move to the first column that scrolls, or to the last."""
        self._move(lambda: self.put(self.cursor[0], len(self.columns) - 1 if last else self.frozen))

    def go_to_column(self, name: str) -> None:
        """Put the cursor on a column, if it is shown, or once it is."""
        self._move(partial(super().go_to_column, name))

    def sort_by(self, column: str) -> None:
        """Sort by a column, largest first; again: smallest first; again: as the rows came.

        The first row is shown then, or, where moving selects, the one that the cursor is on.
        """
        wanted = self._arranger.wanted
        if column not in wanted.shown:
            return
        descending_next = {None: True, (column, True): False, (column, False): None}
        is_descending = descending_next.get(wanted.sort, True)
        self._awaited = self.place if self.selects else None
        if not self.selects:
            self.is_moved = False
            self.put(0, self.cursor[1])
        self._arranger.want(replace(wanted, sort=None if is_descending is None else (column, is_descending)))

    def action_sort(self) -> None:
        """Sort by the cursor's column, largest first; again: smallest first; again: as the rows came.

        The cursor goes to the first row, which is what one sorts for.
        """
        if self.row is not None:
            self.sort_by(self.column)
        elif self._kept.is_expecting:
            self._kept.add(self.action_sort)
        elif self._is_to_come:
            self._await(self.action_sort)
        else:
            self.post_message(Told("there are no rows to sort"))

    def action_choose(self, what: str) -> None:
        """Say which row a person wants to go to, or why there is none."""
        if self.row is not None and not self.is_expecting:
            self.post_message(self.Chosen())
        else:
            self.post_message(Told(self.why_none or NO_ROWS))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to what the table is in where no row can be chosen, now or soon, or none leads to anything.

        Where a filter has left none, Enter says so.
        """
        has_rows = self.row is not None or self._kept.is_expecting or self._is_to_come or bool(self.why_none)
        return action != "choose" or (has_rows and parameters == (self.leads(),))
