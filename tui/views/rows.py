"""A pane of rows, each of which may be of a head."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.values.heads import Head
from tui.toolkit.messages import HeadSwitched, Told
from tui.views.pane import Pane
from tui.widgets.table_grid import TableGrid


class RowsPane(Pane):
    """Has rows with a cursor on one of them, whose head a key can be about.

    Attributes
    ----------
    struck : heads whose rows are struck out, as they are switched off.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "switch", "Switch this row's head off, or on again", show=False, id="table.switch"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.struck: frozenset[Head] = frozenset()

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows the filter leaves, and of how many."""
        raise NotImplementedError

    @property
    def rows_widget(self) -> TableGrid:
        """What draws the rows."""
        raise NotImplementedError

    @property
    def columns_beyond(self) -> int:
        """How many columns are farther to the right than what is in view."""
        return 0

    @property
    def has_heads(self) -> bool:
        """Whether rows are of heads that differ, so that a key can be about the head of one."""
        raise NotImplementedError

    @property
    def head_here(self) -> Head | None:
        """The head, or whole layer, that the row under the cursor is of."""
        raise NotImplementedError

    @property
    def is_on_chosen_row(self) -> bool:
        """Whether a person has put the cursor where it is, in rows that the table itself is about."""
        raise NotImplementedError

    def heads_left(self) -> tuple[Head, ...]:
        """List the heads that the rows on screen are of; a row of a whole layer is of none."""
        raise NotImplementedError

    def strike(self, heads: frozenset[Head]) -> None:
        """Strike out the rows of heads."""
        raise NotImplementedError

    def action_switch(self) -> None:
        """Have the head of the row under the cursor switched off, or on again."""
        head, (left, rows) = self.head_here, self.counts
        if not left:
            self.post_message(Told(self.why_none if rows else "there is no row yet whose head could be switched"))
        else:
            self.post_message(Told("this row is of no head") if head is None else HeadSwitched(head))

    def go_to_column(self, column: str) -> None:
        """Show a column that was named by itself."""
        raise NotImplementedError

    def explained(self, column: str) -> str:
        """Say what a column holds."""
        raise NotImplementedError

    def read_out(self) -> None:
        """Say below the table what is under the cursor."""
        raise NotImplementedError

    @property
    def why_none(self) -> str:
        """Say why no row is shown of those that there are, and what to do then."""
        raise NotImplementedError
