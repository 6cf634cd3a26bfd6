"""Rotations of keys are those that the model itself computes."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.mathematics.scores import Rotation, rotate_keys
from engine.models.loaded_model import LoadedModules
from engine.models.rotations import rotation_of
from tests.conftest import TinyModel
from tests.engine.models.measured_rotations import difference, longer_configuration
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


@pytest.mark.parametrize("model_type", TYPES)
def test_keys_are_rotated_in_every_layer_as_the_rules_say(model_type: str) -> None:
    need_type(model_type)
    assert difference(longer_configuration(model_type)) == ""


def test_a_configuration_can_turn_reordering_off() -> None:
    config = longer_configuration("deepseek_v3")
    config.rope_interleave = False
    assert difference(config) == ""


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


@pytest.mark.parametrize(
    ("model_type", "stack"),
    [
        ("blt_local_decoder", "decoder"), ("blt_local_encoder", "decoder"), ("evolla", "decoder"),
        ("evolla", "encoder"), ("gradium_phonon_tts", "decoder"), ("internlm3", "decoder"),
        ("voxtral_realtime", "decoder"),
    ],
)  # fmt: skip
def test_types_that_read_no_sentence_rotate_with_their_own_function_as_the_rules_say(
    model_type: str, stack: str, tmp_path: Path
) -> None:
    """These types read bytes in patches, proteins or sound."""
    need_type(model_type)
    model = build(tiny_configuration(model_type))
    source, tensors, anatomy = open_folder(save(model, tmp_path))
    layer = next(each for each in anatomy.outline.layers if each.stack == stack)
    rotation = rotation_of(anatomy.outline, layer, source.settings(), tensors)
    attention = LoadedModules(model).attention(anatomy)[layer.name]
    parents = [name for name, module in model.named_modules() if attention in module.modules()]
    embed = next(
        each for name in reversed(parents) for each in model.get_submodule(name).children()
        if type(each).__name__.endswith("RotaryEmbedding")
    )  # fmt: skip
    turn: Any = vars(sys.modules[type(attention).__module__])["apply_rotary_pos_emb"]
    rows = torch.randn(1, layer.heads, 1, layer.head_dim, generator=torch.Generator().manual_seed(0))
    cos, sin = embed(rows, torch.arange(5)[None])
    for side in turn(rows.expand(-1, -1, 5, -1), rows.expand(-1, -1, 5, -1), cos, sin):
        for place in range(5):  # R_p = R_{−Δ} for Δ = −p
            expected = rotate_keys(rows[0, :, 0, :, None].double(), rotation, -place)[..., 0]
            torch.testing.assert_close(side[0, :, place].double(), expected, atol=1e-5, rtol=1e-5)
    assert len(rotation.frequencies) == layer.head_dim // 2
