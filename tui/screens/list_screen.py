"""A list over everything else, to be read and closed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from tui.screens.modal import Modal
from tui.widgets.paging import lines_of


class _Lines(VerticalScroll, inherit_bindings=False):
    """Lines whose keys are the screen's alone, which has them all."""


class ListScreen(Modal[None]):
    """Shows lines that can be scrolled; what they say is up to the screens made of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close", id="list.close"),
        Binding("ctrl+q,ctrl+c", "app.quit", "Quit", show=False, id="list.quit"),
        Binding("j,down", "down", "Down", show=False, id="list.down"),
        Binding("k,up", "up", "Up", show=False, id="list.up"),
        Binding("pagedown,space,ctrl+f", "page(1)", "A page down", show=False, id="list.page_down"),
        Binding("pageup,ctrl+b", "page(-1)", "A page up", show=False, id="list.page_up"),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False, id="list.half_down"),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False, id="list.half_up"),
        # Here no prompt opens, so that the first of two presses is there already.
        Binding("g,home,ctrl+home", "first", "First line", show=False, id="list.first"),
        Binding("G,end,ctrl+end", "last", "Last line", show=False, id="list.last"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.body = Static()

    def compose(self) -> ComposeResult:
        """Put the lines where they can be scrolled."""
        with _Lines(id="list"):
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
