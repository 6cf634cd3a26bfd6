"""What is copied of a view: the cell under its cursor, the row, or all of it, as text that a sheet can take."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.table import AnyTable, Cell
from tui.drawing.text import fit, harmless
from tui.toolkit.keys import key_of
from tui.views.attention_view import AttentionPane
from tui.views.compare_view import ComparePane, Side
from tui.views.layer_maps_view import HeadsPane
from tui.views.overview_view import OverviewPane
from tui.views.ranks_view import RanksPane
from tui.views.spectra_view import SpectraPane
from tui.views.table_view import TablePane
from tui.views.text_view import TextPane

if TYPE_CHECKING:
    from engine.values.attention import AttentionMap
    from tui.app.conductor import Conductor
    from tui.views.compare_view import ComparePane
    from tui.views.pane import Pane

SHOWN = 48
"""Characters of what was copied that are shown."""

LARGEST = 74_994
"""Bytes that are copied at most: 100 kB in base64, which is where many terminals stop."""

SHORTEST = 16
"""Bytes that a row of a map's table takes at least."""

HOW_ELSE = "export it to a file"
"""What to do with what is too large."""

NOTHING = "there is nothing under the cursor to copy"

NO_MAP = "no head's map is under the cursor; move to one, and copy its largest weight then"


@dataclass(frozen=True, slots=True)
class Copied:
    """What goes to the clipboard.

    Attributes
    ----------
    text : it.
    says : what it is, in words.
    """

    text: str
    says: str

    @property
    def beginning(self) -> str:
        """As much of the first line as a message has room for."""
        begin = harmless(self.text.partition("\n")[0][: 2 * SHOWN].replace("\t", " "))
        return fit(begin, SHOWN).rstrip() if len(begin) > SHOWN else begin


def written(rows: Iterable[Sequence[Cell]], what: str) -> str:
    r"""Write rows with tabs between the cells; numbers read back exactly, and a cell with a tab in it is quoted.

    Raises
    ------
    EngineError : as soon as it is more than a terminal takes.

    Examples
    --------
    >>> written([("a", 1, 0.1), ("b\t", 2, 1e-300)], "it")
    'a\t1\t0.1\n"b\t"\t2\t1e-300'
    """
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    size = 0
    for row in rows:
        before = stream.tell()
        writer.writerow(row)
        stream.seek(before)
        size += len(stream.read().encode())
        if size > LARGEST:
            raise too_large(what)
    return stream.getvalue().removesuffix("\n")


async def copied_cell(pane: Pane, conductor: Conductor) -> Copied:
    """Give the cell under a view's cursor: a number in full, a text as it is.

    Raises
    ------
    EngineError : where there is none.
    """
    if isinstance(pane, TablePane):
        if pane.grid.row is None:
            raise _without_rows(pane)
        name = pane.grid.column
        return _filled(pane.grid.row[pane.grid.columns.index(name)], name)
    if isinstance(pane, AttentionPane):
        if pane.heatmap.pooled is None:
            raise EngineError(NOTHING)
        return Copied(repr(pane.heatmap.value), pane.cell_name)
    if isinstance(pane, SpectraPane):
        if not pane.graph.matrix:
            raise EngineError(NOTHING)
        return Copied(repr(pane.graph.value), f"σ {pane.graph.index} of {pane.graph.matrix}")
    if isinstance(pane, OverviewPane) and pane.shown is not None and pane.map.head is not None:
        cell = pane.shown.cell(pane.map.head)
        if cell is None:
            raise EngineError(NOTHING)
        return _filled(cell, f"{pane.shown.measure} of {pane.map.head}")
    if isinstance(pane, RanksPane) and conductor.weights is not None and pane.under_cursor is not None:
        head, matrix, number = pane.under_cursor
        if not matrix:
            return Copied(str(head), f"the line's name; {key_of(pane.app, 'app.copy_row')} copies its numbers")
        return _filled(number, f"{conductor.weights.measure.title} of {head}, {matrix}")
    if isinstance(pane, TextPane) and pane.shown is not None:
        table, lines = pane.table_on_screen(), pane.shown
        row = dict(zip(table.columns, table.rows[pane.line], strict=True))
        text = written([(row["token"], lines.row[lines.key].item())], "the token")
        return Copied(text, f"token {row['position']}, and the weight of query {lines.query}, key {lines.key}")
    if isinstance(pane, HeadsPane):
        if pane.named is None:
            raise EngineError(NO_MAP)
        head, block = pane.named
        query, key = block.place
        return Copied(repr(block.largest), f"largest weight of {head}: query {query}, key {key}")
    if isinstance(pane, ComparePane):
        numbers, says = numbers_of(pane)
        return Copied(written([numbers], "the numbers"), says)
    raise EngineError(NOTHING)


