"""Patterns of whole models: planted heads are found, and the table agrees with the models' own maps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from engine.models.model_inputs import repeats
from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.options import EngineOptions
from engine.values.table import Table
from engine.values.views import Query
from tests import planted_heads
from tests.conftest import TinyModel
from tests.opening import open_reader

SENTENCE, ANOTHER = "The cat sat on the mat.", "When Mary and John went to the store"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the model whose heads are known."""
    return planted_heads.save(tmp_path_factory.mktemp("planted"))


def opened(model: Path) -> Engine:
    """Open a model."""
    made = Engine(EngineOptions(use_cache=False))
    made.open(str(model), lambda progress: None).result()
    return made


def by_head(table: Table) -> Iterator[tuple[Head, dict[str, Any]]]:
    """Give each row by its head."""
    for row in table:
        named: dict[str, Any] = dict(zip(table.columns, row, strict=True))
        yield Head(named["stack"], named["layer"], int(named["head"])), named


def test_planted_heads_are_found(planted: Path) -> None:
    engine = opened(planted)
    rows = {str(head): row for head, row in by_head(engine.table("patterns", Query()).result())}
    assert {head: row["label"] for head, row in rows.items()} == {
        "L0H0": "previous", "L0H1": None, "L1H0": "induction", "L1H1": "self",
    }  # fmt: skip
    assert engine.labels(lambda progress: None).result() == {
        Head("decoder", 0, 0): "previous", Head("decoder", 1, 0): "induction", Head("decoder", 1, 1): "self",
    }  # fmt: skip
    engine.stop()
    assert rows["L0H0"]["to_previous"] == pytest.approx(1, abs=1e-3)
    uniform = rows["L0H1"]
    for name in ("entropy", "to_first", "to_self", "to_previous", "mean_distance", "duplicate", "induction"):
        assert uniform[name] == pytest.approx(uniform[f"{name}_chance"], rel=1e-5)
    # Of the tokens that come again the first has two keys after its like: its own, and the next, which reads it.
    assert rows["L1H0"]["induction"] == pytest.approx(1 - np.mean([0.5 / n for n in (11, 17, 31, 53)]), abs=0.02)
    assert rows["L1H1"]["duplicate"] == pytest.approx(0.5, abs=0.02)
    assert rows["L1H1"]["to_self"] == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("model_type", ["gpt2", "bert", "mistral", "gpt_oss", "t5"])
def test_the_table_agrees_with_loops_over_the_models_own_maps(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type)
    engine, reader = opened(folder), open_reader(folder)
    table = engine.table("patterns", Query(text=SENTENCE)).result()
    engine.stop()
    drawn = repeats(reader.words, reader.vocabulary, reader.outline.context)
    special = {each for part in reader.words.frame() for each in part}
    assert drawn[0].distance == 11
    read = {}
    for repeat in (None, *drawn):
        if repeat is None:
            reader.read(SENTENCE, lambda: None)
        else:
            middle = [each for each in repeat.ids if each not in special]
            assert middle[: repeat.distance] == middle[repeat.distance :]
            assert len(set(middle)) == repeat.distance
            reader.read_ids(repeat.ids, lambda: None)
        for layer in reader.modules:
            read[repeat, layer] = reader.layer_maps(layer).weights, reader.ids_along(layer.stack)
    for head, row in by_head(table):
        layer = head.whole_layer
        weights, _ = read[None, layer]
        window = 4 if model_type == "mistral" or (model_type == "gpt_oss" and head.layer == 0) else 1000
        kind = head.stack if model_type == "t5" else "encoder" if model_type == "bert" else "decoder"
        expected = looped(weights[head.head].astype(float), kind, window)
        again = [
            looped(maps[head.head].astype(float), kind, window, ids, repeat.distance)
            for (repeat, name), (maps, ids) in read.items()
            if name == layer and repeat is not None
        ]
        for name in ("duplicate", "duplicate_chance", "induction", "induction_chance"):
            numbers = [number for each in again if (number := each[name]) is not None]
            expected[name] = sum(numbers) / len(numbers) if numbers else None
        for name, value in expected.items():
            assert row[name] == (None if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)), (head, name)
        assert row["note"] is None


