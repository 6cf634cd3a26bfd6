"""The maps of a long sentence: they stay on the model's lane, and only rectangles of them cross."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.analysis.open_model import OpenModel
from engine.analysis.two_models import beside_other, check_maps_of_both
from engine.mathematics.pooling import largest_value, pool
from engine.values.attention import (
    AttentionMap,
    AttentionMaps,
    MapLines,
    MapName,
    MapQuery,
    MapWindow,
    PooledMap,
    Pooling,
)
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.progress import Work, finish

if TYPE_CHECKING:
    from engine.models.reader import MapReader

Check = Callable[[], None]

Reading = tuple[str, Off]
"""A sentence, and the heads that are switched off while it is read."""


def large_map(model: OpenModel, query: MapQuery) -> Work[AttentionMap]:
    """Give one map of a sentence, with the one that it is subtracted from beside it.

    It is true until another one is asked for: to be used within the same unit.

    Raises
    ------
    EngineError : when a map cannot be had, does not fit into memory, or has other tokens along its sides.
    """
    name, minuend = query.name, query.minuend
    reading = query.text, query.off
    if minuend == name and not query.off.heads:
        other = yield from check_maps_of_both(model, query.text, name.stack, name.layer)
        yield from other.reader()
        (own,) = yield from _large_maps(model, [(reading, name)])
        (theirs,) = finish(_large_maps(other, [(reading, name)]))  # in the same unit
        return beside_other(model, other, own, theirs)
    if minuend is None and model.is_comparing and not large_maps(model).holds(reading, name):
        (yield from model.other()).forget_large_maps()  # nobody looks at a difference any more
    asked = [(reading, name)]
    if minuend == name:
        asked = [((query.text, NOTHING_OFF), name), *asked]
    elif minuend is not None:
        asked = [*asked, (reading, minuend)]
    first, *others = yield from _large_maps(model, asked)
    for other_map in others:
        if (first.query_tokens, first.key_tokens) != (other_map.query_tokens, other_map.key_tokens):
            raise EngineError("the maps have other tokens along their sides, so there is no difference")
        return replace(first, other=other_map.weights)
    return first


def large_maps(model: OpenModel) -> LargeMaps:
    """Give the maps of a long sentence that a model keeps, on its lane."""
    return model.cached("large maps", LargeMaps)


def _large_maps(model: OpenModel, asked: Sequence[tuple[Reading, MapName]]) -> Work[list[AttentionMap]]:
    """Give maps that stay here, reading the sentence for those that are not there."""
    for _, name in asked:
        model.check_attends(name.stack, name.layer)
    reader = yield from model.reader()
    return large_maps(model).maps(asked, reader, model.check)


class LayerMaps:
    """One layer's maps, or the means over a stack's layers, at a time.

    Nobody else ever holds the array, so that the next layer's maps can take its place without memory being given back
    and fetched anew. What crosses is pooled, or a copy.
    """

    def __init__(self) -> None:
        self._buffer: np.ndarray[Any, np.dtype[np.float32]] | None = None
        self._reading: Reading | None = None
        self._maps: AttentionMaps | None = None
        self._mean: AttentionMap | None = None

    def holds(self, reading: Reading, name: MapName) -> bool:
        """Say whether a map is there."""
        maps = self._maps
        return maps is not None and (self._reading, maps.stack, maps.layer) == (reading, name.stack, name.layer)

    def compute(self, reading: Reading, name: MapName, reader: MapReader, check: Check) -> None:
        """Compute a layer's maps, having the sentence read unless it was the last one."""
        self._maps = self._mean = None  # while the array is written they are not true
        if reading != self._reading:
            self._buffer = None  # before the memory is needed to read
        self._reading = reading
        reader.read(reading[0], check, reading[1])
        if name.layer is None:
            self._maps = reader.mean_over_layers(name.stack, check, self._buffer)
        else:
            self._maps = reader.layer_maps(Head(name.stack, name.layer), check, self._buffer)
        self._buffer = self._maps.weights

    def map(self, head: int | None) -> AttentionMap:
        """Give a head's map, or the mean over the heads, of the layer that is there."""
        assert self._maps is not None
        if head is not None:
            return self._maps.select(head)
        if self._mean is None:
            self._mean = self._maps.select(None)
        return self._mean


class LargeMaps:
    """The maps of as many layers, or readings, as are looked at together: of one, or of two for their difference."""

    def __init__(self) -> None:
        self._layers: list[LayerMaps] = []
        self._largest: dict[Hashable, float] = {}

    def holds(self, reading: Reading, name: MapName) -> bool:
        """Say whether a map is there."""
        return any(each.holds(reading, name) for each in self._layers)

    def maps(self, asked: Sequence[tuple[Reading, MapName]], reader: MapReader, check: Check) -> list[AttentionMap]:
        """Give maps to be looked at together, in one unit and before others are asked for.

        Layers that are not asked for now are let go of once one has to be computed.

        Raises
        ------
        EngineError : when a map cannot be had, or does not fit into memory.
        """
        wanted = [each for each in asked if not self.holds(*each)]
        if wanted:
            self._largest.clear()
            kept = [layer for layer in self._layers if any(layer.holds(*each) for each in asked)]
            spare = [layer for layer in self._layers if layer not in kept][: len(wanted)]  # no array but those needed
            self._layers = kept
            for reading, name in wanted:
                if not self.holds(reading, name):  # two heads of one layer come together
                    layer = spare.pop() if spare else LayerMaps()
                    layer.compute(reading, name, reader, check)
                    self._layers.append(layer)
        return [next(layer for layer in self._layers if layer.holds(*each)).map(each[1].head) for each in asked]

    def window(self, attention: AttentionMap, known_as: Hashable, window: MapWindow, check: Check) -> PooledMap:
        """Pool a rectangle of a map, or of the difference of two.

        Parameters
        ----------
        known_as : what the map is, by which the end of its scale is kept while it is there.
        """
        largest = self._largest_of(attention, known_as, window.block, window.pooling, check)
        return pool(attention, window, largest, check)

    def lines(self, attention: AttentionMap, known_as: Hashable, place: tuple[int, int], check: Check) -> MapLines:
        """Give the row of one query and the column of one key of a map, or of the difference of two.

        Raises
        ------
        EngineError : when the map has no such query or key.
        """
        if any(not 0 <= at < count for at, count in zip(place, attention.weights.shape, strict=True)):
            raise EngineError(f"the map has no query {place[0]} with a key {place[1]}")
        return MapLines.of(attention, *place, self._largest_of(attention, known_as, 1, "max", check))

    def _largest_of(
        self, attention: AttentionMap, known_as: Hashable, block: int, pooling: Pooling, check: Check
    ) -> float:
        """Give the largest value of a map that is pooled, which is found once."""
        key = known_as, 1 if pooling == "max" else block, pooling
        if key not in self._largest:
            self._largest[key] = largest_value(attention, block, pooling, check)
        return self._largest[key]
