"""The row and the column that a table's cursor was left on, to which it goes once they are there."""

from __future__ import annotations

from collections.abc import Sequence

from tui.widgets.table_arrangement import Row
from tui.widgets.table_grid import TableGrid


class LeftCell:
    """Where a table's cursor is, in words, and was when they were kept.

    Parameters
    ----------
    grid : whose cursor it is.
    places : the columns that say what a row is of; None where the row follows what is selected.
    """

    def __init__(self, grid: TableGrid, places: Sequence[str] | None) -> None:
        self._grid = grid
        self._places = places
        self._awaited: dict[str, str] = {}
        self._moves_before = 0
        self._put: tuple[int, str] | None = None

    @property
    def left(self) -> dict[str, str]:
        """The row, by its number and what it is of, and the column under the cursor; or those that are awaited."""
        grid = self._grid
        if self._awaited or grid.whole_row is None or grid.cursor == (0, grid.frozen):
            return dict(self._awaited)
        column = {"column": grid.column}
        return column if self._places is None else {"row": f"{grid.place} {self._name(grid.whole_row)}"} | column

    def take_up(self, what: str, said: str) -> None:
        """Go to a row or a column as soon as it is there."""
        if what == "row":
            int(said.partition(" ")[0])
        if what in ("row", "column"):
            self._awaited[what] = said
            self._moves_before = self._grid.moves

    def wait_for(self, place: int | None) -> None:
        """Go to a row that a filter does not leave yet, as soon as it does, unless one was left that comes first."""
        rows = self._grid.rows
        if place not in (None, self._grid.place) and place < len(rows) and "row" not in self._awaited:
            self.take_up("row", f"{place} {self._name(rows[place])}")

    def forget(self) -> None:
        """Leave the cursor where it is."""
        self._awaited.clear()
        self._put = None

    def go_before_moves(self) -> None:
        """Go there, where moves that have been made ahead of the rows are to be made from there."""
        if self._grid.is_moved_ahead:
            self._moves_before = self._grid.moves
            self.go()

    def go(self, *, is_growing: bool = False) -> None:
        """Go there as far as it is there by now; where more rows are to come, which may change the order, again."""
        grid = self._grid
        if not self._awaited or not grid.rows or not grid.is_arranged:
            return
        if grid.moves != self._moves_before or self._put not in (None, (grid.cursor[0], grid.column)):
            self.forget()  # a person has put the cursor elsewhere
            return
        place, column = self._place(), self._awaited.get("column", grid.column)
        if place is not None:
            grid.go_to(place)
        if column in grid.columns:
            grid.put(grid.cursor[0], grid.columns.index(column))
        if grid.place is not None and grid.place == place:
            self._put = (grid.cursor[0], grid.column)
        if not is_growing:
            self.forget()

    def _name(self, row: Row) -> str:
        """Say what a row is of."""
        names = zip(self._grid.all_columns, row, strict=True)
        return " ".join(str(cell) for name, cell in names if name in (self._places or ()))

    def _place(self) -> int | None:
        """Find the row: the one of its number if that is of the same, else the first that is."""
        said, _, name = self._awaited.get("row", "").partition(" ")
        rows = self._grid.rows
        if not said:
            return None
        if int(said) < len(rows) and self._name(rows[int(said)]) == name:
            return int(said)
        return next((place for place, row in enumerate(rows) if self._name(row) == name), None)