def looped(
    weights: NDArray[np.float64], kind: str, window: int, ids: tuple[int, ...] = (), distance: int = 0
) -> dict[str, float | None]:
    """Measure one map with plain loops, knowing its mask."""
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
        if ids and i >= distance and ids[i] == ids[i - distance]:
            add("duplicate", i, i - distance, seen)
            add("induction", i, i - distance + 1, seen)
    columns = ("entropy", "to_first", "to_self", "to_previous", "to_next", "mean_distance", "duplicate", "induction")
    names = ["to_none", *columns, *(f"{name}_chance" for name in columns)]
    return {name: sum(gathered[name]) / len(gathered[name]) if name in gathered else None for name in names}


def test_rollout_of_a_model_agrees_with_its_own_maps(tiny_model: TinyModel) -> None:
    engine, reader = opened(tiny_model("t5")), open_reader(tiny_model("t5"))
    tokens = len(reader.read(SENTENCE, lambda: None).tokens)
    rows = list(engine.table("rollout", Query(text=SENTENCE)).result())
    with pytest.raises(EngineError, match="across stacks has none"):
        engine.rollout(SENTENCE, "cross").result()
    engine.stop()
    for stack in ("encoder", "decoder"):
        expected = torch.eye(tokens, dtype=torch.float64)
        for layer in [each for each in reader.modules if each.stack == stack]:
            maps = torch.from_numpy(reader.layer_maps(layer).weights).double()
            expected = (0.5 * maps.mean(0) + 0.5 * torch.eye(tokens)) @ expected
        found = np.array([row[-2:] for row in rows if row[0] == stack]).reshape(tokens, tokens, 2)
        np.testing.assert_allclose(found[..., 0], expected.numpy(), atol=1e-6)
        seen = np.ones((tokens, tokens)) if stack == "encoder" else np.tril(np.ones((tokens, tokens)))
        layers = sum(each.stack == stack for each in reader.modules)
        mixing = (seen / seen.sum(1, keepdims=True) + np.eye(tokens)) / 2
        np.testing.assert_allclose(found[..., 1], np.linalg.matrix_power(mixing, layers), atol=1e-6)


def test_ids_read_with_the_same_model_leave_the_sentence_as_it_is(tiny_model: TinyModel) -> None:
    reader, other = (open_reader(tiny_model("bart")) for _ in range(2))
    reader.read(SENTENCE, lambda: None)
    beside = reader.sharing_model()
    beside.read_ids((5, 6, 7, 5, 6, 7), lambda: None)
    other.read(SENTENCE, lambda: None)
    for layer in reader.modules:
        np.testing.assert_array_equal(reader.layer_maps(layer).weights, other.layer_maps(layer).weights)
    assert beside.layer_maps(Head("decoder", 0)).weights.shape[1:] == (6, 6)
    assert reader.has_read(SENTENCE)


def test_ordinary_tokens_are_neither_special_nor_placeholders(tiny_model: TinyModel) -> None:
    words = open_reader(tiny_model("bert")).words
    names = words.texts(words.ordinary(10_000))
    assert names
    assert not {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} & set(names)
    assert words.frame() == ((2,), (3,))
    with pytest.raises(EngineError, match="no room"):
        repeats(words, 10_000, 5)
    assert [each.distance for each in repeats(words, 10_000, 16)] == [7]


def test_a_module_that_reads_vectors_says_that_it_reads_no_tokens() -> None:
    engine = Engine.of_module(nn.TransformerEncoderLayer(16, 2, batch_first=True).eval(), None, "mine", None)
    engine.open("mine", lambda progress: None).result()
    rows = [row for _, row in by_head(engine.table("patterns", Query()).result())]
    in_example = [row for _, row in by_head(engine.table("patterns", Query(text="example")).result())]
    engine.stop()
    assert {row["note"] for row in rows} == {"mine reads no tokens that random ones could stand for"}
    assert {row["entropy"] for row in rows} == {None}
    assert all(0 < row["entropy"] <= row["entropy_chance"] == pytest.approx(math.log(11)) for row in in_example)


def test_a_module_that_reads_tokens_is_measured_on_random_ones() -> None:
    module = nn.Sequential(nn.Embedding(40, 16), nn.TransformerEncoderLayer(16, 2, batch_first=True)).eval()
    engine = Engine.of_module(module, None, "mine", None)
    engine.open("mine", lambda progress: None).result()
    rows = [row for _, row in by_head(engine.table("patterns", Query()).result())]
    engine.stop()
    assert all(row["duplicate_chance"] == pytest.approx(np.mean([1 / 22, 1 / 34, 1 / 62])) for row in rows)
    assert all(row["duplicate"] > 0 for row in rows)
