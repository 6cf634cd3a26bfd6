"""The prompt: the line at the foot for a short answer, such as where to go or what to search."""

from __future__ import annotations

from typing import ClassVar, Protocol

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input

from engine.values.errors import EngineError
from tui.drawing.text import fit
from tui.toolkit.screen import is_displayed
from tui.widgets.field import Field
from tui.widgets.line import Line

GAPS = 6
"""Blank cells of the line: around the question and the message, and one for the cursor."""


class Question(Protocol):
    """What is asked, and what happens with the answer; the label precedes the answer."""

    label: str

    def completions(self, text: str) -> tuple[str, ...]:
        """List the completions that Tab goes through."""

    def typed(self, text: str) -> str:
        """Take the text so far and return a message about it."""

    def answer(self, text: str) -> None:
        """Take the answer; `EngineError` when it is refused; the prompt stays open and says why."""

    def leave(self) -> None:
        """End without an answer."""


class PromptInput(Field):
    """The answer; a key completes the text before the cursor, and pressed again, in another way."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, so that keys typed right after them go where they lead.
        Binding("enter", "submit", "Go", id="prompt.answer", priority=True),
        Binding("escape,ctrl+c", "leave", "Leave", id="prompt.leave", priority=True),
        Binding("colon", "anew", "Clear a refused answer", False, id="prompt.anew", priority=True),
        Binding("tab", "complete(1)", "Complete", id="prompt.complete"),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False, id="prompt.complete_back"),
    ]

    def __init__(self) -> None:
        super().__init__(name="prompt")
        self._completed = ("", "", 0)
        """The completed text, what was typed, and the number of the completion."""

    @property
    def prompt(self) -> Prompt:
        """The prompt around it."""
        assert isinstance(self.parent, Prompt)
        return self.parent

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Give a colon its action only after a refused answer."""
        return action != "anew" or self.prompt.is_refused

    async def action_submit(self) -> None:
        """Return the focus, then answer with all that was typed before."""
        self.prompt.give_back()
        await super().action_submit()

    def action_leave(self) -> None:
        """Return the focus, without an answer."""
        self.prompt.leave()

    async def action_anew(self) -> None:
        """Leave, and open the prompt again."""
        self.prompt.leave()
        await self.run_action("screen.jump")

    def action_delete_left(self) -> None:
        """Delete a character, or leave an empty prompt."""
        if self.value:
            super().action_delete_left()
        else:
            self.action_leave()

    def action_complete(self, step: int) -> None:
        """Complete the text before the cursor; pressed again, the next or the previous way."""
        before, after = self.value[: self.cursor_position], self.value[self.cursor_position :]
        completed, text, place = self._completed
        text, place = (text, place + step) if before and before == completed else (before, 0)
        if not (found := self.prompt.completions(text)):
            self.prompt.say("no completion begins like this")
            return
        completed = found[place % len(found)]
        self._completed = completed, text, place
        self.value = f"{completed}{after}"
        self.cursor_position = len(completed)


class Prompt(Horizontal):
    """A question over the line of keys: label, answer, and a message about the answer at the right."""

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.display = False
        self.input = PromptInput()
        self.label = Line(classes="prompt-label")
        self.message_line = Line(classes="prompt-said")
        self._question: Question | None = None
        self._before: Widget | None = None
        self._has_given_back = False
        self.is_refused = False
        """Whether the answer was refused, and nothing has been typed since."""

    def compose(self) -> ComposeResult:
        """Put label, answer and message beside each other."""
        yield self.label
        yield self.input
        yield self.message_line

    def ask(self, question: Question, text: str = "") -> None:
        """Open the prompt and give it the focus; the text is the answer to begin with."""
        if self.screen.focused is not self.input:
            self._before = self.screen.focused
        self._question = question
        self.is_refused = False
        self.label.show(question.label)
        with self.prevent(Input.Changed):
            self.input.value = text
        if text:
            self.input.offer_to_replace()
        self.say(question.typed(text))
        self.display = True
        self._take_focus()

    def say(self, text: str) -> None:
        """Show a message in the room that the answer leaves."""
        room = self.screen.size.width - cell_len(self.label.shown.plain) - cell_len(self.input.value) - GAPS
        self.message_line.show(fit(text, max(room, 0)) if cell_len(text) > room else text)

    def _take_focus(self) -> None:
        self._has_given_back = False
        self.screen.set_focus(self.input)

    def completions(self, text: str) -> tuple[str, ...]:
        """List the completions that the question has for a text."""
        return () if self._question is None else self._question.completions(text)

    def give_back(self) -> None:
        """Return the focus to where it was; the prompt stays until its answer has been taken."""
        self._has_given_back = True
        before = self._before
        can_have_it = before is not None and before.focusable and is_displayed(before)
        self.screen.set_focus(before if can_have_it else None)

    def leave(self) -> None:
        """Close, and tell the question that it has no answer."""
        question = self._question
        self.close()
        if question is not None:
            question.leave()

    def close(self) -> None:
        """Close, without a word to the question."""
        if self.screen.focused is self.input:
            self.give_back()
        self._question = None
        self.display = False

    @on(Input.Changed)
    def _take_text(self, event: Input.Changed) -> None:
        event.stop()
        self.is_refused = False
        if self._question is not None:
            self.say(self._question.typed(event.value))

    @on(Input.Submitted)
    def _take_answer(self, event: Input.Submitted) -> None:
        event.stop()
        question = self._question
        if question is None:
            return
        try:
            question.answer(self.input.value)
        except EngineError as error:
            self.message_line.show(str(error))
            self.is_refused = True
            self._take_focus()
        else:
            self.close()

    def on_descendant_blur(self) -> None:
        """Close when a click moves the focus elsewhere, but not when the terminal itself loses the focus."""
        has_again = self.screen.focused is self.input  # for another question
        if self.app.app_focus and not self._has_given_back and not has_again:
            self.close()
