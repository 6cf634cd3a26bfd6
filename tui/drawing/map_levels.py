"""Which levels the cells of a map have that are in view, as far as its values have come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import PooledMap
from tui.drawing.figures import cell_width, figure, in_cell
from tui.drawing.levels import ABSENT, Ink, Scale, levels_of
from tui.drawing.signed import signed_levels


def levels_in(map: PooledMap | None, rows: range, columns: range, scale: Scale, ink: Ink) -> NDArray[np.uint8]:
    """Compute the levels of some cells, (rows, columns), `ABSENT` where the map has not come yet."""
    levels = np.full((len(rows), len(columns)), ABSENT, dtype=np.uint8)
    if map is None or not levels.size:
        return levels
    known = map.window
    top, bottom = max(rows.start, known.rows.start), min(rows.stop, known.rows.stop)
    left, right = max(columns.start, known.columns.start), min(columns.stop, known.columns.stop)
    if top < bottom and left < right:
        up, before = known.rows.start, known.columns.start
        values = map.values[top - up : bottom - up, left - before : right - before]
        if map.is_signed:
            found = signed_levels(values, scale, map.largest, ink)
        else:
            found = levels_of(values, scale, map.largest, ink.levels)
        levels[top - rows.start : bottom - rows.start, left - columns.start : right - columns.start] = found
    return levels


def figures_in(map: PooledMap, row: int, columns: range) -> list[str]:
    """Write a row's values as numbers, each in a cell; blank where none has come, or where the mask hides the key."""
    written, width = [], cell_width(is_signed=map.is_signed)
    for column in columns:
        value, is_known = 0.0, map.holds(row, column)
        if is_known:
            value = float(map.values[row - map.window.rows.start, column - map.window.columns.start])
        is_zero = is_known and not value and not map.at(row, column).is_masked
        written.append(in_cell("0" if is_zero else figure(value, is_signed=map.is_signed), width))
    return written
