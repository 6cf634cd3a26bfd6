"""Screens over the explorer, and lists over everything else, to be read and closed."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from tui.toolkit.application import say_copied
from tui.toolkit.keys import lines_of
from tui.widgets.key_line import KeyLine


class Modal(ModalScreen[ScreenResultType], inherit_bindings=False):
    """A screen over the explorer that closes once.

    Of two quick keys that close it the second comes when it has been closed; it would close the screen below as well.
    """

    closes_outside = True
    """Whether a click beside what it shows closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "To the next part", show=False, id="box.next"),
        Binding("shift+tab", "app.focus_previous", "To the previous part", show=False, id="box.previous"),
        Binding("super+c", "screen.copy_text", "Copy selected text", show=False, id="box.copy"),
    ]

    def action_copy_text(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy_text()
        say_copied(self.app)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close, with a result, unless that has been done."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def on_screen_suspend(self) -> None:
        """Show the keys of the screen that has come over this one."""
        self.app.screen_stack[0].query_one(KeyLine).follow(self.app.screen)

    def on_screen_resume(self) -> None:
        """Show the keys of this one again."""
        self.app.screen_stack[0].query_one(KeyLine).follow(self)

    def on_click(self, event: events.Click) -> None:
        """Press a key of the line at the foot, which is seen though it lies below this screen; beside all, close."""
        line = self.app.screen_stack[0].query_one(KeyLine)
        if line.region.contains(event.screen_x, event.screen_y):
            # As the line's own doing: a key that this screen sends would not bubble past it.
            line.call_later(line.press_at, event.screen_x - line.region.x)
        elif self.closes_outside and self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss(None)


class Box(Vertical):
    """What such a screen shows, with its title in the frame, or above it where the screen has no room for a frame.

    Parameters
    ----------
    title : of the screen.
    """

    def __init__(self, title: str, id: str) -> None:
        super().__init__(id=id, classes="box")
        self.border_title = title

    def on_mount(self) -> None:
        """Put the title before all else."""
        self.mount(Static(self.border_title or "", markup=False, classes="box-title"), before=0)


class _Lines(VerticalScroll, inherit_bindings=False):
    """Lines whose keys are the screen's alone, which has them all."""


class ListScreen(Modal[None]):
    """Shows lines that can be scrolled; what they say is up to the screens made of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close", id="list.close"),
        Binding("ctrl+q,ctrl+c", "app.quit", "Quit", show=False, id="list.quit"),
        Binding("j,down", "down", "Down", show=False, id="list.down"),
        Binding("k,up", "up", "Up", show=False, id="list.up"),
        Binding("pagedown,ctrl+f", "page(1)", "A page down", show=False, id="list.page_down"),
        Binding("pageup,ctrl+b", "page(-1)", "A page up", show=False, id="list.page_up"),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False, id="list.half_down"),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False, id="list.half_up"),
        Binding("gg,home,ctrl+home", "first", "First line", show=False, id="list.first"),
        Binding("G,end,ctrl+end", "last", "Last line", show=False, id="list.last"),
    ]

    heading = ""
    """The title in its frame."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Static()

    def compose(self) -> ComposeResult:
        """Put the lines where they can be scrolled."""
        with _Lines(id="list", classes="box") as lines:
            lines.border_title = self.heading
            yield self.body

    def action_down(self) -> None:
        """Scroll down."""
        self.query_one("#list").scroll_down(animate=False)

    def action_page(self, pages: float) -> None:
        """Scroll by as many lines as are in view."""
        lines = self.query_one("#list")
        lines.scroll_relative(y=lines_of(pages, lines.scrollable_content_region.height), animate=False)

    def action_first(self) -> None:
        """Scroll to the first line."""
        self.query_one("#list").scroll_home(animate=False)

    def action_last(self) -> None:
        """Scroll to the last line."""
        self.query_one("#list").scroll_end(animate=False)

    def action_up(self) -> None:
        """Scroll up."""
        self.query_one("#list").scroll_up(animate=False)
