"""A model's spectra as they arrive, and their measures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from engine.analysis.ranks import Row, rank_rows
from engine.mathematics.chance import chance_measures
from engine.mathematics.measures import MEASURES, Measure
from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.spectra import SpectraGroup, Spectrum
from tui.state.store import ROOM, Store

AT_ONCE = 6_000
"""Singular values that can be measured within two milliseconds."""

Spectra = Mapping[str, Spectrum]
"""The spectra of a head or a whole layer, by matrix."""

Measures = Mapping[str, Row]
"""The rows of a head or a whole layer in the ``ranks`` table, by matrix."""


class SpectraKey(NamedTuple):
    """What one step of the engine computes: the spectra of a layer's heads, or of the layer as a whole.

    Attributes
    ----------
    layer : the layer's name.
    is_whole : whether the spectra are the whole layer's, not its heads'.
    distance : of the key before the query, for QK; None leaves positions out.
    is_other : whether the layer is the second model's.
    """

    layer: Head
    is_whole: bool
    distance: int | None = None
    is_other: bool = False


class SpectraStore:
    """The known spectra of the open model and of the second one.

    Parameters
    ----------
    engine, outline : of the open model.
    arrived : called when spectra arrive or have been measured.

    Attributes
    ----------
    has_any : set once spectra, or an error, have arrived.
    stores : of layers, and of single heads.
    """

    def __init__(self, engine: Engine, outline: ModelOutline, arrived: Callable[[], None]) -> None:
        self.has_any = asyncio.Event()
        self._engine = engine
        self._outline = outline
        self._arrived = arrived
        self._room = 2 * len(outline.layers) + ROOM
        self._layers: Store[SpectraKey, SpectraGroup] = Store(self._ask, self._take, self._room)
        self._heads: Store[tuple[Head, int | None], tuple[Spectrum, ...]] = Store(self._ask_head, self._take)
        self.stores = self._layers, self._heads
        self._epsilon = 0.0
        self._measured: dict[SpectraKey, dict[int, Measures]] = {}
        self._wanted: dict[SpectraKey, SpectraGroup] = {}
        self._measuring: asyncio.Task[None] | None = None

    def get(self, name: Head, distance: int | None = None, *, is_other: bool = False) -> Spectra | EngineError | None:
        """Give the spectra of a head or a whole layer, or an error; None while they are missing, which asks for them.

        In a layer that takes long, a head is computed before the layer's other heads.
        """
        key = SpectraKey(name.whole_layer, name.is_layer, distance, is_other)
        is_slow = distance is not None or self._outline.layer(name).is_large
        if is_slow and not name.is_layer and not is_other and self._layers.peek(key) is None:
            self._heads.get((name, distance))
        self._layers.get(key)
        return self.known(name, distance, is_other=is_other)

    def known(self, name: Head, distance: int | None = None, *, is_other: bool = False) -> Spectra | EngineError | None:
        """Give what `get` gives, but ask for nothing."""
        group = self._layers.peek(SpectraKey(name.whole_layer, name.is_layer, distance, is_other))
        if isinstance(group, SpectraGroup):
            return group.spectra[name.head]
        head = None if is_other else self._heads.peek((name, distance))
        return {each.matrix: each for each in head} if isinstance(head, tuple) else group

    def listed(self, name: Head, distance: int | None = None, *, is_other: bool = False) -> list[Spectrum]:
        """List the known spectra of a head or a whole layer."""
        known = self.known(name, distance, is_other=is_other)
        return [] if known is None or isinstance(known, EngineError) else list(known.values())

    def is_known(self, name: Head) -> bool:
        """Say whether the spectra of a head's layer, or of a whole layer, are known."""
        return isinstance(self._layers.peek(SpectraKey(name.whole_layer, name.is_layer)), SpectraGroup)

    def put(self, layer: Head, is_whole: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep what the sweep has computed of a layer."""
        self._layers.put(SpectraKey(layer, is_whole), answer)

    def why_not(self, name: Head) -> str:
        """Say why a head or a layer has no spectra; empty where it has, or they are still to come."""
        group = self._layers.peek(SpectraKey(name.whole_layer, name.is_layer))
        return str(group) if isinstance(group, EngineError) else ""

    def measures(self, names: Sequence[Head], epsilon: float, distance: int | None = None) -> dict[Head, Measures]:
        """Measure the known spectra of heads and layers, without QK while it is not known at the distance.

        What takes long is measured on another thread and left out until then.
        """
        plain = self._measures(names, epsilon, None)
        if distance is None:
            return plain
        without = {name: {each: row for each, row in rows.items() if each != "QK"} for name, rows in plain.items()}
        return {**without, **self._measures(names, epsilon, distance)}

    def chance(self, name: Head, measure: str, epsilon: float) -> Mapping[str, float]:
        """Give a head's chance of a measure by matrix; empty while the spectra are not known."""
        spectra = self.listed(name)
        found = zip(spectra, chance_measures(spectra, epsilon, (measure_named(measure),)), strict=True)
        return {each.matrix: values[0] for each, values in found if values is not None}

    def _take(self) -> None:
        self.has_any.set()
        self._arrived()

    def _ask(self, key: SpectraKey) -> Future[SpectraGroup]:
        kind = "layers" if key.is_whole else "heads"
        view = f"spectra of {kind}{'' if key.distance is None else ' at a distance'}{' of the other' * key.is_other}"
        return self._engine.spectra(key.layer, key.is_whole, view, key.distance, of_other=key.is_other)

    def _ask_head(self, key: tuple[Head, int | None]) -> Future[tuple[Spectrum, ...]]:
        head, distance = key
        return self._engine.head_spectra(head, "spectra of a head", distance)

    def _measures(self, names: Sequence[Head], epsilon: float, distance: int | None) -> dict[Head, Measures]:
        """Measure known spectra at once if they are few, else on another thread; give what is measured by now."""
        if epsilon != self._epsilon:
            self._epsilon, self._measured, self._wanted = epsilon, {}, {}
        keys = {name: SpectraKey(name.whole_layer, name.is_layer, distance) for name in names}
        known = {key: self._layers.peek(key) for key in keys.values() if key not in self._measured}
        missing = {key: group for key, group in known.items() if isinstance(group, SpectraGroup)}
        if sum(group.size for group in missing.values()) <= AT_ONCE:
            self._measured |= {key: measure_group(group, epsilon) for key, group in missing.items()}
            for oldest in list(self._measured)[: -self._room]:
                del self._measured[oldest]
        else:
            self._wanted = {**missing, **self._wanted}
            self._measuring = self._measuring or asyncio.ensure_future(self._measure_in_turn())
        found: dict[Head, Measures] = {}
        for name, key in keys.items():
            if key in self._measured:
                found[name] = self._measured[key][name.head]
            elif known.get(key) is None and isinstance(alone := self._heads.peek((name, distance)), tuple):
                group = SpectraGroup({name.head: {each.matrix: each for each in alone}})
                found[name] = measure_group(group, epsilon)[name.head]
        return found

    async def _measure_in_turn(self) -> None:
        while self._wanted:
            epsilon, measures, key = self._epsilon, self._measured, next(iter(self._wanted))
            measures[key] = await asyncio.to_thread(measure_group, self._wanted.pop(key), epsilon)
            self._arrived()
        self._measuring = None


def measure_group(group: SpectraGroup, epsilon: float) -> dict[int, Measures]:
    """Measure a layer's spectra, by the number of the head."""
    spectra = group.listed()
    found: dict[int, dict[str, Row]] = {number: {} for number in group.spectra}
    for spectrum, row in zip(spectra, rank_rows(spectra, epsilon), strict=True):
        found[spectrum.head.head][spectrum.matrix] = row
    return dict(found)


def measure_named(name: str) -> Measure:
    """Find a measure of singular values."""
    return next(each for each in MEASURES if each.name == name)
