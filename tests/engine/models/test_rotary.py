"""Rotations of keys are those that the model itself computes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from engine.architectures.heads import read_layer
from engine.architectures.outline import Anatomy
from engine.architectures.rules import ROTARY_TYPES
from engine.mathematics.scores import Rotation, rotate_keys
from engine.models.attention_maps import returned_probabilities
from engine.models.loaded_model import LoadedModules
from engine.models.proof import inputs_at_position_zero
from engine.models.rotations import rotation_of
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from tests.conftest import TinyModel
from tests.opening import open_folder, refused
from tests.tiny_configurations import need_type, save_tiny, tiny_configuration
from tests.tiny_models import build, save

TYPES = [
    "cohere", "cohere2", "deepseek_v2", "deepseek_v3", "dots3_note", "ernie4_5", "eurobert", "falcon", "gemma3",
    "gemma4_text", "glm4", "gpt_neox", "gpt_oss", "gptj", "granite_swa", "helium", "hunyuan_v1_dense", "llama",
    "llama4_text", "minicpm3", "mistral_large4_text", "modernbert", "moonshine_streaming", "nanochat", "nemotron",
    "olmo2", "phi", "qwen2_vl_text", "qwen3", "roformer", "smollm3", "stablelm", "t5gemma",
]  # fmt: skip
"""Types with plain rotations, and of each other kind: norms before or after, layers without positions, frequencies by
kind of layer or learned, bases by layer, parts of heads, latents, text models inside larger ones, encoders beside
decoders, no rotation at all, and rotations the other way."""


TOKENS = 7


@pytest.mark.parametrize("is_interleaved", [True, False])
def test_a_quarter_turn_exchanges_the_dimensions_of_a_pair_and_leaves_the_rest(is_interleaved: bool) -> None:
    rows = torch.eye(5, dtype=torch.float64)[None]  # W_K of a head of five dimensions
    rotation = Rotation(torch.tensor([math.pi / 2, math.pi], dtype=torch.float64), is_interleaved)
    (one, other), half_turned = ((0, 1), (2, 3)) if is_interleaved else ((0, 2), (1, 3))
    expected = torch.zeros(5, 5, dtype=torch.float64)
    expected[one, other], expected[other, one] = 1.0, -1.0  # by −90°
    expected[half_turned, half_turned] = -1.0
    expected[4, 4] = 1.0
    torch.testing.assert_close(rotate_keys(rows, rotation, 1)[0], expected, atol=1e-12, rtol=0)


LAYERS = 8
"""Layers of a model, so many that every kind of layer is among them."""


def longer_configuration(model_type: str) -> Any:
    """Make a tiny configuration of eight layers of the kinds that the type chooses; a shorter one if fixed."""
    short = tiny_configuration(model_type)
    chosen = {"layer_types", "no_rope_layers", "mlp_layer_types", "num_hidden_layers"}
    if "mrope_section" not in (getattr(short, "rope_parameters", None) or {}):
        chosen.add("rope_parameters")
    kept = {
        name: value
        for name, value in short.to_dict().items()
        if name not in chosen | {"transformers_version", "model_type"} and not name.startswith("_")
    }
    if bases := kept.get("layer_rope_theta"):
        kept["layer_rope_theta"] = (bases * LAYERS)[:LAYERS]
    try:
        config: Any = type(short)(**{**kept, "num_hidden_layers": LAYERS})
        build(config)
    except Exception:  # whatever a configuration's own code raises: the short one holds
        return short
    missing = set(getattr(short, "layer_types", None) or ()) - set(getattr(config, "layer_types", None) or ())
    return short if missing else config


def run_on_equal_tokens(model: Any, anatomy: Anatomy) -> tuple[dict[Head, Tensor], dict[Head, Any]]:
    """Run a model whose attention reads one vector at every token; give that vector and what each layer returns."""
    read, returned, hooks = dict[Head, Tensor](), dict[Head, Any](), list[Any]()

    def follow(layer: LayerOutline, module: nn.Module) -> None:
        def is_stream(value: Any) -> bool:
            return isinstance(value, Tensor) and value.ndim == 3 and value.shape[-1] in (layer.d_model, layer.d_source)

        def enter(_: nn.Module, *given: Any) -> Any:
            given = tree_map(lambda each: each[:, :1].expand_as(each).clone() if is_stream(each) else each, given)
            read[layer.name] = next(filter(is_stream, tree_leaves(given)))[0, 0].double()
            return given

        hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        hooks.append(module.register_forward_hook(lambda _, args, result: returned.update({layer.name: result})))

    for layer in anatomy.outline.layers:
        follow(layer, LoadedModules(model).attention(anatomy)[layer.name])
    inputs = inputs_at_position_zero(model, torch.full((1, TOKENS), 7))
    with torch.no_grad():
        model(**{name: value for name, value in inputs.items() if "position" not in name})
    for hook in hooks:
        hook.remove()
    return read, returned


def assert_rotated_as_the_rules_say(config: Any, folder: Path) -> None:
    """Compare the scores of equal tokens at several distances, less their mean, with q · R_Δ k.

    They may differ by one factor per head: of the scale, and of norms of queries and keys, whose gains are set to one.
    """
    torch.manual_seed(0)
    model = build(config)
    learned = tuple(each.learned for each in ROTARY_TYPES.values() if each.learned)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith(learned):
                buffer.normal_(std=0.3)
        for name, parameter in model.named_parameters():
            if re.search(r"attn\..*norm|attention\..*norm", name):
                parameter.fill_(float(name.endswith("weight")))
    source, tensors, anatomy = open_folder(save(model, folder))
    read, returned = run_on_equal_tokens(model, anatomy)
    for layer in anatomy.outline.layers:
        if "keys and values of another layer" in layer.marks:
            continue
        maps = returned_probabilities(returned[layer.name], 1, layer.heads)
        assert maps is not None, layer.name
        rotation = rotation_of(anatomy.outline, layer, source.settings(), tensors)
        weights = read_layer(tensors, anatomy.modules[layer.name])
        query, key = (
            matrix.double() @ read[layer.name] + (0.0 if bias is None else bias.double())
            for matrix, bias in ((weights.query, weights.query_bias), (weights.key, weights.key_bias))
        )
        key = key.repeat_interleave(weights.group, 0)[..., None]
        of_last = maps[0, :, -1].double()
        seen = (of_last[0] > 0).nonzero()[:, 0]
        turned = torch.cat([rotate_keys(key, rotation, of_last.shape[-1] - 1 - int(place)) for place in seen], -1)
        found, expected = of_last[:, seen].log(), (query[:, None] @ turned)[:, 0]
        found, expected = (each - each.mean(1, keepdim=True) for each in (found, expected))
        if len(rotation.frequencies):
            assert torch.cosine_similarity(found, expected, dim=-1).min() > 0.9999, layer.name
        else:
            assert found.abs().max() < 1e-4, layer.name


@pytest.mark.parametrize("model_type", TYPES)
def test_keys_are_rotated_in_every_layer_as_the_rules_say(model_type: str, tmp_path: Path) -> None:
    need_type(model_type)
    assert_rotated_as_the_rules_say(longer_configuration(model_type), tmp_path)


def test_a_configuration_can_turn_reordering_off(tmp_path: Path) -> None:
    config = longer_configuration("deepseek_v3")
    config.rope_interleave = False
    assert_rotated_as_the_rules_say(config, tmp_path)


@pytest.mark.parametrize(
    ("model_type", "changes", "reason"),
    [
        ("gpt2", {}, "no QK at a distance"),
        ("bert", {}, "no QK at a distance"),
        ("t5", {}, "no QK at a distance"),
        ("blt", {}, "type 'blt' attends between patches"),
        ("deepseek_v4", {}, "type 'deepseek_v4' rotates values"),
        ("falcon", {"alibi": True}, "no rotary positions"),
        ("llama", {"rope_parameters": {"rope_type": "spiral", "rope_theta": 10000.0}}, "'spiral'"),
    ],
)
def test_scores_that_depend_on_more_than_a_known_rotation_are_refused_with_the_reason(
    model_type: str, changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    source, tensors, anatomy = open_folder(save_tiny(model_type, tmp_path))
    outline, settings = anatomy.outline, {**source.settings(), **changes}
    assert reason in refused(lambda: rotation_of(outline, outline.layers[0], settings, tensors))


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_where_scaling_begins_at_a_length_the_frequencies_are_those_of_shorter_sentences(
    tiny_model: TinyModel, kind: str
) -> None:
    factors = {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [4.0] * 4, "original_max_position_embeddings": 16}
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0, **(factors if kind == "longrope" else {})}
    folder = tiny_model("llama", rope_parameters=rope)
    source, tensors, anatomy = open_folder(folder)
    longest = 16 if kind == "longrope" else 64
    assert any(f"for sentences of up to {longest} tokens; longer ones scale" in note for note in anatomy.outline.notes)
    rotation = rotation_of(anatomy.outline, anatomy.outline.layers[0], source.settings(), tensors)
    model: Any = transformers.AutoModel.from_pretrained(folder)
    for tokens in (1, longest, longest + 1):
        cos, _ = model.rotary_emb(torch.zeros(1, tokens, 32), torch.arange(tokens)[None])
        angles = (tokens - 1) * rotation.frequencies.double()
        is_same = torch.allclose(cos[0, -1, :4].double() / cos[0, 0, 0].double(), angles.cos(), atol=1e-4)
        assert is_same == (tokens <= longest)
    said = refused(lambda: rotate_keys(torch.zeros(1, 8, 1), rotation, longest))
    assert f"Δ can be {longest - 1} at the most" in said
