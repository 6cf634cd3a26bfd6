"""How several plots share a pane, and in which order a cursor walks through them."""

from __future__ import annotations

from dataclasses import dataclass

_NARROWEST, LOWEST = 18, 2
"""Least size of a plot: a name, a number and a line of bars."""

LOWEST_LINES = 4
"""Least height of a plot of lines, which in fewer rows all run through the same one."""

_WIDE_ENOUGH, _HIGH_ENOUGH = 72, 10
"""Beyond these a plot gains little."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows and columns of plots.

    Attributes
    ----------
    columns, rows : how many.
    """

    columns: int
    rows: int

    def places(self, count: int) -> list[int]:
        """List the number of the plot at each place, row by row.

        In a high grid the plots follow each other down its columns, in a wide one along its rows, so that those that
        belong together stay together.

        Examples
        --------
        >>> Grid(2, 3).places(6), Grid(3, 2).places(6)
        ([0, 3, 1, 4, 2, 5], [0, 1, 2, 3, 4, 5])
        """
        if self.rows < self.columns:
            return list(range(count))
        order = [column * self.rows + row for row in range(self.rows) for column in range(self.columns)]
        return [number for number in order if number < count]

    def walk(self, count: int) -> list[int]:
        """List the numbers of the plots down the first column, then down the next.

        Examples
        --------
        >>> Grid(2, 3).walk(6), Grid(3, 2).walk(6)
        ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
        """
        places = self.places(count)
        return [number for column in range(self.columns) for number in places[column :: self.columns]]


def choose_grid(count: int, width: int, height: int, lowest: int = LOWEST) -> Grid | None:
    """Choose the grid that leaves most room for bars, or None when ``count`` plots do not fit together.

    Parameters
    ----------
    count : how many plots.
    width, height : of the pane.
    lowest : the height that a plot has at least, with its name.

    Examples
    --------
    >>> choose_grid(6, 56, 16), choose_grid(6, 80, 11)
    (Grid(columns=2, rows=3), Grid(columns=3, rows=2))
    >>> choose_grid(6, 30, 40), choose_grid(6, 30, 5)
    (Grid(columns=1, rows=6), None)
    """
    best, chosen = 0, None
    for columns in (2, 3, 1):
        rows = max(-(-count // columns), 1)
        across, down = width // columns, height // rows
        room = min(down - 1, _HIGH_ENOUGH) * min(across - 8, _WIDE_ENOUGH)
        if across >= _NARROWEST and down >= lowest and room > best:
            best, chosen = room, Grid(columns, rows)
    return chosen
