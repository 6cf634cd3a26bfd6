"""The rows and columns of a table as they are shown: which, in which order, and where its cursor is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.values.filters import Filter
from engine.values.table import Cell
from tui.drawing.numbers import short
from tui.drawing.text import harmless
from tui.widgets.scrolled import Scrolled
from tui.widgets.table_arrangement import Arrangement, Arranger, Row, Wanted
from tui.widgets.table_columns import Columns


class TableRows(Scrolled, can_focus=False):
    """Knows what a table shows; whoever paints it says how what has been arranged comes on the screen.

    Attributes
    ----------
    message : what stands in the place of rows, if anything.
    cursor : the line and the column that it is on.
    """

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.message = ""
        self._arranger = Arranger(self.text, self._use)
        self.cursor = (0, 0)
        self._places: tuple[int, ...] = ()
        self._columns = Columns()
        self._awaited: int | None = None
        self._home: int | None = None

    def _use(self, made: Arrangement) -> None:
        """Show a table as it has been arranged."""
        raise NotImplementedError

    @property
    def _shown(self) -> Arrangement:
        """The table as it stands on the screen."""
        return self._arranger.done

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._columns.names

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The names of all columns, also of those that are left out."""
        return self._shown.wanted.names

    @property
    def rows(self) -> Sequence[Row]:
        """All rows with all columns, as they came."""
        return self._shown.wanted.rows

    @property
    def order(self) -> Sequence[int]:
        """Which of the rows stand on the screen, from the first line to the last."""
        return self._shown.order

    @property
    def is_arranged(self) -> bool:
        """Whether the rows stand as they were asked for last; many take a moment."""
        return self._arranger.is_done

    @property
    def place(self) -> int | None:
        """Which of the rows, in the order in which they came, is under the cursor."""
        return self.order[self.cursor[0]] if self.order else None

    @property
    def whole_row(self) -> Row | None:
        """The row under the cursor with all columns."""
        return None if self.place is None else self.rows[self.place]

    @property
    def row(self) -> Row | None:
        """The row under the cursor, of the columns that are shown."""
        row = self.whole_row
        return None if row is None else tuple(row[place] for place in self._places)

    @property
    def column(self) -> str:
        """The name of the column under the cursor."""
        return self.columns[self.cursor[1]] if self.columns else ""

    def show(
        self,
        names: tuple[str, ...],
        rows: Sequence[Row],
        frozen: int,
        kept_by: Filter | None = None,
        places: tuple[int, ...] | None = None,
        columns: Columns | None = None,
    ) -> None:
        """Show rows, sorted as before where the column is still there.

        Parameters
        ----------
        names : of the columns.
        rows : each as long as ``names``.
        frozen : how many of the columns that are shown stay at the left.
        kept_by : the filter whose rows are shown; all unless given.
        places : the columns that are shown; all unless given.
        columns : how wide they are, where that is not to follow from the cells.
        """
        self.message = ""
        places = tuple(range(len(names))) if places is None else places
        wanted = Wanted(names, rows, places, frozen, kept_by, columns=columns)
        before = self._arranger.wanted
        sort = before.sort if before.sort is not None and before.sort[0] in names else None
        if (before.names, len(before.rows)) != (names, len(rows)):
            self._home = None
        self._arranger.want(replace(wanted, sort=sort))

    def narrow(self, kept_by: Filter | None) -> None:
        """Show the rows that a filter leaves, or all of them, with the cursor on its row if that is shown.

        Its row is where it was put, not where it is as long as that one is left out.
        """
        self._home = self.place if self._home is None else self._home
        self._awaited = self._home
        self._arranger.want(replace(self._arranger.wanted, kept_by=kept_by))

    def text(self, cell: Cell) -> str:
        """Write one cell."""
        return short(cell) if isinstance(cell, int | float) else harmless(cell or "")
