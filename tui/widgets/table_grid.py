"""A table of any size; it paints only the rows and columns in view."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from engine.values.filters import Filter
from engine.values.table import Cell, Row
from tui.drawing.numbers import fit_number, short_number
from tui.drawing.text import centre_text, escape_text
from tui.toolkit.keys import lines_of, paging_bindings
from tui.toolkit.messages import Notice
from tui.widgets.scroll_area import ScrollArea, least_scroll
from tui.widgets.table_columns import Columns, fit_columns

NO_ROWS = "no rows yet"
"""Message of a key that needs a row."""

_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*")
"""A number, or the shape of a tensor."""


def sort_places(places: Sequence[int], cells: Sequence[Cell], is_descending: bool) -> list[int]:
    """Sort numbers of rows by a column's cells; rows without a value come last in both directions.

    Examples
    --------
    >>> sort_places([0, 1, 2, 3], [2.0, "", 3, "b"], True)
    [3, 2, 0, 1]
    """
    absent = {place for place in places if cells[place] in (None, "") or cells[place] != cells[place]}  # NaN
    present = [place for place in places if place not in absent]
    present.sort(key=lambda place: _sort_key(cells[place]), reverse=is_descending)
    return [*present, *(place for place in places if place in absent)]


def _sort_key(cell: Cell) -> tuple[bool, float, str]:
    """Sort numbers by size, then texts; shapes, and numbers in texts, by their number of entries.

    Examples
    --------
    >>> sorted(["all", "768x192", "2048x192", "10", "9"], key=_sort_key)
    ['9', '10', '768x192', '2048x192', 'all']
    """
    if isinstance(cell, int | float):
        return False, float(cell), ""
    cell = cell or ""
    return True, math.prod(map(int, cell.split("x"))) if _SHAPE.fullmatch(cell) else math.inf, cell


class TableGrid(ScrollArea, can_focus=True):
    """Shows rows under named columns, with a cursor on one cell; any column can sort the rows.

    Attributes
    ----------
    why_none : stands below the column names where a filter leaves no row.
    all_columns : names of all columns.
    rows : all rows with all columns, in their original order.
    order : numbers of the rows on the screen, from top to bottom.
    sort : the column that sorts the rows, and whether the largest come first; None for the original order.
    cursor : line and column.
    strikes : whether a row is struck out.
    leads : what Enter opens for the row under the cursor: ``head``, ``token``, or nothing.
    is_moved : whether the user chose the cursor's row, rather than the start or a new order.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1, 0)", "Next row", show=False, id="table.down"),
        Binding("k,up", "step(-1, 0)", "Previous row", show=False, id="table.up"),
        Binding("l,right", "step(0, 1)", "Next column", show=False, id="table.right"),
        Binding("h,left", "step(0, -1)", "Previous column", show=False, id="table.left"),
        *paging_bindings("table"),
        Binding("gg,ctrl+home", "row_edge(False)", "First row", show=False, id="table.first"),
        Binding("G,ctrl+end", "row_edge(True)", "Last row", show=False, id="table.last"),
        Binding("home", "column_edge(False)", "First column", show=False, id="table.first_column"),
        Binding("end", "column_edge(True)", "Last column", show=False, id="table.last_column"),
        Binding("o", "sort", "Sort by this column: down, up, as it was", show=False, id="table.sort"),
        Binding("enter", "choose('head')", "Go to this row's head", show=False, id="table.choose"),
        Binding("enter", "choose('token')", "Show what this token's logit is made of", show=False, id="table.token"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--head", "table--row"}
    DEFAULT_CSS = """
    TableGrid {
        width: 100%; background: $surface; scrollbar-gutter: stable;
        & > .table--head { color: $text-muted; text-style: bold; }
        & > .table--row { background: $boost; color: $text; }
    }
    """

    why_none: reactive[str] = reactive("")
    selects: ClassVar[bool] = False
    """Whether the cursor selects; then only the user moves it to another row."""

    class Moved(Message):
        """The cursor is on another cell, or on another table's."""

    class Arranged(Message):
        """Other rows are shown, or the same rows in another order."""

    class ColumnsScrolled(Message):
        """Other columns are in view."""

    class Chosen(Message):
        """The user wants to open what the row under the cursor is about."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.cursor = (0, 0)
        self.strikes: Callable[[Row], bool] | None = None
        self.leads: Callable[[], str] = lambda: "head"
        self.is_moved = False
        self.all_columns: tuple[str, ...] = ()
        self.rows: Sequence[Row] = ()
        self.order: Sequence[int] = ()
        self.sort: tuple[str, bool] | None = None
        self._places: tuple[int, ...] = ()
        """Numbers of the visible columns, from left to right."""
        self._kept_by: Filter | None = None
        self._whole = Columns()
        """The visible columns, as wide as their titles and cells need."""
        self._columns = Columns()
        """The same, as wide as the room allows."""
        self._place: int | None = None
        """The row to which the cursor returns once a filter or a message no longer hides it."""
        self._shape: tuple[tuple[str, ...], int] = ((), 0)

    # --- what is shown

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the visible columns."""
        return self._columns.names

    @property
    def place(self) -> int | None:
        """Number of the row under the cursor, in the original order."""
        return self.order[self.cursor[0]] if self.order else None

    @property
    def whole_row(self) -> Row | None:
        """The row under the cursor with all columns."""
        return None if self.place is None else self.rows[self.place]

    @property
    def row(self) -> Row | None:
        """The row under the cursor with the visible columns."""
        row = self.whole_row
        return None if row is None else tuple(row[place] for place in self._places)

    @property
    def column(self) -> str:
        """Name of the column under the cursor."""
        return self.columns[self.cursor[1]] if self.columns else ""

    @property
    def head(self) -> int:
        """Lines of the column names."""
        return self._columns.head

    @property
    def wanted_width(self) -> int:
        """Width of all columns side by side."""
        return self._whole.width

    @property
    def columns_beyond(self) -> int:
        """Number of columns to the right of the last one that is whole in view."""
        if not self.order or not self._room:
            return 0
        columns, edge = self._columns, self.scroll_offset.x + self._room
        return len(columns.names) - max(columns.frozen, bisect_right(columns.ends, edge))

    @property
    def rows_in_view(self) -> int:
        """Number of rows that fit."""
        return max(1, self.scrollable_content_region.height - self.head)

    @property
    def _room(self) -> int:
        """Cells of a line, without the scrollbar."""
        return self.scrollable_content_region.width

    def show(
        self,
        names: tuple[str, ...],
        rows: Sequence[Row],
        frozen: int,
        kept_by: Filter | None = None,
        places: tuple[int, ...] | None = None,
        columns: Columns | None = None,
        place: int | None = None,
    ) -> None:
        """Show rows, sorted as before if the column still exists.

        Parameters
        ----------
        frozen : number of visible columns that stay at the left.
        kept_by : the filter; None shows all rows.
        places : the visible columns; all by default.
        columns : their widths, where the cells should not decide them.
        place : row for the cursor; by default it stays on its row, or in a new table on its line.
        """
        self.message = ""
        places = tuple(range(len(names))) if places is None else places
        if self.sort is not None and self.sort[0] not in names:
            self.sort = None
        if place is not None:
            self._place = place
        elif self._shape != (names, len(rows)):
            self._place = None
        self._shape = names, len(rows)
        if columns is None and rows is self.rows and (places, frozen) == (self._places, self._whole.frozen):
            columns = self._whole
        elif columns is None:
            by_column = ([row[place] for row in rows] for place in places)
            columns = Columns.of(tuple(names[place] for place in places), by_column, frozen, self.text)
        self.all_columns, self.rows, self._places = names, rows, places
        self._arrange(columns, kept_by)

    def show_message(self, message: str) -> None:
        """Show a message in place of the rows."""
        if message != self.message or self.rows:
            self._place = self.place if self._place is None else self._place
            self.rows = ()
            self._arrange(self._whole, None)
            self.message = message
            self.virtual_size = Size(0, 0)
            self.refresh()

    def narrow(self, kept_by: Filter | None) -> None:
        """Show the rows that a filter leaves, or all; the cursor stays on its row if that is shown."""
        self._place = self.place if self._place is None else self._place
        self._arrange(self._whole, kept_by)

    def sort_by(self, column: str) -> None:
        """Sort by a column, largest first; again: smallest first; again: in the original order.

        The cursor goes to the first row, unless the cursor selects.
        """
        descending_next = {None: True, (column, True): False, (column, False): None}
        is_descending = descending_next.get(self.sort, True)
        self._place = self.place
        if not self.selects:
            self.is_moved, self._place, self.cursor = False, None, (0, self.cursor[1])
        self.sort = None if is_descending is None else (column, is_descending)
        self._arrange(self._whole, self._kept_by)

    def _arrange(self, columns: Columns, kept_by: Filter | None) -> None:
        """Filter and sort the rows, and put the cursor on its row if that is shown."""
        self.order = range(len(self.rows)) if kept_by is None else kept_by.matches(self.rows)
        if self.sort is not None:
            place = self.all_columns.index(self.sort[0])
            self.order = sort_places(self.order, [row[place] for row in self.rows], self.sort[1])
        names, (line, column) = columns.names, self.cursor
        if names != self._whole.names:
            if self.column in names:  # only some columns have come or gone
                column = names.index(self.column)
            else:
                line, column = 0, min(columns.frozen, max(len(names) - 1, 0))
                self.scroll_at_once(0, 0)
        if kept_by is not self._kept_by and kept_by is not None:
            compared = [each for each in names[columns.frozen :] if each in kept_by.columns]
            column = names.index(compared[0]) if compared and names[column] not in compared else column
        self._whole, self._kept_by = columns, kept_by
        line = min(line, max(len(self.order) - 1, 0))
        if self._place is not None and self._place in self.order:
            line = self.order.index(self._place)
        self.cursor = (line, column)
        self._lay_out()
        self.reveal()
        self.refresh_bindings()  # Enter may lead somewhere now
        self.post_message(self.Arranged())
        self.post_message(self.Moved())

    # --- painting

    def text(self, cell: Cell) -> str:
        """Format one cell."""
        return short_number(cell) if isinstance(cell, int | float) else escape_text(cell or "")

    def on_resize(self) -> None:
        """Fit the columns to the new width; keep the cursor in view."""
        self._lay_out()
        self.reveal()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Post that other columns are in view."""
        super().watch_scroll_x(old_value, new_value)
        self.post_message(self.ColumnsScrolled())

    def _lay_out(self) -> None:
        if not self.message:
            self._columns = fit_columns(self._whole, self._room)
            self.virtual_size = Size(self._columns.scrolled_width(self._room), len(self.order) + self.head)
            self.refresh()

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into view; a hidden table has no room."""
        if not self.order or not self.size:
            return
        (row, column), (left, top), height = self.cursor, self.scroll_offset, self.rows_in_view
        new_top = min(least_scroll(top, height, range(row, row + 1)), max(len(self.order) - height, 0))
        self.scroll_at_once(self._columns.scroll_to_column(column, left, self._room), new_top)

    def render_line(self, y: int) -> Strip:
        """Paint the names of the columns, or a row."""
        width, height = self.size
        plain = self.get_component_rich_style("area--cell")
        if self.message:
            return self.message_line(y, plain)
        if y < self.head:
            style = self.get_component_rich_style("table--head")
            title = partial(self._columns.title, line=y - self.head, sort=self.sort)
            return self._line(title, style, {}).adjust_cell_length(width, style)
        line = y - self.head + self.scroll_offset.y
        if self.why_none and not self.order:
            return Strip([Segment(centre_text(self.why_none, width, height - self.head)[y - self.head], plain)], width)
        if line >= len(self.order):
            return Strip.blank(width, Style(bgcolor=plain.bgcolor))
        is_current = line == self.cursor[0]
        style = self.get_component_rich_style("table--row") if is_current else plain
        row = self.rows[self.order[line]]
        if self.strikes is not None and self.strikes(row):
            style += Style(strike=True)
        cells = [row[place] for place in self._places]
        is_marked = is_current and self.has_focus
        marked = {self.cursor[1]: self.get_component_rich_style("area--cursor")} if is_marked else {}
        return self._line(partial(self._cell, cells, self.text), style, marked).adjust_cell_length(width, style)

    def format_line(self, cells: Sequence[Cell], text: Callable[[Cell], str]) -> str:
        """Format a line of cells that is not one of the rows, as far as its columns are in view."""
        return self._line(partial(self._cell, cells, text), Style(), {}).text

    def _cell(self, cells: Sequence[Cell], text: Callable[[Cell], str], column: int, room: int, _: bool) -> str:
        cell, written = cells[column], text(cells[column])
        if isinstance(cell, float) and len(written) > room:  # at the edge: fewer digits
            written = fit_number(cell, room, digits=2)
        return self._columns.cell(column, written, room)

    def _line(self, write: Callable[[int, int, bool], str], style: Style, marked: Mapping[int, Style]) -> Strip:
        """Paint the columns in view.

        Parameters
        ----------
        write : takes a column, its room, and whether the cell to the right of it is free too.
        """
        segments, painted = list[Segment](), 0
        room = self._room or self._columns.starts[-1]  # before the table has a size, all of it
        seen = list(self._columns.in_view(self.scroll_offset.x, room))
        ends = (*(shown.start for _, shown in seen[1:]), room + 1)
        for (column, shown), end in zip(seen, ends, strict=False):
            text = write(column, len(shown), end - shown.stop > 1)
            segments += [Segment(" " * (shown.start - painted), style), Segment(text, marked.get(column, style))]
            painted = shown.start + cell_len(text)
        return Strip(segments)

    # --- moving

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell and bring it into view."""
        if not self.order:
            return
        old = self.cursor
        row, column = max(0, min(row, len(self.order) - 1)), max(0, min(column, len(self.columns) - 1))
        self.cursor = (row, column)
        for line in {old[0], row}:
            self.refresh(Region(0, line - self.scroll_offset.y + self.head, self.size.width, 1))
        self.reveal()
        self._place = self.place
        if old != self.cursor:
            self.post_message(self.Moved())

    def go_to(self, place: int) -> None:
        """Put the cursor on a row by its number in the original order, once it is shown."""
        self._place = place
        if place in self.order:
            self.put(self.order.index(place), self.cursor[1])

    def go_to_column(self, name: str) -> None:
        """Put the cursor on a column if it is shown."""
        if name in self.columns:
            self.put(self.cursor[0], self.columns.index(name))

    def action_step(self, rows: int, columns: int) -> None:
        """Move by rows and columns."""
        if not self.order:
            self.post_message(Notice(self.why_none or NO_ROWS))
        self.is_moved = self.is_moved or bool(rows)
        self.put(self.cursor[0] + rows, self.cursor[1] + columns)

    def action_page(self, pages: float) -> None:
        """Move by the rows in view."""
        self.action_step(lines_of(pages, self.rows_in_view), 0)

    def action_row_edge(self, last: bool) -> None:
        """Move to the first or last row."""
        self.action_step(len(self.order) if last else -len(self.order), 0)

    def action_column_edge(self, last: bool) -> None:
        """Move to the first column that scrolls, or to the last."""
        self.put(self.cursor[0], len(self.columns) - 1 if last else self._columns.frozen)

    def action_sort(self) -> None:
        """Sort by the cursor's column, as `sort_by` does."""
        if self.row is None:
            self.post_message(Notice("no rows to sort"))
        else:
            self.sort_by(self.column)

    def action_choose(self, what: str) -> None:
        """Open what the row is about."""
        self.post_message(Notice(self.why_none or NO_ROWS) if self.row is None else self.Chosen())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to the widgets around the table where the row leads nowhere."""
        return action != "choose" or parameters == (self.leads(),)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked cell; if it is there already, open its row. A click on a name sorts."""
        offset = event.get_content_offset(self)
        if offset is None or not self.order:
            return
        column = self._columns.column_at(offset.x, self.scroll_offset.x)
        if offset.y < self.head:
            self.put(self.cursor[0], column)
            self.action_sort()
        else:
            row, before = offset.y - self.head + self.scroll_offset.y, self.cursor
            self.is_moved = True
            self.put(row, column)
            if (row, column) == before and self.leads():
                self.action_choose(self.leads())
