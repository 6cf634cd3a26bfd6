"""The maps of a long sentence: they stay on the model's lane, and only rectangles of them cross."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.mathematics.pooling import largest_value, pool
from engine.values.attention import AttentionMap, AttentionMaps, MapLines, MapName, MapWindow, PooledMap, Pooling
from engine.values.errors import EngineError
from engine.values.heads import Head, Off

if TYPE_CHECKING:
    from engine.models.map_reader import MapReader

Check = Callable[[], None]

Reading = tuple[str, Off]
"""A sentence, and the heads that are switched off while it is read."""

Read = Callable[[Reading], "MapReader"]
"""Has a sentence read, unless it was the last one."""


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

    def map(self, reading: Reading, name: MapName, read: Read, check: Check) -> AttentionMap:
        """Give one map, computing what is not there."""
        if not self.holds(reading, name):
            self._maps = self._mean = None  # while the array is written they are not true
            if reading != self._reading:
                self._buffer = None  # before the memory is needed to read
            self._reading = reading
            reader = read(reading)
            if name.layer is None:
                self._maps = reader.mean_over_layers(name.stack, check, self._buffer)
            else:
                self._maps = reader.layer_maps(Head(name.stack, name.layer), check, self._buffer)
            self._buffer = self._maps.weights
        assert self._maps is not None  # it has just been made, where it was not there
        if name.head is not None:
            return self._maps.select(name.head)
        if self._mean is None:
            self._mean = self._maps.select(None)
        return self._mean


class LargeMaps:
    """The maps of as many layers, or readings, as are looked at together: of one, or of two for their difference."""

    def __init__(self) -> None:
        self._layers: list[LayerMaps] = []
        self._largest: dict[tuple[Hashable, int, Pooling], float] = {}

    def holds(self, reading: Reading, name: MapName) -> bool:
        """Say whether a map is there."""
        return any(each.holds(reading, name) for each in self._layers)

    def maps(self, asked: Sequence[tuple[Reading, MapName]], read: Read, check: Check) -> list[AttentionMap]:
        """Give maps to be looked at together, in one unit and before others are asked for.

        Layers that are not asked for now are let go of once one has to be computed.

        Raises
        ------
        EngineError : when a map cannot be had, or does not fit into memory.
        """
        if not all(self.holds(*each) for each in asked):
            self._largest.clear()
            wanted = [each for each in asked if not self.holds(*each)]
            kept = [layer for layer in self._layers if any(layer.holds(*each) for each in asked)]
            spare = [layer for layer in self._layers if layer not in kept][: len(wanted)]  # no array but those needed
            self._layers = kept
            for reading, name in wanted:
                if not self.holds(reading, name):  # two heads of one layer come together
                    layer = spare.pop() if spare else LayerMaps()
                    layer.map(reading, name, read, check)
                    self._layers.append(layer)
        return [next(layer for layer in self._layers if layer.holds(*each)).map(*each, read, check) for each in asked]

    def window(self, attention: AttentionMap, known_as: Hashable, window: MapWindow, check: Check) -> PooledMap:
        """Pool a rectangle of a map, or of the difference of two.

        Parameters
        ----------
        known_as : what the map is, by which the end of its scale is kept while it is there.
        """
        largest = self._largest_of(attention, known_as, window.block, window.pooling, check)
        pooled = pool(attention, window, largest, check)
        if window.block > 1 or attention.other is not None:
            return pooled
        seen = pooled.maxima.copy()  # else the next layer would be seen in it
        return PooledMap(pooled.name, pooled.query_tokens, pooled.key_tokens, pooled.window,
                         seen, seen, pooled.places, pooled.largest, None, pooled.visible)  # fmt: skip

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
        key = (known_as, 1 if pooling == "max" else block, pooling)
        if key not in self._largest:
            self._largest[key] = largest_value(attention.weights, block, pooling, check, attention.other)
        return self._largest[key]
