"""The rows of ``patterns``: where heads look in a sentence and in repeated random tokens; labels of heads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.analysis.layers import measure_cells, place_cells, wanted_heads
from engine.analysis.open_model import OpenModel
from engine.mathematics.attention import (
    LABELS,
    attention_to,
    finite_mean,
    keys_of_interest,
    label_of,
    repeated_keys,
    spread,
    uniform_attention,
    uniform_to_none,
)
from engine.values.attention import AttentionMaps
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, Label
from engine.values.outline import LayerOutline
from engine.values.progress import READING, Lane, Progress, Work
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import PATTERNS, Query

if TYPE_CHECKING:
    from engine.models.tokenizer import Words

ROUNDING_SHARE = 1e-3
"""The part of a row's sum that may be missing because of rounding, without a sink."""

DISTANCES = (11, 17, 31, 53)
"""The distances of repeated tokens, one for each sequence; prime, so that no other period fits two of them."""


@dataclass(frozen=True)
class PatternMeasures:
    """A layer's measures and their chance, or the reason why there are none.

    Attributes
    ----------
    own : by column, a number for each head; NaN if undefined.
    chance : by column.
    """

    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def of_head(self, head: int, names: Collection[str] | None = None) -> tuple[dict[str, float], dict[str, float]]:
        """Return one head's measures and their chance by column, perhaps of some columns alone."""
        wanted = [name for name in self.own if names is None or name in names]
        return {name: float(self.own[name][head]) for name in wanted}, {name: self.chance[name] for name in wanted}


