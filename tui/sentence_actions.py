"""The keys of the sentence: the list of those that were read, and the one that is read as coloured text."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import Input

from tui.key_groups import SENTENCE
from tui.parts import Parts
from tui.sentence_input import SentenceInput


class SentenceActions(Parts):
    """An application with these keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "sentences", "Earlier sentences", show=False, id="app.sentences", group=SENTENCE),
        Binding("T", "text", "The sentence as coloured text", show=False, id="app.text", group=SENTENCE),
    ]

    def action_sentences(self) -> None:
        """List the sentences; the one that is chosen is shown at once."""
        self._list_sentences(is_finding=False)

    def action_find_sentence(self) -> None:
        """Find an earlier sentence by its words; the one that is chosen is read at once."""
        self._list_sentences(is_finding=True)

    def _list_sentences(self, *, is_finding: bool) -> None:
        """Show the list."""
        from tui.screens.sentences_screen import SentencesScreen

        def take(text: str | None) -> None:
            if text is not None:
                self.sentence_input.take(text)

        screen = SentencesScreen(self.conductor.sentences, is_finding=is_finding, ascii_only=self.ascii_only)
        self.push_screen(screen, take)

    def action_text(self) -> None:
        """Show the sentence as coloured text, or its map again."""
        self.conductor.coloured.toggle()

    @on(SentenceInput.Looked)
    @on(Input.Changed, "SentenceInput")
    def _sentence_looked_at(self) -> None:
        """Show how what is typed is cut into tokens."""
        if self.is_ready:
            self.conductor.sentences.look()
