"""The line that the sentence is typed into."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class SentenceInput(Input):
    """An input that takes a pasted text whole, its lines joined by spaces, where the toolkit's takes the first line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before any widget sees it, so that what is typed after it is no part of the sentence, however fast it comes.
        Binding("enter", "app.read_sentence", "Read it", id="sentence.read", priority=True),
        Binding("escape", "app.tree", "Back to the tree", id="sentence.leave"),
    ]

    class Finished(Message):
        """The sentence is complete once what was typed before has been put into it."""

    def finish(self) -> None:
        """Submit the sentence when all that was typed by now is in it."""
        self.post_message(self.Finished())

    def on_sentence_input_finished(self) -> None:
        """Submit what has been typed."""
        self.post_message(self.Submitted(self, self.value))

    def _on_paste(self, event: events.Paste) -> None:
        """Put the pasted text where the cursor is."""
        event.prevent_default()
        event.stop()
        self.insert_text_at_cursor(" ".join(event.text.splitlines()))
