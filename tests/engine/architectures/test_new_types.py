"""Unknown types open if their parts have known names, and are refused in one line if not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.architectures.heads import LayerWeights, read_layer
from engine.architectures.rules import FUSED_NAMES, OUTPUT_NAMES, SEPARATE_NAMES, Layout
from engine.values.errors import EngineError
from engine.values.heads import Head
from tests import tiny_models
from tests.conftest import TinyModel
from tests.opening import open_folder, refusal, with_config
from tests.tiny_configurations import tiny_configuration

PART = "self_attn."

SPELLINGS = [
    *((names, "o_proj") for names in SEPARATE_NAMES),
    *((SEPARATE_NAMES[0], output) for output in OUTPUT_NAMES if not output.startswith("../")),
]


def renamed(folder: Path, names: Mapping[str, str], **settings: Any) -> Path:
    """Give a checkpoint an unknown type, and replace parts of its tensors' names."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        new = name
        for old, other in names.items():
            new = new.replace(old, other)
        tensors[new] = tensor.clone()
    return written(folder, tensors, **settings)


def written(folder: Path, tensors: Mapping[str, Tensor], **settings: Any) -> Path:
    """Replace a checkpoint's tensors, and give it an unknown type."""
    save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "unheard_of"} | settings), encoding="utf-8")
    return folder


def layers(folder: Path) -> list[LayerWeights]:
    """Read every layer."""
    _, checkpoint, anatomy = open_folder(folder)
    return [read_layer(checkpoint, module) for module in anatomy.modules.values()]


def assert_same_heads(found: list[LayerWeights], expected: list[LayerWeights]) -> None:
    """Compare the heads of all layers, bit by bit."""
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        for head in range(len(other.query)):
            arrays = mine.of_head(head)
            assert arrays.keys() == other.of_head(head).keys()
            for name, array in other.of_head(head).items():
                assert torch.equal(arrays[name], array), name


@pytest.mark.parametrize(("names", "output"), SPELLINGS)
def test_separate_projections_are_found_under_every_known_name(
    names: tuple[str, str, str], output: str, tiny_copy: TinyModel
) -> None:
    folder = tiny_copy("llama")
    expected = layers(folder)
    spelled = dict(zip(("q_proj", "k_proj", "v_proj"), names, strict=True)) | {"o_proj": output}
    parts = {f"{PART}{old}.": f"{PART}{new}." for old, new in spelled.items()}
    assert_same_heads(layers(renamed(folder, parts)), expected)


