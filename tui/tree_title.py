"""The line over the tree, which says what the numbers in it are."""

from __future__ import annotations

from tui.drawing.text import first_fitting, fit
from tui.panes.line import Line

CIRCUITS = " QK OV"
"""What the two columns are."""


class TreeTitle(Line):
    """Names the measure that stands beside each head, and the circuits that it is of."""

    def __init__(self) -> None:
        super().__init__(classes="tree-title")
        self._measure = ""

    def name_measure(self, title: str) -> None:
        """Name another measure, or with an empty text none."""
        self._measure = title
        self._write()

    def on_resize(self) -> None:
        """Write what there is room for now."""
        self._write()

    def _write(self) -> None:
        """Write what both columns are; where that does not fit the end of the measure's name is left out."""
        title, room = self._measure, self.content_size.width
        if not title:
            self.show("")
            return
        cut = fit(title, max(room - len(CIRCUITS), 1)).removesuffix("…").rstrip()
        self.show(first_fitting(room, f"{title} of QK, OV", f"{title}{CIRCUITS}", f"{cut}…{CIRCUITS}"))
