"""Widgets that paint, line by line, what may be larger than their place on the screen, and move a cursor in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment, Segments
from rich.style import Style
from textual import events
from textual.app import App
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from tui.drawing.levels import Ink, choose_ink
from tui.drawing.ramps import level_styles
from tui.drawing.text import centre_text
from tui.toolkit.application import sends_ascii_only
from tui.toolkit.screen import PlacedBars
from tui.toolkit.styled_widget import StyledWidget
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


class ScrollArea(ScrollView, PlacedBars, StyledWidget, inherit_bindings=False):
    """A scrolling widget whose bars cost few bytes and whose cursor stays in view.

    Textual's own keys, which scroll away from the cursor, are not inherited.
    """

    ALLOW_SELECT = False
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
        """Use the cheap renderer for both scrollbars."""
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

    def message_line(self, message: str, y: int, style: Style) -> Strip:
        """Paint a line of a message that is centred in the widget."""
        width, height = self.size
        text = centre_text(message, width, height)[y]
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

    @property
    def has_half_blocks(self) -> bool:
        """Whether a character can show two cells in two colours: it takes colour, and a sign beyond ASCII."""
        return self.ink is Ink.COLOUR and not sends_ascii_only(self.app)


class CellGrid(ScrollArea, can_focus=True):
    """Cells in rows and columns, with a cursor on one of them.

    Attributes
    ----------
    cursor : row and column, from zero.
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

    @property
    def extent(self) -> tuple[int, int]:
        """Number of rows, and of columns in the longest."""
        raise NotImplementedError

    def nearest(self, row: int, column: int) -> tuple[int, int]:
        """Return the cell nearest to a place that may be outside."""
        rows, columns = self.extent
        return max(0, min(row, rows - 1)), max(0, min(column, columns - 1))

    def lay_out_cells(self) -> None:
        """Choose the size of the cells for the widget's size and the theme."""
        raise NotImplementedError

    def repaint(self, *cells: tuple[int, int]) -> None:
        """Repaint some cells and their labels."""
        raise NotImplementedError

    def reveal_cells(self, columns: range, lines: range, room: int) -> None:
        """Scroll as little as possible to bring a range of columns and lines into view, below one line of labels.

        Parameters
        ----------
        columns, lines : of the screen, counted from the first cell.
        room : columns beside the labels.
        """
        left, top = self.scroll_offset
        height = self.scrollable_content_region.height - 1
        self.scroll_at_once(least_scroll(left, room, columns), least_scroll(top, height, lines))

    def put(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell and bring it into view."""
        before, self.cursor = self.cursor, self.nearest(row, column)
        if before != self.cursor:
            self.repaint(before, self.cursor)
            self.reveal()

    def go(self, row: int, column: int) -> None:
        """Put the cursor on the nearest cell and post the move."""
        before = self.cursor
        self.put(row, column)
        if before != self.cursor:
            self.post_message(self.Moved(self.cursor))

    def click(self, row: int, column: int) -> None:
        """Move the cursor to the clicked cell; if it is there already, choose the cell."""
        if (row, column) == self.cursor:
            self.action_choose()
        else:
            self.go(row, column)

    def action_move(self, rows: int, columns: int) -> None:
        """Move by rows and columns."""
        self.go(self.cursor[0] + rows, self.cursor[1] + columns)

    def action_edge(self, last: bool) -> None:
        """Move to the first or last column."""
        self.go(self.cursor[0], self.extent[1] if last else 0)

    def action_row_edge(self, last: bool) -> None:
        """Move to the first or last row."""
        self.go(self.extent[0] if last else 0, self.cursor[1])

    def action_choose(self) -> None:
        """Choose the cell under the cursor."""
        self.post_message(self.Chosen())

    def on_resize(self) -> None:
        """Choose cells for the new size."""
        self.lay_out_cells()
        self.reveal()

    def notify_style_update(self) -> None:
        """Choose cells for the new theme, which may have no colours."""
        super().notify_style_update()
        if self.is_attached:
            self.lay_out_cells()


class ItemArea(ScrollArea, can_focus=True):
    """Items in reading order, with a cursor that follows the mouse.

    Attributes
    ----------
    cursor : number of the item under it, from zero; None without one.
    """

    class Entered(Message):
        """The user clicked on the item under the cursor."""

    def __init__(self, *, name: str) -> None:
        super().__init__(name=name)
        self.cursor: int | None = None
        self.is_under_mouse = False
        """Whether moving the mouse put the cursor where it is; then the next click only goes there."""

    def item_at(self, x: int, y: int) -> int | None:
        """Return the item at a column and a line of everything that can be scrolled."""
        raise NotImplementedError

    def go(self, number: int) -> None:
        """Move the cursor to an item, and post that."""
        raise NotImplementedError

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the cursor to the item under the mouse."""
        before = self.cursor
        self.is_under_mouse |= self._follow(event) not in (None, before)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked item; if keys or a click put it there before, enter the item."""
        before = None if self.is_under_mouse else self.cursor
        self.is_under_mouse = False
        if self._follow(event) == before is not None:
            self.post_message(self.Entered())

    def _follow(self, event: events.MouseEvent) -> int | None:
        """Move the cursor to the item at the mouse, and give its number."""
        offset = event.get_content_offset(self)
        item = None if offset is None else self.item_at(offset.x, offset.y + self.scroll_offset.y)
        if item is not None:
            self.go(item)
        return item


class WholeCellBars(ScrollBarRender):
    """Draws a scrollbar of whole cells, a horizontal one as three runs; Textual's is one sequence per column."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8

    @classmethod
    def render_bar(cls, *args: Any, **options: Any) -> Segments:
        """Draw the bar and join neighbours that look the same."""
        bar = super().render_bar(*args, **options)
        return bar if bar.new_lines else Segments(list(Segment.simplify(bar.segments)), new_lines=False)
