"""Rows of a map's cells as segments; equal neighbours become one segment, which keeps a redraw small.

A cell is two characters of its level, or a number; or half a character, so that a line shows two rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from engine.values.attention import PooledMap
from tui.drawing.map_layout import CELL_WIDTH

CURSOR = 254
"""Stands for the level of the cell under the cursor, where a line shows two rows."""

WIDTH = 5
"""Columns of a cell with a number: four characters and a blank."""

_LEAST = 0.00095
"""Smaller weights would have no digit of their own among three decimals."""


def runs_of(*rows: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each run of equal cells; of several rows, runs in which all of them are equal.

    Examples
    --------
    >>> list(runs_of(np.array([5, 5, 0]))), list(runs_of(np.array([5, 5, 0]), np.array([1, 2, 2])))
    ([(0, 2), (2, 3)], [(0, 1), (1, 2), (2, 3)])
    """
    start = 0
    for _, run in groupby(zip(*(row.tolist() for row in rows), strict=True)):
        end = start + len(list(run))
        yield start, end
        start = end


def merged_cells(
    levels: NDArray[np.uint8],
    glyphs: Sequence[str],
    styles: Sequence[Style],
    others: Mapping[int, tuple[str, Style]],
    figures: Sequence[str] = (),
    cursor: tuple[int, Style] | None = None,
) -> Iterator[Segment]:
    """Write a row of cells; that of the cursor has brackets around it.

    Parameters
    ----------
    levels : of each cell, or a value that stands for one.
    glyphs : the characters of each level, lowest first.
    styles : of each level, or one style for all.
    others : characters and style of each value that stands for a level.
    figures : numbers in the cells, in place of the characters of their levels.
    cursor : the place of the cursor's cell, and the style of its brackets or its number; None for none.

    Examples
    --------
    >>> levels, glyphs, other = np.array([0, 1, 1, 7]), ("    ", "####"), {7: (" ?  ", Style())}
    >>> [segment.text for segment in merged_cells(levels, glyphs, (Style(),) * 2, other)]
    ['    ', '########', ' ?  ']
    >>> [segment.text for segment in merged_cells(levels, glyphs, (Style(),) * 2, other, cursor=(1, Style()))]
    ['    ', '[', '##', ']', '####', ' ?  ']
    """
    kinds = levels if len(styles) > 1 else np.where(np.isin(levels, list(others)), levels, 0)
    runs = kinds.astype(np.int16)
    at, set_off = cursor or (-1, Style())
    if cursor is not None:
        runs[at] = -1
    for start, end in runs_of(runs):
        kind = int(kinds[start])
        if kind in others:
            text, style = others[kind]
            text *= end - start
        else:
            text = "".join(figures[start:end] if figures else (glyphs[level] for level in levels[start:end]))
            style = styles[kind]
        if start != at:
            yield Segment(text, style)
        elif figures and figures[at].strip():
            yield Segment(figures[at], set_off)
        elif len(text) == 1:
            yield Segment("◆", set_off)
        else:
            yield Segment("[", set_off)
            if text[1:-1]:
                yield Segment(text[1:-1], style)
            yield Segment("]", set_off)


def halved_cells(
    upper: NDArray[np.uint8],
    lower: NDArray[np.uint8],
    colours: Mapping[int, Color | None],
    others: Mapping[int, tuple[str, Style]],
) -> Iterator[Segment]:
    """Write two rows in one line: each character shows an upper and a lower cell in two colours.

    Parameters
    ----------
    upper, lower : (columns,) level of each cell, or a value that stands for one.
    colours : of each level, and of the values that have a colour.
    others : characters and style of the values that have no colour, for cells where neither half has one. Of two
        different values, the larger counts.

    Examples
    --------
    >>> red, blue = Color.parse("red"), Color.parse("blue")
    >>> rows = np.array([0, 0, 1, 0, 9, 9]), np.array([0, 0, 0, 9, 1, 9])
    >>> cells = halved_cells(*rows, {0: red, 1: blue}, {9: ("x", Style())})
    >>> [(segment.text, str(segment.style)) for segment in cells]
    [('  ', 'on red'), ('▀', 'blue on red'), ('▀', 'red'), ('▄', 'blue'), ('x', 'none')]
    """
    for start, end in runs_of(upper, lower):
        kinds = int(upper[start]), int(lower[start])
        above, below = map(colours.get, kinds)
        text, style = others[max(kinds)] if above is None and below is None else _half(above, below)
        yield Segment(text * (end - start), style)


@lru_cache(maxsize=4096)
def _half(above: Color | None, below: Color | None) -> tuple[str, Style]:
    """Give the same style object every time, so that its codes are cached."""
    if above == below:
        return " ", Style(bgcolor=above)
    if above is None:
        return "▄", Style(color=below)
    return "▀", Style(color=above, bgcolor=below)


def format_weight(value: float, *, is_signed: bool) -> str:
    """Format a weight in four characters, a difference with its sign in front; zero is empty.

    Three decimals; for smaller weights one digit and its power of ten; below 1e-9 "~0".

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
        return f"{sign}{digit}e{int(power)}" if int(power) > -10 else "~0"
    return sign + (f"{size:.2f}" if round(size, 3) >= 1 else f"{size:.3f}".removeprefix("0"))


def weights_in_row(map: PooledMap, row: int, columns: range, width: int) -> list[str]:
    """Format a row's weights, each for its cell; blank before it has come, or where the mask hides the key."""
    written = []
    for column in columns:
        text = ""
        if map.holds(row, column):
            value = float(map.values[row - map.window.rows.start, column - map.window.columns.start])
            is_seen_zero = not value and not map.at(row, column).is_masked
            text = "0" if is_seen_zero else format_weight(value, is_signed=map.is_signed)
        written.append(pad_cell(text, width))
    return written


def cell_width(*, is_numbered: bool, is_signed: bool) -> int:
    """Return the columns per cell: more for numbers than for colours, and one more for a difference's sign."""
    return WIDTH + is_signed if is_numbered else CELL_WIDTH


def pad_cell(text: str, width: int) -> str:
    """Right-align a number in its cell, before a blank; in a wider cell, put it in the middle."""
    spare = max(width - WIDTH - 1, 0) // 2
    return f"{text:>{width - 1 - spare}} {' ' * spare}"
