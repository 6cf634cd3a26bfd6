"""The lines of a table as they are painted: the names of its columns, and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from engine.values.table import Cell
from tui.drawing.numbers import within
from tui.widgets.table_columns import Columns


@dataclass(frozen=True)
class Lines:
    """Lines of a table, of which the columns in view are painted.

    Attributes
    ----------
    columns : of the table.
    left : how far they are scrolled.
    room : cells of a line.
    text : writes a cell.
    """

    columns: Columns
    left: int
    room: int
    text: Callable[[Cell], str]

    def names(self, line: int, sort: tuple[str, bool] | None, style: Style) -> Strip:
        """Paint a line of the names of the columns, counted from the last; with a sign at the one that sorts."""

        def write(column: int, room: int, is_free: bool) -> str:
            return self.columns.title(column, line, sort, room, is_free=is_free)

        return self._line(write, style, {})

    def row(self, cell: Callable[[int], Cell], style: Style, marked: Mapping[int, Style]) -> Strip:
        """Paint a row.

        Parameters
        ----------
        cell : gives that of a column.
        style : of the line.
        marked : another style, by column.
        """

        def write(column: int, room: int, _: bool) -> str:
            return self.columns.cell(column, self._within(cell(column), room), room)

        return self._line(write, style, marked)

    def _within(self, cell: Cell, room: int) -> str:
        """Write one cell, a number with as few digits as fit into the room that a column at the edge has left."""
        text = self.text(cell)
        return within(cell, room, digits=2) if isinstance(cell, float) and len(text) > room else text

    def _line(self, write: Callable[[int, int, bool], str], style: Style, marked: Mapping[int, Style]) -> Strip:
        """Paint cells: those that stay at the left, then those in view of the others.

        Parameters
        ----------
        write : given a column, the cells that it has, and whether the one behind them may be written into.
        style, marked : as in `row`.
        """
        segments, painted = list[Segment](), 0
        seen = list(self.columns.in_view(self.left, self.room))
        ends = (*(shown.start for _, shown in seen[1:]), self.room + 1)
        for (column, shown), end in zip(seen, ends, strict=False):
            text = write(column, len(shown), end - shown.stop > 1)
            segments += [Segment(" " * (shown.start - painted), style), Segment(text, marked.get(column, style))]
            painted = shown.start + cell_len(text)
        return Strip(segments)
