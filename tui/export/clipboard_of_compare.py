"""What is copied of heads beside each other: what each has under the cursor, and the lines of the table that say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.values.errors import EngineError
from engine.values.table import AnyTable, Cell
from tui.panes.compare import Side
from tui.toolkit.keys import key_of

if TYPE_CHECKING:
    from tui.panes.compare import ComparePane

MOST_WEIGHTS = 1_000_000
"""Weights of a map up to which a line of its table is looked for; longer sentences have many times as many."""


def numbers_of(pane: ComparePane) -> tuple[list[Cell], str]:
    """Give the number that every head has under the cursor, and in words what they are.

    Raises
    ------
    EngineError : when nothing is compared yet.
    """
    found = pane.under_cursor
    if not found:
        raise EngineError("the compare view shows nothing yet; nothing was copied")
    return [repr(number) for _, number in found], f"{_place(pane)}: {', '.join(name for name, _ in found)}"


def rows_of(pane: ComparePane, table: AnyTable) -> tuple[list[Sequence[Cell]], str]:
    """Give the lines of the view's table that are of the place under the cursor, and in words what they are.

    Parameters
    ----------
    pane : the view.
    table : which it draws.

    Raises
    ------
    EngineError : when no line of the table is of one place.
    """
    wanted: dict[str, Cell]
    if pane.side is Side.SPECTRA:
        wanted = {"matrix": pane.graph.matrix, "index": pane.graph.index}
    else:
        wanted = dict(zip(("query", "key"), pane.maps.leading.cursor, strict=True))
    places = [table.columns.index(name) for name in wanted]
    rows = [row for row in table.rows if [row[place] for place in places] == list(wanted.values())]
    if not rows:
        raise EngineError(
            f"no line of the table is of this place alone; {key_of(pane.app, 'app.copy_cell')} copies what is under "
            f"the cursor"
        )
    return rows, _place(pane)


def refuse_long_difference(pane: ComparePane) -> None:
    """Look at a difference's size before all of it is asked for, of which a line is wanted.

    Raises
    ------
    EngineError : where it is that of a long sentence.
    """
    pooled = pane.maps.leading.pooled
    size = 0 if pooled is None else len(pooled.query_tokens) * len(pooled.key_tokens)
    if pane.side is Side.DIFFERENCE and size > MOST_WEIGHTS:
        raise EngineError(
            f"so long a sentence's difference is not searched for a line; {key_of(pane.app, 'app.copy_cell')} copies "
            f"what is under the cursor, {key_of(pane.app, 'app.export')} writes all of it"
        )


def _place(pane: ComparePane) -> str:
    """Say in words where the cursor is."""
    if pane.side is Side.SPECTRA:
        return f"σ {pane.graph.index} of {pane.graph.matrix}"
    query, key = pane.maps.leading.cursor
    return f"query {query}, key {key}"
