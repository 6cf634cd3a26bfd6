"""The line that the sentence is typed into, and the tokens of what is being typed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets.input import Selection

from engine.values.errors import EngineError, Superseded
from tui.state.sentences import Sentences
from tui.toolkit.application import start_work
from tui.widgets.field import Field

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.attention import Sentence
    from tui.widgets.token_text import TokenLine

PAUSE = 0.08
"""Seconds without a key after which what is typed is cut into tokens."""


class SentenceInput(Field):
    """An input that goes through earlier sentences, and takes a pasted text whole, its lines joined by spaces.

    While nobody types, it shows the tokens of the sentence that was read, and nothing that was not: a draft that is
    left waits until the line is typed into again.

    Parameters
    ----------
    sentences : the earlier ones.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.read_sentence", "Read it", id="sentence.read"),
        Binding("escape", "screen.leave_sentence", "Back", id="sentence.leave"),
        Binding("up", "history(1)", "Earlier", id="sentence.older"),
        Binding("down", "history(-1)", "Later sentence", show=False, id="sentence.newer"),
        Binding("ctrl+u", "delete_left_all", "Clear up to the cursor", id="sentence.clear"),
        Binding("ctrl+r", "screen.sentences(True)", "Find an earlier one", show=False, id="sentence.find"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "sentence.read": "Read it",
        "sentence.leave": "Back",
        "sentence.older": "Earlier",
        "sentence.clear": "Clear",
        "sentence.find": "Find",
    }

    leaving = "screen.leave_sentence"

    def __init__(self, sentences: Sentences) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self._sentences = sentences
        self._engine: Engine | None = None
        self._line: TokenLine | None = None
        self._spelled: Sentence | EngineError | None = None
        self.pause: Timer | None = None
        self._shown: Sentence | None = None
        self._text = ""
        self._draft: tuple[str, Selection] | None = None

    @property
    def draft(self) -> str:
        """What is typed and has not been read; nothing where that is what is on screen."""
        typed = self.value if self._draft is None else self._draft[0]
        return typed if typed.strip() and typed != self._text else ""

    def show_read(self, text: str, sentence: Sentence | None) -> None:
        """Take what is on screen: what stands here while nobody types, and its tokens, where they are known."""
        self._text, self._shown = text, sentence
        if sentence is not None:
            self._spelled = sentence
        if not self.has_focus:
            self.value = text
            self.refresh()

    def finish(self, text: str) -> None:
        """Take a sentence that is about to be read, in the place of any draft."""
        self._draft = None
        self._sentences.rest()
        self._text = self.value = text

    def begin(self) -> None:
        """Prepare for being typed into: what was read is to be replaced, and a draft comes back as it was left."""
        if self._draft is None:
            self.offer_to_replace()

    def action_history(self, step: int) -> None:
        """Put an older sentence, or a newer one, in the place of what is typed."""
        self.value = self._sentences.go(step, self.value)
        self.cursor_position = len(self.value)

    def put_back(self) -> None:
        """Leave the sentence that is on screen in the line, without what was typed."""
        self._sentences.rest()
        self.value = self._text

    async def show_tokens(self, engine: Engine) -> None:
        """Show how what is typed is cut into tokens from now on."""
        from tui.widgets.token_text import TokenLine  # for which the first frame does not wait

        self._engine, self._spelled = engine, None
        if self._line is None:
            self._line = TokenLine()
            await self.screen.mount(self._line)

    def _look(self) -> None:
        """Show how what is typed is cut, at the cursor, while the line has the focus; a moment after the last key."""
        if self._line is None:
            return
        self._line.display = self.has_focus
        if not self.has_focus:
            return
        if not self.value.strip():
            self._spelled = None
        elif self._spelled is None or getattr(self._spelled, "text", None) != self.value:
            if self.pause is not None:
                self.pause.stop()
            self.pause = self.set_timer(PAUSE, self._ask)
        self._line.show(self._spelled, self.cursor_position)

    def _ask(self) -> None:
        """Have the engine cut what is typed now."""
        self.pause = None
        start_work(self, partial(self._spell, self.value), "spelling")

    async def _spell(self, text: str) -> None:
        """Learn the tokens."""
        if not text.strip() or self._engine is None or self._line is None:
            return
        try:
            self._spelled = await asyncio.wrap_future(self._engine.spell(text, "spelling"))
        except Superseded:
            return
        except EngineError as error:
            self._spelled = error
        self._line.show(self._spelled, self.cursor_position)

    def render_line(self, y: int) -> Strip:
        """Draw the tokens of what was read, or its text while these are unknown; else what is typed."""
        shown, width = self._shown, self.size.width
        if y or self.has_focus:
            return super().render_line(y)
        if not self.value.strip():
            from tui.drawing.text import fit

            said = fit(str(self.placeholder), width)
            placeholder = Strip([Segment(said, self.get_component_rich_style("input--placeholder"))])
            return placeholder.apply_style(self.rich_style).adjust_cell_length(width, self.rich_style)
        if shown is None or shown.text != self.value:
            from tui.drawing.text import escape_text, fit

            text = Text(fit(escape_text(self.value), width), no_wrap=True, end="")
        else:
            from tui.drawing.token_spelling import token_strip

            text = token_strip(shown, width)
        style = self.rich_style
        plain = Style(bgcolor=style.bgcolor)
        return Strip(text.render(self.app.console)).apply_style(style).adjust_cell_length(width, plain)

    def watch_selection(self) -> None:
        """Have the tokens at the cursor shown."""
        super().watch_selection()
        self._look()

    def watch_value(self) -> None:
        """Have the tokens of what is typed now shown."""
        self._look()

    def on_focus(self) -> None:
        """Have tokens shown while it is typed in, those of a draft where one was left."""
        if self._draft is not None:
            (self.value, selection), self._draft = self._draft, None
            self.selection = selection
        self.refresh()
        self._look()

    def on_blur(self) -> None:
        """Have none shown but the line's own; what was not read is put away, unless another window has the focus."""
        if self.app.app_focus and self.value != self._text:
            self._draft = (self.value, self.selection) if self.value.strip() else None
            self.value = self._text
        self.refresh()
        self._look()
