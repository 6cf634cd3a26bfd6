"""The lines of a small map."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style

from tui.drawing.halves import Halves
from tui.drawing.levels import NOT_FINITE, Ink
from tui.drawing.tiles import Tiles


def line_of_map(
    levels: NDArray[np.uint8] | None, line: int, tiles: Tiles, halves: Halves, blank: Style, ink: Ink
) -> Iterator[Segment]:
    """Paint one line of a tile's map, of a row of it or of two.

    Parameters
    ----------
    levels : of each cell as it is drawn, (rows, columns); None where the map has not come.
    line : of the map, from zero.
    tiles : how large it is.
    halves : what writes the cells.
    blank : the style of what the map leaves of its tile.
    ink : what tells levels apart; where that is no colour, one level's sign stands for both halves of a cell.
    """
    per_line, width = tiles.rows_per_line, tiles.width
    if levels is None or line * per_line >= len(levels):
        yield Segment(" " * width, blank)
        return
    below = (line + 1) * per_line - 1
    upper = levels[line * per_line, :width]
    lower = levels[below, :width] if below < len(levels) else np.zeros_like(upper)
    larger = np.maximum(upper, lower)
    is_sign = (larger == NOT_FINITE) | (ink is not Ink.COLOUR)
    upper, lower = (np.where(is_sign, larger, half) for half in (upper, lower))
    yield from halves.cells(upper, lower)
    yield Segment(" " * (width - len(upper)), blank)
