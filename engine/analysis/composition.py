"""The rows of ``composition``: for each head the earlier heads that feed it, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

import torch
from torch import Tensor

from engine.analysis.layers import NOTHING, heads_of, over_layers, place_of
from engine.analysis.open_model import OpenModel
from engine.mathematics.circuits import LayerFactors
from engine.mathematics.composition import KINDS, chance, composition, reading, writing
from engine.values.errors import NotFinite
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Work
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import Query

KEPT_BYTES = 2**29
"""What is kept of what layers write, so that going through a model reads each layer once."""

Fed: TypeAlias = tuple[LayerOutline, dict[str, Tensor]]
"""A layer, and by kind its heads' compositions with those of a later one."""


def rows_of_composition(model: OpenModel, query: Query) -> Groups:
    """Compare the heads of the layers that a query names with those of all layers before them in the same stack."""
    return over_layers("composition", model, query, _Comparison(model).rows)


class _Comparison:
    """What going through layers one after the other keeps for the next: what layers write, and those left out."""

    def __init__(self, model: OpenModel) -> None:
        self._model = model
        self._written = model.cached("composition", dict[Head, Tensor])
        self.left_out: dict[Head, str] = {}

    def rows(self, model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
        """Work out the rows of one layer; a layer that writes another width than this one reads feeds nothing.

        Across stacks the queries alone read what the stack has written: keys and values are read from the other one.
        """
        yield Lane.WEIGHTS
        stack = model.outline.stack_layers(layer.stack)
        earlier = [
            each for each in stack
            if each.layer < layer.layer and each.d_output == layer.d_model and each.name not in self.left_out
        ]  # fmt: skip
        factors = self._factors(layer)
        self._keep(layer, writing(*factors[2:]))
        read = {
            kind: part for kind, part in reading(*factors).items()
            if part.shape[-1] == layer.d_model and (layer.stack != "cross" or kind == "Q")
        }  # fmt: skip
        fed = yield from self._fed(earlier, read)
        own = (row for number in heads_of(layer, query) for row in _ranked(layer, number, fed))
        before = {name: what for name, what in self.left_out.items() if name in {each.name for each in earlier}}
        yield RowGroup(list(own), left_out=before)

    def _fed(self, earlier: list[LayerOutline], read: Mapping[str, Tensor]) -> Work[list[Fed]]:
        """Compare what a layer reads with what earlier ones write."""
        fed: list[Fed] = []
        with self._model.telling("comparing with earlier layers", "layers") as telling:
            for done, each in enumerate(earlier):
                yield None
                telling(done, len(earlier))
                with suppress(NotFinite):
                    written = self._written_by(each)
                    fed.append((each, {kind: composition(written, part) for kind, part in read.items()}))
        return fed

    def _factors(self, layer: LayerOutline) -> LayerFactors:
        """Read a layer, and note one whose weights hold NaN or infinite numbers."""
        try:
            weights = self._model.layer_weights(layer.name)
        except NotFinite as error:
            self.left_out[layer.name] = error.what
            raise
        return weights.factors

    def _written_by(self, layer: LayerOutline) -> Tensor:
        written = self._written.get(layer.name)
        if written is None:
            written = writing(*self._factors(layer)[2:])
            self._keep(layer, written)
        return written

    def _keep(self, layer: LayerOutline, written: Tensor) -> None:
        taken = sum(each.nbytes for each in self._written.values())
        if taken + written.nbytes <= KEPT_BYTES:
            self._written[layer.name] = written


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
    by_chance = chance(layer.d_model)
    for place in order.tolist():
        value, kind, from_layer, from_head = places[place]
        yield (*place_of(layer, number), kind, from_layer, from_head, NOTHING if value != value else value, by_chance)
