"""The palette of commands as the explorer has it: what is typed fast runs what it finds, and no old match."""

from __future__ import annotations

from textual import on
from textual.command import CommandInput, CommandPalette
from textual.widgets import Input


class Palette(CommandPalette):
    """The toolkit's palette, whose Enter waits for the matches of what has been typed by then."""

    def __init__(self) -> None:
        super().__init__(placeholder="L5H3, a label, or what a key does", id="palette")

    def on_mount(self) -> None:
        """Keep the cursor still: what blinks is sent again and again."""
        self.query_one(CommandInput).cursor_blink = False

    @on(Input.Submitted)
    async def _run_found(self, event: Input.Submitted) -> None:
        """Run the first match once it is found."""
        event.prevent_default()
        for worker in list(self.workers):
            if worker.group == self._GATHER_COMMANDS_GROUP and not worker.is_finished:
                await worker.wait()
        self._select_or_command(event)
