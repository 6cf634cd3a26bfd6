"""A pane for any table that the engine works out: its rows sorted and filtered as a person likes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from engine.values.columns import explain
from engine.values.errors import EngineError
from engine.values.filters import Filter, FilterError, parse_filter
from engine.values.heads import Head
from engine.values.tables import Cell, Table
from engine.values.view import View
from engine.values.views import HEADS, VIEWS
from tui.drawing.text import harmless
from tui.filter_input import FilterInput
from tui.key_names import key_of
from tui.messages import HeadEntered, HeadPicked, PositionMoved, TokenPicked
from tui.numbers import short
from tui.panes.line import Line
from tui.panes.pane import Pane
from tui.widgets.table_grid import Row, TableGrid


class TablePane(Pane):
    """Shows one view's table, and explains the column under the cursor.

    The cursor is on the selected head's row; of a table that is sorted it begins at the top.

    Parameters
    ----------
    view : which table.

    Attributes
    ----------
    awaited_row : the row, as it came, that the cursor goes to when a table is drawn next; None leaves it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before any widget sees them, so that what is typed after them goes where they lead, however fast it comes.
        Binding("slash", "filter", "Filter", id="table.filter", priority=True),
        Binding("enter", "apply", "Filter", id="filter.apply", priority=True),
        Binding("full_stop", "position(1)", "Predict at the next token", show=False, id="table.next_token"),
        Binding("comma", "position(-1)", "Predict at the token before", show=False, id="table.token_before"),
    ]

    def __init__(self, view: View, *, ascii_only: bool) -> None:
        self.view = view.name
        super().__init__()
        self.add_class("-table")
        self.grid = TableGrid(ascii_only=ascii_only)
        self.filter_input = FilterInput()
        self._columns = self.filter_input.columns = view.columns
        self.filter_input.display = False
        self.explanation_line = Line(classes="pane-legend")
        self.shown: Table | None = None
        self._places = view.places
        self._title = ""
        self._rows: tuple[Row, ...] = ()
        self._filter = parse_filter("", ())
        self._applied = self._filter
        self._said = ""
        self._begins_at_top = bool(view.ranked_by)
        self._selected: Head | None = None
        self.awaited_row: int | None = None

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

    def show(self, title: str, table: Table, selected: Head | None) -> None:
        """Draw a table, with the cursor on the selected head's row where it has one."""
        is_new = table is not self.shown
        if is_new:
            self.shown, self._rows = table, tuple(table.rows)
            said = VIEWS[self.view].said
            agreeing = {
                name for place, name in enumerate(table.columns)
                if name in (*self._places, *said) and len({row[place] for row in self._rows}) < 2
            }  # fmt: skip
            kept = [place for place, name in enumerate(table.columns) if name not in agreeing]
            columns = tuple(table.columns[place] for place in kept)
            frozen = sum(name in self._places for name in columns)
            rows = self._rows if not agreeing else [tuple(row[place] for place in kept) for row in self._rows]
            self.grid.show(columns, rows, frozen, self._kept())
            self._said = "".join(
                f"  {name.replace('_', ' ')} {_said(self._rows[0][table.columns.index(name)])}"
                for name in said if self._rows and name in agreeing and self._rows[0][table.columns.index(name)] != ""
            )  # fmt: skip
            if not rows:
                self.grid.show_message(VIEWS[self.view].empty)
        self._set_title(f"{title}{self._said}")
        has_moved, self._selected = selected != self._selected, selected
        follows = has_moved and not is_new if self._begins_at_top else has_moved or is_new
        if selected is not None and "head" in self._places and "head" in table.columns and follows:
            place = (selected.stack, selected.layer, selected.label)
            self.grid.go_to(next((n for n, row in enumerate(self._rows) if tuple(row[:3]) == place), None))
        self.grid.go_to(self.awaited_row)
        self.awaited_row = None
        self._read_out()

    def show_message(self, title: str, message: str) -> None:
        """Say why there is no table."""
        self.shown, self._rows = None, ()
        self._set_title(title)
        self.grid.show_message(message)
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
        return Table(self.shown.view, self.shown.columns, tuple(self._rows[place] for place in self.grid.order))

    def _set_title(self, title: str) -> None:
        """Say what is shown, and of a filter how much it leaves."""
        self._title = title
        line = Text.assemble((f"{self.view} ", "bold"), title)
        if self._filter.text.strip() and self.shown is not None:
            gap = "  " if title else ""
            line.append(f"{gap}{len(self.grid.order)} of {len(self._rows)}  {harmless(self._filter.text.strip())}")
        self.title_line.show(line)

    def _kept(self) -> Sequence[int] | None:
        """Give the numbers of the rows that the filter leaves; None for all."""
        return list(self._filter.kept(self._rows)) if self._filter.text.strip() else None

    def _use(self, wanted: Filter) -> None:
        """Show the rows that a filter leaves."""
        self._filter = wanted
        if self.shown is not None:
            self.grid.narrow(self._kept())
        self._set_title(self._title)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the filter line have its own key and the table its own."""
        is_typing = self.screen.focused is self.filter_input  # at once, where has_focus comes with the next message
        return action not in ("filter", "apply") or (action == "apply") == is_typing

    def action_filter(self) -> None:
        """Open the filter line."""
        self._applied = self._filter
        self.filter_input.display = True
        self.screen.set_focus(self.filter_input)
        self.filter_input.action_select_all()
        self._explain_filter()

    def action_apply(self) -> None:
        """Go back to the table, and filter by what has been typed by now once it is in the line."""
        self.screen.set_focus(self.grid)
        self.filter_input.finish()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Filter while it is typed; what cannot be read yet leaves the rows as they are."""
        event.stop()
        if self.filter_input.display:
            self._explain_filter()

    def _explain_filter(self) -> FilterError | None:
        """Filter by what is typed, and say how far it goes or what is wrong with it."""
        text = self.filter_input.value
        try:
            wanted = parse_filter(text, self._columns)
        except FilterError as error:
            column = self.filter_input.completed
            meaning = f"{column}: {explain(column, self.view)}" if column else str(error)
            self.explanation_line.show(
                f"{key_of(self.app, 'filter.apply')} goes to {meaning}" if text.strip() in self._columns else meaning
            )
            return error
        self._use(wanted)
        count = f"{len(self.grid.order)} of {len(self._rows)} rows"
        if not self.grid.order:
            self.readout_line.show("")
        self.explanation_line.show(
            count if text else f"{key_of(self.app, 'filter.complete')} completes columns; one by itself goes there"
        )
        return None

    @on(FilterInput.Finished)
    def _finished(self) -> None:
        """Keep the filter, or go to the column that is named; with what cannot be read go back to the line."""
        column = self.filter_input.value.strip()
        if column in self._columns:
            self._use(self._applied)
            self.grid.go_to_column(column)
        elif self._explain_filter() is not None:
            self.screen.set_focus(self.filter_input)
            return
        self._close()

    @on(FilterInput.Cleared)
    def _clear(self) -> None:
        """Show all rows again and go back to the table."""
        self._use(parse_filter("", ()))
        self._close()
        self.screen.set_focus(self.grid)

    def _close(self) -> None:
        """Put the filter line away."""
        self.filter_input.display = False
        self.filter_input.value = self._filter.text
        self._read_out()

    @on(TableGrid.Moved)
    def _read_out(self) -> None:
        """Explain the column under the cursor, and write its cell in full."""
        if self.filter_input.display:
            return
        row = self.grid.row
        if self.shown is None or row is None:
            self.readout_line.show("")
            return
        cell = row[self.grid.columns.index(self.grid.column)]
        explanation, readout = self._lines(self.grid.column, cell, explain(self.grid.column, self.view))
        self.explanation_line.show(explanation)
        self.readout_line.show(readout)

    def _lines(self, column: str, cell: Cell, explanation: str) -> tuple[str, str]:
        """Say what stands below the table: what the column is, and the cell in full."""
        return explanation, f"{column} {harmless(cell) if isinstance(cell, str) else repr(cell)}"

    @on(TableGrid.Chosen)
    def _go_to_head(self) -> None:
        """Go where the table leads."""
        self._leave()

    def _leave(self) -> None:
        """Go to the head that a row is about, the one that feeds where it says one; of a token, choose that.

        The table of all heads leads into the head, as their map does.
        """
        if self.shown is None or self.grid.place is None:
            return
        row = dict(zip(self.shown.columns, self._rows[self.grid.place], strict=True))
        layer, head = row.get("from_layer", row.get("layer")), row.get("from_head", row.get("head"))
        if isinstance(layer, int) and head is not None:
            name = Head(str(row["stack"]), layer, -1 if head == "all" else int(head))
            is_of_all = self.view == HEADS.name
            self.post_message(HeadEntered(name) if is_of_all else HeadPicked(name, is_jump=True))
        elif "token" in VIEWS[self.view].columns and isinstance(row["token_id"], int):
            self.post_message(TokenPicked(row["token_id"]))

    def action_position(self, step: int) -> None:
        """Ask for what is predicted at another token."""
        if "position" in VIEWS[self.view].options:
            self.post_message(PositionMoved(step))


def _said(cell: Cell) -> str:
    """Write a cell as a title has it."""
    return harmless(repr(cell)) if isinstance(cell, str) else short(cell)
