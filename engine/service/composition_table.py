"""The rows of the ``composition`` table: for each head the earlier heads that feed it, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from engine.mathematics.circuit_measures import Factors, of_heads, ov_of_heads
from engine.mathematics.composition import KINDS, chance, composition, reading, writing
from engine.values.heads import Head
from engine.values.model import LayerOutline
from engine.values.tables import Cell
from engine.values.view import Query

if TYPE_CHECKING:
    from torch import Tensor

    from engine.service.session import Breathe, Session


KEPT_BYTES = 2**29
"""What is kept of what layers write, so that going through a model reads each layer once."""


class CompositionTable:
    """Compares the heads of a layer with those of the layers before it in the same stack, one layer at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._written: dict[Head, Tensor] = {}

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads; a layer that writes another width than this one reads feeds nothing.

        Across stacks the queries alone read what the stack has written: keys and values are read from the other one.
        """
        stack = self._session.outline.stack_layers(layer.stack)
        earlier = [each for each in stack if each.layer < layer.layer and each.d_output == layer.d_model]
        circuits = of_heads(self._factors(layer))
        self._keep(layer, writing(circuits.ov))
        read = {
            kind: part for kind, part in reading(circuits.qk, circuits.ov).items()
            if len(part) == layer.d_model and (layer.stack != "cross" or kind == "Q")
        }  # fmt: skip
        fed: list[tuple[LayerOutline, dict[str, Tensor]]] = []
        for each in earlier:
            breathe()
            written = self._written_by(each)
            fed.append((each, {kind: composition(written, part) for kind, part in read.items()}))
        for number in range(layer.heads):
            if query.wants(number):
                breathe()
                yield from _ranked(layer, number, fed)

    def _factors(self, layer: LayerOutline) -> Factors:
        """Read a layer."""
        weights = self._session.layer_weights(layer.name)
        return weights.query, weights.key, weights.value, weights.output

    def _written_by(self, layer: LayerOutline) -> Tensor:
        """Give what a layer's heads write: kept, or worked out again."""
        written = self._written.get(layer.name)
        if written is None:
            written = writing(ov_of_heads(self._factors(layer)))
            self._keep(layer, written)
        return written

    def _keep(self, layer: LayerOutline, written: Tensor) -> None:
        """Keep what a layer's heads write while there is room."""
        taken = sum(each.nbytes for each in self._written.values())
        if taken + written.nbytes <= KEPT_BYTES:
            self._written[layer.name] = written


def _ranked(
    layer: LayerOutline, number: int, fed: list[tuple[LayerOutline, dict[str, Tensor]]]
) -> Iterator[tuple[Cell, ...]]:
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
        cell: Cell = "" if value != value else value
        yield (layer.stack, layer.layer, str(number), kind, from_layer, from_head, cell, by_chance)
