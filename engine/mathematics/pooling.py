"""Attention maps pooled to blocks of queries × keys, a row of blocks at a time, without a copy of the map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import AttentionMap, MapWindow, PooledMap, Pooling

_QUERIES_AT_ONCE = 256
"""Of a map that is searched for its largest weight."""

Weights = NDArray[np.float32]


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
    step = block if is_mean else _QUERIES_AT_ONCE
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
