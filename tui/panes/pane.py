"""What the three panes have in common: a title line above, a readout line below."""

from __future__ import annotations

from rich.text import Text
from textual.containers import Vertical
from textual.widgets import Static


class Line(Static):
    """One line of text, shown literally; it is redrawn only when it changes."""

    def __init__(self, *, classes: str) -> None:
        super().__init__("", markup=False, classes=classes)
        self.shown = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        new = Text(text) if isinstance(text, str) else text
        if (new.plain, new.spans) != (self.shown.plain, self.shown.spans):
            self.shown = new
            self.update(new, layout=self.styles.width is not None and self.styles.width.is_auto)


class Pane(Vertical):
    """A view beside the tree.

    Attributes
    ----------
    view : what the view is called.
    """

    view = ""

    def __init__(self) -> None:
        super().__init__(id=self.view, classes="pane")
        self.title_line = Line(classes="pane-title")
        self.readout_line = Line(classes="pane-readout")

    def focus_view(self) -> None:
        """Put the focus on what the pane shows."""
        for widget in self.query("*").results():
            if widget.focusable:
                widget.focus()
                return
