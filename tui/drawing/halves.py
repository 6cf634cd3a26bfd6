"""Two rows of a map in one line of the terminal: each cell is an upper and a lower half, told apart by colour alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

UPPER, LOWER = "▀", "▄"


class Halves:
    """Writes the cells of two rows.

    Parameters
    ----------
    width : columns that a cell takes.
    colours : of each level, and of what stands in place of one where that has a colour.
    others : by what has no colour, its characters and style, which are written where neither half has one. Of two
        that differ those of the larger number are written.

    Examples
    --------
    >>> red, blue = Color.parse("red"), Color.parse("blue")
    >>> halves = Halves(1, {0: red, 1: blue}, {9: ("x", Style())})
    >>> cells = halves.cells(np.array([0, 0, 1, 0, 9, 9]), np.array([0, 0, 0, 9, 1, 9]))
    >>> [(segment.text, str(segment.style)) for segment in cells]
    [('  ', 'on red'), ('▀', 'blue on red'), ('▀', 'red'), ('▄', 'blue'), ('x', 'none')]
    """

    def __init__(
        self, width: int, colours: Mapping[int, Color | None], others: Mapping[int, tuple[str, Style]]
    ) -> None:
        self._width = width
        self._colours = colours
        self._others = others
        self._cells: dict[tuple[int, int], tuple[str, Style]] = {}

    def cells(self, upper: NDArray[np.uint8], lower: NDArray[np.uint8]) -> Iterator[Segment]:
        """Write two rows, the upper and the lower, as one segment where neighbours are alike.

        Parameters
        ----------
        upper, lower : the level of each cell, or what stands in place of one, (columns,).
        """
        if not len(upper):
            return
        known = self._cells
        bounds = [0, *(np.flatnonzero((np.diff(upper) != 0) | (np.diff(lower) != 0)) + 1).tolist(), len(upper)]
        firsts = zip(upper[bounds[:-1]].tolist(), lower[bounds[:-1]].tolist(), strict=True)
        for (start, end), kinds in zip(pairwise(bounds), firsts, strict=True):
            if kinds not in known:
                known[kinds] = self._cell(*kinds)
            text, style = known[kinds]
            yield Segment(text * (end - start), style)

    def _cell(self, upper: int, lower: int) -> tuple[str, Style]:
        """Give the characters and the style of a cell."""
        above, below = self._colours.get(upper), self._colours.get(lower)
        if above is None and below is None:
            return self._others[max(upper, lower)]
        if above == below:
            return " " * self._width, Style(bgcolor=above)
        if above is None:
            return LOWER * self._width, Style(color=below)
        return UPPER * self._width, Style(color=above, bgcolor=below)