def _filled(cell: Cell, name: str) -> Copied:
    """Give what is in a cell.

    Raises
    ------
    EngineError : where that is nothing, which would leave in the clipboard what was there before.
    """
    if cell in (None, ""):
        raise EngineError(f"{name} is empty; nothing was copied")
    return Copied(str(cell), name)


async def copied_row(pane: Pane, conductor: Conductor) -> Copied:
    """Give the row under a view's cursor, without the columns' names; of a map a query's weights, one for each key.

    Raises
    ------
    EngineError : where there is none, or it is too large.
    """
    if isinstance(pane, TablePane):
        if pane.grid.place is None:
            raise _without_rows(pane)
        line = pane.grid.order.index(pane.grid.place)
        return Copied(written([pane.table_on_screen().rows[line]], "the row"), f"line {line + 1} of {pane.view}")
    if isinstance(pane, TextPane):
        return Copied(written([pane.table_on_screen().rows[pane.line]], "the row"), "the token's line of the table")
    if isinstance(pane, HeadsPane):
        raise EngineError(
            f"small maps have no rows to copy; {key_of(pane.app, 'app.copy_cell')} copies the largest weight under the "
            f"cursor, {key_of(pane.app, 'app.export')} writes all of them to a file"
        )
    if isinstance(pane, ComparePane):
        refuse_long_difference(pane)
    if isinstance(pane, ComparePane) and (several := await _table_of_several(conductor)) is not None:
        found, says = rows_of(pane, several)
        return Copied(written(found, "the rows"), f"{says}: {quantity(len(found), 'line')} of the table")
    attention = await _whole_map(pane, conductor)
    if attention is not None and isinstance(pane, AttentionPane) and pane.cell is not None:
        query = pane.cell[0]
        weights = attention.weights[query].tolist()
        return Copied(written([weights], "the row"), f"query {query}, the weights of {quantity(len(weights), 'key')}")
    if isinstance(pane, SpectraPane) and pane.graph.matrix:
        table, _ = conductor.table()
        matrix, index = pane.graph.matrix, pane.graph.index
        places = [table.columns.index(name) for name in ("matrix", "index")]
        rows = [row for row in table.rows if [row[place] for place in places] == [matrix, index]]
        return Copied(written(rows, "the row"), f"the line of σ {index} of {matrix}")
    if isinstance(pane, OverviewPane) and pane.map.head is not None:
        head = pane.map.head
        own = (head.stack, head.layer, head.label)
        row = [row for row in pane.table_on_screen().rows if row[:3] == own]
        return Copied(written(row, "the row"), f"the line of {head}")
    if isinstance(pane, RanksPane) and pane.head_here is not None and conductor.weights is not None:
        name, measure = pane.head_here, conductor.weights.measure
        table, _ = conductor.table()
        at, value = table.columns.index("matrix"), table.columns.index(measure.name)
        own = (name.stack, name.layer, name.label)
        numbers = {row[at]: row[value] for row in table.rows if tuple(row[:3]) == own}
        cells: list[Cell] = [str(name), *(numbers.get(matrix) for matrix in MATRICES)]
        return Copied(written([cells], "the row"), f"{measure.title} of {name}, {' '.join(MATRICES)}")
    raise EngineError(NOTHING)


def too_large(what: str) -> EngineError:
    """Say that something is not copied because of its size."""
    return EngineError(
        f"{what} takes more than the {LARGEST // 1000} kB that terminals copy; {HOW_ELSE}. Nothing was copied"
    )


def _without_rows(pane: TablePane) -> EngineError:
    """Say that a table has no rows, or is not there."""
    return EngineError(NOTHING if pane.shown is None else f"the {pane.view} table has no rows; nothing was copied")


async def copied_view(pane: Pane, conductor: Conductor) -> Copied:
    """Give the table that a view draws, the same that ``e`` writes, below the names of its columns.

    Raises
    ------
    EngineError : where there is none, or it is too large, which a glance at a map's size may say.
    """
    if isinstance(pane, TablePane) and not pane.grid.order:
        raise _without_rows(pane)
    pooled = pane.heatmap.pooled if isinstance(pane, AttentionPane) else None
    if pooled is not None and len(pooled.query_tokens) * len(pooled.key_tokens) * SHORTEST > LARGEST:
        raise too_large(f"the {pane.view} table")
    table = await _table_of_several(conductor)
    if table is None:
        table, _ = conductor.table(await _whole_map(pane, conductor))
    text = written(chain([table.columns], table.rows), f"the {pane.view} table")
    return Copied(text, f"the {pane.view} table, tab separated")


async def _table_of_several(conductor: Conductor) -> AnyTable | None:
    """Wait for the table of the active view, where several heads are beside each other in it."""
    return None if conductor.comparing is None else await conductor.comparing.table()


async def _whole_map(pane: Pane, conductor: Conductor) -> AttentionMap | None:
    """Wait for all weights of the map, where the view is one."""
    if not isinstance(pane, AttentionPane) or conductor.reading is None:
        return None
    return await conductor.reading.whole_map()


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
