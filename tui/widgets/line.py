"""A line of text that is redrawn only when it changes."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from tui.drawing.titles import Title

_PICTURES = {**{code: 0x2400 + code for code in range(32)}, 0x7F: 0x2421}
"""Unicode's picture of each control character, such as ␛; a name from a model's files may hold any of them."""


class Line(Static):
    """One line of text, shown literally, with no end of a line in it; it is redrawn only when it changes."""

    def __init__(self, *, classes: str) -> None:
        super().__init__("", markup=False, classes=classes)
        self.shown = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        if isinstance(text, str):
            text = Text(text)
        new = text.copy()
        new.plain = new.plain.translate(_PICTURES)
        if (new.plain, new.spans) != (self.shown.plain, self.shown.spans):
            is_auto = any(each is not None and each.is_auto for each in (self.styles.width, self.styles.height))
            is_longer = new.cell_len != self.shown.cell_len
            self.shown = new
            self.update(new, layout=is_auto and is_longer)


class TitleLine(Line):
    """The line over a view, which is written anew for each size."""

    def __init__(self, classes: str = "pane-title") -> None:
        super().__init__(classes=classes)
        self._title = Title()

    def show_title(self, title: Title) -> None:
        """Write as much of a title as there is room for, now and after a change of size."""
        self._title = title
        self.show(title.within(self.content_size.width))

    def on_resize(self) -> None:
        """Write what there is room for now."""
        self.show_title(self._title)
