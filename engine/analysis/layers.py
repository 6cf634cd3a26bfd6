"""Shared by views that are computed layer by layer: the layers of a query, and the cells of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from engine.analysis.open_model import OpenModel
from engine.values.errors import EngineError, LayerLeftOut
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Progress
from engine.values.table import Cell, RowGroup, no_rows_error
from engine.values.views import NEEDS, VIEWS, Query

Unit = TypeVar("Unit")

NOTHING = ""
"""An empty cell."""


def compute_layers(
    name: str,
    model: OpenModel,
    query: Query,
    of_layer: Callable[[OpenModel, LayerOutline, Query], Iterator[Unit]],
) -> Iterator[Unit | RowGroup | Lane | None]:
    """Compute the layers of a query, one after the other; a second model that it needs is opened first.

    Layers that raise `LayerLeftOut`, such as those with NaN in their weights, are left out unless one is asked for.

    Raises `EngineError` if the model has no such layer or head, there is no second model, or every layer is left out.
    """
    if _needs_other(name, query):
        yield from model.other()
    layers = query_layers(name, model, query)
    left_out: dict[Head, str] = {}
    for done, layer in enumerate(layers):
        yield RowGroup(progress=Progress(name, done, len(layers), "layers"))
        try:
            yield from of_layer(model, layer, query)
        except LayerLeftOut as error:
            if query.layer is not None:
                raise
            left_out[layer.name] = error.what
            yield RowGroup(left_out={layer.name: error.what})
    if left_out and len(left_out) == len(layers):
        raise no_rows_error(left_out)
    yield RowGroup(progress=Progress(name, len(layers), len(layers), "layers"))


def query_layers(name: str, model: OpenModel, query: Query) -> tuple[LayerOutline, ...]:
    """Return the layers of a query: one, some, or all that can have rows in the view.

    Of two models, which must both be open, these are the layers that can be compared.

    Raises `EngineError` if the model has no such layer or head, or it cannot have rows.
    """
    outline, view = model.outline, VIEWS.get(name)
    has_changes = view.has_changes if view is not None else name != "attention"
    if query.layer is not None:
        layers: tuple[LayerOutline, ...] = (outline.layer(query.layer.whole_layer),)
    else:
        layers = tuple(map(outline.layer, query.layers)) or outline.layers
        if not has_changes:
            layers = tuple(layer for layer in layers if not layer.is_change) or layers
        if _needs_other(name, query):
            layers = tuple(layer for layer in layers if layer.name in model.comparison.layers) or layers
    for layer in layers:
        if layer.is_change and view is not None and not has_changes:
            raise EngineError(
                f"{name} needs heads that attend; {layer.stack} holds changes of weights; choose another stack"
            )
        if query.head is not None and query.head >= 0:
            outline.layer(Head(layer.stack, layer.layer, query.head))
    return layers


def _needs_other(name: str, query: Query) -> bool:
    return query.with_other or "vs" in NEEDS.get(name, ())


def wanted_parts(query: Query) -> Iterator[bool]:
    """Yield False if rows of heads are wanted, then True if rows of whole layers are."""
    if query.head is None or query.head >= 0:
        yield False
    if query.wants(-1):
        yield True


def wanted_heads(layer: LayerOutline, query: Query) -> list[int]:
    """List the numbers of a layer's heads in a query."""
    return [number for number in range(layer.heads) if query.wants(number)]


def place_cells(layer: LayerOutline, number: int) -> tuple[str, int, str]:
    """Fill the columns ``stack, layer, head``; -1 is the whole layer."""
    return layer.stack, layer.layer, "all" if number < 0 else str(number)


def measure_cells(columns: tuple[str, ...], own: Mapping[str, float], chance: Mapping[str, float]) -> Iterator[Cell]:
    """Arrange measures and their chance in columns, with empty cells for undefined ones."""
    for column in columns:
        name = column.removesuffix("_chance")
        value = own.get(column)
        if name in own and column not in own:
            value = chance.get(name)
        yield NOTHING if value is None or math.isnan(value) else value
