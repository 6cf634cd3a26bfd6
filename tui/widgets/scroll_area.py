"""Widgets that paint, line by line, what may be larger than their place on the screen, and move a cursor in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from tui.drawing.levels import Ink, choose_ink
from tui.drawing.ramps import level_styles
from tui.drawing.text import centre_text
from tui.toolkit.application import sends_ascii_only
from tui.toolkit.keys import lines_of
from tui.toolkit.screen import PlacedBars
from tui.toolkit.themes import palette_of


def ink_of(app: App[Any]) -> Ink:
    """Return what tells levels apart on an application's terminal, under its theme."""
    return choose_ink(app.console.color_system, no_color=app.no_color, ansi=app.native_ansi_color)


def least_scroll(first: int, room: int, wanted: range) -> int:
    """Scroll as little as possible to bring a range into view; its beginning comes first where it does not fit.

    Parameters
    ----------
    first : line or column at the top or left edge now.
    room : number of lines or columns in view.

    Examples
    --------
    >>> [least_scroll(first, 5, range(10, 12)) for first in (0, 8, 20)], least_scroll(0, 5, range(10, 30))
    ([7, 8, 10], 10)
    """
    return min(max(first, wanted.stop - room), wanted.start)


class StyledWidget(Widget):
    """Keeps the styles of its component classes until the theme changes.

    Textual computes them again after every refresh, which took a tenth of the time to paint another head. No background
    here changes with the focus, so none of these styles does.
    """

    def __init__(self, *children: Widget, **settings: Any) -> None:
        super().__init__(*children, **settings)
        self._component_rich_styles: dict[tuple[tuple[str, ...], bool], Style] = {}

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Return the style of a part, as Textual does."""
        found = self._component_rich_styles.get((names, partial))
        if found is None:
            found = super().get_component_rich_style(*names, partial=partial, default=default)
            self._component_rich_styles[names, partial] = found
        return found

    def notify_style_update(self) -> None:
        """Forget the styles of the theme before."""
        super().notify_style_update()
        self._component_rich_styles = {}


class ScrollArea(ScrollView, PlacedBars, StyledWidget, inherit_bindings=False):
    """A scrolling widget whose bars cost few bytes and whose cursor stays in view.

    Textual's own keys, which scroll away from the cursor, are not inherited.

    Attributes
    ----------
    message : stands in the place of what there is to show.
    """

    ALLOW_SELECT = False
    message = ""
    COMPONENT_CLASSES: ClassVar[set[str]] = {"area--label", "area--label-cursor", "area--cell", "area--cursor"}
    DEFAULT_CSS = """
    ScrollArea {
        width: 1fr; height: 1fr; scrollbar-size: 1 1;
        & > .area--label { color: $text-muted; }
        & > .area--label-cursor { color: $success; text-style: bold reverse; }
        & > .area--cell { color: $text; }
        & > .area--cursor { color: $success; text-style: bold reverse; }
    }
    """

    def on_mount(self) -> None:
        """Draw both scrollbars of whole cells."""
        for bar in (self.vertical_scrollbar, self.horizontal_scrollbar):
            bar.renderer = WholeCellBars  # type: ignore[misc]  # declared for the class, that is for all bars

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into view; do nothing without a cursor or a size."""
        raise NotImplementedError

    def watch_show_vertical_scrollbar(self) -> None:
        """Keep the cursor in view beside the bar."""
        super().watch_show_vertical_scrollbar()
        self.reveal()

    def watch_show_horizontal_scrollbar(self) -> None:
        """Keep the cursor in view above the bar."""
        super().watch_show_horizontal_scrollbar()
        self.reveal()

    def scroll_at_once(self, left: int, top: int) -> None:
        """Scroll to a column and a line without animation."""
        self.scroll_to(left, top, animate=False, immediate=True)

    def message_line(self, y: int, style: Style) -> Strip:
        """Paint a line of the message, which is centred in the widget."""
        width, height = self.size
        text = centre_text(self.message, width, height)[y]
        return Strip([Segment(text, style if text.strip() else Style(bgcolor=style.bgcolor))], width)

    @property
    def ink(self) -> Ink:
        """What tells levels apart on this terminal, under this theme."""
        return ink_of(self.app)

    def styles_of_levels(self, *, is_signed: bool = False) -> tuple[Style, ...]:
        """Return one style for each level; without colour, the style of cells alone."""
        if self.ink is not Ink.COLOUR:
            return (self.get_component_rich_style("area--cell"),)
        background, system = self.background_colors[1].rgb, str(self.app.console.color_system)
        return level_styles(background, system, palette_of(self.app.current_theme), is_signed=is_signed)

    def styles_of_scale(self, *, is_signed: bool) -> tuple[Style, ...]:
        """Return the style of each level of a `ValueScale`: without signs not the lowest one, which is invisible."""
        styles = self.styles_of_levels(is_signed=is_signed)
        return styles if is_signed or len(styles) == 1 else styles[1:]

    @property
    def has_half_blocks(self) -> bool:
        """Whether a character can show two cells in two colours: it takes colour, and a sign beyond ASCII."""
        return self.ink is Ink.COLOUR and not sends_ascii_only(self.app)


