"""The rows of ``patterns``: what a layer's heads do in a sentence, and on random tokens that come again; labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.analysis.layers import cells_of, heads_of, over_layers, place_of
from engine.analysis.open_model import OpenModel
from engine.mathematics.attention import (
    LABELS,
    attention_to,
    finite_mean,
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
from engine.values.heads import Head, Label
from engine.values.outline import LayerOutline
from engine.values.progress import READING, Lane, Progress, Work, restartable
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import PATTERNS, Query

if TYPE_CHECKING:
    from engine.models.tokenizer import Words

ROUNDING_SHARE = 1e-3
"""Of a row of weights, what may be missing from one by rounding alone, and goes to no sink."""

REPEAT_MEASURES = ("duplicate", "induction")
"""What has a meaning on tokens that come again alone."""


DISTANCES = (11, 17, 31, 53)
"""After how many tokens a token comes again, in a sequence for each; prime, so that no habit fits two of them."""

SEED = 0
"""Of the random tokens, together with the distance."""


@dataclass(frozen=True)
class Measured:
    """A layer's measures, and what chance gives for them; none of either where there is a reason for that.

    Attributes
    ----------
    own : by column, a number for each head; NaN where nothing is defined.
    chance : by column.
    """

    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def of_head(self, head: int, names: Collection[str] | None = None) -> tuple[dict[str, float], dict[str, float]]:
        """Give one head's numbers and their chance by column, of some columns where they are named."""
        wanted = [name for name in self.own if names is None or name in names]
        return {name: float(self.own[name][head]) for name in wanted}, {name: self.chance[name] for name in wanted}


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
        raise EngineError("the context is too short for repeated random tokens; duplicate and induction need four")
    made = []
    for distance in [each for each in DISTANCES if each <= longest] or [longest]:
        drawn = np.random.default_rng((SEED, distance)).choice(ordinary, distance, replace=False).tolist()
        made.append(Repeat((*before, *drawn, *drawn, *after), distance))
    return tuple(made)


class _Repeats:
    """What is measured on sequences of random tokens that come again, by a sequence's distance and by layer."""

    def __init__(self) -> None:
        self.sequences: tuple[Repeat, ...] | None = None
        self.found: dict[int, Mapping[Head, Measured]] = {}

    def mean(self, layer: Head) -> Measured:
        """Average a layer's measures over the sequences that the model could read."""
        each = [found[layer] for found in self.found.values()]
        measured = [found for found in each if not found.reason]
        if not measured:
            return each[0]
        own, chance = (
            {name: finite_mean(np.array([numbers[name] for numbers in some]), 0) for name in some[0]}
            for some in ([found.own for found in measured], [found.chance for found in measured])
        )
        return Measured(own, {name: float(mean) for name, mean in chance.items()})


def rows_of_patterns(model: OpenModel, query: Query) -> Groups:
    """Work out the rows of heads; without a sentence, those of the random tokens that come again."""
    return over_layers("patterns", model, query, rows_of_layer)


def rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Work out the rows of one layer's heads."""
    yield Lane.MODEL
    notice = "" if query.text is None else (yield from model.read(query.text)).notice
    with model.telling("measuring on random tokens", "layers run") as telling:
        repeated = (yield from _measured_repeats(model, telling)).mean(layer.name)
    found = repeated
    if query.text is not None:
        found = yield from _or_reason(_in_sentence(model, query.text, layer))
    note = found.reason or repeated.reason or notice
    rows: list[tuple[Cell, ...]] = []
    for head in heads_of(layer, query):
        (own, chance), (again, of_again) = found.of_head(head), repeated.of_head(head, REPEAT_MEASURES)
        cells = cells_of(PATTERNS.columns[4:-1], own | again, chance | of_again)
        rows.append((*place_of(layer, head), label_of(*repeated.of_head(head, LABELS)), *cells, note))
    yield RowGroup(rows)


