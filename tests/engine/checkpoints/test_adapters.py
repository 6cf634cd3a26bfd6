"""An adapter opens as its base model with the changes added, and as the changes alone."""

from __future__ import annotations

import csv
import io
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

from engine.analysis.open_model import OpenModel
from engine.analysis.weights import arrays_of, proofs
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.progress import finish
from tests.conftest import TinyModel
from tests.exporting import attn_tui
from tests.opening import open_on_thread

RANK = 3
PREFIX = "base_model.model."
SENTENCE = "The cat sat on the mat."


def write_adapter(folder: Path, base: str, tensors: dict[str, Tensor], **settings: Any) -> Path:
    """Write an adapter as PEFT does."""
    folder.mkdir()
    known = {"peft_type": "LORA", "base_model_name_or_path": base, "r": RANK, "lora_alpha": 2 * RANK}
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


def product(tensors: dict[str, Tensor], module: str) -> Tensor:
    """Multiply a module's factors."""
    return tensors[f"{module}.lora_B.weight"].double() @ tensors[f"{module}.lora_A.weight"].double()


def weights_of(model: OpenModel, layer: Head) -> dict[Head, dict[str, Any]]:
    """Return the weights of a layer's heads."""
    return arrays_of(model, model.outline.layer(layer))


LAYER = "model.layers.1.self_attn"


@pytest.fixture
def llama(tiny_model: TinyModel, tmp_path: Path) -> tuple[Path, Path, dict[str, Tensor]]:
    """Make a tiny Llama, an adapter that changes the queries and outputs of its layer 1, and the factors."""
    base = tiny_model("llama")
    factors = {**low_rank(f"{LAYER}.q_proj", 32, 32), **low_rank(f"{LAYER}.o_proj", 32, 32)}
    factors = {name: factor / 5 for name, factor in factors.items()}  # so that scores have the usual size
    return base, write_adapter(tmp_path / "adapter", str(base), factors), factors


def test_heads_are_those_of_the_base_plus_the_change(llama: tuple[Path, Path, dict[str, Tensor]]) -> None:
    base, folder, factors = llama
    session = open_on_thread(folder)
    stored = load_file(base / "model.safetensors")
    weight = stored["layers.1.self_attn.q_proj.weight"] + 2 * product(factors, f"{LAYER}.q_proj")
    arrays = weights_of(session, Head("decoder", 1))
    np.testing.assert_allclose(arrays[Head("decoder", 1, 2)]["W_Q"], weight[16:24].numpy(), rtol=1e-6, atol=1e-7)
    key = stored["layers.1.self_attn.k_proj.weight"]
    np.testing.assert_array_equal(arrays[Head("decoder", 1, 2)]["W_K"], key[8:16].numpy())
    untouched = stored["layers.0.self_attn.q_proj.weight"]
    np.testing.assert_array_equal(
        weights_of(session, Head("decoder", 0))[Head("decoder", 0, 0)]["W_Q"],
        untouched[:8].numpy(),
    )


