"""Measures of attention maps: which keys a mask shows, how widely heads attend, to which tokens, and their labels.

Every measure is of a layer's maps, weights (heads, queries, keys), and has as its chance what uniform attention over
the keys that each query sees would give. A query that sees only one key has no choice, and is left out of every mean.
The rows of a head with an attention sink sum to less than one: what goes to the sink goes to no token. Only entropy and
mean distance, which need a distribution, divide the weights by the row's sum.

Maps are pooled to blocks of queries × keys one row of blocks at a time, without a copy of the map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import AttentionMap, MapWindow, Places, PooledMap, VisibleKeys

Weights = NDArray[np.float32] | NDArray[np.float64]
Floats = NDArray[np.float64]

BLOCK = 2**22
"""Weights that are converted to float64 at once."""

NO_KEY = -1
"""Stands for the key of a query that a measure leaves out."""

LABELS = {
    "to_previous": "previous",
    "to_first": "first",
    "to_self": "self",
    "to_next": "next",
    "duplicate": "duplicate",
    "induction": "induction",
}
"""By measure, the label of a head that attends mostly to one kind of token."""

CLEAR_SHARE = 0.5
"""A score is clear when it lies at least this far between chance and 1."""

RESTING_LABEL = "first"
"""Heads rest on the first token when they find nothing (Vig & Belinkov 2019, Xiao et al. 2024); other labels win."""


def visible_keys(weights: Weights, check: Callable[[], None] = lambda: None) -> VisibleKeys:
    """Find which keys a layer's mask lets each query see, from weights (heads, queries, keys) that are zero if masked.

    The weight of a visible key may also be zero, when it is too small for its dtype, so no single zero counts. The mask
    is taken to look both ways or only back, with or without a window, as far as any query of any head looks. It is a
    window if most queries with room for its width use all of it. Any other mask is replaced by the band around it. If n
    queries have more than n keys, and none looks ahead among the first n, those are their own, and they see all the
    others. ``check`` is called between blocks of queries; it may raise to give up.
    """
    _, queries, keys = weights.shape
    if keys > queries:
        own = visible_keys(weights[:, :, :queries], check)
        if bool((own.last <= np.arange(queries)).all()):
            return VisibleKeys(own.first, own.last, range(queries, keys))
    places = np.arange(queries)
    back, ahead = np.full(queries, -queries), np.full(queries, -keys)
    for some in _blocks(weights.shape, BLOCK // 8):  # few enough to stay in the cache for every head
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
    """Find how far a mask reaches, from how far each query looks and how far it could look."""
    reach = int(used.max(initial=0))
    limited = room > reach
    is_window = limited.sum() > 1 and (used[limited] == reach).mean() >= 0.5
    return reach if is_window else int(room.max(initial=0))


def keys_of_interest(queries: int) -> Mapping[str, Places]:
    """Choose by measure the key to look at for each query, where queries and keys are the same tokens.

    The first query's attention to the first key counts only as attention to itself.
    """
    places = np.arange(queries)
    return {
        "to_first": np.where(places > 0, 0, NO_KEY),
        "to_self": places,
        "to_previous": places - 1,
        "to_next": places + 1,
    }


def repeated_keys(ids: NDArray[np.int64], distance: int) -> Mapping[str, Places]:
    """Choose by measure the key to look at in repeated tokens: the same token before, and the one after that.

    The measures are the duplicate-token and the prefix-matching (induction) score of Elhage et al. 2021 and
    Olsson et al. 2022, for tokens (tokens,) that are repeated at a distance of at least 2.
    """
    places = np.arange(len(ids))
    again = np.zeros(len(ids), dtype=bool)
    again[distance:] = ids[distance:] == ids[: len(ids) - distance]
    return {
        "duplicate": np.where(again, places - distance, NO_KEY),
        "induction": np.where(again, places - distance + 1, NO_KEY),
    }


def attention_to(weights: Weights, keys: Places, visible: VisibleKeys) -> Floats:
    """Average the weight of one key for each query: ``mean_i A[i, keys_i]`` over the queries that see theirs, (heads,).

    Keys are (queries,) positions, `NO_KEY` for a query that is left out; NaN if no query sees its key.
    """
    places = np.flatnonzero(visible.holds(keys))
    if not len(places):
        return np.full(len(weights), np.nan)
    mean: Floats = weights[:, places, keys[places]].mean(axis=1, dtype=np.float64)
    return mean


def uniform_to_none(visible: VisibleKeys) -> float:
    """Compute what uniform attention over a sink and n visible keys gives to the sink: the mean of ``1/(n + 1)``."""
    counted = visible.has_choice
    return float((1 / (visible.count[counted] + 1)).mean()) if counted.any() else float("nan")


def uniform_attention(visible: VisibleKeys, keys: int) -> Floats:
    """Make the map (queries, keys) of chance, in which each query gives all its visible keys the same weight."""
    uniform: Floats = np.zeros((len(visible.first), keys))
    for query, row in enumerate(uniform):
        row[visible.keys_of(query)] = 1 / max(1, int(visible.count[query]))
    return uniform


def spread(weights: Weights, visible: VisibleKeys, check: Callable[[], None] = lambda: None) -> dict[str, Floats]:
    """Measure how widely heads spread their attention (heads, queries, keys), over queries that see several keys.

    The measures, (heads,) means over queries, are ``entropy``, ``−Σ_j p_j ln p_j`` in nats with p_j the shares of the
    row's sum; ``mean_distance``, ``Σ_j p_j |i − j|`` in tokens; and ``to_none``, ``1 − Σ_j A[i, j]``, what goes to a
    sink that is no token. NaN if there is no such query. A row of zeros has no distribution and is left out. ``check``
    is called between blocks of queries; it may raise to give up.
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
    to_none = np.maximum(1 - total, 0)  # rounding can make a row sum to slightly more than one
    found = {"entropy": entropy, "mean_distance": distance, "to_none": to_none}
    return {name: finite_mean(values[:, counted], 1) for name, values in found.items()}