def labels(model: OpenModel, report: Callable[[Progress], None]) -> Work[dict[Head, Label]]:
    """Label the heads that clearly do one thing on random tokens that come again.

    What has been measured is kept when the work is given up.
    """
    yield Lane.MODEL
    repeats = yield from _measured_repeats(
        model, lambda done, total: report(Progress("labels", done, total, "layers run"))
    )
    report(Progress("labels", 1, 1, "layers run"))
    measures, named = dict(zip(LABELS.values(), LABELS, strict=True)), dict[Head, Label]()
    for layer in model.outline.attending_layers:
        for head in layer.head_names():
            scores, chances = repeats.mean(layer.name).of_head(head.head, LABELS)
            if label := label_of(scores, chances):
                named[head] = Label(label, scores[measures[label]])
    return named


def _measured_repeats(model: OpenModel, told: Callable[[int, int], None]) -> Work[_Repeats]:
    """Read the sequences that have not been read, and measure all layers on each.

    ``told`` is called with the layers that have run and that are to run, where each runs once to read a sequence and
    once to be measured on it.
    """
    known = model.cached("repeats", _Repeats)
    layers = [layer.name for layer in model.outline.attending_layers]
    if known.sequences is None:
        reader = yield from model.reader()
        try:
            known.sequences = repeats(reader.words, reader.vocabulary, model.outline.context)
        except EngineError as error:
            known.found[0], known.sequences = dict.fromkeys(layers, Measured(reason=str(error))), ()
    total = 2 * len(layers) * len(known.sequences)
    for before, repeat in zip(range(0, total, 2 * len(layers)), known.sequences, strict=True):
        if repeat.distance not in known.found:
            here = partial(lambda before, done: told(before + done, total), before)
            known.found[repeat.distance] = yield from _on_repeat(model, repeat, layers, here)
    return known


def _on_repeat(
    model: OpenModel, repeat: Repeat, layers: Sequence[Head], told: Callable[[int], None]
) -> Work[Mapping[Head, Measured]]:
    """Measure every layer on one sequence; what the model fails on has nothing to measure."""
    reader = (yield from model.reader()).sharing_model()  # the sentence that is looked at stays read
    reader.tell = lambda progress: told(progress.done) if progress.activity == READING else None

    def read() -> Measured:
        reader.read(repeat.ids, model.check)
        return Measured()

    def on_layer(layer: Head) -> Measured:
        maps = reader.layer_maps(layer, model.check)
        return _measure(model, maps, repeated_keys(np.asarray(reader.ids_along(layer.stack)), repeat.distance))

    failure = yield from _or_reason(restartable(read))
    if failure.reason:
        return dict.fromkeys(layers, failure)
    measured: dict[Head, Measured] = {}
    for done, layer in enumerate(layers, start=len(layers)):
        yield None
        told(done)
        measured[layer] = yield from _or_reason(restartable(partial(on_layer, layer)))
    return measured


def _in_sentence(model: OpenModel, text: str, layer: LayerOutline) -> Work[Measured]:
    return _measure(model, (yield from model.attention(text, layer.stack, layer.layer)), {})


def _or_reason(work: Work[Measured]) -> Work[Measured]:
    """Measure, or give the reason why the model cannot be measured."""
    try:
        return (yield from work)
    except Superseded:
        raise  # no reason of the model's, and nothing to keep
    except EngineError as error:
        return Measured(reason=str(error))


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
    has_sink = bool((wide.to_none > ROUNDING_SHARE).any())
    chance["to_none"] = uniform_to_none(visible) if has_sink else 0.0
    interest: Mapping[str, NDArray[np.int64]] = {"to_first": np.zeros(queries, dtype=np.int64)}
    if queries == keys and maps.stack != "cross":
        own["mean_distance"], chance["mean_distance"] = wide.mean_distance, distance
        interest = {**keys_of_interest(queries), **repeated}
    for name, places in interest.items():
        own[name] = attention_to(weights, places, visible)
        chance[name] = uniform_to(places, visible)
    return Measured(own, chance)
