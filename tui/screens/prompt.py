"""The prompt: the line at the foot for a short answer, such as where to go or what to search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input

from engine.values.errors import EngineError
from tui.drawing.text import fit
from tui.toolkit.screen import TerminalScreen
from tui.widgets.field import Field, candidates
from tui.widgets.line import Line

GAPS = 6
"""Blank cells of the line: around the question and the message, and one for the cursor."""


class Question:
    """What is asked, and what happens with the answer.

    Attributes
    ----------
    label : precedes the answer.
    names : the words that an answer may be.
    """

    label: ClassVar[str]
    names: Sequence[str] = ()

    def completions(self, text: str) -> tuple[str, ...]:
        """List the completions that Tab goes through."""
        return candidates(text, self.names)

    def typed(self, text: str) -> str:
        """Take the text so far and return a message about it."""
        raise NotImplementedError

    def answer(self, text: str) -> None:
        """Take the answer; `EngineError` when it is refused; the prompt stays open and says why."""
        raise NotImplementedError

    def leave(self) -> None:
        """End without an answer."""


class Prompt(Horizontal):
    """A question over the line of keys: label, answer, and a message about the answer at the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, so that keys typed right after them go where they lead.
        Binding("enter", "submit", "Go", id="prompt.answer", priority=True),
        Binding("escape,ctrl+c", "leave", "Leave", id="prompt.leave", priority=True),
        Binding("tab", "complete(1)", "Complete", id="prompt.complete"),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False, id="prompt.complete_back"),
    ]

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.display = False
        self.input = Field(name="prompt")
        self.label = Line(classes="prompt-label")
        self.message_line = Line(classes="prompt-said")
        self._question: Question | None = None
        self._refused: str | None = None
        self._completed = ("", "", 0)
        """The completed text, what was typed, and the number of the completion."""

    def compose(self) -> ComposeResult:
        """Put label, answer and message beside each other."""
        yield self.label
        yield self.input
        yield self.message_line

    def ask(self, question: Question, text: str = "") -> None:
        """Open the prompt and give it the focus; the text is the answer to begin with."""
        self._question = question
        self._refused = None
        self.label.show(question.label)
        with self.prevent(Input.Changed):
            self.input.value = text
        if text:
            self.input.offer_to_replace()
        self._say(question.typed(text))
        self.display = True
        self.screen.set_focus(self.input)

    def _say(self, text: str) -> None:
        """Show a message in the room that the answer leaves."""
        room = self.screen.size.width - cell_len(self.label.shown.plain) - cell_len(self.input.value) - GAPS
        self.message_line.show(fit(text, max(room, 0)) if cell_len(text) > room else text)

    def action_submit(self) -> None:
        """Return the focus, then answer; the prompt stays open, and takes the focus again, if that is refused."""
        if self._question is None:
            return
        self._give_back()
        try:
            self._question.answer(self.input.value)
        except EngineError as error:
            self._say(str(error))
            if str(error) != self.message_line.shown.plain:
                self.app.notify(str(error), severity="warning")
            self._refused = self.input.value
            self.screen.set_focus(self.input)
        else:
            self.close()

    def action_leave(self) -> None:
        """Close, and tell the question that it has no answer."""
        question = self._question
        self.close()
        if question is not None:
            question.leave()

    def action_complete(self, step: int) -> None:
        """Complete the text before the cursor; pressed again, the next or the previous way."""
        value, cursor = self.input.value, self.input.cursor_position
        before, after = value[:cursor], value[cursor:]
        completed, text, place = self._completed
        text, place = (text, place + step) if before and before == completed else (before, 0)
        if not (found := () if self._question is None else self._question.completions(text)):
            self._say("no completion begins like this")
            return
        completed = found[place % len(found)]
        self._completed = completed, text, place
        self.input.value = f"{completed}{after}"
        self.input.cursor_position = len(completed)

    def _give_back(self) -> None:
        assert isinstance(self.screen, TerminalScreen)
        self.screen.leave_field()

    def close(self) -> None:
        """Close, without a word to the question."""
        if self.screen.focused is self.input:
            self._give_back()
        self._question = None
        self.display = False

    @on(Input.Changed)
    def _take_text(self, event: Input.Changed) -> None:
        event.stop()
        if self._question is not None and event.value != self._refused:
            self._say(self._question.typed(event.value))

    def on_descendant_blur(self) -> None:
        """Close when a click moves the focus elsewhere, but not when the terminal itself loses the focus."""
        if self.app.app_focus and self.screen.focused is not self.input:
            self.close()
