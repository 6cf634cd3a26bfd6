"""A table of any size: rows and columns are written only where they are in view, and names stay at the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from engine.values.tables import Cell
from tui.drawing.text import centred, fit, fit_end, harmless, in_ascii
from tui.numbers import short
from tui.widgets.scrolled import Scrolled
from tui.widgets.table_columns import Columns, ordered

Row = Sequence[Cell]


class TableGrid(Scrolled, can_focus=True):
    """Shows rows under named columns, with a cursor on one cell; any column can sort them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1, 0)", "Next row", show=False, id="table.down"),
        Binding("k,up", "step(-1, 0)", "Previous row", show=False, id="table.up"),
        Binding("l,right", "step(0, 1)", "Next column", show=False, id="table.right"),
        Binding("h,left", "step(0, -1)", "Previous column", show=False, id="table.left"),
        Binding("pagedown", "page(1)", "A page down", show=False, id="table.page_down"),
        Binding("pageup", "page(-1)", "A page up", show=False, id="table.page_up"),
        Binding("gg,ctrl+home", "row_edge(False)", "First row", show=False, id="table.first"),
        Binding("G,ctrl+end", "row_edge(True)", "Last row", show=False, id="table.last"),
        Binding("home", "column_edge(False)", "First column", show=False, id="table.first_column"),
        Binding("end", "column_edge(True)", "Last column", show=False, id="table.last_column"),
        Binding("o", "sort", "Sort by this column: down, up, as it was", show=False, id="table.sort"),
        Binding("enter", "choose", "Go to this row's head", show=False, id="table.choose"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--head", "table--cell", "table--row", "table--cursor"}
    DEFAULT_CSS = """
    TableGrid {
        width: 100%; height: 1fr; background: $surface; scrollbar-size: 1 1;
        & > .table--head { color: $text-muted; text-style: bold; }
        & > .table--cell { color: $text; }
        & > .table--row { background: $boost; color: $text; }
        & > .table--cursor { color: $success; text-style: bold reverse; }
    }
    """

    class Moved(Message):
        """The cursor is on another cell, or on another table's."""

    class Chosen(Message):
        """A person wants to go to what the row under the cursor is about."""

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__(ascii_only=ascii_only)
        self.message = ""
        self.rows: Sequence[Row] = ()
        self._kept: Sequence[int] | None = None
        self._order: list[int] = []
        self._sorted: tuple[str, bool] | None = None
        self._columns = Columns()
        self._cursor = (0, 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._columns.names

    @property
    def place(self) -> int | None:
        """Which of the rows, in the order in which they came, is under the cursor."""
        return self._order[self._cursor[0]] if self._order else None

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return None if self.place is None else self.rows[self.place]

    @property
    def column(self) -> str:
        """The name of the column under the cursor."""
        return self.columns[self._cursor[1]] if self.columns else ""

    @property
    def order(self) -> tuple[int, ...]:
        """Which of the rows stand on the screen, from the first line to the last."""
        return tuple(self._order)

    def show(
        self, columns: tuple[str, ...], rows: Sequence[Row], frozen: int, kept: Sequence[int] | None = None
    ) -> None:
        """Show rows, sorted as before where the column is still there.

        Parameters
        ----------
        columns : their names.
        rows : each as long as ``columns``.
        frozen : how many columns stay at the left.
        kept : the numbers of the rows that are shown; all unless given.
        """
        same_columns = columns == self.columns
        self.rows, self._kept, self.message = rows, kept, ""
        self._columns = Columns.of(columns, rows, frozen, self._text)
        if not same_columns:
            self._sorted = None
            self._cursor = (0, min(frozen, max(len(columns) - 1, 0)))
            self.scroll_to(0, 0, animate=False, immediate=True)
        self._arrange()

    def narrow(self, kept: Sequence[int] | None) -> None:
        """Show some of the rows, by their numbers, or all of them; the cursor stays on its row if that is shown."""
        place = self.place
        self._kept = kept
        self._arrange()
        self.go_to(place)
        self._reveal()

    def show_message(self, message: str) -> None:
        """Say why there are no rows."""
        self.rows, self._order, self._kept, self.message = (), [], None, message
        self.virtual_size = Size(0, 0)
        self.refresh()

    def _text(self, cell: Cell) -> str:
        """Write one cell."""
        text = short(cell) if isinstance(cell, int | float) else harmless(cell)
        return in_ascii(text) if self.ascii_only else text

    def _arrange(self) -> None:
        """Put the rows in order and the cursor within them."""
        self._order = list(range(len(self.rows)) if self._kept is None else self._kept)
        if self._sorted is not None:
            place, is_descending = self.columns.index(self._sorted[0]), self._sorted[1]
            self._order = ordered(self._order, [row[place] for row in self.rows], is_descending)
        self._cursor = (min(self._cursor[0], max(len(self._order) - 1, 0)), self._cursor[1])
        self.virtual_size = Size(self._columns.scrolled_width(self._room), len(self._order) + self._head)
        self.refresh()
        self.post_message(self.Moved())

    def render_line(self, y: int) -> Strip:
        """Paint the names of the columns, or a row."""
        width, height = self.size
        plain = self.get_component_rich_style("table--cell")
        if self.message:
            return Strip([Segment(centred(self.message, width, height)[y], plain)], width)
        if y < self._head:
            texts = tuple(self._title(place, y - self._head) for place in range(len(self.columns)))
            return self._line(texts, self.get_component_rich_style("table--head"), -1)
        place = y - self._head + self.scroll_offset.y
        if place >= len(self._order):
            return Strip.blank(width, Style(bgcolor=plain.bgcolor))
        is_current = place == self._cursor[0]
        style = self.get_component_rich_style("table--row") if is_current else plain
        texts = tuple(map(self._text, self.rows[self._order[place]]))
        return self._line(texts, style, self._cursor[1] if is_current else -1)

    def _title(self, place: int, line: int) -> str:
        """Write a line of a column's name, counted from the last, with a sign where it sorts the rows."""
        text = self._columns.titles[place][line]
        shown = in_ascii(text) if self.ascii_only else text
        if line < -1 or self._sorted is None or self._sorted[0] != self.columns[place]:
            return shown
        down, up = ("v", "^") if self.ascii_only else ("▾", "▴")
        return f"{shown}{down if self._sorted[1] else up}"

    def _line(self, texts: tuple[str, ...], style: Style, marked: int) -> Strip:
        """Paint cells: the frozen ones, then those in view of the others."""
        segments, painted = [], 0
        for column, shown in self._columns.in_view(self.scroll_offset.x, self._room):
            own = self.get_component_rich_style("table--cursor") if column == marked and self.has_focus else style
            segments += [
                Segment(" " * (shown.start - painted), style),
                Segment(self._cell(column, texts[column], len(shown)), own),
            ]
            painted = shown.stop
        return Strip(segments).adjust_cell_length(self.size.width, style)

    def _cell(self, column: int, text: str, room: int) -> str:
        """Write a cell into the room it has; of a number that does not fit no digits, which would be read for it."""
        is_number = self._columns.numeric[column]
        if is_number and text[-1:].isdigit() and room < self._columns.widths[column] and cell_len(text) > room:
            text = "~" if self.ascii_only else "…"
        if column < self._columns.frozen and not is_number:  # what tells long names apart is at their end
            return fit_end(text, room, ascii_only=self.ascii_only)
        return fit(text, room, align="right" if is_number else "left", ascii_only=self.ascii_only)

    @property
    def _head(self) -> int:
        """Lines that the names of the columns take."""
        return self._columns.head

    @property
    def _room(self) -> int:
        """Cells of a line, without the scrollbar, which would cover a number's last digit."""
        return self.scrollable_content_region.width

    def _move(self, row: int, column: int) -> None:
        """Put the cursor on a cell within the table, and show it."""
        if not self._order:
            return
        old = self._cursor
        row, column = max(0, min(row, len(self._order) - 1)), max(0, min(column, len(self.columns) - 1))
        self._cursor = (row, column)
        for place in {old[0], row}:
            y = place - self.scroll_offset.y + self._head
            if self._head <= y < self.size.height:
                self.refresh(Region(0, y, self.size.width, 1))
        self._reveal()
        if old != self._cursor:
            self.post_message(self.Moved())

    @property
    def _rows_in_view(self) -> int:
        """How many rows there is room for."""
        return max(1, self.scrollable_content_region.height - self._head)

    def _reveal(self) -> None:
        """Scroll as little as brings the cursor into view."""
        row, column = self._cursor
        height = self._rows_in_view
        top, left = self.scroll_offset.y, self.scroll_offset.x
        new_top = min(max(top, row - height + 1), row)
        new_left = self._columns.revealed(column, left, self._room)
        if (new_top, new_left) != (top, left):
            self.scroll_to(new_left, new_top, animate=False, immediate=True)

    def go_to(self, place: int | None) -> None:
        """Put the cursor on one of the rows, counted as they came; None leaves it where it is."""
        if place is not None and place in self._order:
            self._move(self._order.index(place), self._cursor[1])

    def go_to_column(self, name: str) -> None:
        """Put the cursor on a column, if it is shown."""
        if name in self.columns:
            self._move(self._cursor[0], self.columns.index(name))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; on a column's name, sort by it."""
        offset = event.get_content_offset(self)
        if offset is None or not self._order:
            return
        column = self._columns.at(offset.x, self.scroll_offset.x)
        if offset.y < self._head:
            self._move(self._cursor[0], column)
            self.action_sort()
        else:
            self._move(offset.y - self._head + self.scroll_offset.y, column)

    def action_step(self, rows: int, columns: int) -> None:
        """Move by rows and columns."""
        self._move(self._cursor[0] + rows, self._cursor[1] + columns)

    def action_page(self, pages: int) -> None:
        """Move by as many rows as are in view."""
        self._move(self._cursor[0] + pages * self._rows_in_view, self._cursor[1])

    def action_row_edge(self, last: bool) -> None:
        """Move to the first or the last row."""
        self._move(len(self._order) - 1 if last else 0, self._cursor[1])

    def action_column_edge(self, last: bool) -> None:
        """Move to the first column that scrolls, or to the last."""
        self._move(self._cursor[0], len(self.columns) - 1 if last else self._columns.frozen)

    def action_sort(self) -> None:
        """Sort by the cursor's column, largest first; again: smallest first; again: as the rows came.

        The cursor goes to the first row, which is what one sorts for.
        """
        if not self._order:
            return
        descending_next = {None: True, (self.column, True): False, (self.column, False): None}
        is_descending = descending_next.get(self._sorted, True)
        self._sorted = None if is_descending is None else (self.column, is_descending)
        self._arrange()
        self.action_row_edge(False)

    def action_choose(self) -> None:
        """Say which row a person wants to go to."""
        self.post_message(self.Chosen())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to what the table is in where there is no row to choose."""
        return action != "choose" or self.row is not None
