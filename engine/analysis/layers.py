"""What views share that are worked out a layer at a time: which layers a query names, and how rows are laid out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from engine.analysis.open_model import OpenModel
from engine.values.errors import EngineError, LayerLeftOut
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Progress
from engine.values.table import Cell, RowGroup, no_rows_error
from engine.values.views import VIEWS, Query

Unit = TypeVar("Unit")

NOTHING = ""
"""The cell of what is undefined."""


def over_layers(
    name: str,
    model: OpenModel,
    query: Query,
    of_layer: Callable[[OpenModel, LayerOutline, Query], Iterator[Unit]],
) -> Iterator[Unit | RowGroup]:
    """Work out the layers that a query of a view names, one after the other.

    A layer of which nothing can be worked out, as its weights hold NaN or infinite numbers, is left out, unless it is
    the one that is named.

    Raises
    ------
    EngineError : when the model has no such layer or head, or every layer is left out.
    """
    layers = layers_of(name, model, query)
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


def layers_of(name: str, model: OpenModel, query: Query) -> tuple[LayerOutline, ...]:
    """Give the layers that a query of a view names: one, some, or all that can have rows.

    Of a comparison that are the layers of which the other model, which must be open, has the like.

    Raises
    ------
    EngineError : when the model has no such layer or head, or it cannot have rows.
    """
    outline, view = model.outline, VIEWS.get(name)
    has_changes = view.has_changes if view is not None else name != "attention"
    if query.layer is not None:
        layers: tuple[LayerOutline, ...] = (outline.layer(query.layer.whole_layer),)
    else:
        layers = tuple(map(outline.layer, query.layers)) or outline.layers
        if not has_changes:
            layers = tuple(layer for layer in layers if not layer.is_change) or layers
        if query.of_two or "vs" in (view.needs if view is not None else ()):
            layers = tuple(layer for layer in layers if layer.name in model.comparison.layers) or layers
    for layer in layers:
        if layer.is_change and view is not None and not has_changes:
            raise EngineError(
                f"{name} needs heads that attend; {layer.stack} holds changes of weights; choose another stack"
            )
        if query.head is not None and query.head >= 0:
            outline.layer(Head(layer.stack, layer.layer, query.head))
    return layers


def parts_wanted(query: Query) -> Iterator[bool]:
    """Yield whether layers as a whole are meant: no for their heads, then yes for themselves, where both are wanted."""
    if query.head is None or query.head >= 0:
        yield False
    if query.wants(-1):
        yield True


def heads_of(layer: LayerOutline, query: Query) -> list[int]:
    """List the numbers of a layer's heads that a query wants."""
    return [number for number in range(layer.heads) if query.wants(number)]


def place_of(layer: LayerOutline, number: int) -> tuple[str, int, str]:
    """Fill the columns ``stack, layer, head``; -1 is the layer as a whole."""
    return layer.stack, layer.layer, "all" if number < 0 else str(number)


def cells_of(
    columns: tuple[str, ...], own: Mapping[str, float], chance: Mapping[str, float], counts: tuple[str, ...] = ()
) -> Iterator[Cell]:
    """Lay numbers, and beside them what chance gives, out in columns; what is undefined has an empty cell.

    Columns that end with one of ``counts`` hold whole numbers, though a sum or difference made floats of them.
    """
    for column in columns:
        name = column.removesuffix("_chance")
        value = own.get(column)
        if name in own and column not in own:
            value = chance.get(name)
        if value is None or math.isnan(value):
            yield NOTHING
        else:
            yield int(value) if counts and column.endswith(counts) else value
