"""Rows of a map's cells as segments: neighbours that look alike are one, which is what a redraw costs.

A cell has two characters of its level, or a number in their place; or it is half a character, so that a line shows two
rows of a map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from engine.values.attention import PooledMap
from tui.drawing.map_layout import CELL_WIDTH

CURSOR = 254
"""Stands in place of a level for the cell under the cursor."""

WIDTH = 5
"""Columns of a cell that holds a weight: four characters, and a blank that keeps neighbours apart."""

_LEAST = 0.00095
"""What is smaller would have no digit behind the point of its own, of three."""

NEXT_TO_NOTHING = "~0"
"""What is not zero, but smaller than what four characters can say."""

UPPER, LOWER = "▀", "▄"


def merged_cells(
    levels: NDArray[np.uint8],
    glyphs: Sequence[str],
    styles: Sequence[Style],
    others: Mapping[int, tuple[str, Style]],
    figures: Sequence[str] = (),
) -> Iterator[Segment]:
    """Write cells.

    Parameters
    ----------
    levels : of each cell, or what stands in place of one.
    glyphs : the characters of each level, lowest first.
    styles : the style of each level, or the one that all of them have.
    others : by what stands in place of a level, and is none itself, its characters and style.
    figures : what is written in each cell in place of its level's characters, if anything.

    Examples
    --------
    >>> [segment.text for segment in merged_cells(np.array([0, 1, 1, CURSOR]), ("  ", "##"), (Style(),) * 2,
    ...                                           {CURSOR: ("[]", Style())})]
    ['  ', '####', '[]']
    """
    if not len(levels):
        return
    runs = levels if len(styles) > 1 else np.where(np.isin(levels, list(others)), levels, 0)
    bounds = [0, *(np.flatnonzero(runs[1:] != runs[:-1]) + 1).tolist(), len(runs)]
    for start, end in pairwise(bounds):
        kind = int(runs[start])
        if kind in others:
            text, style = others[kind]
            yield Segment(text * (end - start), style)
        else:
            texts = figures[start:end] if figures else (glyphs[level] for level in levels[start:end])
            yield Segment("".join(texts), styles[kind])


def halved_cells(
    upper: NDArray[np.uint8],
    lower: NDArray[np.uint8],
    colours: Mapping[int, Color | None],
    others: Mapping[int, tuple[str, Style]],
    width: int = 1,
) -> Iterator[Segment]:
    """Write two rows in one line: each cell is an upper and a lower half, told apart by colour alone.

    Parameters
    ----------
    upper, lower : (columns,) the level of each cell, or what stands in place of one.
    colours : of each level, and of what stands in place of one where that has a colour.
    others : by what has no colour, its characters and style, which are written where neither half has one. Of two
        that differ those of the larger number are written.
    width : columns that a cell takes.

    Examples
    --------
    >>> red, blue = Color.parse("red"), Color.parse("blue")
    >>> rows = np.array([0, 0, 1, 0, 9, 9]), np.array([0, 0, 0, 9, 1, 9])
    >>> cells = halved_cells(*rows, {0: red, 1: blue}, {9: ("x", Style())})
    >>> [(segment.text, str(segment.style)) for segment in cells]
    [('  ', 'on red'), ('▀', 'blue on red'), ('▀', 'red'), ('▄', 'blue'), ('x', 'none')]
    """
    if not len(upper):
        return
    bounds = [0, *(np.flatnonzero((np.diff(upper) != 0) | (np.diff(lower) != 0)) + 1).tolist(), len(upper)]
    firsts = zip(upper[bounds[:-1]].tolist(), lower[bounds[:-1]].tolist(), strict=True)
    for (start, end), kinds in zip(pairwise(bounds), firsts, strict=True):
        above, below = map(colours.get, kinds)
        text, style = others[max(kinds)] if above is None and below is None else _half(above, below, width)
        yield Segment(text * (end - start), style)


@lru_cache(maxsize=4096)
def _half(above: Color | None, below: Color | None, width: int) -> tuple[str, Style]:
    """Give the characters and the style of a cell, the same object every time, so that its escape codes are cached."""
    if above == below:
        return " " * width, Style(bgcolor=above)
    if above is None:
        return LOWER * width, Style(color=below)
    return UPPER * width, Style(color=above, bgcolor=below)


def format_weight(value: float, *, is_signed: bool) -> str:
    """Write a weight in four characters, or a difference of two in as many behind its sign; nothing where it is zero.

    Three digits behind the point; of what is smaller than they can say, the first digit and its power of ten. What is
    smaller than 1e-9 is next to nothing.

    Examples
    --------
    >>> [format_weight(each, is_signed=False) for each in (0.4268, 0.9997, 0.0014, 0.00042, 3e-12, 0.0, float("nan"))]
    ['.427', '1.00', '.001', '4e-4', '~0', '', '?']
    >>> [format_weight(each, is_signed=True) for each in (0.4268, -0.9997, -0.005, 0.00042, -1e-12)]
    ['+.427', '-1.00', '-.005', '+4e-4', '~0']
    """
    if not isfinite(value):
        return "?"
    if not value:
        return ""
    size, sign = abs(value), ("-" if value < 0 else "+") if is_signed else ""
    if size < _LEAST:
        digit, power = f"{size:.0e}".split("e")
        return f"{sign}{digit}e{int(power)}" if int(power) > -10 else NEXT_TO_NOTHING
    return sign + (f"{size:.2f}" if round(size, 3) >= 1 else f"{size:.3f}".removeprefix("0"))


def weights_in_row(map: PooledMap, row: int, columns: range, width: int) -> list[str]:
    """Write a row's values as numbers, each in a cell; blank where none has come, or where the mask hides the key."""
    written = []
    for column in columns:
        text = ""
        if map.holds(row, column):
            value = float(map.values[row - map.window.rows.start, column - map.window.columns.start])
            is_seen_zero = not value and not map.at(row, column).is_masked
            text = "0" if is_seen_zero else format_weight(value, is_signed=map.is_signed)
        written.append(pad_cell(text, width))
    return written


def cell_width(*, is_numbered: bool = True, is_signed: bool = False) -> int:
    """Count the columns of a map's cells: a number takes more than a colour, and a difference one more for its sign."""
    return WIDTH + is_signed if is_numbered else CELL_WIDTH


def pad_cell(text: str, width: int) -> str:
    """Put a number at the right of its cell, before the blank that ends it; of a wider cell, in the middle."""
    spare = max(width - WIDTH - 1, 0) // 2
    return f"{text:>{width - 1 - spare}} {' ' * spare}"
