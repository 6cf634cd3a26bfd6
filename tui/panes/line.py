"""A line of text that is redrawn only when it changes."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from tui.drawing.text import in_ascii


class Line(Static):
    """One line of text, shown literally; it is redrawn only when it changes."""

    def __init__(self, *, classes: str) -> None:
        super().__init__("", markup=False, classes=classes)
        self.shown = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        if isinstance(text, str):
            # Here ≥ can become two signs; where it is painted there is room for one.
            text = Text(in_ascii(text) if getattr(self.app, "is_ascii_only", False) else text)
        new = text
        if (new.plain, new.spans) != (self.shown.plain, self.shown.spans):
            is_auto = self.styles.width is not None and self.styles.width.is_auto
            is_wider = new.cell_len != self.shown.cell_len
            self.shown = new
            self.update(new, layout=is_auto and is_wider)
