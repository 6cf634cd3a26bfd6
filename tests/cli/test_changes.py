"""Two models side by side: tables against plain arithmetic, and pairs that cannot be compared."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from engine.analysis.open_model import OpenModel
from engine.checkpoints.locate import find_source
from engine.mathematics.measures import MEASURES
from engine.values.display_text import size
from engine.values.options import EngineOptions
from engine.values.views import CHANGES, CIRCUIT_MEASURES
from tests.cli.test_export import eager
from tests.cli.test_weight_tables import of_head
from tests.conftest import TinyModel
from tests.engine.checkpoints.test_adapters import low_rank, product, write_adapter
from tests.engine.mathematics.dense_spectra import gaussian
from tests.exporting import exported, refusal, rows_in, run
from tests.opening import edited_weights

SENTENCE = "The cat sat on the mat."

LLAMA = "layers.{}.self_attn.{}_proj.weight"

HEADS, WIDTH = 4, 8

OF_CIRCUITS = {f"{name}_change" for name in CIRCUIT_MEASURES}


def by_place(rows: list[dict[str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """Give the rows of layers and heads, whose order stays."""
    return {(row["layer"], row["head"]): row for row in rows}


def changes(first: Path, other: Path | str) -> list[dict[str, str]]:
    """Compare two models: their heads, then their layers as a whole."""
    return [row for of in ((), ("--head", "all")) for row in exported(first, "changes", "--vs", other, *of)]


@pytest.mark.parametrize("model_type", ["gpt2", "t5"])
def test_a_model_has_not_changed_from_itself(tiny_model: TinyModel, model_type: str) -> None:
    model = tiny_model(model_type)
    table = changes(model, model)
    assert tuple(table[0]) == CHANGES.columns
    for row in table:
        for name in CHANGES.columns[3:]:
            if not name.endswith("_chance") and row[name] != "":
                assert float(row[name]) == (1.0 if name.endswith("overlap") else 0.0), (name, row)


def test_changes_are_those_of_dense_matrices_the_largest_first(tiny_model: TinyModel, tiny_copy: TinyModel) -> None:
    first, other = tiny_model("llama"), tiny_copy("llama")
    with edited_weights(other) as tensors:
        for place, name in enumerate(tensors):
            if "self_attn" in name:
                tensors[name] += 0.05 * gaussian(*tensors[name].shape, seed=place).float()
        tensors[LLAMA.format(1, "o")][:, 2 * WIDTH : 3 * WIDTH] = gaussian(32, WIDTH, seed=77).float()
    table = changes(first, other)
    assert next(iter(by_place(table))) == ("1", "2")
    for rows in (table[:8], table[8:]):
        values = [float(row["change"]) for row in rows]
        assert values == sorted(values, reverse=True)
    places = sorted((row["layer"], row["head"]) for row in table)
    assert places == [(layer, head) for layer in "01" for head in ("0", "1", "2", "3", "all")]
    models = [transformers.AutoModel.from_pretrained(folder) for folder in (first, other)]
    for row in table:
        before, now = (of_head(model, int(row["layer"]), row["head"]) for model in models)
        for matrix, old in before.items():
            new, name = now[matrix], matrix.lower()
            assert float(row[f"{name}_distance"]) == pytest.approx(float((new - old).norm() / old.norm()), rel=1e-9)
            chance = math.sqrt(1 + float(new.norm() / old.norm()) ** 2)
            assert float(row[f"{name}_distance_chance"]) == pytest.approx(chance, rel=1e-9)
            rank = WIDTH * (HEADS if row["head"] == "all" else 1)
            sigma = [torch.linalg.svdvals(each).numpy()[:rank] for each in (old, new)]
            for measure in MEASURES[2:8]:
                one, two = (float(measure.compute(each, 0.01, 0.0)) for each in sigma)
                assert float(row[f"{name}_{measure.name}_change"]) == pytest.approx(two - one, rel=1e-6, abs=1e-9)
            if len(matrix) == 1:
                spaces = [torch.linalg.qr(each if matrix == "O" else each.T)[0] for each in (old, new)]
                within = spaces[0].T @ spaces[1]
                cosines = torch.linalg.svdvals(within)
                sines = torch.linalg.svdvals(spaces[1] - spaces[0] @ within)  # tell small angles, which cosines do not
                degrees = torch.rad2deg(torch.atan2(sines, cosines.flip(0)))
                assert float(row[f"{name}_angle_largest"]) == pytest.approx(float(degrees.max()), abs=2e-6)
                assert float(row[f"{name}_angle_mean"]) == pytest.approx(float(degrees.mean()), abs=2e-6)
                assert float(row[f"{name}_overlap"]) == pytest.approx(float((cosines**2).mean()), abs=1e-9)
                assert float(row[f"{name}_overlap_chance"]) == min(1.0, new.shape[matrix == "O"] / 32)
        assert float(row["change"]) == max(float(row["qk_distance"]), float(row["ov_distance"]))
    (alone,) = exported(first, "changes", "--vs", other, "--head", "L1H2")
    assert alone.keys() == table[0].keys()
    assert all(alone[name] == table[0][name] for name in alone.keys() - OF_CIRCUITS)


def test_every_measure_of_circuits_has_its_change(tiny_model: TinyModel, tiny_copy: TinyModel) -> None:
    """A head comes to copy, in the other model, what it writes for each token."""
    pair = tiny_model("llama"), tiny_copy("llama")
    with edited_weights(pair[1]) as tensors:
        tensors[LLAMA.format(1, "o")][:, :WIDTH] = tensors[LLAMA.format(1, "v")][:WIDTH].T
    rows = by_place(exported(pair[0], "changes", "--vs", pair[1]))
    circuits = [by_place(exported(each, "circuits")) for each in pair]
    for place, row in rows.items():
        for name in CIRCUIT_MEASURES:
            cells = [each[place][name] for each in circuits]
            if "" in cells:
                assert row[f"{name}_change"] == "", name
            else:
                expected = float(cells[1]) - float(cells[0])
                assert float(row[f"{name}_change"]) == pytest.approx(expected, abs=1e-9), name
    copying = float(rows["1", "0"]["ov_copying_residual_change"])
    assert copying == pytest.approx(1.0 - float(circuits[0]["1", "0"]["ov_copying_residual"]))


def test_biases_that_alone_have_changed_are_seen(tiny_copy: TinyModel, tmp_path: Path) -> None:
    """Of a head whose b_K points the other way, one whose b_V is turned by 90°, and a layer whose b_O is doubled."""
    first = tiny_copy("gpt2")
    with edited_weights(first) as tensors:
        tensors["h.0.attn.c_attn.bias"] = torch.tensor([3.0, 4.0]).repeat(48)
        tensors["h.0.attn.c_proj.bias"] = torch.ones(32)
    other = Path(shutil.copytree(first, tmp_path / "other"))
    with edited_weights(other) as tensors:
        _, keys, values = tensors["h.0.attn.c_attn.bias"].view(3, HEADS, WIDTH)
        keys[1] *= -1
        values[2] = torch.tensor([-4.0, 3.0]).repeat(WIDTH // 2)
        tensors["h.0.attn.c_proj.bias"] *= 2
    rows = by_place(changes(first, other))
    expected = {(head, matrix): 0.0 for head in ("0", "1", "2", "3", "all") for matrix in "qkv"} | {
        ("1", "k"): 2.0, ("2", "v"): math.sqrt(2),
        ("all", "k"): 1.0, ("all", "v"): math.sqrt(2 / HEADS), ("all", "o"): 1.0,
    }  # fmt: skip
    for (head, matrix), distance in expected.items():
        assert float(rows["0", head][f"b_{matrix}_distance"]) == pytest.approx(distance, rel=1e-12)
        chance = math.sqrt(5.0 if matrix == "o" else 2.0)
        assert float(rows["0", head][f"b_{matrix}_distance_chance"]) == pytest.approx(chance, rel=1e-12)
    assert {rows["0", head]["b_o_distance"] for head in "0123"} == {""}
    assert {row["change"] for row in rows.values()} == {"0.0"}


def test_an_adapter_is_compared_with_its_base_both_ways(tiny_model: TinyModel, tmp_path: Path) -> None:
    base, module = tiny_model("llama"), "model.layers.1.self_attn.q_proj"
    factors = low_rank(module, 32, 32)
    adapter = write_adapter(tmp_path / "adapter", str(base), factors)
    delta = 2 * product(factors, module)
    query = load_file(base / "model.safetensors")[LLAMA.format(1, "q")].double()
    for way, before in (((base, adapter), query), ((adapter, "base"), query + delta)):
        rows = by_place(changes(*way))
        assert sum(float(row["change"]) > 0 for row in rows.values()) == HEADS + 1
        for head in range(HEADS):
            some = slice(WIDTH * head, WIDTH * (head + 1))
            expected = float(delta[some].norm() / before[some].norm())
            assert float(rows["1", str(head)]["q_distance"]) == pytest.approx(expected, rel=1e-9)
        assert float(rows["1", "all"]["q_distance"]) == pytest.approx(float(delta.norm() / before.norm()), rel=1e-9)
    assert "choose another stack to compare" in refusal(
        adapter, "attention", "--vs", base, "--text", "hi", "--stack", "decoder-delta", "--layer", "1"
    )


def test_differences_of_maps_are_transformers_own(tiny_model: TinyModel, tiny_copy: TinyModel, tmp_path: Path) -> None:
    first, other = tiny_model("llama"), tiny_copy("llama")
    with edited_weights(other) as tensors:
        tensors[LLAMA.format(1, "q")] *= -1
    before, now = (np.stack(eager(each, SENTENCE)[1]) for each in (first, other))
    table = exported(first, "attention", "--vs", other, "--text", SENTENCE)
    assert tuple(table[0])[7:] == ("weight", "weight_chance", "weight_other", "difference")
    for row in table:
        place = tuple(int(row[name]) for name in ("layer", "head", "query", "key"))
        assert float(row["weight"]) == pytest.approx(before[place], abs=1e-6)
        assert float(row["weight_other"]) == pytest.approx(now[place], abs=1e-6)
        assert float(row["difference"]) == float(row["weight_other"]) - float(row["weight"])
    assert max(abs(float(row["difference"])) for row in table) > 0.5
    run(first, "attention", "--vs", other, "--text", SENTENCE, "--head", "mean", "-o", tmp_path / "maps.npz")
    arrays = np.load(tmp_path / "maps.npz")
    np.testing.assert_allclose(arrays["L1.other"][0], now[1].mean(0), atol=1e-6)
    np.testing.assert_allclose(arrays["L1"][0], before[1].mean(0), atol=1e-6)


def test_what_differs_is_named_and_what_both_have_is_compared(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    wide = refusal(model, "changes", "--vs", tiny_model("llama", num_key_value_heads=4))
    assert "decoder L0 has 2 against 4 key/value heads" in wide
    assert refusal(model, "changes", "--vs", tiny_model("bert")).endswith("has no decoder, it has encoder\n")
    deep = tiny_model("llama", num_hidden_layers=3)
    done = run(deep, "changes", "--vs", model)
    assert {row["layer"] for row in rows_in(done.stdout)} == {"0", "1"}
    assert "decoder L2 is not compared" in done.stderr
    assert f"{model} has no decoder L2" in refusal(deep, "changes", "--vs", model, "--layer", "2")
    assert "has one layer that" in run(model, "changes", "--vs", deep).stderr
    attention = ("attention", "--text", SENTENCE, "--layer", "mean")
    assert "have 3 and 2 layers in their decoder" in refusal(deep, *attention, "--vs", model)
    assert "changes needs --vs" in refusal(model, "changes", code=2)
    assert "--vs does not apply to ranks" in refusal(model, "ranks", "--vs", model, code=2)


def test_models_that_do_not_fit_together_are_not_loaded(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2")
    asked = ("attention", "--text", SENTENCE, "--vs", model, "--dtype", "bfloat16", "--layer", "0")
    options = EngineOptions(dtype="bfloat16")
    need = OpenModel(find_source(str(model), options, lambda progress: None), options).memory().need
    assert need is not None
    total = need.total
    monkeypatch.setattr("engine.values.memory.free_memory", lambda: total * 3 // 2)
    said = refusal(model, *asked)
    assert f"{model} beside {model} needs {size(2 * total)} to read a sentence" in said
    monkeypatch.setattr("engine.values.memory.free_memory", lambda: total * 2)
    assert run(model, *asked).exit_code == 0
