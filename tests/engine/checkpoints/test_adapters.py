"""An adapter opens as its base model with the changes added, and as the changes alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import engine
from engine.library import Model
from engine.values.errors import EngineError
from tests.conftest import TinyModel
from tests.exporting import exported, refusal
from tests.opening import VERIFIED, verdicts_of
from tests.own_maps import returned_maps

RANK = 3
PREFIX = "base_model.model."
SENTENCE = "The cat sat on the mat."


def write_adapter(folder: Path, base: str | Path, tensors: dict[str, Tensor], **settings: Any) -> Path:
    """Write an adapter as PEFT does."""
    folder.mkdir()
    known = {"peft_type": "LORA", "base_model_name_or_path": str(base), "r": RANK, "lora_alpha": 2 * RANK}
    (folder / "adapter_config.json").write_text(json.dumps(known | settings))
    save_file({f"{PREFIX}{name}": tensor.contiguous() for name, tensor in tensors.items()},
              folder / "adapter_model.safetensors")  # fmt: skip
    return folder


def low_rank(module: str, out: int, into: int, rank: int = RANK) -> dict[str, Tensor]:
    """Draw the two factors of a module's change."""
    generator = torch.Generator().manual_seed(len(module))
    return {
        f"{module}.lora_A.weight": torch.randn(rank, into, generator=generator),
        f"{module}.lora_B.weight": torch.randn(out, rank, generator=generator),
    }


def adapter_of(base: Path, place: Path, **settings: Any) -> Path:
    """Write an adapter of one module of a tiny Llama, with settings of its own."""
    return write_adapter(place, base, low_rank("model.layers.1.self_attn.q_proj", 32, 32), **settings)


def product(tensors: dict[str, Tensor], module: str) -> Tensor:
    return tensors[f"{module}.lora_B.weight"].double() @ tensors[f"{module}.lora_A.weight"].double()


LAYER = "model.layers.1.self_attn"

QUERY = low_rank(f"{LAYER}.q_proj", 32, 32)


def opened(base: Path, place: Path, tensors: dict[str, Tensor], **settings: Any) -> Model:
    return engine.open_model(write_adapter(place / "adapter", base, tensors, **settings))


@pytest.fixture
def llama(tiny_model: TinyModel) -> Path:
    return tiny_model("llama")


@pytest.fixture
def factors() -> dict[str, Tensor]:
    """Change the queries and outputs of layer 1 so little that scores have the usual size."""
    return {name: each / 5 for name, each in {**QUERY, **low_rank(f"{LAYER}.o_proj", 32, 32)}.items()}


@pytest.fixture
def adapter(llama: Path, factors: dict[str, Tensor], tmp_path: Path) -> Path:
    return write_adapter(tmp_path / "adapter", llama, factors)


def stored_in(folder: Path, layer: int = 1) -> dict[str, Tensor]:
    """Read a layer's attention in a tiny Llama, by the letters of its projections."""
    weights = load_file(folder / "model.safetensors")
    return {name: weights[f"layers.{layer}.self_attn.{name}_proj.weight"].double() for name in "qkvo"}


