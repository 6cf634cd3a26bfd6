"""The rows of ``composition``: the earlier heads that feed each head, the strongest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from torch import Tensor

from engine.analysis.layers import NOTHING, place_cells, wanted_heads
from engine.analysis.open_model import OpenModel
from engine.mathematics.circuits import KINDS, LayerFactors, composition, rows_read, rows_written
from engine.values.errors import NotFinite
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Lane
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import Query

KEPT_BYTES = 2**29
"""The most bytes of layers' writing factors that are kept, so that each layer is read once."""

LayerComposition: TypeAlias = tuple[LayerOutline, dict[str, Tensor]]
"""An earlier layer, and by kind the composition of its heads with those of a later layer."""


def composition_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Compare a layer's heads with those of all earlier layers of the same stack that write what they read.

    In cross-attention only queries read the decoder's stream; keys and values read the encoder's.
    """
    yield Lane.WEIGHTS
    earlier = [
        each for each in model.outline.stack_layers(layer.stack)
        if each.layer < layer.layer and each.d_output == layer.d_model
    ]  # fmt: skip
    factors = model.layer_weights(layer.name).factors
    _written(model, layer, factors)
    read = {
        kind: part for kind, part in rows_read(*factors).items()
        if part.shape[-1] == layer.d_model and (layer.stack != "cross" or kind == "Q")
    }  # fmt: skip
    fed: list[LayerComposition] = []
    left_out: dict[Head, str] = {}
    with model.reporter("comparing with earlier layers", "layers") as report:
        for done, each in enumerate(earlier):
            yield None
            report(done, len(earlier))
            try:
                written = _written(model, each)
            except NotFinite as error:
                left_out[each.name] = error.what
            else:
                fed.append((each, {kind: composition(written, part) for kind, part in read.items()}))
    own = [row for number in wanted_heads(layer, query) for row in _ranked(layer, number, fed)]
    yield RowGroup(own, left_out=left_out)


def _written(model: OpenModel, layer: LayerOutline, factors: LayerFactors | None = None) -> Tensor:
    """Return a layer's writing factors, kept for later layers if there is room."""
    kept = model.cached("composition", dict[Head, Tensor])
    if layer.name in kept:
        return kept[layer.name]
    written = rows_written(*(factors or model.layer_weights(layer.name).factors)[2:])
    if sum(each.nbytes for each in kept.values()) + written.nbytes <= KEPT_BYTES:
        kept[layer.name] = written
    return written


def _ranked(layer: LayerOutline, number: int, fed: list[LayerComposition]) -> Iterator[tuple[Cell, ...]]:
    """Sort the heads that feed one head, the strongest first; heads of zero weights come last, empty."""
    places = [
        (float(value), kind, each.layer, head)
        for each, by_kind in fed
        for kind in KINDS
        if kind in by_kind
        for head, value in enumerate(by_kind[kind][:, number].tolist())
    ]
    places.sort(key=lambda place: 1.0 if math.isnan(place[0]) else -place[0])
    chance = float(layer.d_model**-0.5)  # see `engine.mathematics.circuits`
    for value, kind, from_layer, head in places:
        shown = NOTHING if math.isnan(value) else value
        yield (*place_cells(layer, number), kind, from_layer, head, shown, chance)
