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
from tests.conftest import TinyModel
from tests.engine.mathematics.dense_spectra import dense_matrices
from tests.exporting import attn_tui, exported, exported_maps
from tests.opening import edited_weights

TEXT = "The cat sat on the mat, and Mary gave it a drink."
Dense = dict[tuple[str, str], NDArray[np.float64]]


KEY_HEADS = {"gpt2": 4, "llama": 2}
"""How many heads the keys and values of tiny models have; queries have four, of a width of eight."""


def matrices_of(model: Any, layer: int) -> Dense:
    """Cut a Llama-like or GPT-2 layer by hand and multiply out, by head (or ``all``) and matrix, in float64."""
    width = model.config.hidden_size // model.config.num_attention_heads
    if model.config.model_type == "gpt2":
        attention = model.h[layer].attn
        inner, output = attention.c_attn.weight.T.chunk(3), attention.c_proj.weight.T
    else:
        attention = model.layers[layer].self_attn
        inner, output = [getattr(attention, f"{name}_proj").weight for name in "qkv"], attention.o_proj.weight
    query, key, value = (each.detach().unflatten(0, (-1, width)) for each in inner)
    factors = query, key, value, output.detach().unflatten(1, (-1, width)).permute(1, 0, 2)
    return {
        ("all" if head is None else str(head), name): matrix.numpy()
        for head in (*range(len(query)), None)
        for name, matrix in dense_matrices(factors, head).items()
    }


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


@pytest.mark.parametrize("model_type", KEY_HEADS)
def test_every_measure_is_that_of_the_dense_matrices_in_float64(tiny_model: TinyModel, model_type: str) -> None:
    folder = tiny_model(model_type)
    model = transformers.AutoModel.from_pretrained(folder)
    heads = exported(folder, "ranks", "--energy", "0.05", "--no-cache")
    table = heads + exported(folder, "ranks", "--energy", "0.05", "--head", "all", "--no-cache")
    assert tuple(table[0]) == RANKS_BESIDE_CHANCE_COLUMNS
    assert (len(heads), len(table)) == (2 * 4 * 6, 2 * (4 + 1) * 6)
    for row in table:
        dense = matrices_of(model, int(row["layer"]))
        matrix, is_layer = dense[row["head"], row["matrix"]], row["head"] == "all"
        group = 4 // KEY_HEADS[model_type] if is_layer else 1
        noise = noise_in({each: dense[row["head"], each] for each in "QKVO"}, row["matrix"], group)
        assert row["stack"] == "decoder"
        assert (int(row["rows"]), int(row["cols"])) == matrix.shape
        structural = 8 * (KEY_HEADS[model_type] if row["matrix"] in ("QK", "OV") else 4) if is_layer else 8
        for column, value in reference(matrix, min(*matrix.shape, structural), 0.05, noise).items():
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
    sigma = np.linalg.svd(matrices_of(model, 1)["2", "QK"], compute_uv=False)[:8]
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
    count = len(ids)
    table = exported(folder, "attention", "--text", TEXT)
    assert tuple(table[0]) == ATTENTION_COLUMNS
    got = np.array([float(row["weight"]) for row in table]).reshape(len(maps), 4, count, count)
    np.testing.assert_allclose(got, np.stack(maps), atol=1e-5)
    seen = np.ones((count, count)) if model_type == "bert" else np.tril(np.ones((count, count)))
    chance = np.array([float(row["weight_chance"]) for row in table]).reshape(-1, count, count)
    np.testing.assert_allclose(chance, np.broadcast_to(seen / seen.sum(1, keepdims=True), chance.shape))
    places = [tuple(int(row[name]) for name in ("layer", "head", "query", "key")) for row in table]
    assert places == list(np.ndindex(len(maps), 4, count, count))
    tokens = [row["key_token"] for row in table[:count]]
    begun_by_a_space = [token for token in tokens if token.startswith(" ")]
    assert begun_by_a_space[:2] == ([] if model_type == "bert" else [" cat", " sat"])
    assert all(row[f"{end}_token"] == tokens[int(row[end])] for row in table for end in ("query", "key"))


@pytest.mark.parametrize(("layer", "head"), [("1", "mean"), ("mean", "2"), ("mean", "mean")])
def test_means_are_means(tiny_model: TinyModel, layer: str, head: str) -> None:
    folder = tiny_model("gpt2")
    maps = np.stack(eager(folder, TEXT)[1])
    table = exported(folder, "attention", "--text", TEXT, "--layer", layer, "--head", head)
    by_head = maps.mean(0) if layer == "mean" else maps[int(layer)]
    expected = by_head.mean(0) if head == "mean" else by_head[int(head)]
    assert {(row["layer"], row["head"]) for row in table} == {(layer, head)}
    np.testing.assert_allclose([float(row["weight"]) for row in table], expected.ravel(), atol=1e-5)
    assert ({row["weight_chance"] for row in table} == {""}) == (layer == "mean"), "layers may see unlike keys"


def test_attention_as_arrays_is_one_per_layer_stacked_over_its_heads(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = tiny_model("gpt2")
    arrays = exported_maps(folder, TEXT, tmp_path / "maps.npz")
    assert sorted(arrays) == ["L0", "L1"]
    for layer, expected in enumerate(eager(folder, TEXT)[1]):
        np.testing.assert_allclose(arrays[f"L{layer}"], expected, atol=1e-5)


def test_matrices_are_the_heads_arrays_in_the_documented_layout(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder, file = tiny_model("gpt2"), tmp_path / "heads.npz"
    model = transformers.AutoModel.from_pretrained(folder)
    assert attn_tui("export", folder, "matrices", "-o", file).returncode == 0
    dense = matrices_of(model, 1)
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


def test_a_tied_tensor_is_named_as_gpt2_is_stored_on_the_hub(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    with edited_weights(folder) as tensors:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
    tied = {row["name"]: row["tied_to"] for row in exported(folder, "weights") if row["tied_to"]}
    assert tied == {"lm_head.weight": "wte.weight"}


def test_narrowing_gives_the_same_rows_as_the_whole(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    whole = exported(folder, "ranks")
    part = exported(folder, "ranks", "--layer", "1", "--head", "2", "--matrix", "OV")
    assert part == [row for row in whole if (row["layer"], row["head"], row["matrix"]) == ("1", "2", "OV")]
    assert exported(folder, "ranks", "--head", "1.2", "--matrix", "OV") == part
