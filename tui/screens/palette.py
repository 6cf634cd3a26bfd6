"""The palette of commands as the explorer has it: what is typed fast runs what it finds, and no old match."""

from __future__ import annotations

import contextlib
from typing import ClassVar

from rich.align import Align
from rich.text import Text
from textual import on
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingsMap, BindingType
from textual.command import CommandInput, CommandList, CommandPalette
from textual.widgets import Input
from textual.widgets.option_list import Option
from textual.worker import WorkerCancelled

from tui.drawing.text import quoted
from tui.messages import Told
from tui.toolkit.keys import key_of
from tui.widgets.field import Field


class Palette(CommandPalette, inherit_bindings=False):
    """The toolkit's palette, whose Enter waits for the matches of what has been typed by then.

    What the toolkit's does not take, a key before its list has lines and two quick ones that close it, it leaves be.

    Parameters
    ----------
    head : a head that there is, to say how one is written.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "escape", "Leave", show=False, id="palette.leave"),
        Binding("down,ctrl+n", "cursor_down", "Next command", show=False, id="palette.down"),
        Binding("up,ctrl+p", "command_list('cursor_up')", "Previous command", show=False, id="palette.up"),
        Binding("pagedown", "command_list('page_down')", "A page down", show=False, id="palette.page_down"),
        Binding("pageup", "command_list('page_up')", "A page up", show=False, id="palette.page_up"),
        Binding("ctrl+home", "command_list('first')", "First command", show=False, id="palette.first"),
        Binding("ctrl+end", "command_list('last')", "Last command", show=False, id="palette.last"),
        Binding("ctrl+q", "app.quit", "Quit", show=False, id="palette.quit"),
    ]

    def __init__(self, head: str) -> None:
        super().__init__(placeholder=f"{head}, a label, or what a key does", id="palette")

    def on_mount(self) -> None:
        """Keep the cursor still: what blinks is sent again and again. Keys edit as in every other line."""
        field = self.query_one(CommandInput)
        field.cursor_blink = False
        edits = [each for each in Field.BINDINGS if isinstance(each, Binding) and each.action != "copy"]
        field._bindings = BindingsMap(edits)  # without ctrl+c, which leaves

    @on(Input.Submitted)
    async def _run_found(self, event: Input.Submitted) -> None:
        """Run the first match once it is found, unless the palette has been closed meanwhile.

        What was looked for before the last letter came is waited for as well, and may have been given up.
        """
        event.prevent_default()
        for worker in list(self.workers):
            if worker.group == self._GATHER_COMMANDS_GROUP and not worker.is_finished:
                with contextlib.suppress(WorkerCancelled):
                    await worker.wait()
        if self.is_current and not self._say_none(event.value):
            self._select_or_command(event)

    def _start_no_matches_countdown(self, search_value: str) -> None:
        """Say at once that nothing is found: all that there is has been looked through by then."""
        self._list_visible = bool(search_value)
        if search_value:
            none = Align.center(Text("No matches found", style="not bold"))
            self.query_one(CommandList).add_option(Option(none, disabled=True, id=self._NO_MATCHES))

    def _say_none(self, typed: str) -> bool:
        """Say that nothing matches what is typed, where that is so; False where there is something to run."""
        options = self.query_one(CommandList).options
        if not typed.strip() or any(each.id != self._NO_MATCHES for each in options):
            return False
        leave = key_of(self.app, "palette.leave")
        self.post_message(Told(f"no head, view or command matches {quoted(typed.strip())}; {leave} goes back"))
        return True

    def _action_command_list(self, action: str) -> None:
        """Leave the list as it is while what was found just now has no lines yet."""
        with contextlib.suppress(KeyError):
            super()._action_command_list(action)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close once, and not before it is there; the second of two quick Enters would close the screen below, too."""
        if not self.is_mounted:
            self.call_later(self._close)
            return AwaitComplete()
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def _close(self) -> None:
        """Close, without waiting for it, which would be for itself."""
        self.dismiss()

    def _gather_commands(self, search_value: str) -> None:  # type: ignore[override]  # decorated, there
        """Look for nothing any more once it is closed, though something may have been typed before."""
        if self.is_current:
            super()._gather_commands(search_value)
