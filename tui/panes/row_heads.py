"""Which heads the rows of a table are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.values.filters import NAMING
from engine.values.heads import Head
from engine.values.table import Cell


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
