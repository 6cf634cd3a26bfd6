"""The line over the tree, which says what the numbers in it are."""

from __future__ import annotations

from rich.cells import cell_len

from tui.panes.line import Line


class TreeTitle(Line):
    """Names the measure that stands beside each head, and the circuits that it is of where there is room for them."""

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
        """Write the measure before all else."""
        title, room = self._measure, self.content_size.width
        ways = (f"{title} of QK, OV", f"{title} QK OV") if title else ()
        self.show(next((each for each in ways if cell_len(each) <= room), title))