def label_of(scores: Mapping[str, float], chances: Mapping[str, float]) -> str:
    """Label a head by the measure farthest above chance; empty if no measure is clear.

    A score s with chance c is compared as ``(s − c) / (1 − c)``: 0 is uniform attention, 1 attention to nothing else
    (as Cohen's kappa corrects agreement for chance, 1960). A head that rests on the first token until a token is
    repeated gets the label of what it does then. Undefined scores are NaN, or left out.
    """
    shares = {
        LABELS[name]: (score - chances[name]) / (1 - chances[name])
        for name, score in scores.items()
        if name in LABELS and math.isfinite(score) and chances[name] < 1
    }
    clear = {label: share for label, share in shares.items() if share >= CLEAR_SHARE}
    return max(clear, key=lambda label: (label != RESTING_LABEL, clear[label]), default="")


def rollout(means: Iterable[Weights]) -> Floats:
    """Follow attention through maps (tokens, tokens): ``R = Ā_L … Ā_1``, ``Ā = (A + I)/2`` with rows over their sums.

    A is a layer's mean over the heads; I stands for the residual stream. An entry is the share of a query's stream
    after the last layer that comes from a token of the input, if values mix by attention alone (Abnar & Zuidema 2020,
    "Quantifying Attention Flow in Transformers").
    """
    mixing = ((mean.astype(np.float64) + np.eye(len(mean))) / 2 for mean in means)
    normed: Iterator[Floats] = (each / each.sum(axis=1, keepdims=True) for each in mixing)
    return reduce(lambda followed, each: each @ followed, normed)


def finite_mean(values: Floats, axis: int) -> Floats:
    """Average the finite values along an axis; NaN where there are none."""
    there = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(there, values, 0).sum(axis) / there.sum(axis)
    return mean


def _blocks(shape: tuple[int, ...], weights: int = BLOCK) -> Iterator[slice]:
    heads, queries, keys = shape
    size = max(weights // max(heads * keys, 1), 1)
    for start in range(0, queries, size):
        yield slice(start, start + size)


def pool(attention: AttentionMap, window: MapWindow) -> PooledMap:
    """Pool a rectangle of a map: the largest weight of each block, its place, and the mean.

    For two maps their difference is pooled, one row of blocks at a time, and the largest is the largest in size. What
    lies beyond the map is left out.
    """
    window = window.within(*attention.weights.shape)
    block, rows, columns = window.block, window.rows, window.columns
    shape = len(rows), len(columns)
    first, last = columns.start * block, min(columns.stop * block, attention.weights.shape[1])
    if block == 1:
        maxima = means = np.array(attention.part(slice(rows.start, rows.stop), slice(first, last)))
        places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).astype(np.int32).reshape(*shape, 2)
    else:
        maxima, means = np.empty(shape, np.float32), np.empty(shape, np.float32)
        places = np.empty((*shape, 2), np.int32)
        starts = np.arange(0, last - first, block)
        for place, row in enumerate(rows):
            some = attention.part(slice(row * block, (row + 1) * block), slice(first, last))  # (queries, keys)
            sizes = np.abs(some) if attention.is_signed else some
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
        attention.largest,
        pairs=None if attention.other is None else np.stack([attention.weights[at], attention.other[at]], axis=-1),
        visible=attention.visible,
        chances=None if attention.chance is None else attention.chance[at],
    )


def _row_of_means(some: Weights, starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Average each block of a row (queries, keys), whose blocks begin at ``starts``; sums over keys are float64."""
    with np.errstate(invalid="ignore"):  # of infinities that cancel
        sums = np.add.reduceat(some.sum(axis=0).astype(np.float64), starts)
    counts = np.diff(np.append(starts, some.shape[1])) * len(some)
    means: NDArray[np.float64] = sums / counts
    return means
