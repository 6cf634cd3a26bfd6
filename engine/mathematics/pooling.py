"""Attention maps pooled to blocks of queries × keys, a row of blocks at a time, without a copy of the map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import AttentionMap, MapWindow, PooledMap, Pooling, VisibleKeys

_QUERIES_AT_ONCE = 256
"""Of a map that is searched for its largest weight."""

Weights = NDArray[np.float32]


def _go_on() -> None:
    """Let the work go on."""


def pool(
    attention: AttentionMap,
    window: MapWindow,
    largest: float | None = None,
    check: Callable[[], None] = _go_on,
) -> PooledMap:
    """Pool a rectangle of a map: the largest weight of each block, where it is, and the mean.

    Of two maps it is their differences that are pooled, the largest being the one of the largest size; of these, too,
    there are no more at a time than a row of blocks has.

    Parameters
    ----------
    attention : the whole map, or two of them.
    window : which blocks; what lies beyond the map is left out.
    largest : what `largest_value` gives for this map, where that is known already.
    check : called between rows of blocks; it may raise to give up.
    """
    weights, other = attention.weights, attention.other
    window = window.within(*weights.shape)
    block, rows, columns = window.block, window.rows, window.columns
    if largest is None:
        largest = largest_value(weights, block, window.pooling, check, other)
    shape = len(rows), len(columns)
    first, last = columns.start * block, min(columns.stop * block, weights.shape[1])
    if block == 1:
        seen = _values(weights, other, slice(rows.start, rows.stop), slice(first, last))
        places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).astype(np.int32).reshape(*shape, 2)
        return PooledMap(attention.name, attention.query_tokens, attention.key_tokens, window,
                         seen, seen, places, largest, *_pairs_mask_and_chance(attention, places))  # fmt: skip
    maxima, means = np.empty(shape, np.float32), np.empty(shape, np.float32)
    places = np.empty((*shape, 2), np.int32)
    starts = np.arange(0, last - first, block)
    for place, row in enumerate(rows):
        check()
        some = _values(weights, other, slice(row * block, (row + 1) * block), slice(first, last))  # (queries, keys)
        sizes = some if other is None else np.abs(some)
        padded = np.full(len(columns) * block, -np.inf, np.float32)
        padded[: last - first] = sizes.max(axis=0)
        keys = padded.reshape(-1, block).argmax(axis=1) + starts  # of each block's largest weight, counted from first
        queries = sizes[:, keys].argmax(axis=0)
        maxima[place] = some[queries, keys]
        places[place, :, 0], places[place, :, 1] = queries + row * block, keys + first
        means[place] = _row_of_means(some, starts)
    return PooledMap(attention.name, attention.query_tokens, attention.key_tokens, window,
                     maxima, means, places, largest, *_pairs_mask_and_chance(attention, places))  # fmt: skip


def _values(weights: Weights, other: Weights | None, queries: slice, keys: slice) -> Weights:
    """Give a rectangle of a map as it is, or of two maps the second less the first."""
    if other is None:
        return weights[queries, keys]
    with np.errstate(invalid="ignore"):  # of infinities that cancel
        difference: Weights = other[queries, keys] - weights[queries, keys]
    return difference


def _pairs_mask_and_chance(
    attention: AttentionMap, places: NDArray[np.int32]
) -> tuple[Weights | None, VisibleKeys | None, Weights | None]:
    """Give what stands beside a map's values: the weights that two maps have at some places, the mask, and chance."""
    at = places[..., 0], places[..., 1]
    other, chance = attention.other, attention.chance
    pairs = None if other is None else np.stack([attention.weights[at], other[at]], axis=-1)
    return pairs, attention.visible, None if chance is None else chance[at]


def largest_value(
    weights: Weights,
    block: int,
    pooling: Pooling,
    check: Callable[[], None] = _go_on,
    other: Weights | None = None,
) -> float:
    """Give the largest of a map's finite values, pooled to blocks; zero where there is none.

    Parameters
    ----------
    weights : (queries, keys) float32.
    block, pooling : as in `engine.values.attention.MapWindow`; the largest maximum is the same for all blocks.
    check : called between rows of blocks; it may raise to give up.
    other : of the same shape, where the differences of two maps are meant: then it is the largest size of any.
    """
    is_mean = pooling == "mean" and block > 1
    step = block if is_mean else _QUERIES_AT_ONCE
    starts = np.arange(0, weights.shape[1], block)
    largest = 0.0
    for first in range(0, len(weights), step):
        check()
        some: NDArray[Any] = _values(weights, other, slice(first, first + step), slice(None))
        values = _row_of_means(some, starts) if is_mean else some
        if other is not None:
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
