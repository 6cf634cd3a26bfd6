"""Small maps of many heads, with a cursor that keys and the mouse move from head to head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.kept_moves import MovesAhead
from tui.widgets.paging import lines_of, paging
from tui.widgets.small_canvas import SmallCanvas


class SmallMaps(SmallCanvas, can_focus=True):
    """Shows a small map of each head, and moves a cursor over the heads."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,right", "step(1, 0)", "Next head", show=False, id="heads.next"),
        Binding("h,left", "step(-1, 0)", "Previous head", show=False, id="heads.previous"),
        Binding("j,down", "step(0, 1)", "Head below", show=False, id="heads.down"),
        Binding("k,up", "step(0, -1)", "Head above", show=False, id="heads.up"),
        *paging("heads"),
        Binding("gg,home,ctrl+home", "edge(False)", "First head", show=False, id="heads.first"),
        Binding("G,end,ctrl+end", "edge(True)", "Last head", show=False, id="heads.last"),
        Binding("enter", "app.open_map('maps')", "Enlarge the head's map", show=False, id="heads.open"),
    ]
    DEFAULT_CSS = """
    SmallMaps {
        width: 1fr; height: 1fr; scrollbar-size: 1 1;
        & > .small--name { color: $text-muted; }
        & > .small--name-cursor { color: $success; text-style: bold reverse; }
        & > .small--cell { color: $text; }
        & > .small--message { color: $text-muted; }
    }
    """

    class Picked(Message):
        """A person went to a head.

        Attributes
        ----------
        number : of the head, from zero.
        """

        def __init__(self, number: int) -> None:
            self.number = number
            super().__init__()

    class Opened(Message):
        """A person clicked on the head under the cursor, whose map is wanted in large."""

    def __init__(self) -> None:
        super().__init__()
        self._picked: int | None = None
        self._is_pointed_at = False
        self._ahead = MovesAhead()

    def expect(self, is_expected: bool) -> None:
        """Keep moves until there are heads to go to, or keep none: there will not be any."""
        self._ahead.expect(is_expected)

    def _once_there(self, move: Callable[[], None]) -> None:
        """Move among the heads, or among those that are expected, once it is known how their maps stand."""
        if self._tiles.count and not self._ahead.has_moves:
            move()
        else:
            self._ahead.add(move)

    def select(self, number: int | None) -> None:
        """Put the cursor on a head, unless a person has gone on to another one since."""
        if self._picked is None or number is None or number == self._picked:
            self._picked = None
            self._move(number)
        if self.has_maps:
            self._ahead.make()

    def action_step(self, columns: int, rows: int) -> None:
        """Go to another head, so many tiles away; past the end of a row to the next one."""
        self._once_there(partial(self._step, columns, rows))

    def _step(self, columns: int, rows: int) -> None:
        """Go so many tiles on; from nowhere to the first."""
        self._is_pointed_at = False
        self._pick(0 if self.cursor is None else self.cursor + columns + rows * self._tiles.columns)

    def action_page(self, pages: float) -> None:
        """Go a page up or down."""
        self._once_there(partial(self._page, pages))

    def _page(self, pages: float) -> None:
        """Go as many rows of maps up or down as are in view, as far as there are any."""
        rows = lines_of(pages, max(self.size.height // max(self._tiles.pitch[1], 1), 1))
        here = self.cursor or 0
        while rows and not 0 <= here + rows * self._tiles.columns < self._tiles.count:
            rows -= 1 if rows > 0 else -1
        self._step(0, rows)

    def action_edge(self, last: bool) -> None:
        """Go to the first or the last head."""
        self._once_there(lambda: self._pick(self._tiles.count - 1 if last else 0))

    def _pick(self, number: int) -> None:
        """Go to a head, if there is one, and tell so."""
        if number != self.cursor and 0 <= number < self._tiles.count:
            self._picked = number
            self._move(number)
            self.post_message(self.Picked(number))

    def _move(self, number: int | None) -> None:
        """Draw the cursor over another head, and scroll until that is in view."""
        before, self.cursor = self.cursor, number
        if before == number:
            return
        for each in (before, number):
            if each is not None and each < self._tiles.count:
                self.refresh(self._on_screen(each, only_name=True))
        self._reveal()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Go to the head that the mouse points at."""
        before = self.cursor
        self._point(event)
        self._is_pointed_at |= self.cursor != before

    def on_click(self, event: events.Click) -> None:
        """Go to the head that was clicked; show its map in large where the cursor was put there before.

        Where the mouse only came by, that is for the next click.
        """
        before = None if self._is_pointed_at else self.cursor
        self._is_pointed_at = False
        if self._point(event) and self.cursor == before:
            self.post_message(self.Opened())

    def _point(self, event: events.MouseEvent) -> bool:
        """Go to where the mouse is; say whether a head is there."""
        offset = event.get_content_offset(self)
        if offset is None or not self._maps:
            return False
        number = self._tiles.at(offset.x, offset.y + self.scroll_offset.y)
        if number is not None:
            self._pick(number)
        return number is not None
