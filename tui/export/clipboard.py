"""Copies the cell under a view's cursor, the row, or the whole table, as text for a spreadsheet."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterable, Sequence
from itertools import chain

from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.table import AnyTable, Cell, Row
from tui.state.session import Side
from tui.toolkit.keys import key_of
from tui.views.attention_view import AttentionPane
from tui.views.compare_view import ComparePane
from tui.views.lens_view import LensPane
from tui.views.overview_view import OverviewPane
from tui.views.pane import Pane
from tui.views.ranks_view import RanksPane
from tui.views.spectra_view import SpectraPane
from tui.views.table_view import TablePane
from tui.views.text_view import TextPane

LARGEST = 74_994
"""The most bytes that are copied: 100 kB in base64, the limit of many terminals."""

NOTHING = "nothing under the cursor to copy"


Copied = tuple[str, str]
"""Text for the clipboard, and its description."""


def tab_separated(rows: Iterable[Row], what: str) -> str:
    r"""Write rows as tab-separated text; numbers read back exactly, and a cell with a tab is quoted.

    `EngineError` as soon as the text is larger than a terminal takes.

    Examples
    --------
    >>> tab_separated([("a", 1, 0.1), ("b\t", 2, 1e-300)], "it")
    'a\t1\t0.1\n"b\t"\t2\t1e-300'
    """
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    for row in rows:
        writer.writerow(row)
        if stream.tell() > LARGEST + 1:  # the end of the last line goes
            break
    text = stream.getvalue().removesuffix("\n")
    if len(text.encode()) > LARGEST:
        raise EngineError(
            f"{what} is larger than the {LARGEST // 1000} kB that a terminal copies; nothing was copied. "
            "Export it to a file"
        )
    return text


async def copied_cell(pane: Pane) -> Copied:
    """Copy the cell under a view's cursor, a number with all digits; `EngineError` when it is empty or missing."""
    cell, description = _cell(pane)
    if cell in (None, ""):  # an empty text would leave the clipboard as it was
        raise EngineError(f"{description} is empty; nothing was copied")
    return str(cell), description


def _cell(pane: Pane) -> tuple[Cell, str]:
    match pane:
        case TablePane():
            if pane.grid.row is None:
                raise _without_rows(pane)
            name = pane.grid.column
            return pane.grid.row[pane.grid.columns.index(name)], name
        case AttentionPane() if pane.heatmap.pooled is not None:
            return pane.heatmap.value, pane.cell_name.text if pane.cell_name is not None else ""
        case SpectraPane() if pane.graph.matrix:
            return pane.graph.value, f"σ {pane.graph.index} of {pane.graph.matrix}"
        case OverviewPane() if pane.shown is not None and pane.map.head is not None:
            return pane.shown.cell(pane.map.head), f"{pane.shown.measure} of {pane.map.head}"
        case RanksPane() if pane.under_cursor is not None:
            head, matrix, number = pane.under_cursor
            if not matrix:
                return str(head), f"the row's name; {key_of(pane.app, 'app.copy_row')} copies its numbers"
            return number, f"{pane.measure.title} of {head}, {matrix}"
        case TextPane() if pane.shown is not None:
            lines = pane.shown
            return lines.row[lines.key].item(), f"weight of query {lines.query}, key {lines.key}"
        case LensPane():
            return pane.cell_on_screen().frame["token"][0], "the likeliest token"
        case ComparePane():
            if not (found := pane.under_cursor):
                raise EngineError("Compare is still empty; nothing was copied")
            numbers = tab_separated([[repr(number) for _, number in found]], "the numbers")
            return numbers, f"{_place(pane)[1]}: {', '.join(name for name, _ in found)}"
    raise EngineError(NOTHING)


async def copied_row(pane: Pane) -> Copied:
    """Copy the row under a view's cursor, of a map a query's weights; `EngineError` when it is missing or too large."""
    rows, description = await _rows(pane)
    return tab_separated(rows, "the row"), description


async def _rows(pane: Pane) -> tuple[Sequence[Row], str]:
    match pane:
        case TablePane():
            if pane.grid.place is None:
                raise _without_rows(pane)
            line = pane.grid.order.index(pane.grid.place)
            return [pane.table_on_screen().rows[line]], f"row {line + 1} of {pane.view}"
        case TextPane() if pane.shown is not None:
            return [pane.shown.row.tolist()], _weights_of(pane.shown.query, len(pane.shown.row))
        case LensPane():
            return pane.cell_on_screen().rows, "the likeliest tokens under the cursor"
        case ComparePane():
            place, description = _place(pane)
            rows = await asyncio.to_thread(_rows_where, await pane.whole_table(), **place)
            return rows, f"{description}: {quantity(len(rows), 'row')} of the table"
        case AttentionPane() if pane.cell is not None:
            query, _ = pane.cell  # the cursor may have gone when the map comes
            weights = (await pane.whole_map()).weights[query].tolist()
            return [weights], _weights_of(query, len(weights))
        case SpectraPane() if pane.graph.matrix:
            matrix, index = pane.graph.matrix, pane.graph.index
            return _rows_where(pane.table_on_screen(), matrix=matrix, index=index), f"the row of σ {index} of {matrix}"
        case OverviewPane() if (head := pane.map.head) is not None:
            table = pane.table_on_screen()
            return _rows_where(table, stack=head.stack, layer=head.layer, head=head.label), f"the row of {head}"
        case RanksPane() if pane.grid.whole_row is not None:
            head, (_, *numbers) = pane.head_here, pane.grid.whole_row
            return [[str(head), *numbers]], f"{pane.measure.title} of {head}, {' '.join(MATRICES)}"
    raise EngineError(NOTHING)


def _weights_of(query: int, keys: int) -> str:
    return f"query {query}: weights of {quantity(keys, 'key')}"


def _place(pane: ComparePane) -> tuple[dict[str, Cell], str]:
    """Give the place under the cursor as values of columns, and its name."""
    if pane.side is Side.SPECTRA:
        matrix, index = pane.graph.matrix, pane.graph.index
        return {"matrix": matrix, "index": index}, f"σ {index} of {matrix}"
    query, key = pane.maps.leading.cursor
    return {"query": query, "key": key}, f"query {query}, key {key}"


def _rows_where(table: AnyTable, **wanted: Cell) -> list[Row]:
    return [row for piece in table.pieces() for row in piece.frame.filter(**wanted).rows()]


def _without_rows(pane: TablePane) -> EngineError:
    return EngineError(NOTHING if pane.shown is None else f"the {pane.view} table has no rows; nothing was copied")


async def copied_view(pane: Pane) -> Copied:
    """Copy a view's table as ``e`` writes it, with names of columns; `EngineError` when it is missing or too large."""
    if isinstance(pane, TablePane) and not pane.grid.order:
        raise _without_rows(pane)
    table = await pane.whole_table()
    name = f"the {pane.view} table"
    return tab_separated(chain([table.columns], table.rows), name), f"{name}, tab separated"