def test_the_change_has_spectra_of_its_own(llama: tuple[Path, Path, dict[str, Tensor]]) -> None:
    base, folder, factors = llama
    session = open_on_thread(folder)
    assert session.outline.stacks == ("decoder", "decoder-delta")
    assert [layer.layer for layer in session.outline.stack_layers("decoder-delta")] == [1]
    before = {name: weight.double() for name, weight in load_file(base / "model.safetensors").items()}
    change = {name: 2 * product(factors, f"{LAYER}.{name}_proj").double() for name in "qo"}
    weights = {name: before[f"layers.1.self_attn.{name}_proj.weight"] for name in "qkvo"}
    group = finish(session.spectra.layer(Head("decoder-delta", 1), False))
    for head in range(4):
        own, shared = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
        expected = {
            "Q": change["q"][own],
            "K": torch.zeros(8, 32),
            "O": change["o"][:, own],
            "QK": change["q"][own].T @ weights["k"][shared],
            "OV": weights["v"][shared].T @ change["o"][:, own].T,
        }
        for matrix, dense in expected.items():
            sigma = torch.linalg.svdvals(dense.double()).numpy()
            ours = group.spectra[head][matrix].singular_values
            np.testing.assert_allclose(ours[: len(sigma)], sigma[: len(ours)], atol=1e-10 * max(1.0, sigma[0]))
    whole = finish(session.spectra.layer(Head("decoder-delta", 1), True)).spectra[-1]
    numerical = {name: int((whole[name].singular_values > 1e-9).sum()) for name in ("Q", "K", "O", "QK", "OV")}
    assert numerical["Q"] == numerical["O"] == RANK
    assert numerical["K"] == 0
    change_of_qk = torch.zeros(32, 32, dtype=torch.float64)
    for head in range(4):
        shared = slice(8 * (head // 2), 8 * (head // 2) + 8)
        change_of_qk += change["q"][8 * head : 8 * head + 8].T @ weights["k"][shared]
    sigma = torch.linalg.svdvals(change_of_qk).numpy()
    np.testing.assert_allclose(whole["QK"].singular_values[:20], sigma[:20], atol=1e-9 * sigma[0])


@pytest.mark.parametrize("distance", [1, 5])
def test_the_change_of_qk_at_a_distance_is_that_of_rotated_keys(
    tiny_model: TinyModel, tmp_path: Path, distance: int
) -> None:
    base = tiny_model("llama")
    factors = {**low_rank(f"{LAYER}.q_proj", 32, 32), **low_rank(f"{LAYER}.k_proj", 16, 32)}
    session = open_on_thread(write_adapter(tmp_path / "adapter", str(base), factors))
    stored = {name: weight.double() for name, weight in load_file(base / "model.safetensors").items()}
    before = {name: stored[f"layers.1.self_attn.{name}_proj.weight"] for name in "qk"}
    after = {name: weight + 2 * product(factors, f"{LAYER}.{name}_proj") for name, weight in before.items()}
    angles = distance * 10000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    rotation = torch.zeros(8, 8, dtype=torch.float64)  # R_{−Δ}: the first half of the dimensions against the second
    rotation[:4, :4] = rotation[4:, 4:] = torch.cos(angles).diag()
    rotation[:4, 4:], rotation[4:, :4] = torch.sin(angles).diag(), -torch.sin(angles).diag()

    def circuits(weights: dict[str, Tensor]) -> Tensor:
        query, key = weights["q"].unflatten(0, (4, 8)), weights["k"].unflatten(0, (2, 8)).repeat_interleave(2, 0)
        products: Tensor = query.mT @ rotation @ key
        return products

    change = circuits(after) - circuits(before)
    name = Head("decoder-delta", 1)
    group = finish(session.spectra.layer(name, False, distance=distance))
    alone = finish(session.spectra.head(Head("decoder-delta", 1, 2), distance=distance))
    found = [
        *(group.spectra[head]["QK"] for head in range(4)), *(each for each in alone if each.matrix == "QK"),
        finish(session.spectra.layer(name, True, distance=distance)).spectra[-1]["QK"],
    ]  # fmt: skip
    for ours, dense in zip(found, [*change, change[2], change.sum(0)], strict=True):
        sigma = torch.linalg.svdvals(dense).numpy()
        assert len(ours.singular_values) >= 2 * RANK
        np.testing.assert_allclose(ours.singular_values, sigma[: len(ours.singular_values)], atol=1e-6 * sigma[0])


def test_maps_are_those_of_the_merged_model_and_its_heads_are_proven(
    llama: tuple[Path, Path, dict[str, Tensor]], tmp_path: Path
) -> None:
    base, folder, factors = llama
    merged: Any = transformers.AutoModel.from_pretrained(base, attn_implementation="eager")
    with torch.no_grad():
        for name in ("q_proj", "o_proj"):
            getattr(merged.layers[1].self_attn, name).weight += 2 * product(factors, f"{LAYER}.{name}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    with torch.no_grad():
        expected = merged(**tokenizer(SENTENCE, return_tensors="pt"), output_attentions=True).attentions[1][0]
    session = open_on_thread(folder)
    maps = finish(session.attention(SENTENCE, "decoder", 1))
    np.testing.assert_allclose(maps.weights, expected.numpy(), atol=1e-5)
    found = [proof for proof, _ in proofs(session)]
    assert [proof.layer.stack for proof in found] == ["decoder", "decoder"]
    assert all(proof.output.holds and proof.scores.holds for proof in found)
    with pytest.raises(EngineError, match="choose the stack decoder"):
        finish(session.attention(SENTENCE, "decoder-delta", 1))


def test_scales_follow_rslora_and_the_patterns(tiny_model: TinyModel, tmp_path: Path) -> None:
    base = tiny_model("llama")
    modules = [f"model.layers.{layer}.self_attn.q_proj" for layer in (0, 1)]
    factors = {**low_rank(modules[0], 32, 32), **low_rank(modules[1], 32, 32, rank=2)}
    folder = write_adapter(
        tmp_path / "adapter", str(base), factors, use_rslora=True,
        rank_pattern={"layers.1.self_attn.q_proj": 2}, alpha_pattern={"layers.1.self_attn.q_proj": 5},
    )  # fmt: skip
    session = open_on_thread(folder)
    for layer, scale in ((0, 6 / math.sqrt(3)), (1, 5 / math.sqrt(2))):
        delta = scale * product(factors, modules[layer])
        arrays = weights_of(session, Head("decoder-delta", layer))
        np.testing.assert_allclose(
            arrays[Head("decoder-delta", layer, 3)]["W_Q"], delta[24:].numpy(), rtol=1e-4, atol=1e-5
        )


def test_magnitudes_scale_rows(tiny_model: TinyModel, tmp_path: Path) -> None:
    base = tiny_model("llama")
    module = "model.layers.0.self_attn.v_proj"
    factors = low_rank(module, 16, 32)
    size = torch.rand(16) + 0.5
    folder = write_adapter(
        tmp_path / "adapter", str(base), {**factors, f"{module}.lora_magnitude_vector": size}, use_dora=True
    )
    weight = load_file(base / "model.safetensors")["layers.0.self_attn.v_proj.weight"] + 2 * product(factors, module)
    expected = torch.stack([row / row.norm() * length for row, length in zip(weight, size, strict=True)])
    found = weights_of(open_on_thread(folder), Head("decoder", 0))
    np.testing.assert_allclose(found[Head("decoder", 0, 3)]["W_V"], expected[8:].numpy(), rtol=1e-5, atol=1e-6)


def test_changes_of_transposed_and_fused_weights_are_cut_like_the_weights(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    base = tiny_model("gpt2")
    module = "transformer.h.1.attn.c_attn"
    factors = low_rank(module, 96, 32)
    folder = write_adapter(tmp_path / "adapter", str(base), factors, fan_in_fan_out=True)
    session = open_on_thread(folder)
    delta = 2 * product(factors, module)
    arrays = weights_of(session, Head("decoder-delta", 1))[Head("decoder-delta", 1, 2)]
    for order, matrix in enumerate("QKV"):
        rows = delta[32 * order + 16 : 32 * order + 24]
        np.testing.assert_allclose(arrays[f"W_{matrix}"], rows.numpy(), rtol=1e-4, atol=1e-5)
    assert finish(session.attention(SENTENCE, "decoder", 1)).weights.shape[0] == 4
    assert all(proof.output.holds for proof, _ in proofs(session))


def test_trained_biases_replace_those_of_the_base_model(tiny_model: TinyModel, tmp_path: Path) -> None:
    base = tiny_model("opt")
    module = "model.decoder.layers.0.self_attn.q_proj"
    bias = torch.randn(32)
    folder = write_adapter(
        tmp_path / "adapter",
        str(base),
        {**low_rank(module, 32, 32), f"{module}.base_layer.bias": bias},
        bias="lora_only",
    )
    session = open_on_thread(folder)
    bias_of_query = weights_of(session, Head("decoder", 0))[Head("decoder", 0, 1)]["b_Q"]
    np.testing.assert_array_equal(bias_of_query, bias[8:16].numpy())
    assert all(proof.output.holds and proof.scores.holds for proof, _ in proofs(session))


def test_the_command_line_opens_an_adapter(llama: tuple[Path, Path, dict[str, Tensor]], tmp_path: Path) -> None:
    base, folder, _ = llama
    done = attn_tui("export", folder, "ranks", "--stack", "decoder-delta", "--head", "all", "--matrix", "Q")
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["stack"], row["head"], row["numerical_rank"]) == ("decoder-delta", "all", str(RANK))
    assert {row[name] for name in row if name.endswith("_chance")} == {""}, "changes have no chance"
    gone = write_adapter(tmp_path / "gone", "/no/such/model", {})
    done = attn_tui("export", gone, "ranks")
    assert done.returncode == 1
    assert "/no/such/model" in done.stderr
    assert "--base" in done.stderr
    moved = write_adapter(tmp_path / "moved", "/no/such/model", low_rank(f"{LAYER}.q_proj", 32, 32))
    assert attn_tui("export", moved, "ranks", "--base", base, "--layer", "1").returncode == 0


@pytest.mark.parametrize(
    ("tensors", "settings", "reason"),
    [
        ({}, {"peft_type": "IA3"}, "kind IA3"),
        ({}, {}, "changes nothing"),
        (low_rank(f"{LAYER}.q_proj", 32, 40), {}, "--base"),
        ({f"{LAYER}.q_proj.lora_C.weight": torch.ones(3, 3)}, {}, "merge the adapter"),
        (low_rank(f"{LAYER}.q_proj", 32, 32), {"init_lora_weights": "pissa"}, "starts from pissa"),
        (low_rank(f"{LAYER}.q_proj", 32, 32), {"r": 4}, "do not match"),
        (low_rank(f"{LAYER}.q_proj", 32, 32), {"lora_alpha": None}, "do not match"),
        (low_rank(f"{LAYER}.q_proj", 32, 32), {"layer_replication": [[0, 2]]}, "layer_replication"),
        ({f"{LAYER}.q_proj.lora_A.weight": torch.ones(3, 32)}, {}, "no lora_B"),
        (low_rank("transformer.h.0.attn.c_attn", 96, 32), {}, "changes nothing that"),
    ],
)
def test_an_adapter_that_cannot_be_added_is_refused_with_the_reason(
    tensors: dict[str, Tensor], settings: dict[str, Any], reason: str, tiny_model: TinyModel, tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "adapter", str(tiny_model("llama")), tensors, **settings)
    with pytest.raises(EngineError, match=reason):
        weights_of(open_on_thread(folder), Head("decoder", 1))
