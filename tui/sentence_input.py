"""The line that the sentence is typed into."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input


class SentenceInput(Input):
    """An input that takes a pasted text whole, its lines joined by spaces, where the toolkit's takes the first line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Read it", id="sentence.read"),
        Binding("escape", "app.tree", "Back to the tree", id="sentence.leave"),
    ]

    def _on_paste(self, event: events.Paste) -> None:
        """Put the pasted text where the cursor is."""
        event.prevent_default()
        event.stop()
        self.insert_text_at_cursor(" ".join(event.text.splitlines()))