@pytest.mark.parametrize("inside", ["linear", "base_layer"])
def test_a_projection_is_found_inside_the_module_around_it(inside: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    expected = layers(folder)
    assert_same_heads(layers(renamed(folder, {"_proj.weight": f"_proj.{inside}.weight"})), expected)


@pytest.mark.parametrize("name", [name for name, layout in FUSED_NAMES.items() if layout is Layout.BLOCKS])
def test_a_fused_projection_is_cut_under_every_known_name(name: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    expected = layers(folder)
    tensors = load_file(folder / "model.safetensors")
    for prefix in [each.removesuffix("q_proj.weight") for each in tensors if each.endswith("q_proj.weight")]:
        parts = [tensors.pop(f"{prefix}{part}_proj.weight") for part in "qkv"]
        tensors[f"{prefix}{name}.weight"] = torch.cat(parts)
    assert_same_heads(layers(written(folder, tensors)), expected)


def test_queries_beside_fused_keys_and_values_are_cut(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    expected = layers(folder)
    tensors = load_file(folder / "model.safetensors")
    for prefix in [each.removesuffix("q_proj.weight") for each in tensors if each.endswith("q_proj.weight")]:
        tensors[f"{prefix}kv_proj.weight"] = torch.cat([tensors.pop(f"{prefix}{part}_proj.weight") for part in "kv"])
    assert_same_heads(layers(written(folder, tensors)), expected)


@pytest.mark.parametrize("tower", ["vision_tower", "model.speech_encoder", "t2u_model", "audio.patcher", "mtp"])
def test_stacks_that_read_no_text_are_left_out_and_named(tower: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    expected = layers(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {
        name.replace("layers.", f"{tower}.layers."): tensor.clone() for name, tensor in tensors.items()
        if "layers." in name
    }  # fmt: skip
    assert_same_heads(layers(written(folder, tensors)), expected)
    (note,) = [note for note in open_folder(folder)[2].outline.notes if "left out" in note]
    assert tower.rpartition(".")[0] in note


def test_two_stacks_that_no_name_tells_apart_are_refused(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    tensors = load_file(folder / "model.safetensors")
    tensors |= {name.replace("layers.", "others."): tensor.clone() for name, tensor in tensors.items()}
    assert "look like the attention of layer 0" in refusal(written(folder, tensors))


def test_layers_that_predict_later_tokens_are_left_out(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    expected = layers(folder)
    tensors = load_file(folder / "model.safetensors")
    last = len(expected)
    tensors |= {
        name.replace("layers.0.", f"layers.{last}."): tensor.clone() for name, tensor in tensors.items()
        if "layers.0." in name
    }  # fmt: skip
    assert_same_heads(layers(written(folder, tensors, num_nextn_predict_layers=1)), expected)


def test_attention_that_fits_no_rule_is_named(tiny_copy: TinyModel) -> None:
    folder = renamed(tiny_copy("llama"), {"layers.1.self_attn.v_proj": "layers.1.self_attn.odd_proj"})
    outline = open_folder(folder)[2].outline
    assert [layer.layer for layer in outline.layers] == [0]
    assert any("layers.N.self_attn" in note for note in outline.notes)


def test_linear_attention_is_recognised_by_the_tensors_beside_it(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    tensors = load_file(folder / "model.safetensors")
    (name,) = [name for name in tensors if "layers.0.self_attn.q_proj" in name]
    tensors[name.replace("q_proj.weight", "A_log")] = torch.ones(4)
    outline = open_folder(written(folder, tensors))[2].outline
    assert [layer.name for layer in outline.layers] == [Head("decoder", 1)]


@pytest.mark.parametrize("heads", [2, 8])
def test_a_head_count_that_disagrees_with_the_width_of_a_head_is_refused(heads: int, tiny_copy: TinyModel) -> None:
    folder = renamed(tiny_copy("llama"), {}, num_attention_heads=heads, head_dim=8)
    assert "heads" in refusal(folder)


def test_cross_attention_of_gpt2_is_no_grouped_attention(tmp_path: Path) -> None:
    model = tiny_models.build(tiny_configuration("gpt2", add_cross_attention=True))
    _, checkpoint, anatomy = open_folder(tiny_models.save(model, tmp_path / "model"))
    module = anatomy.modules[Head("cross", 0)]
    assert (module.outline.heads, module.outline.key_value_heads) == (4, 4)
    attention: Any = model.h[0].crossattention
    weights = read_layer(checkpoint, module)
    torch.testing.assert_close(weights.query.flatten(0, 1), attention.q_attn.weight.T)
    torch.testing.assert_close(weights.key.flatten(0, 1), attention.c_attn.weight.T[:32])
    torch.testing.assert_close(weights.value.flatten(0, 1), attention.c_attn.weight.T[32:])


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", '"text"', "3", "\udcff\udcfe"])
def test_a_damaged_configuration_is_named(content: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert "config.json" in refusal(folder)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_missing_file_of_a_checkpoint_is_named(missing: str, tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    (folder / missing).unlink()
    line = refusal(folder)
    assert str(folder) in line
    assert missing in line


@pytest.mark.parametrize("heads", [3, 5, 64, 1000])
def test_a_head_count_that_does_not_fit_the_weights_is_refused(heads: int, tiny_copy: TinyModel) -> None:
    line = refusal(with_config(tiny_copy("llama"), num_attention_heads=heads))
    assert f"{heads} heads" in line


def test_a_head_count_that_is_left_out_is_the_types_default_with_a_note(tiny_copy: TinyModel) -> None:
    folder = with_config(tiny_copy("opt", num_attention_heads=12, hidden_size=24), num_attention_heads=None)
    outline = open_folder(folder)[2].outline
    assert [layer.heads for layer in outline.layers] == [12, 12]
    assert "defaults of its type" in " ".join(outline.notes)


@pytest.mark.parametrize("heads", [0, -4, "four", [4]])
def test_a_configuration_without_a_usable_head_count_is_refused(heads: Any, tiny_copy: TinyModel) -> None:
    assert "num_attention_heads is" in refusal(with_config(tiny_copy("llama"), num_attention_heads=heads))


SMALL_STATE = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 320}


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [("mamba", SMALL_STATE), ("rwkv", {**SMALL_STATE, "attention_hidden_size": 32}), ("fnet", {})],
)
def test_a_type_without_attention_heads_is_named(model_type: str, settings: dict[str, Any], tmp_path: Path) -> None:
    tiny_models.build(tiny_models.configuration(model_type, **settings)).save_pretrained(tmp_path / "model")
    assert f"'{model_type}' have no softmax attention" in refusal(tmp_path / "model")


HYBRIDS: list[tuple[str, dict[str, Any]]] = [
    ("jamba", {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 9,
               "expert_layer_offset": 8, "mamba_d_state": 4, "mamba_dt_rank": 4}),
    ("lfm2", {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2}),
    ("olmo_hybrid", {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "settings"), HYBRIDS)
def test_layers_without_softmax_attention_are_left_out_and_the_others_keep_their_numbers(
    model_type: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    tiny_models.build(tiny_models.configuration(model_type, **settings)).save_pretrained(tmp_path / "model")
    _, _, anatomy = open_folder(tmp_path / "model")
    assert [layer.layer for layer in anatomy.outline.layers] == [1, 3]
    with pytest.raises(EngineError, match="no attention in layer 0"):
        anatomy.outline.layer(Head("decoder", 0))


def test_values_may_read_another_width_than_keys(tmp_path: Path) -> None:
    settings = {"intra_bottleneck_size": 16, "true_hidden_size": 16, "embedding_size": 32}
    tiny_models.build(tiny_models.configuration("mobilebert", **settings)).save_pretrained(tmp_path / "model")
    _, checkpoint, anatomy = open_folder(tmp_path / "model")
    for name, module in anatomy.modules.items():
        weights = read_layer(checkpoint, module).of_head(0)
        shapes = {matrix: tuple(weights[f"W_{matrix}"].shape) for matrix in "QKVO"}
        assert shapes == {matrix: anatomy.outline.layer(name).shape(matrix, False) for matrix in "QKVO"}
