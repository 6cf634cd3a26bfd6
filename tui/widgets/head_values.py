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
    """Lists heads with their values, in columns, in as many lines as that takes.

    Attributes
    ----------
    entries : what is listed.
    """

    DEFAULT_CSS = """
    HeadValues { height: 1; padding: 0 1; color: $text; text-wrap: nowrap; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self.entries: tuple[HeadValue, ...] = ()

    def show(self, entries: Sequence[HeadValue]) -> None:
        """List heads."""
        self.entries = tuple(entries)
        self.on_resize()

    def on_resize(self) -> None:
        """Put the entries in columns."""
        width = max(self.size.width, 10)
        values = max((6, *(cell_len(each.value) for each in self.entries)))
        names = min(max((cell_len(each.name) for each in self.entries), default=0), max(width - values - 2, 1))
        across = max(width // (names + values + 3 + GAP), 1)
        text = Text()
        for place, each in enumerate(self.entries):
            if place:
                text.append(" " * GAP if place % across else "\n")
            text.append(each.sign, each.style).append(f" {fit_end(each.name, names)} {each.value:<{values}}")
        self.styles.height = max(min(-(-len(self.entries) // across), MOST_LINES), 1)
        self.update(text, layout=False)