def test_heads_are_those_of_the_base_plus_the_change(llama: Path, adapter: Path, factors: dict[str, Tensor]) -> None:
    model = engine.open_model(adapter)
    stored = stored_in(llama)
    weight = stored["q"] + 2 * product(factors, f"{LAYER}.q_proj")
    np.testing.assert_allclose(model["decoder.L1H2"].W_Q, weight[16:24], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(model["decoder.L1H2"].W_K, stored["k"][8:16])
    np.testing.assert_array_equal(model["decoder.L0H0"].W_Q, stored_in(llama, 0)["q"][:8])


def test_the_change_has_spectra_of_its_own(llama: Path, adapter: Path, factors: dict[str, Tensor]) -> None:
    model = engine.open_model(adapter)
    assert model.outline.stacks == ("decoder", "decoder-delta")
    assert [layer.layer for layer in model.outline.stack_layers("decoder-delta")] == [1]
    before, change = stored_in(llama), {name: 2 * product(factors, f"{LAYER}.{name}_proj") for name in "qo"}
    change_of_qk = torch.zeros(32, 32, dtype=torch.float64)
    for head in range(4):
        own, shared = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
        expected = {
            "Q": change["q"][own],
            "K": torch.zeros(8, 32, dtype=torch.float64),
            "O": change["o"][:, own],
            "QK": change["q"][own].T @ before["k"][shared],
            "OV": before["v"][shared].T @ change["o"][:, own].T,
        }
        change_of_qk += expected["QK"]
        for matrix, dense in expected.items():
            sigma, ours = torch.linalg.svdvals(dense).numpy(), model.spectrum(f"decoder-delta.L1H{head}", matrix)
            np.testing.assert_allclose(ours[: len(sigma)], sigma[: len(ours)], atol=1e-10 * max(1.0, sigma[0]))
    whole = {matrix: model.spectrum("decoder-delta.L1", matrix) for matrix in ("Q", "K", "O", "QK")}
    assert [int((whole[matrix] > 1e-9).sum()) for matrix in "QKO"] == [RANK, 0, RANK]
    sigma = torch.linalg.svdvals(change_of_qk).numpy()
    np.testing.assert_allclose(whole["QK"][:20], sigma[:20], atol=1e-9 * sigma[0])


def test_maps_are_those_of_the_merged_model_and_its_heads_are_proven(
    llama: Path, adapter: Path, factors: dict[str, Tensor]
) -> None:
    merged: Any = transformers.AutoModel.from_pretrained(llama, attn_implementation="eager")
    with torch.no_grad():
        for name in ("q_proj", "o_proj"):
            getattr(merged.layers[1].self_attn, name).weight += 2 * product(factors, f"{LAYER}.{name}")
    ids = transformers.AutoTokenizer.from_pretrained(llama)(SENTENCE)["input_ids"]
    model = engine.open_model(adapter)
    expected = returned_maps(merged, ids)[""][1]
    np.testing.assert_allclose(model.attention(SENTENCE, "decoder.L1"), expected, atol=1e-5)
    assert verdicts_of(model) == VERIFIED
    assert set(model.check()["stack"]) == {"decoder"}
    with pytest.raises(EngineError, match="choose the stack decoder"):
        model.attention(SENTENCE, "decoder-delta.L1")


def test_scales_follow_rslora_and_the_patterns(llama: Path, tmp_path: Path) -> None:
    modules = [f"model.layers.{layer}.self_attn.q_proj" for layer in (0, 1)]
    factors = {**low_rank(modules[0], 32, 32), **low_rank(modules[1], 32, 32, rank=2)}
    model = opened(
        llama, tmp_path, factors, use_rslora=True,
        rank_pattern={"layers.1.self_attn.q_proj": 2}, alpha_pattern={"layers.1.self_attn.q_proj": 5},
    )  # fmt: skip
    for layer, scale in ((0, 6 / math.sqrt(3)), (1, 5 / math.sqrt(2))):
        delta = scale * product(factors, modules[layer])
        np.testing.assert_allclose(model[f"decoder-delta.L{layer}H3"].W_Q, delta[24:], rtol=1e-4, atol=1e-5)


def test_magnitudes_scale_rows(llama: Path, tmp_path: Path) -> None:
    module, size = f"{LAYER}.v_proj", torch.rand(16) + 0.5
    factors = low_rank(module, 16, 32)
    model = opened(llama, tmp_path, {**factors, f"{module}.lora_magnitude_vector": size}, use_dora=True)
    weight = stored_in(llama)["v"] + 2 * product(factors, module)
    expected = torch.stack([row / row.norm() * length for row, length in zip(weight, size, strict=True)])
    np.testing.assert_allclose(model["decoder.L1H3"].W_V, expected[8:], rtol=1e-5, atol=1e-6)


def test_changes_of_transposed_and_fused_weights_are_cut_like_the_weights(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    module = "transformer.h.1.attn.c_attn"
    factors = low_rank(module, 96, 32)
    model = opened(tiny_model("gpt2"), tmp_path, factors, fan_in_fan_out=True)
    delta, arrays = 2 * product(factors, module), model["decoder-delta.L1H2"].arrays()
    for order, matrix in enumerate("QKV"):
        rows = delta[32 * order + 16 : 32 * order + 24]
        np.testing.assert_allclose(arrays[f"W_{matrix}"], rows, rtol=1e-4, atol=1e-5)
    assert model.attention(SENTENCE, "decoder.L1").shape[0] == 4
    assert verdicts_of(model)["output"] == {"verified"}


def test_trained_biases_replace_those_of_the_base_model(tiny_model: TinyModel, tmp_path: Path) -> None:
    module, bias = "model.decoder.layers.0.self_attn.q_proj", torch.randn(32)
    tensors = {**low_rank(module, 32, 32), f"{module}.base_layer.bias": bias}
    model = opened(tiny_model("opt"), tmp_path, tensors, bias="lora_only")
    np.testing.assert_array_equal(model["decoder.L0H1"].b_Q, bias[8:16])
    assert verdicts_of(model) == VERIFIED


def test_the_command_line_opens_an_adapter(llama: Path, adapter: Path, tmp_path: Path) -> None:
    (row,) = exported(adapter, "ranks", "--stack", "decoder-delta", "--head", "all", "--matrix", "Q")
    assert (row["stack"], row["head"], row["numerical_rank"]) == ("decoder-delta", "all", str(RANK))
    assert {row[name] for name in row if name.endswith("_chance")} == {""}, "changes have no chance"
    moved = write_adapter(tmp_path / "moved", "/no/such/model", QUERY)
    said = refusal(moved, "ranks")
    assert "/no/such/model" in said
    assert "--base" in said
    assert exported(moved, "ranks", "--base", llama, "--layer", "1")


@pytest.mark.parametrize(
    ("tensors", "settings", "reason"),
    [
        ({}, {"peft_type": "IA3"}, "kind IA3"),
        ({}, {}, "changes nothing"),
        (low_rank(f"{LAYER}.q_proj", 32, 40), {}, "--base"),
        ({f"{LAYER}.q_proj.lora_C.weight": torch.ones(3, 3)}, {}, "merge the adapter"),
        (QUERY, {"init_lora_weights": "pissa"}, "starts from pissa"),
        (QUERY, {"r": 4}, "do not match"),
        (QUERY, {"lora_alpha": None}, "do not match"),
        (QUERY, {"layer_replication": [[0, 2]]}, "layer_replication"),
        ({f"{LAYER}.q_proj.lora_A.weight": torch.ones(3, 32)}, {}, "no lora_B"),
        (low_rank("transformer.h.0.attn.c_attn", 96, 32), {}, "changes nothing that"),
    ],
)
def test_an_adapter_that_cannot_be_added_is_refused_with_the_reason(
    tensors: dict[str, Tensor], settings: dict[str, Any], reason: str, llama: Path, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=reason):
        opened(llama, tmp_path, tensors, **settings)["decoder.L1"].arrays()


@pytest.mark.parametrize("distance", [1, 5])
def test_the_change_of_qk_at_a_distance_is_that_of_rotated_keys(llama: Path, tmp_path: Path, distance: int) -> None:
    factors = {**QUERY, **low_rank(f"{LAYER}.k_proj", 16, 32)}
    model, before = opened(llama, tmp_path, factors), stored_in(llama)
    after = {name: before[name] + 2 * product(factors, f"{LAYER}.{name}_proj") for name in "qk"}
    angles = distance * 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    rotation = torch.zeros(8, 8, dtype=torch.float64)  # R_{−Δ}: the first half of the dimensions against the second
    rotation[:4, :4] = rotation[4:, 4:] = torch.cos(angles).diag()
    rotation[:4, 4:], rotation[4:, :4] = torch.sin(angles).diag(), -torch.sin(angles).diag()

    def circuits(weights: dict[str, Tensor]) -> Tensor:
        query, key = weights["q"].unflatten(0, (4, 8)), weights["k"].unflatten(0, (2, 8)).repeat_interleave(2, 0)
        products: Tensor = query.mT @ rotation @ key
        return products

    change = circuits(after) - circuits(before)
    names = [*(f"decoder-delta.L1H{head}" for head in range(4)), "decoder-delta.L1"]
    for name, dense in zip(names, [*change, change.sum(0)], strict=True):
        sigma, ours = torch.linalg.svdvals(dense).numpy(), model.spectrum(name, "QK", distance=distance)
        assert len(ours) >= 2 * RANK
        np.testing.assert_allclose(ours, sigma[: len(ours)], atol=1e-6 * sigma[0])
