"""The maps of a long sentence: they stay on the model's lane, and only rectangles of them cross to the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.analysis.open_model import OpenModel, beside_other, check_maps_of_both
from engine.mathematics.attention import largest_value, pool
from engine.values.attention import (
    AttentionMap,
    AttentionMaps,
    MapLines,
    MapName,
    MapQuery,
    MapWindow,
    PooledMap,
)
from engine.values.errors import EngineError
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.progress import Work, finish

Reading = tuple[str, Off]
"""A sentence, and the heads that are switched off while it is read."""

Key = tuple[Reading, str, int | None]
"""A reading, a stack, and a layer of it or None for their mean."""


class LargeMaps:
    """The maps on screen: of one layer and reading, or of two for their difference.

    Attributes
    ----------
    layers : the maps.
    means : the means over the heads, of the maps whose mean is shown.
    largest : the largest values of maps and differences.
    """

    def __init__(self) -> None:
        self.layers: dict[Key, AttentionMaps] = {}
        self.means: dict[Key, AttentionMap] = {}
        self.largest: dict[MapQuery, float] = {}


def large_maps(model: OpenModel) -> LargeMaps:
    """Return the maps that a model keeps of a long sentence."""
    return model.cached("large maps", LargeMaps)


def pooled_map(model: OpenModel, query: MapQuery, window: MapWindow) -> Work[PooledMap]:
    """Pool a rectangle of a map, or of the difference of two; errors as for `large_map`."""
    attention = yield from large_map(model, query)
    return pool(attention, window, _largest(model, attention, query), model.check)


def map_lines(model: OpenModel, query: MapQuery, place: tuple[int, int]) -> Work[MapLines]:
    """Return the row of a query and the column of a key of a map, or of the difference of two.

    Raises `EngineError` as `large_map`, and if the map has no such query or key.
    """
    attention = yield from large_map(model, query)
    if any(not 0 <= at < count for at, count in zip(place, attention.weights.shape, strict=True)):
        raise EngineError(f"the map has no query {place[0]} with a key {place[1]}")
    return MapLines.of(attention, *place, _largest(model, attention, query))


def whole_map(model: OpenModel, query: MapQuery) -> Work[AttentionMap]:
    """Copy a whole map, or two for their difference; errors as for `large_map`."""
    shown = yield from large_map(model, query)
    other = None if shown.other is None else shown.other.copy()
    return replace(shown, weights=shown.weights.copy(), other=other)


def large_map(model: OpenModel, query: MapQuery) -> Work[AttentionMap]:
    """Return one map of a sentence, with the minuend beside it; use it within the same unit.

    Raises `EngineError` if there is no such map, it does not fit into memory, or both have different tokens.
    """
    name, minuend = query.name, query.minuend
    reading = query.text, query.off
    if minuend == name and not query.off.heads:
        other = yield from check_maps_of_both(model, query.text, name.stack, name.layer)
        yield from other.reader()
        (own,) = yield from _maps(model, [(reading, name)])
        (theirs,) = finish(_maps(other, [(reading, name)]))
        return beside_other(model, other, own, theirs)
    if minuend is None and model.is_comparing and (reading, name.stack, name.layer) not in large_maps(model).layers:
        (yield from model.other()).forget_large_maps()  # no difference is shown any more
    asked = [(reading, name)]
    if minuend == name:
        asked = [((query.text, NOTHING_OFF), name), *asked]
    elif minuend is not None:
        asked = [*asked, (reading, minuend)]
    first, *others = yield from _maps(model, asked)
    for other_map in others:
        if (first.query_tokens, first.key_tokens) != (other_map.query_tokens, other_map.key_tokens):
            raise EngineError("the maps have different tokens, so there is no difference")
        return replace(first, other=other_map.weights)
    return first


def _maps(model: OpenModel, asked: Sequence[tuple[Reading, MapName]]) -> Work[list[AttentionMap]]:
    """Return maps that are shown together, and read the sentence for missing ones; then free all others."""
    for _, name in asked:
        place = name.stack if name.layer is None else Head(name.stack, name.layer)
        reader = yield from model.reader(place=place)
    kept, keys = large_maps(model), [(reading, name.stack, name.layer) for reading, name in asked]
    if not kept.layers.keys() >= {*keys}:
        kept.largest, kept.means = {}, {}
        kept.layers = {key: maps for key, maps in kept.layers.items() if key in keys}
        for key in dict.fromkeys(keys):  # two heads of one layer have one key
            if key not in kept.layers:
                (text, off), stack, layer = key
                reader.read(text, model.check, off)
                kept.layers[key] = reader.layer_maps(stack if layer is None else Head(stack, layer), model.check)
    found = []
    for key, (_, name) in zip(keys, asked, strict=True):
        if name.head is None and key not in kept.means:
            kept.means[key] = kept.layers[key].select(None)
        found.append(kept.means[key] if name.head is None else kept.layers[key].select(name.head))
    return found


def _largest(model: OpenModel, attention: AttentionMap, query: MapQuery) -> float:
    largest = large_maps(model).largest
    if query not in largest:
        largest[query] = largest_value(attention, model.check)
    return largest[query]
