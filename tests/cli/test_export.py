"""``attn-tui export`` against the model's own numbers: dense float64 matrices, and transformers' eager attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from engine.values.table import ATTENTION_COLUMNS, RANKS_BESIDE_CHANCE_COLUMNS, SPECTRUM_COLUMNS
from engine.values.views import WEIGHTS
from tests.conftest import TinyModel
from tests.exporting import attn_tui, exported
from tests.opening import edited_weights

TEXT = "The cat sat on the mat, and Mary gave it a drink."
Dense = dict[tuple[str, str], NDArray[np.float64]]


def dense_matrices(model: Any, layer: int) -> Dense:
    """Cut a Llama-like or GPT-2 layer by hand and multiply out, by head (or ``all``) and matrix, in float64."""
    config = model.config
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    if config.model_type == "gpt2":
        attention = model.h[layer].attn
        q, k, v = attention.c_attn.weight.detach().double().T.split(config.hidden_size)
        o = attention.c_proj.weight.detach().double().T
    else:
        attention = model.layers[layer].self_attn
        q, k, v, o = (
            getattr(attention, name).weight.detach().double() for name in ("q_proj", "k_proj", "v_proj", "o_proj")
        )
    group = heads // (k.shape[0] // width)
    dense: Dense = {}
    totals = {"QK": 0.0, "OV": 0.0}
    for head in range(heads):
        shared = head // group
        w_q, w_o = q[head * width : (head + 1) * width], o[:, head * width : (head + 1) * width]
        w_k, w_v = (each[shared * width : (shared + 1) * width] for each in (k, v))
        parts = {"Q": w_q, "K": w_k, "V": w_v, "O": w_o, "QK": w_q.T @ w_k, "OV": w_v.T @ w_o.T}
        for matrix, part in parts.items():
            dense[str(head), matrix] = part.numpy()
        totals = {matrix: total + parts[matrix] for matrix, total in totals.items()}
    for matrix, part in {"Q": q, "K": k, "V": v, "O": o, **totals}.items():
        dense["all", matrix] = part.numpy()
    return dense


def noise_of(matrix: NDArray[np.float64]) -> float:
    """Give what of a stored matrix may be rounding, by the definition in the README."""
    (m, n), sigma = matrix.shape, np.linalg.svd(matrix, compute_uv=False)
    stored = float(np.finfo(np.float32).eps) * np.linalg.norm(matrix) * (math.sqrt(m) + math.sqrt(n)) / math.sqrt(m * n)
    return float(max(sigma[0] * max(m, n) * np.finfo(np.float64).eps, stored))


def noise_in(own: Mapping[str, NDArray[np.float64]], matrix: str, group: int) -> float:
    """Give the same of any matrix of a head or a layer, each key/value head beside all that share it."""
    if len(matrix) == 1:
        return noise_of(own[matrix])
    first, second = (own[factor] for factor in matrix)
    noise = noise_of(first) * np.linalg.norm(second, 2) + np.linalg.norm(first, 2) * noise_of(second)
    return float(noise * math.sqrt(group))


def reference(matrix: NDArray[np.float64], rank: int, epsilon: float, noise: float) -> dict[str, float]:
    """Measure a dense matrix by the definitions; ``rank`` is the structural rank."""
    sigma = np.linalg.svd(matrix, compute_uv=False)
    energy, share = sigma**2, sigma / sigma.sum()
    share = share[share > 0]
    return {
        "energy_rank": int(np.count_nonzero(np.cumsum(energy) < (1 - epsilon) * energy.sum())) + 1,
        "numerical_rank": int((sigma > noise).sum()),
        "effective_rank": math.exp(-(share * np.log(share)).sum()),
        "stable_rank": energy.sum() / energy[0],
        "participation_ratio": energy.sum() ** 2 / (energy**2).sum(),
        "spectral_norm": sigma[0],
        "frobenius_norm": math.sqrt(energy.sum()),
        "nuclear_norm": sigma.sum(),
        "condition_number": sigma[0] / sigma[rank - 1],
    }


@pytest.mark.parametrize(("model_type", "settings"), [("gpt2", {}), ("llama", {"num_key_value_heads": 2})])
def test_every_measure_is_that_of_the_dense_matrices_in_float64(
    tiny_model: TinyModel, model_type: str, settings: dict[str, Any]
) -> None:
    folder = tiny_model(model_type, **settings)
    model = transformers.AutoModel.from_pretrained(folder)
    heads = exported(folder, "ranks", "--energy", "0.05", "--no-cache")
    table = heads + exported(folder, "ranks", "--energy", "0.05", "--head", "all", "--no-cache")
    assert tuple(table[0]) == RANKS_BESIDE_CHANCE_COLUMNS
    assert (len(heads), len(table)) == (2 * 4 * 6, 2 * (4 + 1) * 6)
    width = model.config.hidden_size // model.config.num_attention_heads
    for row in table:
        dense = dense_matrices(model, int(row["layer"]))
        matrix = dense[row["head"], row["matrix"]]
        group = 4 // settings.get("num_key_value_heads", 4) if row["head"] == "all" else 1
        noise = noise_in({each: dense[row["head"], each] for each in "QKVO"}, row["matrix"], group)
        assert row["stack"] == "decoder"
        assert (int(row["rows"]), int(row["cols"])) == matrix.shape
        structural = width if row["head"] != "all" else min(matrix.shape)
        if row["head"] == "all" and row["matrix"] in ("QK", "OV"):
            structural = min(*matrix.shape, width * settings.get("num_key_value_heads", 4))
        expected = reference(matrix, structural, 0.05, noise)
        for column, value in expected.items():
            if column in ("energy_rank", "numerical_rank"):
                assert row[column] == str(value), row
            elif column == "condition_number" and value > 1e12:
                assert float(row[column]) > 1e9
            else:
                assert float(row[column]) == pytest.approx(value, rel=1e-5), (row, column)


def test_a_spectrum_lists_singular_values_that_read_back_exactly_with_their_energy(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    model = transformers.AutoModel.from_pretrained(folder)
    table = exported(folder, "spectrum", "--head", "L1H2", "--matrix", "QK")
    assert tuple(table[0]) == SPECTRUM_COLUMNS
    sigma = np.linalg.svd(dense_matrices(model, 1)["2", "QK"], compute_uv=False)[:8]
    assert [int(row["index"]) for row in table] == list(range(1, 9))
    np.testing.assert_allclose([float(row["singular_value"]) for row in table], sigma, rtol=1e-6)
    shares = sigma**2 / (sigma**2).sum()
    np.testing.assert_allclose([float(row["energy"]) for row in table], shares, rtol=1e-6)
    np.testing.assert_allclose([float(row["cumulative_energy"]) for row in table], np.cumsum(shares), rtol=1e-6)


def eager(folder: Path, text: str) -> tuple[list[int], list[NDArray[np.float32]]]:
    """Run transformers' own eager attention: token ids, and each layer's (heads, queries, keys)."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    return inputs["input_ids"][0].tolist(), [layer[0].numpy() for layer in attentions]


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert"])
def test_attention_is_what_eager_attention_gives(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type)
    ids, maps = eager(folder, TEXT)
    table = exported(folder, "attention", "--text", TEXT)
    assert tuple(table[0]) == ATTENTION_COLUMNS
    assert len(table) == len(maps) * 4 * len(ids) ** 2
    got = np.array([float(row["weight"]) for row in table]).reshape(len(maps), 4, len(ids), len(ids))
    np.testing.assert_allclose(got, np.stack(maps), atol=1e-5)
    count = len(ids)
    seen = np.ones((count, count)) if model_type == "bert" else np.tril(np.ones((count, count)))
    chance = np.array([float(row["weight_chance"]) for row in table]).reshape(-1, count, count)
    np.testing.assert_allclose(chance, np.broadcast_to(seen / seen.sum(1, keepdims=True), chance.shape))
    assert [(row["layer"], row["head"], row["query"], row["key"]) for row in table[:: len(table) - 1]] == [
        ("0", "0", "0", "0"),
        (str(len(maps) - 1), "3", str(len(ids) - 1), str(len(ids) - 1)),
    ]
    tokens = [table[key]["key_token"] for key in range(count)]
    assert [token.strip() for token in tokens if token.startswith(" ")][:2] == (
        [] if model_type == "bert" else ["cat", "sat"]
    )
    assert all(row["query_token"] == tokens[int(row["query"])] for row in table)
    assert all(row["key_token"] == tokens[int(row["key"])] for row in table)


