"""Attention patterns: hand-made maps, planted heads, and models compared with plain loops over their maps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from engine.analysis.patterns import draw_repeats
from engine.library import open_module
from engine.mathematics.attention import (
    LABELS,
    attention_to,
    keys_of_interest,
    label_of,
    rollout,
    spread,
    uniform_attention,
    uniform_to_none,
    visible_keys,
)
from engine.values.attention import VisibleKeys
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.table import Table
from engine.values.views import Query
from tests import planted_heads
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import open_reader, rows_of, start_engine
from tests.tiny_configurations import save_tiny

TOKENS = 12

QUERY, KEY = np.indices((TOKENS, TOKENS))

MASKS = {
    "backwards": KEY <= QUERY,
    "both ways": KEY >= 0,
    "a window": (QUERY - 3 < KEY) & (KEY <= QUERY),
    "a window both ways": abs(QUERY - KEY) <= 2,
}
"""Whether a query sees a key."""


def test_chance_counts_a_decoders_own_past_and_all_of_the_encoder(tmp_path: Path) -> None:
    save_tiny("t5gemma2", tmp_path)
    for row in exported(tmp_path, "attention", "--stack", "decoder", "--head", "0", "--text", "hello, all"):
        query, key, tokens = int(row["query"]), int(row["key"]), 8
        expected = 1 / (query + 1 + tokens) if key <= query or key >= tokens else 0.0
        assert float(row["weight_chance"]) == pytest.approx(expected)
        assert (float(row["weight"]) > 0) == (expected > 0)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_visible_keys_are_found_though_some_weights_are_zero(mask: NDArray[np.bool_]) -> None:
    holes = mask & (np.random.default_rng(0).random((4, TOKENS, TOKENS)) < 0.4)
    np.testing.assert_array_equal(visible_keys(holes.astype(np.float32)).count, mask.sum(1))


def test_entropy_distance_and_the_share_of_a_sink_by_hand() -> None:
    maps = np.array([[[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0, 0, 0, 1]]], dtype=np.float32)
    visible = VisibleKeys(np.zeros(4, dtype=np.int64), np.arange(4))
    assert visible.count.tolist() == [1, 2, 3, 4]
    wide = spread(maps, visible)
    assert wide["entropy"] == pytest.approx([(math.log(2) + 1.5 * math.log(2) + 0) / 3])
    assert wide["mean_distance"] == pytest.approx([(0.5 + 0.75 + 0) / 3])
    chance = spread(uniform_attention(visible, 4)[None], visible)
    assert chance["entropy"] == pytest.approx([math.log(24) / 3])
    assert chance["mean_distance"] == pytest.approx([(0.5 + 1 + 1.5) / 3])
    drained = spread(0.25 * maps, visible)
    assert drained["entropy"] == pytest.approx(wide["entropy"])
    assert drained["mean_distance"] == pytest.approx(wide["mean_distance"])
    assert (wide["to_none"].tolist(), drained["to_none"].tolist()) == ([0.0], [0.75])
    assert spread(np.float32(1 + 1e-6) * maps, visible)["to_none"].tolist() == [0.0]  # rows may be rounded up
    assert uniform_to_none(visible) == pytest.approx((1 / 3 + 1 / 4 + 1 / 5) / 3)  # of two, three and four keys
    assert attention_to(0.25 * maps, keys_of_interest(4)["to_self"], visible) == pytest.approx([(0.5 + 0.5 + 1) / 12])


def test_measures_of_one_token_are_undefined() -> None:
    maps = np.ones((2, 1, 1), dtype=np.float32)
    visible = visible_keys(maps)
    assert np.isnan(spread(maps, visible)["entropy"]).all()
    assert all(np.isnan(attention_to(maps, keys, visible)).all() for keys in keys_of_interest(1).values())


def test_a_head_that_rests_on_the_first_token_gets_the_label_of_what_it_does() -> None:
    chances = dict.fromkeys(LABELS, 0.1)
    assert label_of({"to_first": 0.9, "duplicate": 0.56}, chances) == "duplicate"
    assert label_of({"to_first": 0.9, "duplicate": 0.54}, chances) == "first"
    assert label_of({"to_first": 0.54, "to_next": math.nan}, chances) == ""


def test_rollout_by_hand() -> None:
    back = np.array([[1, 0], [1, 0]], dtype=np.float32)
    np.testing.assert_allclose(rollout([back]), np.array([[1, 0], [0.5, 0.5]]))
    np.testing.assert_allclose(rollout([back, back]), np.array([[1, 0], [0.75, 0.25]]))
    np.testing.assert_allclose(rollout([np.eye(3, dtype=np.float32)] * 4), np.eye(3))
    half = np.array([[0.5, 0], [0.25, 0.25]], dtype=np.float32)  # the rest goes to a sink
    np.testing.assert_allclose(rollout([half]), np.array([[1, 0], [1 / 6, 5 / 6]]))


SENTENCE = "The cat sat on the mat."


def by_head(table: Table) -> Iterator[tuple[Head, dict[str, Any]]]:
    for named in table.frame.to_dicts():
        yield Head(named["stack"], named["layer"], int(named["head"])), named


def test_planted_heads_are_found(tmp_path: Path) -> None:
    engine = start_engine(planted_heads.save(tmp_path))
    rows = {str(head): row for head, row in by_head(engine.table("patterns", Query()).result())}
    assert {head: row["label"] for head, row in rows.items()} == {
        "L0H0": "previous", "L0H1": None, "L1H0": "induction", "L1H1": "self",
    }  # fmt: skip
    labels = engine.labels(lambda progress: None).result()
    assert all(label.score > 0.5 for label in labels.values())
    assert {head: label.name for head, label in labels.items()} == {
        Head("decoder", 0, 0): "previous", Head("decoder", 1, 0): "induction", Head("decoder", 1, 1): "self",
    }  # fmt: skip
    assert rows["L0H0"]["to_previous"] == pytest.approx(1, abs=1e-3)
    uniform = rows["L0H1"]
    for name in ("entropy", "to_first", "to_self", "to_previous", "mean_distance", "duplicate", "induction"):
        assert uniform[name] == pytest.approx(uniform[f"{name}_chance"], rel=1e-5)
    # The first repeated token matches two keys: the first token, which has only itself as its previous token, and the
    # one after it.
    assert rows["L1H0"]["induction"] == pytest.approx(1 - np.mean([0.5 / n for n in (11, 17, 31, 53)]), abs=0.02)
    assert rows["L1H1"]["duplicate"] == pytest.approx(0.5, abs=0.02)
    assert rows["L1H1"]["to_self"] == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("model_type", ["gpt2", "bert", "mistral", "gpt_oss", "t5"])
def test_the_table_agrees_with_loops_over_the_maps(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type)
    engine, reader = start_engine(folder), open_reader(folder)
    table = engine.table("patterns", Query(text=SENTENCE)).result()
    drawn = draw_repeats(reader.words, reader.vocabulary, reader.outline.context)
    special = {each for part in reader.words.frame() for each in part}
    assert next(iter(drawn)) == 11
    for distance, ids in drawn.items():
        middle = [each for each in ids if each not in special]
        assert middle[:distance] == middle[distance:]
        assert len(set(middle)) == distance
    read = {}
    texts: dict[int, str | tuple[int, ...]] = {0: SENTENCE, **drawn}
    for distance, text in texts.items():
        reader.read(text, lambda: None)
        for layer in reader.modules:
            read[distance, layer] = reader.layer_maps(layer).weights, reader.ids_along(layer.stack)
    for head, row in by_head(table):
        layer = head.whole_layer
        window = 4 if model_type == "mistral" or (model_type == "gpt_oss" and head.layer == 0) else 1000
        kind = head.stack if model_type == "t5" else "encoder" if model_type == "bert" else "decoder"
        by_distance = {
            distance: looped(maps[head.head].astype(float), kind, window, ids, distance)
            for (distance, name), (maps, ids) in read.items() if name == layer
        }  # fmt: skip
        expected = by_distance.pop(0)
        for name in ("duplicate", "duplicate_chance", "induction", "induction_chance"):
            numbers = [number for each in by_distance.values() if (number := each[name]) is not None]
            expected[name] = sum(numbers) / len(numbers) if numbers else None
        for name, value in expected.items():
            assert row[name] == (None if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)), (head, name)
        assert row["note"] is None


def looped(
    weights: NDArray[np.float64], kind: str, window: int, ids: tuple[int, ...], distance: int
) -> dict[str, float | None]:
    """Measure one map with plain loops, knowing its mask, and at what distance tokens repeat, if they do."""
    gathered: dict[str, list[float]] = {}
    queries, keys = weights.shape

    def add(name: str, query: int, key: int, seen: list[int]) -> None:
        if key in seen:
            gathered.setdefault(name, []).append(weights[query, key])
            gathered.setdefault(f"{name}_chance", []).append(1 / len(seen))

    for i in range(queries):
        seen = [j for j in range(keys) if kind != "decoder" or i - window < j <= i]
        if len(seen) < 2:
            continue
        total = sum(weights[i, j] for j in seen)
        shares = [weights[i, j] / total for j in seen]
        gathered.setdefault("entropy", []).append(-sum(p * math.log(p) for p in shares if p > 0))
        gathered.setdefault("entropy_chance", []).append(math.log(len(seen)))
        gathered.setdefault("to_none", []).append(max(1 - total, 0))
        if kind == "cross" or i > 0:
            add("to_first", i, 0, seen)
        if kind == "cross":
            continue
        apart = [abs(i - j) for j in seen]
        gathered.setdefault("mean_distance", []).append(sum(p * d for p, d in zip(shares, apart, strict=True)))
        gathered.setdefault("mean_distance_chance", []).append(sum(apart) / len(seen))
        for name, key in (("to_self", i), ("to_previous", i - 1), ("to_next", i + 1)):
            add(name, i, key, seen)
        if 0 < distance <= i and ids[i] == ids[i - distance]:
            add("duplicate", i, i - distance, seen)
            add("induction", i, i - distance + 1, seen)
    columns = ("entropy", "to_first", "to_self", "to_previous", "to_next", "mean_distance", "duplicate", "induction")
    names = ["to_none", *columns, *(f"{name}_chance" for name in columns)]
    return {name: sum(gathered[name]) / len(gathered[name]) if name in gathered else None for name in names}


def test_rollout_agrees_with_the_product_of_the_maps(tiny_model: TinyModel) -> None:
    engine, reader = start_engine(tiny_model("t5")), open_reader(tiny_model("t5"))
    tokens = len(reader.read(SENTENCE, lambda: None).tokens)
    rows = list(engine.table("rollout", Query(text=SENTENCE)).result())
    with pytest.raises(EngineError, match="queries and keys of the same tokens"):
        engine.rollout(SENTENCE, "cross").result()
    for stack in ("encoder", "decoder"):
        layers, expected = [each for each in reader.modules if each.stack == stack], np.eye(tokens)
        for layer in layers:
            maps = reader.layer_maps(layer).weights.astype(np.float64)
            expected = (maps.mean(0) + np.eye(tokens)) / 2 @ expected
        found = np.array([row[-2:] for row in rows if row[0] == stack]).reshape(tokens, tokens, 2)
        np.testing.assert_allclose(found[..., 0], expected, atol=1e-6)
        seen = np.ones((tokens, tokens)) if stack == "encoder" else np.tri(tokens)
        mixing = (seen / seen.sum(1, keepdims=True) + np.eye(tokens)) / 2
        np.testing.assert_allclose(found[..., 1], np.linalg.matrix_power(mixing, len(layers)), atol=1e-6)


def test_ordinary_tokens_are_neither_special_nor_placeholders(tiny_model: TinyModel) -> None:
    words = open_reader(tiny_model("bert")).words
    names = words.texts(words.ordinary(10_000))
    assert names
    assert not {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} & set(names)
    assert words.frame() == ((2,), (3,))
    with pytest.raises(EngineError, match="no room for the four tokens that duplicate and induction need"):
        draw_repeats(words, 10_000, 5)
    assert list(draw_repeats(words, 10_000, 16)) == [7]


def test_a_module_is_measured_on_random_tokens_if_it_reads_tokens() -> None:
    reads_vectors = nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    of_vectors = open_module(reads_vectors, name="mine")
    rows, in_example = rows_of(of_vectors.patterns()), rows_of(of_vectors.patterns(text="example"))
    assert {row["note"] for row in rows} == {"mine reads no tokens that random ones could stand for"}
    assert {row["entropy"] for row in rows} == {None}
    assert all(0 < row["entropy"] <= row["entropy_chance"] == pytest.approx(math.log(11)) for row in in_example)
    rows = rows_of(open_module(nn.Sequential(nn.Embedding(40, 16), reads_vectors)).patterns())
    assert all(row["duplicate_chance"] == pytest.approx(np.mean([1 / 22, 1 / 34, 1 / 62])) for row in rows)
    assert all(row["duplicate"] > 0 for row in rows)
