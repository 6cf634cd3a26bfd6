"""The rows of ``composition``: for each head the earlier heads that feed it, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from engine.analysis.layers import NOTHING, heads_of, over_layers, place_of
from engine.analysis.open_model import OpenModel
from engine.mathematics.circuits import KINDS, LayerFactors, composition, reading, writing
from engine.values.errors import NotFinite
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Lane
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import Query

KEPT_BYTES = 2**29
"""What is kept of what layers write, so that going through a model reads each layer once."""

Fed: TypeAlias = tuple[LayerOutline, dict[str, Tensor]]
"""A layer, and by kind its heads' compositions with those of a later one."""


def rows_of_composition(model: OpenModel, query: Query) -> Groups:
    """Compare the heads of the layers that a query names with those of all layers before them in the same stack."""
    left_out: dict[Head, str] = {}
    yield from over_layers("composition", model, query, partial(_rows_of_layer, left_out))


def _rows_of_layer(left_out: dict[Head, str], model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Work out the rows of one layer; a layer that writes another width than this one reads feeds nothing.

    Across stacks the queries alone read what the stack has written: keys and values are read from the other one. Layers
    whose weights hold NaN or infinite numbers are noted in ``left_out``.
    """
    yield Lane.WEIGHTS
    earlier = [
        each for each in model.outline.stack_layers(layer.stack)
        if each.layer < layer.layer and each.d_output == layer.d_model and each.name not in left_out
    ]  # fmt: skip
    try:
        factors = model.layer_weights(layer.name).factors
    except NotFinite as error:
        left_out[layer.name] = error.what
        raise
    _written(model, layer, factors)
    read = {
        kind: part for kind, part in reading(*factors).items()
        if part.shape[-1] == layer.d_model and (layer.stack != "cross" or kind == "Q")
    }  # fmt: skip
    fed: list[Fed] = []
    with model.telling("comparing with earlier layers", "layers") as telling:
        for done, each in enumerate(earlier):
            yield None
            telling(done, len(earlier))
            try:
                written = _written(model, each)
            except NotFinite as error:
                left_out[each.name] = error.what
            else:
                fed.append((each, {kind: composition(written, part) for kind, part in read.items()}))
    own = [row for number in heads_of(layer, query) for row in _ranked(layer, number, fed)]
    yield RowGroup(own, left_out={each.name: left_out[each.name] for each in earlier if each.name in left_out})


def _written(model: OpenModel, layer: LayerOutline, factors: LayerFactors | None = None) -> Tensor:
    """Give what a layer writes, kept for the layers behind it where there is room."""
    kept = model.cached("composition", dict[Head, Tensor])
    if layer.name in kept:
        return kept[layer.name]
    written = writing(*(factors or model.layer_weights(layer.name).factors)[2:])
    if sum(each.nbytes for each in kept.values()) + written.nbytes <= KEPT_BYTES:
        kept[layer.name] = written
    return written


def _ranked(layer: LayerOutline, number: int, fed: list[Fed]) -> Iterator[tuple[Cell, ...]]:
    """Sort what feeds one head, the strongest first; heads of zero weights feed nothing and come last, empty."""
    places = [
        (float(value), kind, each.layer, head)
        for each, by_kind in fed
        for kind in KINDS
        if kind in by_kind
        for head, value in enumerate(by_kind[kind][:, number].tolist())
    ]
    order = torch.tensor([place[0] for place in places]).nan_to_num(-1.0).argsort(descending=True, stable=True)
    by_chance = float(layer.d_model**-0.5)  # see `engine.mathematics.circuits`
    for place in order.tolist():
        value, kind, from_layer, from_head = places[place]
        yield (*place_of(layer, number), kind, from_layer, from_head, NOTHING if value != value else value, by_chance)
