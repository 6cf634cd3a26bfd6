"""The line for the sentence, and the tokens of what is typed."""

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

from engine.values.errors import EngineError, Superseded
from tui.drawing.text import escape_text, fit
from tui.state.sentences import Sentences
from tui.toolkit.application import start_work
from tui.widgets.field import Field

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.attention import Sentence
    from tui.widgets.token_text import TokenLine

PAUSE = 0.08
"""Seconds without a key before the text is cut into tokens."""


class SentenceInput(Field):
    """An input with a history of sentences; a pasted text is taken whole, with spaces for its line ends.

    Without the focus it draws the tokens of the sentence on screen; a draft that was not read stays its value.

    Parameters
    ----------
    sentences : the history.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.read_sentence", "Read it", id="sentence.read"),
        Binding("escape", "screen.leave_sentence", "Back", id="sentence.leave"),
        Binding("up", "history(1)", "Earlier", id="sentence.older"),
        Binding("down", "history(-1)", "Later sentence", show=False, id="sentence.newer"),
        Binding("ctrl+u", "delete_left_all", "Clear up to the cursor", id="sentence.clear"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "sentence.read": "Read it",
        "sentence.leave": "Back",
        "sentence.older": "Earlier",
        "sentence.clear": "Clear",
    }

    leaving = "screen.leave_sentence"

    def __init__(self, sentences: Sentences) -> None:
        super().__init__()
        self._sentences = sentences
        self._engine: Engine | None = None
        self._line: TokenLine | None = None
        self._spelled: Sentence | EngineError | None = None
        self.pause: Timer | None = None
        self._shown: Sentence | None = None
        self._text = ""

    @property
    def has_draft(self) -> bool:
        """Whether something was typed that was not read."""
        return bool(self.value.strip()) and self.value != self._text

    def show_read(self, text: str, sentence: Sentence | None) -> None:
        """Show the sentence on screen, with its tokens once they are known, while the line has no focus."""
        keeps_value = self.has_focus or self.has_draft
        self._text, self._shown = text, sentence
        if sentence is not None:
            self._spelled = sentence
        if not keeps_value:
            self.value = text
        self.refresh()

    def finish(self, text: str) -> None:
        """Take a sentence that the model is about to read, in the place of a draft."""
        self._sentences.rest()
        self._text = self.value = text

    def begin(self) -> None:
        """Prepare for typing: the first letter replaces the sentence on screen, but not a draft."""
        if not self.has_draft:
            self.offer_to_replace()

    def action_history(self, step: int) -> None:
        """Show an older sentence, or a newer one."""
        self.value = self._sentences.go(step, self.value)
        self.cursor_position = len(self.value)

    def restore(self) -> None:
        """Replace what was typed by the sentence on screen."""
        self._sentences.rest()
        self.value = self._text

    async def show_tokens(self, engine: Engine) -> None:
        """Show the tokens of what is typed from now on."""
        from tui.widgets.token_text import TokenLine  # late, so that the first frame does not wait for it

        self._engine, self._spelled = engine, None
        if self._line is None:
            self._line = TokenLine()
            await self.screen.mount(self._line)

    def _refresh_tokens(self) -> None:
        """While the line has the focus, show the tokens at the cursor; ask for those of a new text after a pause."""
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
            self.pause = self.set_timer(PAUSE, self._begin_spelling)
        self._line.show(self._spelled, self.cursor_position)

    def _begin_spelling(self) -> None:
        self.pause = None
        start_work(self, partial(self._spell, self.value), "spelling")

    async def _spell(self, text: str) -> None:
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
        """Draw what is typed; without the focus, the tokens of the sentence, or its text while they are unknown."""
        shown, width = self._shown, self.size.width
        if y or self.has_focus:
            return super().render_line(y)
        if not self._text.strip():
            said = fit(str(self.placeholder), width)
            placeholder = Strip([Segment(said, self.get_component_rich_style("input--placeholder"))])
            return placeholder.apply_style(self.rich_style).adjust_cell_length(width, self.rich_style)
        if shown is None or shown.text != self._text:
            text = Text(fit(escape_text(self._text), width), no_wrap=True, end="")
        else:
            from tui.drawing.token_spelling import token_strip

            text = token_strip(shown, width)
        style = self.rich_style
        plain = Style(bgcolor=style.bgcolor)
        return Strip(text.render(self.app.console)).apply_style(style).adjust_cell_length(width, plain)

    def watch_selection(self) -> None:
        """Show the tokens at the cursor."""
        super().watch_selection()
        self._refresh_tokens()

    def watch_value(self) -> None:
        """Show the tokens of what is typed."""
        self._refresh_tokens()

    def on_blur(self) -> None:
        """Go back to the sentence on screen from an empty line, unless another window has the focus."""
        if self.app.app_focus and not self.has_draft:
            self.value = self._text

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show the tokens with the focus, and hide them without."""
        super().watch_has_focus(has_focus)
        self._refresh_tokens()
