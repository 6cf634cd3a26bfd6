"""The rows of the ``patterns`` table: what a layer's heads do in a sentence, and on random tokens that come again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.mathematics.head_labels import LABELS, label_of
from engine.mathematics.patterns import (
    attention_to,
    keys_of_interest,
    repeated_keys,
    spread,
    uniform_spread,
    uniform_to,
    uniform_to_none,
    visible_keys,
)
from engine.models.telling import READING
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.model import LayerOutline
from engine.values.progress import Progress
from engine.values.tables import Cell
from engine.values.view import Query
from engine.values.views import PATTERNS

if TYPE_CHECKING:
    from engine.models.maps import MapReader
    from engine.models.repeats import Repeat
    from engine.service.session import Breathe, Session
    from engine.values.attention import AttentionMaps

LITTLE = 1e-3
"""Of a row of weights, what may be missing from one by rounding alone, and goes to no sink."""

REPEATED = ("duplicate", "induction")
"""What has a meaning on tokens that come again alone."""


@dataclass(frozen=True)
class Measured:
    """A layer's measures, and what chance gives for them.

    Attributes
    ----------
    own : by column, a number for each head; not a number where nothing is defined.
    chance : by column.
    """

    own: Mapping[str, NDArray[np.float64]]
    chance: Mapping[str, float]

    def of_head(self, head: int) -> dict[str, float]:
        """Give one head's numbers by column."""
        return {name: float(values[head]) for name, values in self.own.items()}


Found = Measured | EngineError
"""A layer's measures, or why it has none."""


def _untold(done: int, total: int) -> None:
    """Tell nobody how many layers have run."""


def _in_all(told: Callable[[int, int], None], place: int, sequences: int, steps: int, done: int) -> None:
    """Tell of a sequence, by its place among them, how many of its steps are done, as steps of all sequences."""
    told(place * steps + done, sequences * steps)


class PatternsTable:
    """Measures what an open model's heads look at; belongs to the engine thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reader: MapReader | None = None
        self._repeats: tuple[Repeat, ...] = ()
        self._on_repeats: dict[int, Mapping[Head, Found] | EngineError] = {}

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads; without a sentence, those of the random tokens that come again."""
        notice = "" if query.text is None else self._session.read(query.text, breathe).notice
        repeated = self._repeated(layer.name, breathe)
        found = repeated if query.text is None else self._in_sentence(query.text, layer, breathe)
        note = next((str(each) for each in (found, repeated) if isinstance(each, EngineError)), notice)
        for head in range(layer.heads):
            if query.wants(head):
                own, chance = _numbers(found, head, set())
                again, again_chance = _numbers(repeated, head, set(REPEATED))
                cells = _cells(own | again, chance | again_chance)
                yield (layer.stack, layer.layer, str(head), _label(repeated, head), *cells, note)

    def labels(self, report: Callable[[Progress], None], breathe: Breathe) -> dict[Head, str]:
        """Label the heads that clearly do one thing on random tokens that come again.

        Parameters
        ----------
        report : told after each sequence.
        breathe : called between steps; it may raise to give up, and what has been measured is kept.
        """
        self._measure_repeats(report, breathe)
        labels = {}
        for layer in self._session.outline.attending_layers:
            measured = self._mean_of_repeats(layer.name)
            for head in layer.head_names():
                if label := _label(measured, head.head):
                    labels[head] = label
        return labels

    def _repeated(self, layer: Head, breathe: Breathe) -> Found:
        """Give a layer's measures on random tokens that come again."""
        with self._session.telling("measuring on random tokens", "layers run") as telling:
            self._measure_repeats(lambda progress: None, breathe, telling)
        return self._mean_of_repeats(layer)

    def _measure_repeats(
        self, report: Callable[[Progress], None], breathe: Breathe, told: Callable[[int, int], None] = _untold
    ) -> None:
        """Read the sequences that have not been read, and measure all layers on each.

        A more urgent request does the same in between; what it has done is not done again. ``told`` is called with the
        layers that have run and that are to run, where each runs once to read a sequence and once to be measured on it.
        """
        from engine.models.repeats import repeats

        if self._reader is None:
            reader = self._session.reader(breathe).beside()
            try:
                self._repeats = repeats(reader.words, reader.vocabulary, self._session.outline.context)
            except EngineError as error:
                self._on_repeats[0] = error
            self._reader = reader
        layers = len(self._session.outline.attending_layers)
        for done, repeat in enumerate(self._repeats):
            report(Progress("labels", done, len(self._repeats), "sequences"))
            if repeat.distance not in self._on_repeats:
                here = partial(_in_all, told, done, len(self._repeats), 2 * layers)
                measured = self._on_repeat(self._reader.beside(), repeat, breathe, here)
                self._on_repeats.setdefault(repeat.distance, measured)
        report(Progress("labels", len(self._repeats), len(self._repeats), "sequences"))

    def _on_repeat(
        self, reader: MapReader, repeat: Repeat, breathe: Breathe, told: Callable[[int], None]
    ) -> Mapping[Head, Found] | EngineError:
        """Measure every layer on one sequence; what the model fails on has nothing to measure."""
        reader.tell = lambda progress: told(progress.done) if progress.activity == READING else None
        try:
            reader.read_ids(repeat.ids, breathe)
        except Superseded:
            raise  # no reason of the model's, and nothing to keep
        except EngineError as error:
            return error
        measured: dict[Head, Found] = {}
        layers = self._session.outline.attending_layers
        for done, layer in enumerate(layers, start=len(layers)):
            breathe()
            told(done)
            try:
                maps = reader.layer_maps(layer.name, breathe)
            except Superseded:
                raise
            except EngineError as error:
                measured[layer.name] = error
                continue
            ids = np.asarray(reader.ids_along(layer.stack))
            measured[layer.name] = _measure(maps, repeated_keys(ids, repeat.distance), breathe)
        return measured

    def _mean_of_repeats(self, layer: Head) -> Found:
        """Average a layer's measures over the sequences that the model could read."""
        each = [found if isinstance(found, EngineError) else found[layer] for found in self._on_repeats.values()]
        measured = [found for found in each if isinstance(found, Measured)]
        if not measured:
            return next(found for found in each if isinstance(found, EngineError))
        own = {name: np.array([found.own[name] for found in measured]) for name in measured[0].own}
        chance = {name: np.array([found.chance[name] for found in measured]) for name in measured[0].chance}
        return Measured(
            {name: _mean(values) for name, values in own.items()},
            {name: float(_mean(values)) for name, values in chance.items()},
        )

    def _in_sentence(self, text: str, layer: LayerOutline, breathe: Breathe) -> Found:
        """Give a layer's measures in a sentence."""
        try:
            maps = self._session.attention(text, layer.stack, layer.layer, breathe)
        except Superseded:
            raise
        except EngineError as error:
            return error
        return _measure(maps, {}, breathe)


