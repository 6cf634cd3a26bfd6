"""The maps of a long sentence: they stay on the model's lane, and only rectangles of them cross."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.analysis.open_model import OpenModel, beside_other, check_maps_of_both
from engine.mathematics.attention import largest_value, pool, visible_keys
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

Key = tuple[Reading, str, int | None]
"""A reading, a stack, and a layer of it or None for their mean."""


def large_map(model: OpenModel, query: MapQuery) -> Work[AttentionMap]:
    """Give one map of a sentence, with the one that it is subtracted from beside it.

    It is true until another one is asked for: to be used within the same unit. Raises `EngineError` when a map cannot
    be had, does not fit into memory, or has other tokens along its sides.
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
        reader = yield from model.reader(stack=name.stack, layer=name.layer)
    return large_maps(model).maps(asked, reader, model.check)


class LargeMaps:
    """The maps of as many layers, or readings, as are looked at together: of one, or of two for their difference.

    What crosses is pooled, or a copy, so that the memory of maps is free as soon as others are looked at.
    """

    def __init__(self) -> None:
        self._layers: dict[Key, AttentionMaps] = {}
        self._means: dict[Key, AttentionMap] = {}
        self._largest: dict[Hashable, float] = {}

    def holds(self, reading: Reading, name: MapName) -> bool:
        """Say whether a map is there."""
        return (reading, name.stack, name.layer) in self._layers

    def maps(self, asked: Sequence[tuple[Reading, MapName]], reader: MapReader, check: Check) -> list[AttentionMap]:
        """Give maps to be looked at together, in one unit and before others are asked for.

        Layers that are not asked for now are let go of once one has to be computed. Raises `EngineError` when a map
        cannot be had, or does not fit into memory.
        """
        keys = [(reading, name.stack, name.layer) for reading, name in asked]
        if not self._layers.keys() >= {*keys}:
            self._largest, self._means = {}, {}
            self._layers = {key: maps for key, maps in self._layers.items() if key in keys}
            for key in dict.fromkeys(keys):  # two heads of one layer come together
                if key not in self._layers:
                    (text, off), stack, layer = key
                    reader.read(text, check, off)
                    maps = reader.layer_maps(stack if layer is None else Head(stack, layer), check)
                    self._layers[key] = replace(maps, visible=visible_keys(maps.weights, check))
        return [self._map(key, name.head) for key, (_, name) in zip(keys, asked, strict=True)]

    def _map(self, key: Key, head: int | None) -> AttentionMap:
        """Give a head's map, or the mean over the heads, which is taken once."""
        if head is not None:
            return self._layers[key].select(head)
        if key not in self._means:
            self._means[key] = self._layers[key].select(None)
        return self._means[key]

    def window(self, attention: AttentionMap, known_as: Hashable, window: MapWindow, check: Check) -> PooledMap:
        """Pool a rectangle of a map, or of the difference of two.

        The end of its scale is kept while the map is there, by what it is ``known_as``.
        """
        largest = self._largest_of(attention, known_as, window.block, window.pooling, check)
        return pool(attention, window, largest, check)

    def lines(self, attention: AttentionMap, known_as: Hashable, place: tuple[int, int], check: Check) -> MapLines:
        """Give the row of one query and the column of one key of a map, or of the difference of two.

        Raises `EngineError` when the map has no such query or key.
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
