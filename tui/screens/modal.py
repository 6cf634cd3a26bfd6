"""Screens over the explorer."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, ScreenResultType

from tui.key_line import KeyLine
from tui.selected_text import say_copied


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
