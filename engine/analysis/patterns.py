"""The rows of ``patterns``: what a layer's heads do in a sentence, and on random tokens that come again; labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.analysis.layers import cells_of, heads_of, over_layers, place_of
from engine.analysis.open_model import OpenModel
from engine.mathematics.patterns import (
    LABELS,
    attention_to,
    keys_of_interest,
    label_of,
    repeated_keys,
    spread,
    uniform_spread,
    uniform_to,
    uniform_to_none,
    visible_keys,
)
from engine.values.attention import AttentionMaps
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.progress import READING, Lane, Progress, Work, restartable
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import PATTERNS, Query

if TYPE_CHECKING:
    from engine.models.reader import MapReader
    from engine.models.tokenizer import Words

LITTLE = 1e-3
"""Of a row of weights, what may be missing from one by rounding alone, and goes to no sink."""

REPEATED = ("duplicate", "induction")
"""What has a meaning on tokens that come again alone."""


DISTANCES = (11, 17, 31, 53)
"""After how many tokens a token comes again, in a sequence for each; prime, so that no habit fits two of them."""

SEED = 0
"""Of the random tokens, together with the distance."""


@dataclass(frozen=True)
class Measured:
    """A layer's measures, and what chance gives for them.

    Attributes
    ----------
    own : by column, a number for each head; NaN where nothing is defined.
    chance : by column.
    """

    own: Mapping[str, NDArray[np.float64]]
    chance: Mapping[str, float]

    def of_head(self, head: int) -> dict[str, float]:
        """Give one head's numbers by column."""
        return {name: float(values[head]) for name, values in self.own.items()}


Found = Measured | EngineError
"""A layer's measures, or why it has none."""


@dataclass
class _Repeats:
    """What is measured on sequences of random tokens that come again, which an open model keeps.

    Attributes
    ----------
    sequences : those to be read; None until they are drawn.
    found : by a sequence's distance, the measures of every layer, or why it could not be read.
    """

    sequences: tuple[Repeat, ...] | None = None
    found: dict[int, Mapping[Head, Found] | EngineError] = field(default_factory=dict)

    def mean(self, layer: Head) -> Found:
        """Average a layer's measures over the sequences that the model could read."""
        each = [found if isinstance(found, EngineError) else found[layer] for found in self.found.values()]
        measured = [found for found in each if isinstance(found, Measured)]
        if not measured:
            return next(found for found in each if isinstance(found, EngineError))
        own = {name: np.array([found.own[name] for found in measured]) for name in measured[0].own}
        chance = {name: np.array([found.chance[name] for found in measured]) for name in measured[0].chance}
        return Measured(
            {name: _mean(values) for name, values in own.items()},
            {name: float(_mean(values)) for name, values in chance.items()},
        )


@dataclass(frozen=True)
class Repeat:
    """Different random tokens, then the same ones again, between what the tokenizer puts around text.

    Attributes
    ----------
    ids : of the whole sequence.
    distance : after how many tokens each comes again.
    """

    ids: tuple[int, ...]
    distance: int


