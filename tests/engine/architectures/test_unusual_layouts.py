"""Layouts that few types have: latents, quarters, groups, separate biases, gates, and weights that layers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import engine
from engine.architectures.heads import read_layer
from engine.models.proof import prove
from engine.values.heads import Head
from tests import tiny_models
from tests.opening import open_folder, open_reader, refusal, verdicts_of
from tests.tiny_configurations import need_type, tiny_configuration


def saved(folder: Path, model_type: str, **settings: Any) -> Path:
    """Save a tiny model of a type, with a tokenizer."""
    return tiny_models.save(tiny_models.build(tiny_configuration(model_type, **settings)), folder / "model")


@pytest.mark.parametrize("model_type", ["deepseek_v2", "deepseek_v3", "minicpm3"])
@pytest.mark.parametrize("compressed", [12, None])
def test_latent_attention_is_put_together_from_its_two_steps(
    model_type: str, compressed: int | None, tmp_path: Path
) -> None:
    if compressed is None and model_type == "minicpm3":
        pytest.skip("this type always compresses its queries")
    folder = saved(tmp_path, model_type, q_lora_rank=compressed, attention_bias=True)
    _, checkpoint, anatomy = open_folder(folder)
    layer, module = next(iter(anatomy.modules.items()))
    outline = module.outline
    assert (outline.heads, outline.head_dim, outline.value_head_dim) == (4, 10, 10)
    assert "latent norm" in outline.marks
    weights = read_layer(checkpoint, module)
    model = transformers.AutoModel.from_pretrained(folder).double()
    attention: Any = dict(model.named_modules())[outline.module.removeprefix("model.")]
    x = torch.randn(5, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        latent, shared = attention.kv_a_proj_with_mqa(x).split([16, 4], -1)
        size = (latent.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        whole = attention.kv_b_proj(attention.kv_a_layernorm(latent)).unflatten(-1, (4, 16))
    for head in range(4):
        arrays = {name: array.double() for name, array in weights.of_head(head).items()}
        value = x @ arrays["W_V"].T + arrays.get("b_V", 0.0)
        key = x @ arrays["W_K"].T + arrays.get("b_K", 0.0)
        torch.testing.assert_close(value * size, whole[:, head, 6:], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(key[:, :6] * size, whole[:, head, :6], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(key[:, 6:], shared, rtol=1e-6, atol=1e-7)
    seen = open_reader(folder).observe(lambda: None)
    proof = prove(module, weights, seen[layer])
    assert proof.output.holds
    assert proof.scores.holds


@pytest.mark.parametrize("name", ["q_a_layernorm", "kv_a_layernorm"])
@pytest.mark.parametrize("change", ["gone", "a matrix"])
def test_a_latent_whose_norm_is_damaged_is_refused_by_its_name(name: str, change: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, "deepseek_v3")
    tensors = load_file(folder / "model.safetensors")
    (damaged, *_) = [each for each in tensors if f"layers.0.self_attn.{name}." in each]
    gain = tensors.pop(damaged)
    if change != "gone":
        tensors[damaged] = gain[None].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert damaged in refusal(folder)


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_heads_that_are_no_multiple_of_four_are_not_cut_out_of_quarters(heads: int, tmp_path: Path) -> None:
    folder = saved(tmp_path, "codegen", n_head=heads)
    if heads == 8:
        assert next(iter(open_folder(folder)[2].modules.values())).outline.heads == 8
    else:
        assert f"cannot be cut into {heads} head" in refusal(folder)


FORMS: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("falcon", {"multi_query": True, "new_decoder_architecture": False}, (4, 1)),
    ("falcon", {"multi_query": False, "new_decoder_architecture": False, "num_kv_heads": 4}, (4, 4)),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}, (4, 2)),
    ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 1, "num_attention_heads": 8}, (8, 1)),
    ("gpt_bigcode", {"multi_query": True}, (4, 1)),
    ("gpt_bigcode", {"multi_query": False}, (4, 4)),
    ("codegen", {}, (4, 4)),
    ("codegen", {"n_head": 8, "n_embd": 64}, (8, 8)),
    ("deberta", {}, (4, 4)),
    ("persimmon", {}, (4, 4)),
    ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
                    "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}, (4, 2)),
    ("longcat_flash", {"ffn_hidden_size": 32, "expert_ffn_hidden_size": 16, "n_routed_experts": 4, "num_layers": 2,
                       "zero_expert_num": 1, "moe_topk": 2}, (4, 4)),
    ("albert", {"num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 1}, (4, 4)),
    ("albert", {"num_hidden_layers": 2, "num_hidden_groups": 1, "inner_group_num": 2}, (4, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "settings", "heads"), FORMS)
def test_every_layer_of_an_unusual_layout_is_proven(
    model_type: str, settings: dict[str, Any], heads: tuple[int, int], tmp_path: Path
) -> None:
    folder = saved(tmp_path, model_type, **settings)
    _, checkpoint, anatomy = open_folder(folder)
    seen = open_reader(folder).observe(lambda: None)
    for layer, module in anatomy.modules.items():
        assert (module.outline.heads, module.outline.key_value_heads) == heads
        proof = prove(module, read_layer(checkpoint, module), seen[layer])
        assert proof.output.holds, proof.output.note
        assert proof.scores.holds, proof.scores.note


def test_a_decoder_of_speech_is_taken_apart_under_the_names_of_its_files(tmp_path: Path) -> None:
    """Its encoder adds terms of relative positions to the scores, which no identity covers."""
    need_type("cohere_asr")
    folder = saved(tmp_path, "cohere_asr")
    _, checkpoint, anatomy = open_folder(folder)
    assert anatomy.outline.stacks == ("encoder", "decoder", "cross")
    seen = open_reader(folder).observe(lambda: None)
    assert len(anatomy.modules) == 6
    for layer, module in anatomy.modules.items():
        proof = prove(module, read_layer(checkpoint, module), seen[layer])
        assert proof.output.holds, proof.output.note
        assert proof.scores.holds is (None if layer.stack == "encoder" else True), proof.scores.note
        assert ("relative position terms" in module.outline.marks) == (layer.stack == "encoder")


@pytest.mark.parametrize(
    ("settings", "modules"),
    [
        (
            {"num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 1},
            [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0)],
        ),
        ({"num_hidden_layers": 2, "num_hidden_groups": 1, "inner_group_num": 2}, [(0, 0), (0, 1), (0, 0), (0, 1)]),
    ],
)
def test_layers_that_share_weights_are_layers_of_their_own(
    settings: dict[str, Any], modules: list[tuple[int, int]], tmp_path: Path
) -> None:
    folder = saved(tmp_path, "albert", **settings)
    outline = open_folder(folder)[2].outline
    assert [layer.name for layer in outline.layers] == [Head("encoder", number) for number in range(len(modules))]
    for layer, (group, inner) in zip(outline.layers, modules, strict=True):
        assert f"albert_layer_groups.{group}.albert_layers.{inner}." in layer.module
        assert "weights shared by layers" in layer.marks
    reader = open_reader(folder)
    sentence = reader.read("the cat sat on the mat", lambda: None)
    model: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        attentions = model(torch.tensor([sentence.ids]), output_attentions=True).attentions
    assert len(attentions) == len(modules)
    for layer, expected in zip(outline.layers, attentions, strict=True):
        maps = torch.from_numpy(reader.layer_maps(layer.name).weights)
        torch.testing.assert_close(maps, expected[0], rtol=0, atol=1e-5)


def test_every_turn_of_a_shared_block_has_a_map_of_its_own(tmp_path: Path) -> None:
    config = tiny_configuration("zamba")
    folder = tiny_models.save(tiny_models.build(config), tmp_path / "model")
    reader = open_reader(folder)
    reader.read("The cat sat on the mat.", lambda: None)
    first, second = (reader.layer_maps(layer).weights for layer in reader.modules)
    assert first.shape == second.shape
    assert not np.allclose(first, second)


def test_two_models_in_one_have_the_stacks_of_both(tmp_path: Path) -> None:
    decoder = tiny_models.configuration("gpt2", is_decoder=True, add_cross_attention=True)
    config: Any = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        tiny_models.configuration("bert"), decoder
    )
    config.decoder_start_token_id, config.pad_token_id = 0, 2
    model = transformers.EncoderDecoderModel(config)
    folder = tiny_models.save(model, tmp_path / "model")
    _, tensors, anatomy = open_folder(folder)
    assert anatomy.outline.stacks == ("encoder", "decoder", "cross")
    seen = open_reader(folder).observe(lambda: None)
    for name, module in anatomy.modules.items():
        proof = prove(module, read_layer(tensors, module), seen[name])
        assert proof.output.holds
        assert proof.scores.holds
    live = engine.open_module(model)
    assert live.outline.stacks == anatomy.outline.stacks
    assert set().union(*verdicts_of(live).values()) == {"verified"}
