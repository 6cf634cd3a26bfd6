"""The line over the sentence that is typed: how the model's tokenizer cuts it."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from engine.values.attention import Sentence
from engine.values.errors import EngineError
from tui.drawing.text import fit, harmless
from tui.drawing.token_spelling import strip_of


class TokenLine(Widget, can_focus=False):
    """Shows tokens while a sentence is typed; it covers a line of what is above, so that nothing is laid out anew."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    TokenLine {
        layer: over;
        dock: bottom;
        height: 1;
        margin: 0 0 2 0;
        padding: 0 1;
        display: none;
        background: $boost;
        text-wrap: nowrap;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: Sentence | EngineError | None = None
        self._at = 0

    def show(self, found: Sentence | EngineError | None, at: int) -> None:
        """Show the tokens near a place of the text, or why there are none; None shows an empty line."""
        if (found, at) != (self._found, self._at):
            self._found, self._at = found, at
            self.refresh()

    def render(self) -> Text:
        """Write the tokens."""
        width = self.content_size.width
        if isinstance(self._found, EngineError):
            return Text(fit(harmless(str(self._found)), width), "italic", no_wrap=True)
        if self._found is None:
            return Text("")
        return strip_of(self._found, width, at=self._at)
