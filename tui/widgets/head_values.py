"""Which head has which sign, and the value that each has under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from tui.drawing.text import fit_end

MOST_LINES = 4
"""Lines that are given to it at most."""

GAP = 2


@dataclass(frozen=True)
class HeadValue:
    """One head.

    Attributes
    ----------
    sign, style : what stands for it.
    name : of the head.
    value : its value in words; empty where there is none.
    """

    sign: str
    style: Style
    name: str
    value: str


class HeadValues(Static):
    """Lists heads with their values, in columns, in as many lines as that takes."""

    DEFAULT_CSS = """
    HeadValues { height: 1; padding: 0 1; color: $text; text-wrap: nowrap; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._entries: tuple[HeadValue, ...] = ()
        self._laid_out: tuple[Sequence[HeadValue], int] = ((), 0)

    @property
    def entries(self) -> tuple[HeadValue, ...]:
        """What is listed."""
        return self._entries

    def show(self, entries: Sequence[HeadValue]) -> None:
        """List heads."""
        self._entries = tuple(entries)
        self._lay_out()

    def on_resize(self) -> None:
        """Lay out anew for the new width."""
        self._lay_out()

    def _lay_out(self) -> None:
        """Put the entries in columns; write again only what differs."""
        width = max(self.size.width, 10)
        if (self._entries, width) == self._laid_out:
            return
        self._laid_out = (self._entries, width)
        names = max((cell_len(each.name) for each in self._entries), default=0)
        values = max((cell_len(each.value) for each in self._entries), default=0)
        names = min(names, max(width - max(values, 6) - 2, 1))
        across = max(width // (names + max(values, 6) + 3 + GAP), 1)
        text = Text()
        for place, each in enumerate(self._entries):
            if place and place % across == 0:
                text.append("\n")
            text.append(each.sign, each.style).append(f" {fit_end(each.name, names)} ")
            text.append(f"{each.value:<{max(values, 6)}}")
            text.append("" if place % across == across - 1 else " " * GAP)
        lines = min(-(-len(self._entries) // across), MOST_LINES)
        if self.styles.height is None or self.styles.height.value != max(lines, 1):
            self.styles.height = max(lines, 1)
        self.update(text, layout=False)