def draw_repeats(words: Words, vocabulary: int, context: int | None) -> dict[int, tuple[int, ...]]:
    """Draw sequences of distinct ordinary tokens, repeated once, with the special tokens around text.

    Returns their ids by the distance from a token to its repetition: the `DISTANCES` that fit into the context, or if
    none does, the longest that fits.

    Parameters
    ----------
    words : the tokenizer, which knows the ordinary tokens.
    vocabulary : the number of the model's token ids.
    context : the longest sequence the model reads, or None.

    Raises
    ------
    EngineError : if two tokens do not fit twice.
    """
    ordinary = np.asarray(words.ordinary(vocabulary))
    before, after = words.frame()
    limits = [limit for limit in (context, words.limit) if limit is not None]
    room = min((limit - len(before) - len(after)) // 2 for limit in limits) if limits else max(DISTANCES)
    longest = min(room, len(ordinary))
    if longest < 2:
        raise EngineError("the context has no room for the four tokens that duplicate and induction need")
    made: dict[int, tuple[int, ...]] = {}
    for distance in [each for each in DISTANCES if each <= longest] or [longest]:
        drawn = np.random.default_rng((0, distance)).choice(ordinary, distance, replace=False).tolist()
        made[distance] = (*before, *drawn, *drawn, *after)
    return made


class _Repeats:
    """Measures on sequences of repeated random tokens, by distance and layer."""

    def __init__(self) -> None:
        self.sequences: dict[int, tuple[int, ...]] | None = None
        self.found: dict[int, dict[Head, PatternMeasures]] = {}

    def mean(self, layer: Head) -> PatternMeasures:
        each = [found[layer] for found in self.found.values()]
        measured = [found for found in each if not found.reason]
        if not measured:
            return each[0]
        own, chance = (
            {name: finite_mean(np.array([numbers[name] for numbers in some]), 0) for name in some[0]}
            for some in ([found.own for found in measured], [found.chance for found in measured])
        )
        return PatternMeasures(own, {name: float(mean) for name, mean in chance.items()})


def patterns_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Compute the rows of one layer's heads, on the query's sentence or on repeated random tokens."""
    yield Lane.MODEL
    if query.text is not None:
        yield from model.read(query.text)
    with model.reporter("measuring on random tokens", "layers run") as report:
        repeated = (yield from _measured_repeats(model, report)).mean(layer.name)
    found = repeated
    if query.text is not None:
        try:
            found = _measure(model, (yield from model.attention(query.text, layer.stack, layer.layer)), {})
        except Superseded:
            raise
        except EngineError as error:
            found = PatternMeasures(reason=str(error))
    note = found.reason or repeated.reason
    rows: list[tuple[Cell, ...]] = []
    for head in wanted_heads(layer, query):
        own, chance = found.of_head(head)
        of_repeats, its_chance = repeated.of_head(head, ("duplicate", "induction"))  # which sentences do not define
        cells = measure_cells(PATTERNS.columns[4:-1], own | of_repeats, chance | its_chance)
        rows.append((*place_cells(layer, head), label_of(*repeated.of_head(head)), *cells, note))
    yield RowGroup(rows)


def labels(model: OpenModel, report: Callable[[Progress], None]) -> Work[dict[Head, Label]]:
    """Label the heads that have a clear pattern on repeated random tokens.

    Finished measures are kept when the work is given up.
    """
    yield Lane.MODEL
    repeats = yield from _measured_repeats(
        model, lambda done, total: report(Progress("labels", done, total, "layers run"))
    )
    report(Progress("labels", 1, 1, "layers run"))
    measures, named = dict(zip(LABELS.values(), LABELS, strict=True)), dict[Head, Label]()
    for layer in model.outline.attending_layers:
        mean = repeats.mean(layer.name)
        for head in layer.head_names():
            scores, chances = mean.of_head(head.head)
            if label := label_of(scores, chances):
                named[head] = Label(label, scores[measures[label]])
    return named


def _measured_repeats(model: OpenModel, report: Callable[[int, int], None]) -> Work[_Repeats]:
    """Read the sequences that have not been read, and measure all layers on each.

    ``report`` is called with the layers that have run and their total: each layer runs once to read a sequence and once
    to be measured.
    """
    known = model.cached("repeats", _Repeats)
    layers = [layer.name for layer in model.outline.attending_layers]
    if known.sequences is None:
        reader = yield from model.reader()
        try:
            known.sequences = draw_repeats(reader.words, reader.vocabulary, model.outline.context)
        except EngineError as error:
            known.found[0], known.sequences = dict.fromkeys(layers, PatternMeasures(reason=str(error))), {}
    total = 2 * len(layers) * len(known.sequences)
    for before, (distance, ids) in zip(range(0, total, 2 * len(layers)), known.sequences.items(), strict=True):
        measured = known.found.setdefault(distance, {})
        missing = [layer for layer in layers if layer not in measured]
        if missing:
            here = partial(lambda before, done: report(before + done, total), before)
            yield from _measure_repeat(model, ids, distance, missing, measured, here)
    return known


def _measure_repeat(
    model: OpenModel,
    ids: tuple[int, ...],
    distance: int,
    layers: Sequence[Head],
    measured: dict[Head, PatternMeasures],
    report: Callable[[int], None],
) -> Work[None]:
    """Read a sequence, and add the measures of layers one by one, so that none is lost when this is interrupted."""
    reader = (yield from model.reader()).sharing_model()  # so that the person's sentence stays read
    reader.tell = lambda progress: report(progress.done) if progress.activity == READING else None
    try:
        reader.read(ids, model.check)
    except Superseded:
        raise
    except EngineError as error:
        measured |= dict.fromkeys(layers, PatternMeasures(reason=str(error)))
        return
    for layer in layers:
        yield None
        report(len(model.outline.attending_layers) + len(measured))
        try:
            maps = reader.layer_maps(layer, model.check)
        except Superseded:
            raise
        except EngineError as error:
            measured[layer] = PatternMeasures(reason=str(error))
        else:
            repeated = repeated_keys(np.asarray(reader.ids_along(layer.stack)), distance)
            measured[layer] = _measure(model, maps, repeated)
            del maps  # before those of the next layer


def _measure(model: OpenModel, maps: AttentionMaps, repeated: Mapping[str, NDArray[np.int64]]) -> PatternMeasures:
    """Measures of distances need queries and keys to be the same tokens."""
    weights, visible = maps.weights, maps.visible
    assert visible is not None  # which a reader finds
    _, queries, keys = weights.shape
    uniform = uniform_attention(visible, keys)[None]
    own, chance = spread(weights, visible, model.check), spread(uniform, visible)
    has_sink = bool((own["to_none"] > ROUNDING_SHARE).any())
    chance["to_none"] = np.array([uniform_to_none(visible) if has_sink else 0.0])
    interest: Mapping[str, NDArray[np.int64]] = {"to_first": np.zeros(queries, dtype=np.int64)}
    if queries == keys and maps.stack != "cross":
        interest = {**keys_of_interest(queries), **repeated}
    else:
        del own["mean_distance"], chance["mean_distance"]
    for name, places in interest.items():
        own[name] = attention_to(weights, places, visible)
        chance[name] = attention_to(uniform, places, visible)
    return PatternMeasures(own, {name: float(each[0]) for name, each in chance.items()})
