"""Two rows of a map in one line of the terminal: each cell is an upper and a lower half, told apart by colour alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

UPPER, LOWER = "▀", "▄"


def half_cells(
    upper: NDArray[np.uint8],
    lower: NDArray[np.uint8],
    width: int,
    colours: Mapping[int, Color | None],
    others: Mapping[int, tuple[str, Style]],
) -> Iterator[Segment]:
    """Write the cells of two rows, as one segment where neighbours are alike.

    Parameters
    ----------
    upper, lower : the level of each cell, or what stands in place of one, (columns,).
    width : columns that a cell takes.
    colours : of each level, and of what stands in place of one where that has a colour.
    others : by what has no colour, its characters and style, which are written where neither half has one. Of two
        that differ those of the larger number are written.

    Examples
    --------
    >>> red, blue = Color.parse("red"), Color.parse("blue")
    >>> cells = half_cells(np.array([0, 0, 1, 0, 9, 9]), np.array([0, 0, 0, 9, 1, 9]), 1, {0: red, 1: blue},
    ...                    {9: ("x", Style())})
    >>> [(segment.text, str(segment.style)) for segment in cells]
    [('  ', 'on red'), ('▀', 'blue on red'), ('▀', 'red'), ('▄', 'blue'), ('x', 'none')]
    """
    if not len(upper):
        return
    bounds = [0, *(np.flatnonzero((np.diff(upper) != 0) | (np.diff(lower) != 0)) + 1).tolist(), len(upper)]
    for start, end in pairwise(bounds):
        kinds = int(upper[start]), int(lower[start])
        above, below = (colours.get(kind) for kind in kinds)
        if above is None and below is None:
            text, style = others[max(kinds)]
            yield Segment(text * (end - start), style)
            continue
        character = " " if above == below else LOWER if above is None else UPPER
        ink = None if above == below else below if above is None else above
        ground = None if above is None else below
        yield Segment(character * (width * (end - start)), _style(ink, ground))


@lru_cache(maxsize=1024)
def _style(ink: Color | None, ground: Color | None) -> Style:
    """Make a style, the same object every time, so that its escape codes are cached."""
    return Style(color=ink, bgcolor=ground)
