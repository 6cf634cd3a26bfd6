"""The maps of a long sentence: they stay on the engine thread, and only rectangles of them cross."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.mathematics.pooling import largest_value, pool
from engine.service.thread import Breathe
from engine.values.attention import AttentionMap, AttentionMaps, MapWindow, PooledMap, Pooling
from engine.values.errors import EngineError
from engine.values.heads import Head, MapName
from engine.values.lines import MapLines

if TYPE_CHECKING:
    from engine.models.maps import MapReader


class LargeMaps:
    """One layer's maps, or the means over a stack's layers, at a time.

    Nobody else ever holds the array, so that the next layer's maps can take its place without memory being given back
    and fetched anew. What crosses is pooled, or a copy.
    """

    def __init__(self) -> None:
        self._buffer: np.ndarray[Any, np.dtype[np.float32]] | None = None
        self._maps: AttentionMaps | None = None
        self._mean: AttentionMap | None = None
        self._largest: dict[tuple[MapName, int, Pooling], float] = {}

    def window(self, reader: MapReader, name: MapName, window: MapWindow, breathe: Breathe) -> PooledMap:
        """Pool a rectangle of one map of the sentence that was read last.

        Raises
        ------
        EngineError : when the map cannot be had, or does not fit into memory.
        """
        attention = self._map(reader, name, breathe)
        pooled = pool(attention, window, self._largest_of(attention, window.block, window.pooling, breathe), breathe)
        if window.block > 1:
            return pooled
        seen = pooled.maxima.copy()  # else the next layer would be seen in it
        return PooledMap(pooled.name, pooled.query_tokens, pooled.key_tokens, pooled.window,
                         seen, seen, pooled.places, pooled.largest, None, pooled.visible)  # fmt: skip

    def lines(self, reader: MapReader, name: MapName, place: tuple[int, int], breathe: Breathe) -> MapLines:
        """Give the row of one query and the column of one key of a map of the sentence that was read last.

        Raises
        ------
        EngineError : when the map cannot be had, or has no such query or key.
        """
        attention = self._map(reader, name, breathe)
        if any(not 0 <= at < count for at, count in zip(place, attention.weights.shape, strict=True)):
            raise EngineError(f"the map has no query {place[0]} with a key {place[1]}")
        return MapLines.of(attention, *place, self._largest_of(attention, 1, "max", breathe))

    def _largest_of(self, attention: AttentionMap, block: int, pooling: Pooling, breathe: Breathe) -> float:
        """Give the largest value of a map that is pooled, which is found once."""
        key = (attention.name, 1 if pooling == "max" else block, pooling)
        if key not in self._largest:
            self._largest[key] = largest_value(attention.weights, block, pooling, breathe)
        return self._largest[key]

    def copy(self, reader: MapReader, name: MapName, breathe: Breathe) -> AttentionMap:
        """Give one whole map to keep.

        Raises
        ------
        EngineError : when the map cannot be had, or does not fit into memory.
        """
        attention = self._map(reader, name, breathe)
        return replace(attention, name=name, weights=attention.weights.copy())

    def _map(self, reader: MapReader, name: MapName, breathe: Breathe) -> AttentionMap:
        """Give one map, computing what is not there."""
        maps = self._maps
        if maps is None or (maps.stack, maps.layer) != (name.stack, name.layer):
            self._maps = self._mean = maps = None  # while the array is written they are not true
            self._largest.clear()
            if name.layer is None:
                maps = reader.mean_over_layers(name.stack, breathe, self._buffer)
            else:
                maps = reader.layer_maps(Head(name.stack, name.layer), breathe, self._buffer)
            self._maps, self._buffer = maps, maps.weights
        if name.head is not None:
            return maps.select(name.head)
        if self._mean is None:
            self._mean = maps.select(None)
        return self._mean
