"""The rows of ``heads``: every head of the model, with what three other tables say of it side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.analysis.layers import NOTHING, layers_of
from engine.analysis.open_model import OpenModel
from engine.analysis.ranks import rank_cells
from engine.analysis.spectra import with_torch
from engine.mathematics.measures import DEFAULT_EPSILON
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Progress, Work
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import HEAD_PARTS, Query

OF_CHANGES = "of a change of weights there are ranks alone"
"""Why its heads have nothing else."""


@dataclass(frozen=True)
class Part:
    """What one table says of a layer's heads.

    Attributes
    ----------
    cells : by head number, in the order of the part's columns.
    labels : by head number, where the table labels heads.
    notes : by head number, what else is to be known.
    """

    cells: Mapping[int, tuple[Cell, ...]] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)


Key = tuple[str, Head, str | float | None]
"""A part, a layer, and what else the part is of: the ε of its ranks, or the sentence of its patterns."""


def rows_of_heads(model: OpenModel, query: Query) -> Groups:
    """List the heads, and fill their cells part by part and layer by layer: rows that come later replace earlier ones.

    The cheap part comes first, and each is worked out once. Where a part cannot be had of a layer its cells stay empty,
    and the note says why.

    Raises
    ------
    EngineError : at the end, when the sentence that the query names cannot be read.
    """
    layers = layers_of("heads", model, query)
    kept = model.cached("heads", dict[Key, Part])
    known = {key: part for key, part in kept.items() if key[2] == _of(key[0], query)}
    kept.clear()  # of other sentences
    kept.update(known)
    yield RowGroup(
        [row for layer in layers for row in _rows(layer, query, known)], progress=Progress("heads", 0, 0, "")
    )
    unread: EngineError | None = None
    for part in HEAD_PARTS if query.parts is None else [each for each in HEAD_PARTS if each in query.parts]:
        for done, layer in enumerate(layers, start=1):
            key = _key(part, layer, query)
            if key in known:
                continue
            if layer.is_change and part != "ranks":
                known[key] = Part(notes=dict.fromkeys(range(layer.heads), OF_CHANGES))
                continue
            yield None
            try:
                known[key] = kept[key] = yield from _part(part, model, layer, query)
            except Superseded:
                raise
            except EngineError as error:
                known[key] = Part(notes=dict.fromkeys(range(layer.heads), str(error)))
                unread = error if part == "patterns" and query.text is not None else unread
            yield RowGroup(_rows(layer, query, known), progress=Progress(part, done, len(layers), "layers"))
    yield RowGroup([row for layer in layers if layer.is_change for row in _rows(layer, query, known)])
    if unread is not None:
        raise unread


def _part(part: str, model: OpenModel, layer: LayerOutline, query: Query) -> Work[Part]:
    """Work out a part of the table for all heads of a layer; what needs torch is imported where it is asked for."""
    asked = Query(text=query.text)
    if part != "ranks":
        yield from with_torch()
    if part == "patterns":
        from engine.analysis import patterns

        return _of_patterns((yield from _rows_of(patterns.rows_of_layer(model, layer, asked))))
    if part == "circuits":
        from engine.analysis import circuits

        found = yield from circuits.measured(model, layer, False, asked)
        cells = {number: tuple(circuits.cells(own, found.chance)) for number, own in found.own.items()}
        return Part(cells, notes=dict.fromkeys(cells, "; ".join(found.lacking)))
    group = yield from model.spectra.layer(layer.name, False)
    epsilon = DEFAULT_EPSILON if query.epsilon is None else query.epsilon
    return Part(rank_cells(group.listed(), epsilon, with_chance=True))


def _rows_of(groups: Groups) -> Work[list[tuple[Cell, ...]]]:
    rows: list[tuple[Cell, ...]] = []
    for unit in groups:
        if isinstance(unit, RowGroup):
            rows += map(tuple, unit.rows)
        else:
            yield unit
    return rows


def _of_patterns(rows: list[tuple[Cell, ...]]) -> Part:
    by_head: dict[int, tuple[Any, ...]] = {int(row[2] or 0): row for row in rows}
    return Part(
        {head: row[4:-1] for head, row in by_head.items()},
        {head: row[3] for head, row in by_head.items()},
        {head: row[-1] for head, row in by_head.items()},
    )


def _rows(layer: LayerOutline, query: Query, known: Mapping[Key, Part]) -> list[tuple[Cell, ...]]:
    """Write what is known of a layer's heads that are asked for side by side; a cell is empty where nothing is."""
    parts = {part: known.get(_key(part, layer, query), Part()) for part in HEAD_PARTS}
    rows: list[tuple[Cell, ...]] = []
    for head in layer.head_names():
        number = head.head
        if query.wants(number):
            label = next((part.labels[number] for part in parts.values() if number in part.labels), "")
            each = (parts[name].cells.get(number, (NOTHING,) * len(columns)) for name, columns in HEAD_PARTS.items())
            notes = dict.fromkeys(part.notes[number] for part in parts.values() if part.notes.get(number))
            cells = (cell for part in each for cell in part)
            rows.append((head.stack, head.layer, head.label, label, *cells, "; ".join(notes)))
    return rows


def _key(part: str, layer: LayerOutline, query: Query) -> Key:
    return part, layer.name, _of(part, query)


def _of(part: str, query: Query) -> str | float | None:
    """Say what a part is of beside its layer."""
    return query.epsilon if part == "ranks" else query.text if part == "patterns" else None
