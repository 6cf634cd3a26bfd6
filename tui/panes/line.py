"""A line of text that is redrawn only when it changes."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text
from textual.widgets import Static

from tui.drawing.text import in_ascii
from tui.frame import sends_ascii_only

_NAME = re.compile(r"\bL\d+(?:H\d+)?\b|\blayer \d+")
"""The name of a head or a layer in a title."""


WORTH_SEEING = 10
"""Cells of a title's last part, with the blanks before it, below which it is left out."""


class Line(Static):
    """One line of text, shown literally; it is redrawn only when it changes."""

    def __init__(self, *, classes: str) -> None:
        super().__init__("", markup=False, classes=classes)
        self.shown = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        if isinstance(text, str):
            # Here ≥ can become two signs; where it is painted there is room for one.
            text = Text(in_ascii(text) if sends_ascii_only(self.app) else text)
        new = text
        if (new.plain, new.spans) != (self.shown.plain, self.shown.spans):
            is_auto = self.styles.width is not None and self.styles.width.is_auto
            is_wider = new.cell_len != self.shown.cell_len
            self.shown = new
            self.update(new, layout=is_auto and is_wider)


class TitleLine(Line):
    """The line over a view, of which the head's name is cut last: what stands before it gives way, word by word."""

    def __init__(self) -> None:
        super().__init__(classes="pane-title")
        self._whole = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        self._whole = Text(text) if isinstance(text, str) else text
        super().show(_without_a_rest(_with_the_name(self._whole, self.content_size.width), self.content_size.width))

    def on_resize(self) -> None:
        """Write what there is room for now."""
        self.show(self._whole)


def _without_a_rest(title: Text, width: int) -> Text:
    """Leave out the last part of a title, behind two blanks, where hardly its beginning would be seen."""
    begins = title.plain.rstrip().rfind("  ")
    is_cut = 0 < width < title.cell_len
    return title[:begins] if is_cut and begins > 0 and width - cell_len(title.plain[:begins]) < WORTH_SEEING else title


def _with_the_name(title: Text, width: int) -> Text:
    """Leave out as many words before a head's name as keep it from being seen; of a width of 0 nothing is known."""
    said = title.plain
    match = _NAME.search(said.partition("  ")[0])
    if match is None or not width:
        return title
    room = width - (match.end() < len(said))  # behind the name there is a sign that more follows
    begins = (0, *(space.end() for space in re.finditer(" ", said[: match.start()])))
    return title[next((at for at in begins if cell_len(said[at : match.end()]) <= room), match.start()) :]
