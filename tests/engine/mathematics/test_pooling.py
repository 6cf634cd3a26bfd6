"""Pooled maps against plain loops: maxima, their places, means and sums, also at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.mathematics.attention import pool
from engine.values.attention import AttentionMap, AttentionMaps, MapName, MapWindow, Sentence
from tests.tui.widgets.heatmaps import attention
from tui.drawing.readout import block_readout


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


@pytest.mark.parametrize("block", [1, 3])
def test_a_window_is_a_part_of_the_whole(block: int) -> None:
    shown = attention(40)
    whole = pool(shown, MapWindow(block, range(40), range(40)))
    part = pool(shown, MapWindow(block, range(2, 6), range(9, 99)))
    count = -(-40 // block)
    assert (part.window.rows, part.window.columns) == (range(2, 6), range(9, count))
    np.testing.assert_array_equal(part.values, whole.values[2:6, 9:])
    np.testing.assert_array_equal(part.places, whole.places[2:6, 9:])
    assert part.largest == whole.largest
    assert part.at(3, 10) == whole.at(3, 10)
    assert part.holds(5, 9)
    assert not part.holds(6, 9)
    assert pool(shown, MapWindow(block, range(90, 99), range(3))).values.size == 0


def test_a_weight_that_is_not_finite_marks_its_block_and_does_not_change_the_scale() -> None:
    weights = np.full((6, 6), 0.25, dtype=np.float32)
    weights[1, 0], weights[4, 4], weights[5, 4] = math.nan, math.inf, -math.inf
    weights[0, 4] = 0.5
    shown = AttentionMap(MapName("decoder", 0, 0), tuple("abcdef"), tuple("abcdef"), weights)
    pooled = pool(shown, MapWindow(2, range(3), range(3)))
    assert pooled.largest == 0.5
    assert np.argwhere(~np.isfinite(pooled.values)).tolist() == [[0, 0], [2, 2]]
    assert pooled.at(0, 0).place == (1, 0)
    weights[:] = math.nan
    assert pool(shown, MapWindow(1, range(6), range(6))).largest == 0.0


@pytest.mark.parametrize("tokens", [5, 32, 100])
def test_the_mean_over_heads_includes_the_last_query(tokens: int) -> None:
    weights = np.random.default_rng(0).random((3, tokens, tokens)).astype(np.float32)
    maps = AttentionMaps(Sentence("", (), (), 0), "decoder", 0, ("a",) * tokens, ("a",) * tokens, weights)
    np.testing.assert_allclose(maps.select(None).weights, weights.astype(np.float64).mean(0), rtol=0, atol=1e-7)
    assert np.shares_memory(maps.select(1).weights, weights)


def test_a_narrow_readout_of_a_block_keeps_the_ranges_and_the_maximum() -> None:
    shown = attention(100)
    block = pool(shown, MapWindow(16, range(7), range(7))).at(6, 0)
    (query, key), tokens = block.place, (shown.query_tokens, shown.key_tokens)
    assert block_readout(block, *tokens, 200) == (
        f"max {block.largest:.4f}  mean {block.mean:.4f}  sum {block.total:.4f}  queries 96–99, keys 0–15  "
        f'at {query} "{tokens[0][query]}" → {key} "{tokens[1][key]}"'
    )
    for width in range(27, 100):
        line = block_readout(block, *tokens, width)
        assert len(line) <= width
        assert "96–99" in line
        assert f"{block.largest:.4f}" in line