@pytest.mark.parametrize(
    ("options", "axes"),
    [
        (("--layer", "1", "--head", "mean"), (1, "mean")),
        (("--layer", "mean", "--head", "2"), ("mean", 2)),
        (("--layer", "mean", "--head", "mean"), ("mean", "mean")),
    ],
)
def test_means_are_means(tiny_model: TinyModel, options: tuple[str, ...], axes: tuple[int | str, int | str]) -> None:
    folder = tiny_model("gpt2")
    _, maps = eager(folder, TEXT)
    table = exported(folder, "attention", "--text", TEXT, *options)
    stacked = np.stack(maps)
    by_head = stacked.mean(0) if axes[0] == "mean" else stacked[int(axes[0])]
    expected = by_head.mean(0) if axes[1] == "mean" else by_head[int(axes[1])]
    assert {(row["layer"], row["head"]) for row in table} == {(str(axes[0]), str(axes[1]))}
    np.testing.assert_allclose([float(row["weight"]) for row in table], expected.ravel(), atol=1e-5)
    assert ({row["weight_chance"] for row in table} == {""}) == (axes[0] == "mean"), "layers may see unlike keys"


def test_attention_as_arrays_is_one_per_layer_stacked_over_its_heads(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder, file = tiny_model("gpt2"), tmp_path / "maps.npz"
    _, maps = eager(folder, TEXT)
    assert attn_tui("export", folder, "attention", "--text", TEXT, "-o", file).returncode == 0
    with np.load(file) as arrays:
        assert sorted(arrays.files) == ["L0", "L1"]
        for layer, expected in enumerate(maps):
            np.testing.assert_allclose(arrays[f"L{layer}"], expected, atol=1e-5)


def test_matrices_are_the_heads_arrays_in_the_documented_layout(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder, file = tiny_model("gpt2"), tmp_path / "heads.npz"
    model = transformers.AutoModel.from_pretrained(folder)
    assert attn_tui("export", folder, "matrices", "-o", file).returncode == 0
    dense = dense_matrices(model, 1)
    with np.load(file) as arrays:
        assert len(arrays.files) == 2 * 4 * 8
        for matrix in "QKVO":
            np.testing.assert_array_equal(arrays[f"L1H3.W_{matrix}"], dense["3", matrix].astype(np.float32))
        bias = model.h[1].attn.c_attn.bias.detach().numpy()
        np.testing.assert_array_equal(arrays["L1H3.b_K"], bias[32 + 24 : 32 + 32])
        np.testing.assert_array_equal(arrays["L1H3.b_O"], model.h[1].attn.c_proj.bias.detach().numpy())


def test_stacks_are_named_where_a_model_has_several(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder, file = tiny_model("t5"), tmp_path / "heads.npz"
    assert attn_tui("export", folder, "matrices", "--head", "cross.L1H2", "-o", file).returncode == 0
    with np.load(file) as arrays:
        assert sorted(arrays.files) == [f"cross.L1H2.W_{matrix}" for matrix in "KOQV"]
    for view in ("ranks", "spectrum"):
        for stack, layers in (("encoder", "01"), ("cross", "012")):
            table = exported(folder, view, "--stack", stack, "--head", "all", "--matrix", "Q")
            named = dict.fromkeys((row["stack"], row["layer"], row["head"]) for row in table)
            assert list(named) == [(stack, layer, "all") for layer in layers]


def test_weights_lists_every_tensor_and_what_is_tied(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2", with_head=True)
    table = exported(folder, "weights")
    assert tuple(table[0]) == WEIGHTS.columns
    assert WEIGHTS.columns[:5] == ("name", "shape", "dtype", "parameters", "tied_to")
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    stored = {row["name"]: row for row in table if not row["tied_to"]}
    assert {name: tuple(map(int, row["shape"].split("x"))) for name, row in stored.items()} == expected
    assert all(int(row["parameters"]) == math.prod(expected[name]) for name, row in stored.items())
    tied = {row["name"]: row["tied_to"] for row in table if row["tied_to"]}
    assert tied == {"lm_head.weight": "transformer.wte.weight"}


def test_a_tied_tensor_is_found_without_the_prefix_of_the_base_model(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    with edited_weights(folder) as tensors:
        for name in list(tensors):  # as gpt2 is stored on the Hub
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
    tied = {row["name"]: row["tied_to"] for row in exported(folder, "weights") if row["tied_to"]}
    assert tied == {"lm_head.weight": "wte.weight"}


def test_narrowing_gives_the_same_rows_as_the_whole(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    whole = exported(folder, "ranks")
    part = exported(folder, "ranks", "--layer", "1", "--head", "2", "--matrix", "OV")
    assert part == [row for row in whole if (row["layer"], row["head"], row["matrix"]) == ("1", "2", "OV")]
    assert exported(folder, "ranks", "--head", "1.2", "--matrix", "OV") == part
