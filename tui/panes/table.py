"""A pane for any table that the engine works out: rows of a layer, a head or the model, sorted as a person likes."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult

from engine.values.columns import explain
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.tables import Table
from engine.values.views import View
from tui.drawing.text import harmless
from tui.messages import HeadPicked
from tui.panes.line import Line
from tui.panes.pane import Pane
from tui.widgets.table_grid import TableGrid

PLACE_COLUMNS = ("stack", "layer", "head")
"""What such a table begins with; where all rows agree in one, the title says it and the column is left out."""


class TablePane(Pane):
    """Shows one view's table, and explains the column under the cursor.

    Parameters
    ----------
    view : which table.
    """

    def __init__(self, view: View, *, ascii_only: bool) -> None:
        self.view = view.name
        super().__init__()
        self.add_class("-table")
        self.grid = TableGrid(ascii_only=ascii_only)
        self.explanation_line = Line(classes="pane-legend")
        self.shown: Table | None = None

    def compose(self) -> ComposeResult:
        """Stack the title, the table, the explanation and the readout."""
        yield self.title_line
        yield self.grid
        yield self.explanation_line
        yield self.readout_line

    def show(self, title: str, table: Table, selected: Head | None) -> None:
        """Draw a table, with the cursor on the selected head's row where it has one."""
        self._set_title(title)
        if table is not self.shown:
            self.shown = table
            rows = [tuple(row) for row in table]
            varying = [place for place in range(len(PLACE_COLUMNS)) if len({row[place] for row in rows}) > 1]
            kept = [*varying, *range(len(PLACE_COLUMNS), len(table.columns))]
            columns = tuple(table.columns[place] for place in kept)
            self.grid.show(columns, [tuple(row[place] for place in kept) for row in rows], len(varying))
            if not rows:
                self.grid.show_message("nothing to show here")
        if selected is not None:
            place = (selected.stack, selected.layer, selected.label)
            self.grid.go_to(next((n for n, row in enumerate(table) if tuple(row[:3]) == place), None))
        self._read_out()

    def show_message(self, title: str, message: str) -> None:
        """Say why there is no table."""
        self.shown = None
        self._set_title(title)
        self.grid.show_message(message)
        self.explanation_line.show("")
        self.readout_line.show("")

    def table_on_screen(self) -> Table:
        """Give the table with its rows as they are sorted.

        Raises
        ------
        EngineError : when it shows nothing yet.
        """
        if self.shown is None:
            raise EngineError(f"the {self.view} view shows nothing yet; nothing was written")
        rows = tuple(self.shown)
        return Table(self.shown.view, self.shown.columns, tuple(rows[place] for place in self.grid.order))

    def _set_title(self, title: str) -> None:
        """Say what is shown."""
        self.title_line.show(Text.assemble((f"{self.view} ", "bold"), title))

    @on(TableGrid.Moved)
    def _read_out(self) -> None:
        """Explain the column under the cursor, and write its cell in full."""
        if self.shown is None or self.grid.row is None:
            return
        cell = self.grid.row[self.grid.columns.index(self.grid.column)]
        self.explanation_line.show(explain(self.grid.column))
        self.readout_line.show(f"{self.grid.column} {harmless(cell) if isinstance(cell, str) else repr(cell)}")

    @on(TableGrid.Chosen)
    def _go_to_head(self) -> None:
        """Go to the head that a row is about: the one that feeds, where it says one."""
        if self.shown is None or self.grid.place is None:
            return
        row = dict(zip(self.shown.columns, tuple(self.shown)[self.grid.place], strict=True))
        layer, head = row.get("from_layer", row["layer"]), row.get("from_head", row["head"])
        self.post_message(HeadPicked(Head(str(row["stack"]), int(layer), -1 if head == "all" else int(head))))
