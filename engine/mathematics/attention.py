"""What attention maps do: which keys a mask shows, how wide heads look, at which token, and what each is called for it.

Every measure is of a layer's maps, weights (heads, queries, keys), and stands beside what uniform attention over the
keys that each query sees would give. A query that sees one key only has no choice: it is left out of every mean. The
weights are taken as they are, so of a head with an attention sink, whose rows sum to less than one, what goes to the
sink goes to no token; only entropy and mean distance, which are of a distribution, are of the weights' shares.

Maps are pooled to blocks of queries × keys a row of blocks at a time, without a copy of the map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import AttentionMap, MapWindow, Places, PooledMap, Pooling, VisibleKeys

Weights = NDArray[np.float32]
Floats = NDArray[np.float64]

BLOCK = 2**22
"""Weights that are made float64 at once."""

QUERIES_AT_ONCE = 256
"""Queries of a map that is searched for its largest weight."""

NO_KEY = -1
"""The key of a query that has none to be asked about."""

LABELS = {
    "to_previous": "previous",
    "to_first": "first",
    "to_self": "self",
    "to_next": "next",
    "duplicate": "duplicate",
    "induction": "induction",
}
"""What a head is called that attends mostly to one kind of token, by the measure."""

CLEAR_SHARE = 0.5
"""The share of what lies between chance and everything that makes a score clear: most of what a head has to give."""

RESTING_LABEL = "first"
"""Where heads rest that find nothing of theirs (Vig & Belinkov 2019, Xiao et al. 2024); it names those alone."""


def visible_keys(weights: Weights, check: Callable[[], None] = lambda: None) -> VisibleKeys:
    """Find which keys the mask of a layer lets each query see, from weights (heads, queries, keys): masked are zero.

    A weight that is seen may be too small for its dtype. So no single zero counts: the mask is one that looks both ways
    or back only, through a window or not, and it is told from how far back and ahead any query of any head looks. A
    window has a width that most queries with room for it use to the full. Of another mask it is the band around it.
    Where there are more keys than queries and none looks ahead among as many keys, those are its own; it sees the rest.
    ``check`` is called between blocks of queries; it may raise to give up.
    """
    _, queries, keys = weights.shape
    if keys > queries:
        own = visible_keys(weights[:, :, :queries], check)
        if bool((own.last <= np.arange(queries)).all()):
            return VisibleKeys(own.first, own.last, range(queries, keys))
    places = np.arange(queries)
    back, ahead = np.full(queries, -queries), np.full(queries, -keys)
    for some in _blocks(weights.shape, BLOCK // 8):  # few enough to be near the processor for every head
        check()
        seen = np.zeros((len(places[some]), keys), dtype=bool)
        for head in weights[:, some]:
            seen |= head > 0
        looks = seen.any(axis=1)
        back[some] = np.where(looks, places[some] - seen.argmax(axis=1), -queries)
        ahead[some] = np.where(looks, keys - 1 - seen[:, ::-1].argmax(axis=1) - places[some], -keys)
    if queries == keys and bool((ahead <= 0).all()):
        last = places
    else:
        last = np.minimum(places + _reach(ahead, keys - 1 - places), keys - 1)
    return VisibleKeys(np.maximum(places - _reach(back, places), 0), last)


def _reach(used: Places, room: Places) -> int:
    """Tell how far a window reaches, or that there is none, from how far each query looks and could look at most."""
    reach = int(used.max(initial=0))
    limited = room > reach
    is_window = limited.sum() > 1 and (used[limited] == reach).mean() >= 0.5
    return reach if is_window else int(room.max(initial=0))


def keys_of_interest(queries: int) -> Mapping[str, Places]:
    """Name the key of each query that a measure asks about, where queries and keys are the same tokens.

    The first query's look at the first key is one at itself, and counts as that alone.
    """
    places = np.arange(queries)
    return {
        "to_first": np.where(places > 0, 0, NO_KEY),
        "to_self": places,
        "to_previous": places - 1,
        "to_next": places + 1,
    }


def repeated_keys(ids: NDArray[np.int64], distance: int) -> Mapping[str, Places]:
    """Name the keys that a repetition makes interesting: the same token before, and the one after that.

    The measures are the duplicate-token and the prefix-matching (induction) score of Elhage et al. 2021 and
    Olsson et al. 2022, for tokens (tokens,) that come again so many tokens later, at least 2.
    """
    places = np.arange(len(ids))
    again = np.zeros(len(ids), dtype=bool)
    again[distance:] = ids[distance:] == ids[: len(ids) - distance]
    return {
        "duplicate": np.where(again, places - distance, NO_KEY),
        "induction": np.where(again, places - distance + 1, NO_KEY),
    }


def attention_to(weights: Weights, keys: Places, visible: VisibleKeys) -> Floats:
    """Average what queries give to one key each: ``mean_i A[i, keys_i]`` over those that see it, (heads,).

    Keys are (queries,) positions, `NO_KEY` where a query is left out; NaN where no query sees its key.
    """
    places = np.flatnonzero(visible.holds(keys))
    if not len(places):
        return np.full(len(weights), np.nan)
    mean: Floats = weights[:, places, keys[places]].mean(axis=1, dtype=np.float64)
    return mean


def uniform_to(keys: Places, visible: VisibleKeys) -> float:
    """Give what `attention_to` is of uniform attention: the mean of one over the number of keys that are seen."""
    counted = visible.holds(keys)
    return float((1 / visible.count[counted]).mean()) if counted.any() else float("nan")


def uniform_to_none(visible: VisibleKeys) -> float:
    """Give what goes to a sink of uniform attention over it and the keys that are seen: the mean of ``1/(n + 1)``."""
    counted = visible.has_choice
    return float((1 / (visible.count[counted] + 1)).mean()) if counted.any() else float("nan")


def uniform_attention(visible: VisibleKeys, keys: int) -> Floats:
    """Give a map that gives every key that a query sees the same weight: (queries, keys)."""
    uniform: Floats = np.zeros((len(visible.first), keys))
    for query, row in enumerate(uniform):
        row[visible.keys_of(query)] = 1 / max(1, int(visible.count[query]))
    return uniform


@dataclass(frozen=True)
class Spread:
    """How far a layer's heads spread their attention, as means over queries, (heads,).

    Attributes
    ----------
    entropy : ``−Σ_j p_j ln p_j`` in nats, p_j the shares of the row's sum.
    mean_distance : ``Σ_j p_j |i − j|`` in tokens.
    to_none : ``1 − Σ_j A[i, j]``: what goes to a sink that is no token.
    """

    entropy: Floats
    mean_distance: Floats
    to_none: Floats


def spread(weights: Weights, visible: VisibleKeys, check: Callable[[], None] = lambda: None) -> Spread:
    """Measure how far heads spread their attention (heads, queries, keys), over the queries that see more than one key.

    NaN where there is no such query; a row without any weight has no distribution and is left out. ``check`` is called
    between blocks of queries; it may raise to give up.
    """
    heads, queries, keys = weights.shape
    entropy, distance, total = (np.full((heads, queries), np.nan) for _ in range(3))
    for some in _blocks(weights.shape):
        check()
        block = weights[:, some].astype(np.float64)
        total[:, some] = sums = block.sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = block / sums[:, :, None]
            entropy[:, some] = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=2)
        apart = np.abs(np.arange(queries)[some, None] - np.arange(keys))
        distance[:, some] = np.einsum("hqk,qk->hq", shares, apart)
    counted = visible.has_choice
    to_none = np.maximum(1 - total, 0)  # rows that sum to one do so but for rounding
    return Spread(*(finite_mean(values[:, counted], 1) for values in (entropy, distance, to_none)))


def uniform_spread(visible: VisibleKeys) -> tuple[float, float]:
    """Give entropy and mean distance of uniform attention over the keys that are seen."""
    counted = np.flatnonzero(visible.has_choice)
    if not len(counted):
        return float("nan"), float("nan")
    distances = [np.abs(visible.keys_of(query) - query).mean() for query in counted.tolist()]
    return float(np.log(visible.count[counted]).mean()), float(np.mean(distances))


def label_of(scores: Mapping[str, float], chances: Mapping[str, float]) -> str:
    """Label a head by the measure that stands farthest above chance, if that is clear; else give nothing.

    A head that rests on the first token until a token comes again is named for what it does then. Of a score s and its
    chance c the share ``(s − c) / (1 − c)`` is compared: 0 is uniform attention, and 1 attention to nothing else (as
    Cohen's kappa corrects agreement for chance, 1960). What is not defined is NaN, or left out.
    """
    shares = {
        LABELS[name]: (score - chances[name]) / (1 - chances[name])
        for name, score in scores.items()
        if name in LABELS and math.isfinite(score) and chances[name] < 1
    }
    clear = {label: share for label, share in shares.items() if share >= CLEAR_SHARE}
    return max(clear, key=lambda label: (label != RESTING_LABEL, clear[label]), default="")


def rollout(means: Iterator[Weights]) -> Floats:
    """Follow attention through maps (tokens, tokens): ``R = Ā_L … Ā_1``, ``Ā = (A + I)/2`` with rows over their sums.

    A is a layer's mean over the heads; I stands for the residual stream. An entry says how much of what is at a query
    after the last layer comes from a token of the input, if values mix by attention alone (Abnar & Zuidema 2020,
    "Quantifying Attention Flow in Transformers").

    Raises
    ------
    ValueError : when there is no layer.
    """
    followed: Floats | None = None
    for mean in means:
        mixing = (mean.astype(np.float64) + np.eye(len(mean))) / 2
        mixing /= mixing.sum(axis=1, keepdims=True)
        followed = mixing if followed is None else mixing @ followed
    if followed is None:
        raise ValueError("there are no layers to follow attention through")
    return followed


def finite_mean(values: Floats, axis: int) -> Floats:
    """Average what is finite along an axis, as over the queries that have a value; NaN where nothing is."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(there, values, 0).sum(axis) / there.sum(axis)
    return mean


def _blocks(shape: tuple[int, ...], weights: int = BLOCK) -> Iterator[slice]:
    """Cut the queries into blocks of few enough weights."""
    heads, queries, keys = shape
    size = max(weights // max(heads * keys, 1), 1)
    for start in range(0, queries, size):
        yield slice(start, start + size)


def pool(
    attention: AttentionMap,
    window: MapWindow,
    largest: float | None = None,
    check: Callable[[], None] = lambda: None,
) -> PooledMap:
    """Pool a rectangle of a map: the largest weight of each block, where it is, and the mean.

    Of two maps it is their differences that are pooled, the largest being the one of the largest size; of these, too,
    there are no more at a time than a row of blocks has. What lies beyond the map is left out. ``largest`` is what
    `largest_value` gives, where that is known already; ``check`` is called between rows of blocks and may raise.
    """
    window = window.within(*attention.weights.shape)
    block, rows, columns = window.block, window.rows, window.columns
    if largest is None:
        largest = largest_value(attention, block, window.pooling, check)
    shape = len(rows), len(columns)
    first, last = columns.start * block, min(columns.stop * block, attention.weights.shape[1])
    if block == 1:
        maxima = means = np.array(_values(attention, slice(rows.start, rows.stop), slice(first, last)))
        places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).astype(np.int32).reshape(*shape, 2)
    else:
        maxima, means = np.empty(shape, np.float32), np.empty(shape, np.float32)
        places = np.empty((*shape, 2), np.int32)
        starts = np.arange(0, last - first, block)
        for place, row in enumerate(rows):
            check()
            some = _values(attention, slice(row * block, (row + 1) * block), slice(first, last))  # (queries, keys)
            sizes = some if attention.other is None else np.abs(some)
            padded = np.full(len(columns) * block, -np.inf, np.float32)
            padded[: last - first] = sizes.max(axis=0)
            keys = padded.reshape(-1, block).argmax(axis=1) + starts  # of each block's largest weight, from the first
            queries = sizes[:, keys].argmax(axis=0)
            maxima[place] = some[queries, keys]
            places[place, :, 0], places[place, :, 1] = queries + row * block, keys + first
            means[place] = _row_of_means(some, starts)
    at = places[..., 0], places[..., 1]
    return PooledMap(
        attention.name,
        attention.query_tokens,
        attention.key_tokens,
        window,
        maxima,
        means,
        places,
        largest,
        pairs=None if attention.other is None else np.stack([attention.weights[at], attention.other[at]], axis=-1),
        visible=attention.visible,
        chances=None if attention.chance is None else attention.chance[at],
    )


def _values(attention: AttentionMap, queries: slice, keys: slice) -> Weights:
    """Give a rectangle of a map as it is, or of two maps the second less the first."""
    if attention.other is None:
        return attention.weights[queries, keys]
    with np.errstate(invalid="ignore"):  # of infinities that cancel
        difference: Weights = attention.other[queries, keys] - attention.weights[queries, keys]
    return difference


def largest_value(
    attention: AttentionMap, block: int, pooling: Pooling, check: Callable[[], None] = lambda: None
) -> float:
    """Give the largest of a map's finite values, or the largest size of a difference of two, pooled to blocks; or zero.

    The largest maximum is the same for all blocks.
    """
    is_mean = pooling == "mean" and block > 1
    step = block if is_mean else QUERIES_AT_ONCE
    queries, keys = attention.weights.shape
    starts = np.arange(0, keys, block)
    largest = 0.0
    for first in range(0, queries, step):
        check()
        some: NDArray[Any] = _values(attention, slice(first, first + step), slice(None))
        values = _row_of_means(some, starts) if is_mean else some
        if attention.other is not None:
            values = np.abs(values)
        highest = float(values.max(initial=0.0))
        if not np.isfinite(highest):
            highest = float(values.max(where=np.isfinite(values), initial=0.0))
        largest = max(largest, highest)
    return largest


def _row_of_means(some: Weights, starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Average a row of blocks (queries, keys) that begin at some keys; sums over the keys are float64."""
    with np.errstate(invalid="ignore"):  # of infinities that cancel
        sums = np.add.reduceat(some.sum(axis=0).astype(np.float64), starts)
    counts = np.diff(np.append(starts, some.shape[1])) * len(some)
    means: NDArray[np.float64] = sums / counts
    return means
