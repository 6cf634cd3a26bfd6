"""Everything one spectrum's block shows, so that two states of it can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from textual.geometry import Region

from tui.drawing.plots import Plot


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What every cell of a block shows.

    Attributes
    ----------
    name, summary : the line of words: the matrix, and what there is to say about it.
    selected : whether the name is set off.
    labels : what the axis says beside each row of the plot, all of one width.
    plot : the plot with the cursor in it.
    """

    name: str
    summary: str
    selected: bool
    labels: tuple[str, ...]
    plot: Plot

    def fits(self, other: Frame) -> bool:
        """Tell whether the parts of both are in the same places."""
        return self.plot.marks.shape == other.plot.marks.shape and (
            [len(label) for label in self.labels] == [len(label) for label in other.labels]
        )

    def differences(self, old: Frame) -> Iterator[Region]:
        """Find the regions of the block that differ from a frame with the same places."""
        if (self.name, self.summary) != (old.name, old.summary):
            yield Region(0, 0, cell_len(self.name) + cell_len(self.summary), 1)
        elif self.selected != old.selected:
            yield Region(0, 0, cell_len(self.name), 1)
        changed = (self.plot.characters != old.plot.characters) | (self.plot.marks != old.plot.marks)
        for row, (now, was) in enumerate(zip(self.labels, old.labels, strict=True)):
            columns = np.flatnonzero(np.concatenate([np.full(len(now), now != was), changed[row]]))
            if columns.size:
                yield Region(int(columns[0]), 1 + row, int(columns[-1] - columns[0]) + 1, 1)


NO_FRAME = Frame("", "", False, (), Plot(np.zeros((0, 0), dtype=np.str_), np.zeros((0, 0), dtype=np.uint8)))
"""Before anything is drawn."""
