"""Pooled maps against plain loops: maxima, their places, means and sums, also at the edges."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.mathematics.attention import pool
from engine.values.attention import AttentionMap, MapName, MapWindow
from tests.tui.widgets.heatmaps import attention


def by_hand(shown: AttentionMap, queries: range, keys: range) -> tuple[float, tuple[int, int], float]:
    """Find a block's largest weight, its place, and the mean, weight by weight."""
    values = {(query, key): float(shown.weights[query, key]) for query in queries for key in keys}
    place = max(values, key=lambda each: values[each])
    return values[place], place, sum(values.values()) / len(values)


@pytest.mark.parametrize("shape", [(12, 12), (13, 7), (1, 9), (30, 31)])
@pytest.mark.parametrize("block", [1, 2, 3, 5, 12, 40])
def test_every_block_agrees_with_a_plain_loop(shape: tuple[int, int], block: int) -> None:
    shown = attention(*shape, causal=False)
    rows, columns = (-(-count // block) for count in shape)
    pooled = pool(shown, MapWindow(block, range(rows), range(columns)))
    assert pooled.values.shape == (rows, columns)
    values = []
    for row, column in np.ndindex(rows, columns):
        queries = range(row * block, min((row + 1) * block, shape[0]))
        keys = range(column * block, min((column + 1) * block, shape[1]))
        largest, place, mean = by_hand(shown, queries, keys)
        found = pooled.at(row, column)
        assert (found.queries, found.keys, found.place, found.largest) == (queries, keys, place, largest)
        assert found.mean == pytest.approx(mean, rel=1e-5)
        assert found.total == pytest.approx(mean * len(queries) * len(keys), rel=1e-5)
        values.append(largest)
        assert pooled.values[row, column] == largest
    assert pooled.largest == pytest.approx(max(values), rel=1e-5)


def test_a_weight_that_is_not_finite_marks_its_block_and_does_not_change_the_scale() -> None:
    weights = np.full((6, 6), 0.25, dtype=np.float32)
    weights[1, 0], weights[4, 4], weights[5, 4] = math.nan, math.inf, -math.inf
    weights[0, 4] = 0.5
    shown = AttentionMap(MapName("decoder", 0, 0), tuple("abcdef"), tuple("abcdef"), weights)
    pooled = pool(shown, MapWindow(2, range(3), range(3)))
    assert pooled.largest == 0.5
    assert np.argwhere(~np.isfinite(pooled.values)).tolist() == [[0, 0], [2, 2]]
    assert pooled.at(0, 0).place == (1, 0)
    nowhere = replace(shown, weights=np.full_like(weights, math.nan))
    assert pool(nowhere, MapWindow(1, range(6), range(6))).largest == 0.0
