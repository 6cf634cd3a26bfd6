"""Base classes of the screens over the explorer: boxes, and lists to read and close."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.errors import NoWidget
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from tui.toolkit.keys import HELP, QUIT_TOO, lines_of, paging_bindings
from tui.toolkit.screen import SizedScreen
from tui.widgets.key_line import KeyLine


class Modal(ModalScreen[ScreenResultType], SizedScreen[ScreenResultType], inherit_bindings=False):
    """A screen over the explorer that closes once: a second quick key does not close the screen below."""

    closes_outside = True
    """Whether a click outside its box closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "To the next part", show=False, id="box.next"),
        Binding("shift+tab", "app.focus_previous", "To the previous part", show=False, id="box.previous"),
        Binding("super+c", "screen.copy_text", "Copy selected text", show=False, id="box.copy"),
        HELP,
        QUIT_TOO,
    ]

    def action_move(self, way: str) -> None:
        """Move in the list, wherever the focus is."""
        getattr(self.query_one("OptionList, VerticalScroll"), f"action_{way}")()

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with a result, unless it is closed already."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def on_screen_resume(self) -> None:
        """Show the keys of this one again."""
        self.app.screen_stack[0].query_one(KeyLine).follow(self)

    def on_click(self, event: events.Click) -> None:
        """Press a key in the line at the foot, which stays visible below this screen; outside the box, close."""
        line = self.app.screen_stack[0].query_one(KeyLine)
        if line.region.contains(event.screen_x, event.screen_y):
            # From the line itself: a key sent by this screen would not bubble past it.
            line.call_later(line.press_at, event.screen_x - line.region.x)
        elif self.closes_outside:
            with suppress(NoWidget):  # the terminal may have become smaller meanwhile
                if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
                    self.dismiss(None)


class _Lines(VerticalScroll, inherit_bindings=False):
    """Scrolls without keys of its own: the screen has them all."""


class ListScreen(Modal[None], inherit_bindings=False):
    """Shows lines that scroll; subclasses fill the body."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(each for each in Modal.BINDINGS if each is not HELP),
        Binding("escape,q,question_mark,enter", "dismiss", "Close", id="list.close"),
        Binding("j,down", "move('scroll_down')", "Down", show=False, id="list.down"),
        Binding("k,up", "move('scroll_up')", "Up", show=False, id="list.up"),
        *paging_bindings("list"),
        Binding("gg,home,ctrl+home", "move('scroll_home')", "First line", show=False, id="list.first"),
        Binding("G,end,ctrl+end", "move('scroll_end')", "Last line", show=False, id="list.last"),
    ]

    heading = ""

    def __init__(self) -> None:
        super().__init__()
        self.body = Static()

    def compose(self) -> ComposeResult:
        """Put the body into a scrolling box."""
        with _Lines(id="list", classes="box") as lines:
            lines.border_title = self.heading
            yield self.body

    def action_page(self, pages: float) -> None:
        """Scroll by pages."""
        lines = self.query_one("#list")
        lines.scroll_relative(y=lines_of(pages, lines.scrollable_content_region.height), animate=False)
