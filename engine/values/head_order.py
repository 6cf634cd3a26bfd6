"""Where a head stands among all heads of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from engine.values.heads import Head
from engine.values.model import LayerOutline


class HeadOrder(Mapping[Head, int]):
    """Every head of a model, layer by layer, and its place; of thousands no name is made before it is asked for.

    Parameters
    ----------
    layers : of the model.
    """

    def __init__(self, layers: Iterable[LayerOutline] = ()) -> None:
        self._layers = tuple(layers)
        firsts = accumulate((layer.heads for layer in self._layers), initial=0)
        self._places = {
            (layer.name.stack, layer.name.layer): range(first, first + layer.heads)
            for layer, first in zip(self._layers, firsts, strict=False)
        }

    def __getitem__(self, head: Head) -> int:
        """Give a head's place, counted from zero."""
        places = self._places.get((head.stack, head.layer), range(0))
        if not 0 <= head.head < len(places):
            raise KeyError(head)
        return places[head.head]

    def __iter__(self) -> Iterator[Head]:
        """Name the heads in their order."""
        return (head for layer in self._layers for head in layer.head_names())

    def __len__(self) -> int:
        """Count the heads."""
        return sum(layer.heads for layer in self._layers)