def _measure(maps: AttentionMaps, repeated: Mapping[str, NDArray[np.int64]], breathe: Breathe) -> Measured:
    """Measure a layer's maps.

    Where queries and keys are not the same tokens, places cannot be compared; each query has a first key all the same.
    """
    weights = maps.weights
    _, queries, keys = weights.shape
    visible = maps.visible or visible_keys(weights, breathe)
    wide = spread(weights, visible, breathe)
    entropy, distance = uniform_spread(visible)
    own, chance = {"entropy": wide.entropy, "to_none": wide.to_none}, {"entropy": entropy}
    has_sink = bool((wide.to_none > LITTLE).any())
    chance["to_none"] = uniform_to_none(visible) if has_sink else 0.0
    interest: Mapping[str, NDArray[np.int64]] = {"to_first": np.zeros(queries, dtype=np.int64)}
    if queries == keys and maps.stack != "cross":
        own["mean_distance"], chance["mean_distance"] = wide.mean_distance, distance
        interest = {**keys_of_interest(queries), **repeated}
    for name, places in interest.items():
        own[name] = attention_to(weights, places, visible)
        chance[name] = uniform_to(places, visible)
    return Measured(own, chance)


def _numbers(found: Found, head: int, only: set[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Give a head's numbers and their chances, all or some."""
    if isinstance(found, EngineError):
        return {}, {}
    own, chance = found.of_head(head), dict(found.chance)
    if only:
        own, chance = ({name: each[name] for name in each.keys() & only} for each in (own, chance))
    return own, chance


def _label(found: Found, head: int) -> str:
    """Label a head, if it clearly does one thing."""
    if isinstance(found, EngineError):
        return ""
    own = {name: value for name, value in found.of_head(head).items() if name in LABELS}
    return label_of(own, found.chance)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average over the first axis what is there; not a number where nothing is."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        mean: NDArray[np.float64] = np.where(there, values, 0).sum(axis=0) / there.sum(axis=0)
    return mean


def _cells(own: Mapping[str, float], chance: Mapping[str, float]) -> Iterator[Cell]:
    """Lay numbers out in the table's columns; a cell is empty where nothing is defined."""
    for column in PATTERNS.columns[4:-1]:
        name = column.removesuffix("_chance")
        value = (own if name == column else chance).get(name, math.nan)
        yield value if math.isfinite(value) else ""