class CellGrid(ScrollArea, can_focus=True):
    """Cells in rows and columns, with labels above, names of the rows at the left, and a cursor on one cell.

    Attributes
    ----------
    cursor : row and column, from zero.
    name_width : columns of the names.
    cell : columns and lines per cell.
    """

    @dataclass
    class Moved(Message):
        """The user moved the cursor to a cell, which may have gone on since."""

        cell: tuple[int, int]

    class Chosen(Message):
        """The user pressed Enter, or clicked on the cursor."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.cursor = (0, 0)
        self.name_width = 0
        self.cell = (1, 1)

    # --- what a kind of grid says about itself

    @property
    def extent(self) -> tuple[int, int]:
        """Number of rows, and of columns in the longest."""
        raise NotImplementedError

    def lay_out_cells(self) -> None:
        """Choose the size of the cells, and of all that can be scrolled, for the widget's size and the theme."""
        raise NotImplementedError

    def heading(self) -> tuple[str, range]:
        """Return the labels above the cells, and which of their characters are the label of the cursor's column."""
        raise NotImplementedError

    def row_name(self, line: int) -> str:
        """Return what stands at the left of a line."""
        raise NotImplementedError

    def paint_cells(self, line: int) -> Iterable[Segment]:
        """Paint the cells on a line."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether there are no cells."""
        return not self.extent[0]

    def nearest(self, row: int, column: int) -> tuple[int, int]:
        """Return the cell nearest to a place that may be outside."""
        rows, columns = self.extent
        return max(0, min(row, rows - 1)), max(0, min(column, columns - 1))

    def row_on(self, line: int) -> int | None:
        """Return the row on a line, counted like all lines from the first below the labels; None without one."""
        return line // self.cell[1]

    def lines_of_row(self, row: int) -> range:
        """Return the lines of a row."""
        return range(row * self.cell[1], (row + 1) * self.cell[1])

    def columns_before(self, column: int) -> int:
        """Return how many columns stand before a column."""
        return column

    def column_at(self, place: int) -> int:
        """Return the column that so many others stand before."""
        return place

    # --- painting

    @property
    def room(self) -> int:
        """Columns of the screen beside the names."""
        return self.scrollable_content_region.width - self.name_width

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into view."""
        if self.size and not self.is_empty:
            (left, top), width = self.scroll_offset, self.cell[0]
            column, lines = self.columns_before(self.cursor[1]) * width, self.lines_of_row(self.cursor[0])
            left = least_scroll(left, self.room, range(column, column + width))
            self.scroll_at_once(left, least_scroll(top, self.scrollable_content_region.height - 1, lines))

    def render_line(self, y: int) -> Strip:
        """Paint the labels, or the name and the cells of a row."""
        plain, width = self.get_component_rich_style("area--label"), self.size.width
        line, left = y - 1 + self.scroll_offset.y, self.scroll_offset.x
        if self.is_empty:
            return self.message_line(y, plain)
        marked = self.get_component_rich_style("area--label-cursor")
        name, style, cells = "", plain, Strip(())
        if y == 0:
            text, at = self.heading()
            parts = (text[: at.start], plain), (text[at.start : at.stop], marked), (text[at.stop :], plain)
            cells = Strip(Segment(*part) for part in parts)
        elif line < self.virtual_size.height - 1:
            name, cells = self.row_name(line), Strip(self.paint_cells(line))
            style = marked if self.cursor[0] == self.row_on(line) else plain
        gap = Segment(" " * (self.name_width - cell_len(name)), plain)
        row = Segment.simplify([Segment(name, style), gap, *cells.crop(left, left + self.room)])
        return Strip(row).adjust_cell_length(width, Style(bgcolor=plain.bgcolor))

    def on_resize(self) -> None:
        """Choose cells for the new size."""
        self.lay_out_cells()
        self.reveal()

    def notify_style_update(self) -> None:
        """Choose cells for the new theme, which may have no colours."""
        super().notify_style_update()
        if self.is_attached:
            self.lay_out_cells()

    # --- keys and the mouse

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell and bring it into view."""
        before, self.cursor = self.cursor, self.nearest(row, column)
        if before != self.cursor and not self.is_empty:
            width, top = self.outer_size.width, 1 - self.scroll_offset.y
            lines = map(self.lines_of_row, {before[0], self.cursor[0]})
            self.refresh(Region(0, 0, width, 1), *(Region(0, top + each.start, width, len(each)) for each in lines))
            self.reveal()

    def go(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell and post the move."""
        before = self.cursor
        self.put(row, column)
        if before != self.cursor:
            self.post_message(self.Moved(self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked cell, or choose the cell if the cursor is there already.

        A click on a name goes to its row.
        """
        offset = event.get_content_offset(self)
        if offset is None or self.is_empty or offset.y < 1:
            return
        line, x = offset.y - 1 + self.scroll_offset.y, offset.x - self.name_width + self.scroll_offset.x
        row = self.row_on(line) if line < self.virtual_size.height - 1 else None
        if row is not None and offset.x < self.name_width:
            self.go(row, self.cursor[1])
        elif row is not None and x // self.cell[0] < (self.virtual_size.width - self.name_width) // self.cell[0]:
            clicked = row, self.column_at(x // self.cell[0])
            if clicked == self.cursor:
                self.action_choose()
            elif clicked == self.nearest(*clicked):
                self.go(*clicked)

    def action_move(self, rows: int, columns: int) -> None:
        """Move by rows and columns."""
        place = self.columns_before(self.cursor[1]) + columns
        self.go(self.cursor[0] + rows, self.column_at(place))

    def action_page(self, pages: float) -> None:
        """Move down by the rows in view, less one."""
        rows = (self.scrollable_content_region.height - 1) // self.cell[1]
        self.action_move(lines_of(pages, rows - 1), 0)

    def action_edge(self, last: bool) -> None:
        """Move to the first or last column."""
        self.go(self.cursor[0], self.extent[1] if last else 0)

    def action_row_edge(self, last: bool) -> None:
        """Move to the first or last row."""
        self.go(self.extent[0] if last else 0, self.cursor[1])

    def action_choose(self) -> None:
        """Choose the cell under the cursor."""
        self.post_message(self.Chosen())


class ItemArea(ScrollArea, can_focus=True):
    """Items in reading order, with a cursor on one of them.

    Attributes
    ----------
    cursor : number of the item under it, from zero; None without one.
    """

    class Entered(Message):
        """The user clicked on the item under the cursor."""

    def __init__(self, *, name: str) -> None:
        super().__init__(name=name)
        self.cursor: int | None = None

    def item_at(self, x: int, y: int) -> int | None:
        """Return the item at a column and a line of everything that can be scrolled."""
        raise NotImplementedError

    def go(self, number: int) -> None:
        """Move the cursor to an item, and post that."""
        raise NotImplementedError

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked item, or enter the item if the cursor is there already."""
        offset = event.get_content_offset(self)
        item = None if offset is None else self.item_at(offset.x, offset.y + self.scroll_offset.y)
        if item is not None and item == self.cursor:
            self.post_message(self.Entered())
        elif item is not None:
            self.go(item)


class WholeCellBars(ScrollBarRender):
    """Draws scrollbars of whole cells; Textual's have halves, and other signs, at the ends."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8
