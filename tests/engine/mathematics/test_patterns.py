"""What heads look at: hand-made maps and heads with known answers, and models against plain loops over their maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.mathematics.patterns import (
    LABELS,
    attention_to,
    keys_of_interest,
    label_of,
    repeated_keys,
    rollout,
    spread,
    uniform_spread,
    uniform_to,
    uniform_to_none,
    visible_keys,
)
from engine.values.attention import VisibleKeys
from tests import tiny_models
from tests.exporting import exported
from tests.tiny_configurations import tiny_configuration

TOKENS = 12
SEEN: dict[str, Callable[[int, int], bool]] = {
    "backwards": lambda query, key: key <= query,
    "both ways": lambda query, key: True,
    "a window": lambda query, key: query - 3 < key <= query,
    "a window both ways": lambda query, key: abs(query - key) <= 2,
}
"""Which keys masks let a query see."""

Maps = NDArray[np.float32]


def mask_of(kind: str) -> Maps:
    """Give a mask, 1 where a query sees a key."""
    return np.array([[SEEN[kind](i, j) for j in range(TOKENS)] for i in range(TOKENS)], dtype=np.float32)


def one_key(keys: NDArray[np.int64]) -> Maps:
    """Make the map of a head that looks at one key; a query without one looks at itself."""
    keys = np.where((keys >= 0) & (keys < len(keys)), keys, np.arange(len(keys)))
    return np.eye(len(keys), dtype=np.float32)[keys]


def test_a_decoder_that_sees_its_own_past_and_all_of_an_encoder_has_that_many_keys(tmp_path: Path) -> None:
    tiny_models.save(tiny_models.build(tiny_configuration("t5gemma2")), tmp_path)
    for row in exported(tmp_path, "attention", "--stack", "decoder", "--head", "0", "--text", "hello, all"):
        query, key, tokens = int(row["query"]), int(row["key"]), 8
        expected = 1 / (query + 1 + tokens) if key <= query or key >= tokens else 0.0
        assert float(row["weight_chance"]) == pytest.approx(expected)
        assert (float(row["weight"]) > 0) == (expected > 0)


@pytest.mark.parametrize("kind", list(SEEN))
def test_uniform_attention_gives_what_chance_gives(kind: str) -> None:
    mask = mask_of(kind)
    maps = (mask / mask.sum(1, keepdims=True))[None].repeat(2, 0)
    visible = visible_keys(maps)
    np.testing.assert_array_equal(visible.count, mask.sum(1))
    for query, key in np.ndindex(TOKENS - 1, TOKENS - 1):
        assert visible.hides(range(query, query + 1), range(key, key + 1)) != mask[query, key]
        assert (
            visible.hides(range(query, query + 2), range(key, key + 2)) != mask[query : query + 2, key : key + 2].any()
        )
    wide, (entropy, distance) = spread(maps, visible), uniform_spread(visible)
    np.testing.assert_allclose(wide.entropy, entropy, rtol=1e-6)
    np.testing.assert_allclose(wide.mean_distance, distance, rtol=1e-6)
    np.testing.assert_allclose(wide.to_none, 0, atol=1e-6)
    ids = np.tile(np.arange(TOKENS // 3), 3)
    for keys in (*keys_of_interest(TOKENS).values(), *repeated_keys(ids, TOKENS // 3).values()):
        np.testing.assert_allclose(attention_to(maps, keys, visible), uniform_to(keys, visible), rtol=1e-6)


@pytest.mark.parametrize("kind", list(SEEN))
def test_what_is_seen_is_found_though_weights_are_too_small_to_be_there(kind: str) -> None:
    mask = mask_of(kind)
    holes = mask[None] * (np.random.default_rng(0).random((4, TOKENS, TOKENS)) < 0.4)
    np.testing.assert_array_equal(visible_keys(holes.astype(np.float32)).count, mask.sum(1))


def test_a_head_that_looks_at_one_kind_of_token_alone_has_that_score_and_that_label() -> None:
    ids = np.tile(np.arange(8), 2)
    for kind in ("backwards", "both ways"):
        interest = {**keys_of_interest(len(ids)), **repeated_keys(ids, 8)}
        if kind == "backwards":
            del interest["to_next"]
        maps = np.stack([one_key(keys) for keys in interest.values()])
        mask = np.tri(len(ids), k=len(ids) if kind == "both ways" else 0, dtype=np.float32)
        visible = visible_keys(np.concatenate([maps, mask[None]]))
        scores = {name: attention_to(maps, keys, visible) for name, keys in interest.items()}
        chances = {name: uniform_to(keys, visible) for name, keys in interest.items()}
        for head, name in enumerate(interest):
            assert scores[name][head] == 1
            assert label_of({each: float(values[head]) for each, values in scores.items()}, chances) == LABELS[name]


def test_entropy_distance_and_what_a_sink_takes_by_hand() -> None:
    maps = np.array([[[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0, 0, 0, 1]]], dtype=np.float32)
    visible = VisibleKeys(np.zeros(4, dtype=np.int64), np.arange(4))
    assert visible.count.tolist() == [1, 2, 3, 4]
    wide = spread(maps, visible)
    assert wide.entropy == pytest.approx([(math.log(2) + 1.5 * math.log(2) + 0) / 3])
    assert wide.mean_distance == pytest.approx([(0.5 + 0.75 + 0) / 3])
    assert uniform_spread(visible) == pytest.approx((math.log(24) / 3, (0.5 + 1 + 1.5) / 3))
    drained = spread(0.25 * maps, visible)
    assert drained.entropy == pytest.approx(wide.entropy)
    assert drained.mean_distance == pytest.approx(wide.mean_distance)
    assert (wide.to_none.tolist(), drained.to_none.tolist()) == ([0.0], [0.75])
    assert spread(np.float32(1 + 1e-6) * maps, visible).to_none.tolist() == [0.0]  # rows may be rounded up
    assert uniform_to_none(visible) == pytest.approx((1 / 3 + 1 / 4 + 1 / 5) / 3)  # of two, three and four keys
    assert attention_to(0.25 * maps, keys_of_interest(4)["to_self"], visible) == pytest.approx([(0.5 + 0.5 + 1) / 12])


def test_one_token_has_nothing_to_choose() -> None:
    maps = np.ones((2, 1, 1), dtype=np.float32)
    visible = visible_keys(maps)
    assert np.isnan(spread(maps, visible).entropy).all()
    assert all(math.isnan(value) for value in uniform_spread(visible))
    assert all(math.isnan(uniform_to(keys, visible)) for keys in keys_of_interest(1).values())


def test_a_clear_head_that_rests_on_the_first_token_is_named_for_what_it_does() -> None:
    chances = dict.fromkeys(LABELS, 0.1)
    assert label_of({"to_first": 0.9, "duplicate": 0.56}, chances) == "duplicate"
    assert label_of({"to_first": 0.9, "duplicate": 0.54}, chances) == "first"
    assert label_of({"to_first": 0.54, "to_next": math.nan}, chances) == ""


def test_rollout_by_hand() -> None:
    back = np.array([[1, 0], [1, 0]], dtype=np.float32)
    np.testing.assert_allclose(rollout(iter([back])), np.array([[1, 0], [0.5, 0.5]]))
    np.testing.assert_allclose(rollout(iter([back, back])), np.array([[1, 0], [0.75, 0.25]]))
    np.testing.assert_allclose(rollout(iter([np.eye(3, dtype=np.float32)] * 4)), np.eye(3))
    half = np.array([[0.5, 0], [0.25, 0.25]], dtype=np.float32)  # the rest goes to a sink
    np.testing.assert_allclose(rollout(iter([half])), np.array([[1, 0], [1 / 6, 5 / 6]]))
    with pytest.raises(ValueError, match="no layers"):
        rollout(iter([]))


def test_what_a_query_sees_counts_only_where_it_has_a_choice() -> None:
    visible = VisibleKeys(np.array([0, 0, 2]), np.array([0, 1, 1]))
    assert visible.count.tolist() == [1, 2, 0]
    assert visible.holds(np.array([0, 0, 2])).tolist() == [False, True, False]
