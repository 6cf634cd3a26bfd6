"""A pane for any table that the engine works out: its rows sorted and filtered as a person likes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.table import CHANCE, Cell, Table, left_out_title
from engine.values.views import VIEWS, View, explain
from tui.drawing.missing import why_empty
from tui.drawing.numbers import short
from tui.drawing.readout import of_number, of_row
from tui.drawing.text import first_fitting, harmless, quoted
from tui.views.leading import LeadingPane
from tui.widgets.table_grid import TableGrid


class TablePane(LeadingPane):
    """Shows one view's table, and explains the column under the cursor.

    The cursor is on the selected head's row; of a table that is sorted it begins at the top.

    Parameters
    ----------
    view : which table.

    Attributes
    ----------
    is_folded : whether the table has the gains of norms folded in.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "columns", "The rest of the columns, or only the first", show=False, id="table.columns"),
    ]

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._places = view.places
        self._said = ""
        self._begins_at_top = bool(view.ranked_by)
        self._selected: Head | None = None
        self.is_folded = False
        self._has_all_columns = False
        self._agreeing: frozenset[str] = frozenset()

    def compose(self) -> ComposeResult:
        """Stack the title, the filter, the table, the explanation and the readout."""
        yield self.title_line
        yield self.filter_input
        yield self.grid
        yield self.explanation_line
        yield self.readout_line

    def focus_view(self) -> None:
        """Put the focus on the table."""
        self.screen.set_focus(self.grid)

    def show(
        self, title: str, table: Table, selected: Head | None, state: Sequence[str] = (), *, is_growing: bool = False
    ) -> None:
        """Draw a table, with the cursor on the selected head's row where it has one; the state says how far it is."""
        has_grown, grows_on = self.is_growing and not is_growing, self.is_growing and self.shown is not None
        self.is_waiting = False
        self.is_growing = self.is_unfinished = is_growing
        self.grid.is_growing = is_growing
        is_new, had_no_head = table is not self.shown, self.is_on_row_of_no_head
        if is_new:
            self.take_columns(table.columns)
            self.shown, rows = table, table.rows
            said = dict(VIEWS[self.view].said)
            agreeing = {
                name for place, name in enumerate(table.columns)
                if name in (*self._places, *said) and all(row[place] == rows[0][place] for row in rows)
            }  # fmt: skip
            if self._heads.are_said_by(table.columns, rows, "off"):
                agreeing.add("off")
            self._agreeing = frozenset(agreeing)
            self._show_rows(table)
            first = dict(zip(table.columns, rows[0], strict=True)) if rows else {}
            agreed = ((word, first[name]) for name, word in said.items() if name in agreeing and name in first)
            self._said = "".join(f"  {word} {_said(cell)}" for word, cell in agreed if cell is not None)
            if not rows:
                self.grid.show_message(VIEWS[self.view].empty)
        lacking = " ".join(filter(None, (left_out_title(table.notes.left_out), *table.notes.lacking)))
        self._set_title("  ".join(filter(None, (title, lacking))) + self._said, state)
        had_one, has_moved, self._selected = self._selected is not None, selected != self._selected, selected
        follows = has_moved and not is_new if self._begins_at_top else has_moved or (is_new and not grows_on)
        place = None
        if selected is not None and "head" in self._places and "head" in table.columns and follows:
            name = (selected.stack, selected.layer, selected.label)
            place = next((n for n, row in enumerate(table.rows) if row[:3] == name), None)
        if place is not None or (is_new and not grows_on):
            self.grid.is_moved = False
        if has_moved and place is not None:
            self.pass_by(selected, is_left=place in self.grid.order, is_first=not had_one)
        self.grid.go_to(place)
        self.grid.catch_up(is_placed=place is not None)
        self.read_out()
        if has_grown:
            self.say_counts()
        if self.is_on_row_of_no_head is not had_no_head:
            self.refresh_bindings()  # a key that is about a row's head is offered only where there is one

    @property
    def _own_columns(self) -> tuple[str, ...]:
        """The columns that are shown where rows differ in them: the view's own and what is filtered by, or all."""
        columns = () if self.shown is None else self.shown.columns
        own = columns if self._has_all_columns else VIEWS[self.view].opens_with or columns
        compared = self.narrowing.columns if self.narrowing is not None else ()
        return (*own, *(name for name in columns if name in compared and name not in own))

    def _show_rows(self, table: Table) -> None:
        """Have the grid show the rows under the columns that are shown."""
        order = VIEWS[self.view].on_screen(self._own_columns)
        kept = tuple(table.columns.index(name) for name in order if name not in self._agreeing)
        frozen = sum(table.columns[place] in self._places for place in kept)
        self.grid.show(table.columns, table.rows, frozen, self.narrowing, kept)

    def action_columns(self) -> None:
        """Show all columns, or those alone with which the view opens."""
        self._has_all_columns = not self._has_all_columns
        if self.shown is not None and self.grid.columns:
            column = self.grid.column
            self._show_rows(self.shown)
            self.grid.go_to_column(column)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Have the key for columns where some are hidden."""
        if action == "columns":
            return bool(VIEWS[self.view].opens_with)
        return super().check_action(action, parameters)

    def show_message(self, title: str, message: str, *, is_waiting: bool = False) -> None:
        """Say why there is no table, or none yet."""
        self.is_waiting, self.is_unfinished = is_waiting, False
        self.shown = None
        self._set_title(title)
        self.grid.show_message(message, is_waiting=is_waiting)
        self.explanation_line.show("")
        self.readout_line.show("")

    @property
    def is_blank(self) -> bool:
        """Whether it was made just now, and neither a table nor a message has come."""
        return self.shown is None and not self.grid.message

    def table_on_screen(self) -> Table:
        """Give the table with the rows that are shown, as they are sorted.

        Raises
        ------
        EngineError : when it shows nothing yet.
        """
        if self.shown is None:
            raise EngineError(f"the {self.view} view shows nothing yet; nothing was written")
        return self.shown.with_frame(self.shown.frame[list(self.grid.order)].select(self._own_columns))

    def _set_title(self, title: str, state: Sequence[str] = ()) -> None:
        """Say what is shown, and how far it is."""
        self.set_title(Text.assemble((f"{self.view} ", "bold"), title), state)

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows the filter leaves, and of how many."""
        return (0, 0) if self.shown is None else (len(self.grid.order), len(self.grid.rows))

    @property
    def rows_widget(self) -> TableGrid:
        """What draws the rows."""
        return self.grid

    @property
    def columns_beyond(self) -> int:
        """How many columns are farther to the right than what is in view."""
        return 0 if self.shown is None else self.grid.beyond

    def on_resize(self) -> None:
        """Count the columns in view again, and write as much of a cell as there is room for, once all has its width."""
        self.call_after_refresh(self.read_out)

    def narrow(self) -> None:
        """Show the rows that the filter leaves, if there is a table."""
        if self.shown is None:
            return
        if not set(self._own_columns) <= {*self.grid.columns, *self._agreeing}:
            self._show_rows(self.shown)
        self.grid.narrow(self.narrowing)

    def go_to_column(self, column: str) -> None:
        """Put the cursor on a column that was named by itself, with all others where it is hidden."""
        if self.shown is not None and column not in self._own_columns:
            self.action_columns()
        self.grid.go_to_column(column)

    def explained(self, column: str) -> str:
        """Say what a column holds."""
        return explain(column, self.view)

    @on(TableGrid.Arranged)
    def _arranged(self) -> None:
        """Say how many rows there are by now."""
        self.say_counts()

    @on(TableGrid.Turned)
    def _turned(self) -> None:
        """Count the columns that are farther to the right by now."""
        self.refresh_title()

    @on(TableGrid.Moved)
    def read_out(self) -> None:
        """Explain the column under the cursor, unless a filter is typed of which it is said how far it goes.

        The text of a cell is written in full, as the cursor may be on another row with every letter of the filter.
        """
        self.refresh_title()
        row = self.grid.row
        if self.shown is None or row is None:
            self.readout_line.show("")
            if not self.filter_input.display:
                self.explanation_line.show("")
            return
        cell = row[self.grid.columns.index(self.grid.column)]
        explanation, readout = self._lines(self.grid.column, cell, explain(self.grid.column, self.view))
        if not self.filter_input.display:
            self.explanation_line.show(explanation)
        self.readout_line.show(readout)

    def _lines(self, column: str, cell: Cell, explanation: str) -> tuple[str, str]:
        """Say what stands below the table: what the column is, and the row and its cell, or why that is empty.

        With a measure comes what chance gives for it, which may be farther to the right, or in the title.
        """
        row = dict(zip(self.grid.all_columns, self.grid.whole_row or (), strict=False))
        width, chance = self.readout_line.size.width, row.get(f"{column}{CHANCE}")

        def say(width: int) -> str:
            if cell is None and row:
                return f"{column} is empty: {why_empty(column, row, is_growing=self.is_growing)}"
            if isinstance(cell, int | float):
                return of_number(column, cell, None if isinstance(chance, str) else chance, width)
            return f"{column} {harmless(cell or '')}"

        off = [f"{self.head_here} off  {say(width)}"] if self.head_here in self.struck else []
        return explanation, first_fitting(width, *off, of_row(row, column, say, width))


def _said(cell: Cell) -> str:
    """Write a cell as a title has it."""
    return short(cell) if isinstance(cell, int | float) else quoted(cell or "")
