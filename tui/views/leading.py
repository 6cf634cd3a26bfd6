"""Where the rows of a table lead: to the head that each is about, or to what is predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from engine.values.filters import NAMING
from engine.values.heads import Head
from engine.values.table import Cell, Table
from engine.values.views import HEADS, VIEWS, Scope, View
from tui.toolkit.messages import GainsFolded, HeadEntered, HeadPicked, PositionMoved, TokenPicked, Told
from tui.views.filtered import FilteredPane
from tui.widgets.line import Line
from tui.widgets.table_grid import TableGrid


class RowHeads:
    """Reads the heads of rows.

    Parameters
    ----------
    columns : of the table.

    Attributes
    ----------
    are_feeding : whether the heads are those that feed another, which the table is about.

    Examples
    --------
    >>> str(RowHeads(("stack", "layer", "head", "value")).of(("decoder", 1, "3", 0.5)))
    'L1H3'
    """

    def __init__(self, columns: Sequence[str]) -> None:
        found = next((each for each in reversed(NAMING) if {"stack", *each} <= set(columns)), ())
        self.are_feeding = found == NAMING[-1]  # which comes first, where rows are of two
        self._places = tuple(map(columns.index, ("stack", *found) if found else ()))

    def of(self, row: Sequence[Cell]) -> Head | None:
        """Give the head, or whole layer, that a row is of; None where it is of none."""
        if not self._places:
            return None
        stack, layer, head = (row[place] for place in self._places)
        if not isinstance(layer, int) or head is None:
            return None
        return Head(str(stack), layer, -1 if head == "all" else int(str(head)))

    def are_said_by(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], column: str) -> bool:
        """Say whether a column holds nothing but the name of each row's own head."""
        if column not in columns or not rows:
            return False
        place = columns.index(column)
        return all(str(row[place]).rpartition(".")[2] == str(self.of(row)) for row in rows)

    def single(self, rows: Iterable[Sequence[Cell]]) -> tuple[Head, ...]:
        """List the heads that rows are of, each once; a row of a whole layer is of none."""
        return tuple(dict.fromkeys(head for row in rows if (head := self.of(row)) is not None and not head.is_layer))


class LeadingPane(FilteredPane):
    """Knows which head the row under the cursor is of, and goes there.

    Parameters
    ----------
    view : which table.

    Attributes
    ----------
    grid : draws the rows.
    shown : what is drawn; None before there is anything, and where a message says why there is not.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop", "position(1)", "Predict at the next token", show=False, id="table.next_token"),
        Binding("comma", "position(-1)", "Predict at the previous token", show=False, id="table.token_before"),
        Binding("f", "fold", "Fold the gains of the norms in, or leave them out", show=False, id="table.fold"),
    ]

    def __init__(self, view: View) -> None:
        self.view = view.name
        super().__init__(view.columns, Line(classes="pane-legend"))
        self.add_class("-table")
        self.grid = TableGrid()
        leads = _leads(view)
        self.grid.leads = lambda: leads
        self.shown: Table | None = None
        self._heads = RowHeads(view.columns)

    @property
    def has_heads(self) -> bool:
        """Whether rows are of heads that differ."""
        return self.grid.leads() == "head"

    @property
    def head_here(self) -> Head | None:
        """The head, or whole layer, that the row under the cursor is of: the one that feeds where it says one."""
        row = self.grid.whole_row
        return None if self.shown is None or row is None else self._heads.of(row)

    @property
    def is_on_row_of_no_head(self) -> bool:
        """Whether there is a row under the cursor, and it is of no head."""
        return self.grid.row is not None and self.head_here is None

    @property
    def is_on_chosen_row(self) -> bool:
        """Whether a person has moved to the row, or filtered; heads that feed another are not what a table is about."""
        is_found = self.narrowing is not None and not self.is_passed
        return not self._heads.are_feeding and (self.grid.is_moved or is_found)

    def heads_left(self) -> tuple[Head, ...]:
        """List the heads that the rows on screen are of."""
        return self._heads.single(self.grid.rows[place] for place in self.grid.order)

    def strike(self, heads: frozenset[Head]) -> None:
        """Strike out the rows of heads, where rows are of heads that differ."""
        self.struck = heads
        self.grid.strikes = (lambda row: self._heads.of(row) in heads) if heads and self.has_heads else None
        self.grid.refresh()
        self.read_out()

    @on(TableGrid.Chosen)
    def _go_to_head(self) -> None:
        """Go where the table leads."""
        self._leave()

    def _leave(self) -> None:
        """Go to the head that a row is about, the one that feeds where it says one; of a token, choose that.

        The table of all heads leads into the head, as their map does.
        """
        whole = self.grid.whole_row
        if self.shown is None or whole is None:
            return
        row = dict(zip(self.grid.all_columns, whole, strict=True))
        if (name := self._heads.of(whole)) is not None:
            is_of_all = self.view == HEADS.name
            self.post_message(HeadEntered(name) if is_of_all else HeadPicked(name, is_jump=True))
        elif isinstance(token := row.get("token_id"), int) and "part" not in row:
            self.post_message(TokenPicked(token))
        else:
            self.post_message(Told("this row is of no head"))

    def action_position(self, step: int) -> None:
        """Ask for what is predicted at another token."""
        self.post_message(PositionMoved(step))

    def action_fold(self) -> None:
        """Have the gains of norms folded in, or not."""
        self.post_message(GainsFolded())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Have keys where a table has what they change: another token not where the cell of the map says which."""
        if action == "position":
            view = VIEWS[self.view]
            return "position" in view.options and view.scope is not Scope.CELL
        if action == "fold":
            return "fold_norm" in VIEWS[self.view].options
        return super().check_action(action, parameters)


def _leads(view: View) -> str:
    """Say what rows lead to: the terms of a cell to that; all rows of one head are about it, and parameters of none."""
    if "head" not in view.columns:
        return "token" if "token_id" in view.columns else ""
    if view.scope is Scope.CELL:
        return "cell"
    return "" if view.scope is Scope.HEAD else "head"
