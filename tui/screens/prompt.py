"""The line at the foot that a short answer is typed into: where to go, what to search."""

from __future__ import annotations

from typing import ClassVar, Protocol

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from engine.values.errors import EngineError
from tui.drawing.text import fit
from tui.toolkit.screen import is_displayed
from tui.widgets.field import CompletingField
from tui.widgets.line import Line

GAPS = 6
"""Cells of the line that nothing stands in: around the question and what is said, and one for the cursor and beyond."""


class Question(Protocol):
    """What is asked, and what becomes of the answer.

    Attributes
    ----------
    label : stands before the answer.
    """

    label: str

    def completions(self, text: str) -> tuple[str, ...]:
        """List what Tab makes of what is typed, one after the other."""

    def typed(self, text: str) -> str:
        """Accept so far, and say something about it."""

    def answer(self, text: str) -> None:
        """Take the answer.

        Raises
        ------
        EngineError : when it cannot be taken; the line stays open and says why.
        """

    def leave(self) -> None:
        """Take that there is no answer."""


class PromptInput(CompletingField):
    """The answer itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before any widget sees them, so that what is typed after them goes where they lead, however fast it comes.
        Binding("enter", "answer", "Go", id="prompt.answer", priority=True),
        Binding("escape,ctrl+c", "leave", "Leave", id="prompt.leave", priority=True),
        Binding("colon", "anew", "Clear a refused answer", False, id="prompt.anew", priority=True),
        Binding("tab", "complete(1)", "Complete", id="prompt.complete"),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False, id="prompt.complete_back"),
    ]

    class Ended(Message):
        """The answer is complete once what was typed before has been put into it, or there is none."""

        def __init__(self, *, is_answer: bool) -> None:
            self.is_answer = is_answer
            super().__init__()

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False, name="prompt")

    @property
    def prompt(self) -> Prompt:
        """The line that it is in."""
        assert isinstance(self.parent, Prompt)
        return self.parent

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Take a colon for itself but behind a refused answer."""
        return action != "anew" or self.prompt.is_refused

    def action_answer(self) -> None:
        """Give the keys back, and the answer once it is complete."""
        self.prompt.give_back()
        self.post_message(self.Ended(is_answer=True))

    def action_leave(self) -> None:
        """Give the keys back without an answer."""
        self.prompt.give_back()
        self.post_message(self.Ended(is_answer=False))

    async def action_anew(self) -> None:
        """Leave, and ask where to go, or what to do, as the key does where no line is open."""
        self.prompt.leave()
        await self.run_action("screen.jump")

    async def action_submit(self) -> None:
        """Take a key that some remapping has left to the toolkit for the same."""
        self.action_answer()

    def action_delete_left(self) -> None:
        """Delete a character; where there is none, leave."""
        if self.value:
            super().action_delete_left()
        else:
            self.action_leave()

    def completions(self, text: str) -> tuple[str, ...]:
        """List what a text may become."""
        return self.prompt.completions(text)

    def say_none(self, text: str) -> None:
        """Say that what is typed cannot be completed."""
        self.prompt.say_none()


class Prompt(Horizontal):
    """A question over the line of keys, with what there is to say about the answer at its right."""

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.display = False
        self.input = PromptInput()
        self.label = Line(classes="prompt-label")
        self.said = Line(classes="prompt-said")
        self._question: Question | None = None
        self._before: Widget | None = None
        self._has_given_back = False
        self.is_refused = False
        """Whether the answer was refused, and nothing has been typed since."""

    def compose(self) -> ComposeResult:
        """Put the question, the answer and what is said about it beside each other."""
        yield self.label
        yield self.input
        yield self.said

    def ask(self, question: Question, text: str = "") -> None:
        """Open the line; the keys are its own at once.

        Parameters
        ----------
        question : what is asked.
        text : the answer to begin with.
        """
        if self.screen.focused is not self.input:
            self._before = self.screen.focused
        self._question = question
        self.is_refused = False
        self.label.show(question.label)
        with self.prevent(Input.Changed):
            self.input.value = text
        self._say(question.typed(text))
        self.display = True
        self._take_keys()

    def _say(self, text: str) -> None:
        """Say something about the answer as far as that leaves room: what is typed stays in sight."""
        room = self.screen.size.width - cell_len(self.label.shown.plain) - cell_len(self.input.value) - GAPS
        self.said.show(fit(text, max(room, 0)) if cell_len(text) > room else text)

    def _take_keys(self) -> None:
        """Have what is typed from now on."""
        self._has_given_back = False
        self.screen.set_focus(self.input)

    def completions(self, text: str) -> tuple[str, ...]:
        """List what a text may become."""
        return () if self._question is None else self._question.completions(text)

    def say_none(self) -> None:
        """Say that what is typed cannot be completed."""
        self._say("no completion begins like this")

    def give_back(self) -> None:
        """Let the keys go where they went before; the line stays until its answer has been taken."""
        self._has_given_back = True
        before = self._before
        can_have_them = before is not None and before.focusable and is_displayed(before)
        self.screen.set_focus(before if can_have_them else None)

    def leave(self) -> None:
        """Put the line away; what was asked has no answer."""
        question = self._question
        self.close()
        if question is not None:
            question.leave()

    def close(self) -> None:
        """Put the line away."""
        if self.screen.focused is self.input:
            self.give_back()
        self._question = None
        self.display = False

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Say what there is to say about the answer so far."""
        event.stop()
        self.is_refused = False
        if self._question is not None:
            self._say(self._question.typed(event.value))

    @on(PromptInput.Ended)
    def _ended(self, event: PromptInput.Ended) -> None:
        """Take the answer; what cannot be taken is said, and the line stays open."""
        event.stop()
        question = self._question
        if question is None:
            return
        if not event.is_answer:
            self.leave()
            return
        try:
            question.answer(self.input.value)
        except EngineError as error:
            self.said.show(str(error))
            self.is_refused = True
            self._take_keys()
        else:
            self.close()

    def on_descendant_blur(self) -> None:
        """Go away where the mouse has taken the keys elsewhere; without the terminal's focus no widget has them."""
        has_again = self.screen.focused is self.input  # for another question, by now
        if self.app.app_focus and not self._has_given_back and not has_again:
            self.close()