def repeats(words: Words, vocabulary: int, context: int | None) -> tuple[Repeat, ...]:
    """Draw sequences of ordinary tokens, each repeated once, at the `DISTANCES` that a model has room for.

    They show which heads look for what they have seen, in whatever model. Where it has room for none, the distance is
    the longest that fits.

    Parameters
    ----------
    words : which says what ordinary tokens are.
    vocabulary : how many ids the model knows.
    context : the longest sequence the model reads, or None.

    Raises
    ------
    EngineError : when there is no room for two tokens twice.
    """
    ordinary = np.asarray(words.ordinary(vocabulary))
    before, after = words.frame()
    limits = [limit for limit in (context, words.limit) if limit is not None]
    room = min((limit - len(before) - len(after)) // 2 for limit in limits) if limits else max(DISTANCES)
    longest = min(room, len(ordinary))
    if longest < 2:
        raise EngineError("there is no room for random tokens that come again; duplicate and induction need four")
    made = []
    for distance in [each for each in DISTANCES if each <= longest] or [longest]:
        drawn = np.random.default_rng((SEED, distance)).choice(ordinary, distance, replace=False).tolist()
        made.append(Repeat((*before, *drawn, *drawn, *after), distance))
    return tuple(made)


def rows_of_patterns(model: OpenModel, query: Query) -> Groups:
    """Work out the rows of heads; without a sentence, those of the random tokens that come again."""
    return over_layers("patterns", model, query, rows_of_layer)


def rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Work out the rows of one layer's heads."""
    yield Lane.MODEL
    notice = "" if query.text is None else (yield from model.read(query.text)).notice
    with model.telling("measuring on random tokens", "layers run") as telling:
        repeated = (yield from _measured_repeats(model, lambda progress: None, telling)).mean(layer.name)
    found = repeated if query.text is None else (yield from _in_sentence(model, query.text, layer))
    note = next((str(each) for each in (found, repeated) if isinstance(each, EngineError)), notice)
    yield RowGroup([
        (*place_of(layer, head), _label(repeated, head), *_cells(found, repeated, head), note)
        for head in heads_of(layer, query)
    ])  # fmt: skip


def labels(model: OpenModel, report: Callable[[Progress], None]) -> Work[dict[Head, str]]:
    """Label the heads that clearly do one thing on random tokens that come again.

    What has been measured is kept when the work is given up.

    Parameters
    ----------
    report : told after each sequence.
    """
    yield Lane.MODEL
    repeats = yield from _measured_repeats(model, report, lambda done, total: None)
    named = {}
    for layer in model.outline.attending_layers:
        measured = repeats.mean(layer.name)
        for head in layer.head_names():
            if label := _label(measured, head.head):
                named[head] = label
    return named


def _measured_repeats(
    model: OpenModel, report: Callable[[Progress], None], told: Callable[[int, int], None]
) -> Work[_Repeats]:
    """Read the sequences that have not been read, and measure all layers on each.

    ``told`` is called with the layers that have run and that are to run, where each runs once to read a sequence and
    once to be measured on it.
    """
    known = model.cached("repeats", _Repeats)
    if known.sequences is None:
        reader = yield from model.reader()
        try:
            known.sequences = repeats(reader.words, reader.vocabulary, model.outline.context)
        except EngineError as error:
            known.found[0], known.sequences = error, ()
    steps = 2 * len(model.outline.attending_layers)
    for number, repeat in enumerate(known.sequences):
        report(Progress("labels", number, len(known.sequences), "sequences"))
        if repeat.distance not in known.found:
            here = partial(_told_of_all, told, number * steps, len(known.sequences) * steps)
            known.found[repeat.distance] = yield from _on_repeat(model, repeat, here)
    report(Progress("labels", len(known.sequences), len(known.sequences), "sequences"))
    return known


def _told_of_all(told: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    told(before + done, total)


def _on_repeat(
    model: OpenModel, repeat: Repeat, told: Callable[[int], None]
) -> Work[Mapping[Head, Found] | EngineError]:
    """Measure every layer on one sequence; what the model fails on has nothing to measure."""
    reader = (yield from model.reader()).sharing_model()  # the sentence that is looked at stays read
    reader.tell = lambda progress: told(progress.done) if progress.activity == READING else None
    layers = model.outline.attending_layers
    try:
        yield from restartable(lambda: reader.read_ids(repeat.ids, model.check))
    except Superseded:
        raise  # no reason of the model's, and nothing to keep
    except EngineError as error:
        return error
    measured: dict[Head, Found] = {}
    for done, layer in enumerate(layers, start=len(layers)):
        yield None
        told(done)
        measured[layer.name] = yield from restartable(partial(_on_layer, model, reader, layer.name, repeat.distance))
    return measured


def _on_layer(model: OpenModel, reader: MapReader, layer: Head, distance: int) -> Found:
    """Measure a layer on the sequence that a reader has read."""
    try:
        maps = reader.layer_maps(layer, model.check)
        ids = np.asarray(reader.ids_along(layer.stack))
        return _measure(model, maps, repeated_keys(ids, distance))
    except Superseded:
        raise
    except EngineError as error:
        return error


def _in_sentence(model: OpenModel, text: str, layer: LayerOutline) -> Work[Found]:
    try:
        maps = yield from model.attention(text, layer.stack, layer.layer)
    except Superseded:
        raise
    except EngineError as error:
        return error
    return _measure(model, maps, {})


def _measure(model: OpenModel, maps: AttentionMaps, repeated: Mapping[str, NDArray[np.int64]]) -> Measured:
    """Measure a layer's maps.

    Where queries and keys are not the same tokens, places cannot be compared; each query has a first key all the same.
    """
    weights = maps.weights
    _, queries, keys = weights.shape
    visible = maps.visible or visible_keys(weights, model.check)
    wide = spread(weights, visible, model.check)
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


def _cells(found: Found, repeated: Found, head: int) -> list[Cell]:
    """Fill the columns from ``entropy`` to ``induction_chance``: of what was read, but for what tells of repeats."""
    own: dict[str, float] = {}
    chance: dict[str, float] = {}
    if isinstance(found, Measured):
        own, chance = found.of_head(head), dict(found.chance)
    if isinstance(repeated, Measured):
        again = repeated.of_head(head)
        own |= {name: again[name] for name in REPEATED if name in again}
        chance |= {name: repeated.chance[name] for name in REPEATED if name in repeated.chance}
    return list(cells_of(PATTERNS.columns[4:-1], own, chance))


def _label(found: Found, head: int) -> str:
    if isinstance(found, EngineError):
        return ""
    own = {name: value for name, value in found.of_head(head).items() if name in LABELS}
    return label_of(own, found.chance)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        mean: NDArray[np.float64] = np.where(there, values, 0).sum(axis=0) / there.sum(axis=0)
    return mean
