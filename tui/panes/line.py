"""A line of text that is redrawn only when it changes."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.widgets import Static

from tui.drawing.text import in_ascii
from tui.frame import sends_ascii_only

_NAME = re.compile(r"\bL\d+(?:H\d+)?\b|\blayer \d+")
"""The name of a head or a layer in a title."""

_NUMBER = re.compile(r"\d[\d.e+-]*")

_SHORTER = (
    (re.compile(r"^(\S+ |)layer (\d+)"), r"\1L\2"),
    (re.compile(r'\bquery (\d+) ".*", key (\d+) ".*"'), r"q \1 k \2"),
)
"""What is said more shortly where there is little room: a layer's name, and a cell of the map without its tokens."""


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
            is_auto = any(each is not None and each.is_auto for each in (self.styles.width, self.styles.height))
            is_longer = new.cell_len != self.shown.cell_len
            self.shown = new
            self.update(new, layout=is_auto and is_longer)


NARROW = 40
"""Cells below which the view's name gives way to what it shows; the key that led there says as much."""


class TitleLine(Line):
    """The line over a view, of which the head's name is cut last: what stands before it gives way, word by word.

    Where what is shown would be cut for the view's name, or there is little room, that is left out.
    """

    def __init__(self, classes: str = "pane-title") -> None:
        super().__init__(classes=classes)
        self._whole = Text()

    def show(self, text: Text | str) -> None:
        """Change the text."""
        self._whole = Text(text) if isinstance(text, str) else text
        title, width = self._whole, self.content_size.width
        if 0 < width < title.cell_len:
            title = _without_the_view(title, width)
        super().show(_without_a_rest(_with_the_name(title, width), width))

    def on_resize(self) -> None:
        """Write what there is room for now."""
        self.show(self._whole)


def _without_the_view(title: Text, width: int) -> Text:
    """Leave out the view's name, which is bold and comes first, where what is shown would be cut or room is little.

    Where room is little the name of a layer is as short as heads have it, and a cell is named without its tokens.
    """
    name = next((span.end for span in title.spans if span.start == 0 and span.style == "bold"), 0)
    rest = title[name:]
    if not rest.plain.strip():
        return title
    if width >= NARROW:
        first = rest.plain.partition("  ")[0]
        return rest if name + cell_len(first) > width >= cell_len(first) else title
    for long, shorter in _SHORTER:
        if match := long.search(rest.plain):
            rest = Text.assemble(rest[: match.start()], match.expand(shorter), rest[match.end() :])
    return rest


def _without_a_rest(title: Text, width: int) -> Text:
    """Leave out the last parts of a title, behind two blanks or in brackets, of which hardly the beginning is seen.

    So is one of which a part of a number would be seen, which could be taken for the number.
    """
    while 0 < width < title.cell_len:
        said = title.plain.rstrip()
        begins = max(said.rfind("  "), said.rfind(" ("))
        seen = len(set_cell_size(said, width - 1))
        is_worth_it = width - cell_len(said[: max(begins, 0)]) >= WORTH_SEEING
        if begins <= 0 or (
            is_worth_it and not any(each.start() < seen < each.end() for each in _NUMBER.finditer(said))
        ):
            break
        title = title[:begins]
    return title


def _with_the_name(title: Text, width: int) -> Text:
    """Leave out as many words before a head's name as keep it from being seen; of a width of 0 nothing is known.

    A sign that stands before them stays.
    """
    said = title.plain
    match = _NAME.search(said.partition("  ")[0])
    if match is None or not width:
        return title
    room = width - (match.end() < len(said))  # behind the name there is a sign that more follows
    sign = 2 if re.match(r"[^\w\s] ", said) else 0
    begins = (sign, *(space.end() for space in re.compile(" ").finditer(said, sign, match.start())))
    begin = next((at for at in begins if sign + cell_len(said[at : match.end()]) <= room), match.start())
    return title if begin == sign else Text.assemble(title[:sign], title[begin:])
