"""The rows of ``heads``: every head, with its ranks, patterns and circuits side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from engine.analysis.layers import NOTHING, query_layers
from engine.analysis.open_model import OpenModel
from engine.analysis.ranks import ranks_of_layer
from engine.analysis.spectra import with_torch
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Progress, Work
from engine.values.table import RANKS_BESIDE_CHANCE_COLUMNS, Cell, Groups, RowGroup
from engine.values.views import HEAD_PARTS, HEADS, VIEWS, Query

Key = tuple[str, Head, str | float | None]
"""A part, a layer, and the ε of its ranks or the sentence of its patterns."""

Part = Mapping[int, Mapping[str, Cell]]
"""The cells that one table has for a layer's heads, by head number and column, ``label`` and ``note`` among them."""


def rows_of_heads(model: OpenModel, query: Query) -> Groups:
    """List the heads, and fill their cells part by part and layer by layer; later rows replace earlier ones.

    The cheapest part comes first, and each is computed once. If a part fails for a layer, its cells stay empty and the
    note says why.

    Raises `EngineError` at the end, if the query's sentence cannot be read.
    """
    layers = query_layers("heads", model, query)
    kept = model.cached("heads", dict[Key, Part])
    known = {key: part for key, part in kept.items() if key == _key(key[0], key[1], query)}
    kept.clear()  # of other sentences
    kept.update(known)
    yield RowGroup(
        [row for layer in layers for row in _rows(layer, query, known)], progress=Progress("heads", 0, 0, "")
    )
    unread: EngineError | None = None
    for part in HEAD_PARTS if query.parts is None else [each for each in HEAD_PARTS if each in query.parts]:
        for done, layer in enumerate(layers, start=1):
            key = _key(part, layer.name, query)
            if key in known:
                continue
            if layer.is_change and part != "ranks":
                note = {"note": "a change of weights has ranks alone"}
                known[key] = dict.fromkeys(range(layer.heads), note)
                continue
            yield None
            try:
                known[key] = kept[key] = yield from _part(part, model, layer, query)
            except Superseded:
                raise
            except EngineError as error:
                known[key] = {number: {"note": str(error)} for number in range(layer.heads)}
                unread = error if part == "patterns" and query.text is not None else unread
            yield RowGroup(_rows(layer, query, known), progress=Progress(part, done, len(layers), "layers"))
    yield RowGroup([row for layer in layers if layer.is_change for row in _rows(layer, query, known)])
    if unread is not None:
        raise unread


def _key(part: str, layer: Head, query: Query) -> Key:
    return part, layer, query.epsilon if part == "ranks" else query.text if part == "patterns" else None


def _part(part: str, model: OpenModel, layer: LayerOutline, query: Query) -> Work[Part]:
    columns, rows_of_layer = RANKS_BESIDE_CHANCE_COLUMNS, ranks_of_layer
    if part != "ranks":
        yield from with_torch()
        from engine.analysis.circuits import circuits_of_layer
        from engine.analysis.patterns import patterns_of_layer

        columns, rows_of_layer = VIEWS[part].columns, circuits_of_layer if part == "circuits" else patterns_of_layer
    by_head: defaultdict[int, dict[str, Cell]] = defaultdict(dict)
    for unit in rows_of_layer(model, layer, Query(text=query.text, epsilon=query.epsilon)):
        if not isinstance(unit, RowGroup):
            yield unit
            continue
        for row in unit.rows:
            cells = dict(zip(columns, row, strict=True))
            if part == "ranks":  # its rows are matrices
                cells = {f"{cells['matrix']}_{column}".lower(): cell for column, cell in cells.items()}
            by_head[int(row[2] or 0)] |= cells
            if unit.lacking:
                by_head[int(row[2] or 0)]["note"] = "; ".join(unit.lacking)
    return by_head


def _rows(layer: LayerOutline, query: Query, known: Mapping[Key, Part]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for head in layer.head_names():
        if query.wants(head.head):
            parts = [known.get(_key(part, layer.name, query), {}).get(head.head, {}) for part in HEAD_PARTS]
            cells = {column: cell for part in parts for column, cell in part.items()}
            notes = dict.fromkeys(str(part["note"]) for part in parts if part.get("note"))
            named = (cells.get(column, NOTHING) for column in HEADS.columns[3:-1])
            rows.append((head.stack, head.layer, head.label, *named, "; ".join(notes)))
    return rows
