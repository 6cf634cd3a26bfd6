"""Unknown types open if their parts have known names, and are refused in one line if not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.architectures.rules import FUSED_NAMES, OUTPUT_NAMES, SEPARATE_NAMES, Layout
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.opening import assert_same_heads, edited_weights, open_folder, refusal, with_config

SPELLINGS = [
    *((names, "o_proj") for names in SEPARATE_NAMES),
    *((SEPARATE_NAMES[0], output) for output in OUTPUT_NAMES if not output.startswith("../")),
]


@pytest.fixture
def unknown(tiny_copy: TinyModel) -> Path:
    """Copy a tiny Llama whose type is unknown."""
    return with_config(tiny_copy("llama"), model_type="unheard_of")


@pytest.fixture
def llama(tiny_model: TinyModel) -> Path:
    return tiny_model("llama")


def rename(folder: Path, names: Mapping[str, str]) -> None:
    """Replace parts of the names of a checkpoint's tensors."""
    with edited_weights(folder) as tensors:
        for name in list(tensors):
            tensor = tensors.pop(name)
            for old, new in names.items():
                name = name.replace(old, new)
            tensors[name] = tensor


def add_copies(folder: Path, old: str, new: str) -> None:
    """Add a copy of each tensor whose name has a part, under a name that has another instead."""
    with edited_weights(folder) as tensors:
        tensors |= {name.replace(old, new): each.clone() for name, each in tensors.items() if old in name}


def test_an_unknown_type_opens_with_a_note(unknown: Path, llama: Path) -> None:
    assert_same_heads(unknown, llama)
    assert "unheard_of" in " ".join(open_folder(unknown)[2].outline.notes)


@pytest.mark.parametrize(("names", "output"), SPELLINGS)
def test_separate_projections_are_found_under_every_known_name(
    names: tuple[str, str, str], output: str, unknown: Path, llama: Path
) -> None:
    spelled = dict(zip(("q_proj", "k_proj", "v_proj"), names, strict=True)) | {"o_proj": output}
    rename(unknown, {f"self_attn.{old}.": f"self_attn.{new}." for old, new in spelled.items()})
    assert_same_heads(unknown, llama)


@pytest.mark.parametrize("inside", ["linear", "base_layer"])
def test_a_projection_is_found_inside_the_module_around_it(inside: str, unknown: Path, llama: Path) -> None:
    rename(unknown, {"_proj.weight": f"_proj.{inside}.weight"})
    assert_same_heads(unknown, llama)


FUSED = [*((name, "qkv") for name, layout in FUSED_NAMES.items() if layout is Layout.BLOCKS), ("kv_proj", "kv")]


@pytest.mark.parametrize(("name", "parts"), FUSED)
def test_a_fused_projection_is_cut_under_every_known_name(name: str, parts: str, unknown: Path, llama: Path) -> None:
    with edited_weights(unknown) as tensors:
        for prefix in [each.removesuffix("q_proj.weight") for each in tensors if each.endswith("q_proj.weight")]:
            fused = [tensors.pop(f"{prefix}{part}_proj.weight") for part in parts]
            tensors[f"{prefix}{name}.weight"] = torch.cat(fused)
    assert_same_heads(unknown, llama)


@pytest.mark.parametrize("tower", ["vision_tower", "model.speech_encoder", "t2u_model", "audio.patcher", "mtp"])
def test_stacks_that_read_no_text_are_left_out_and_named(tower: str, unknown: Path, llama: Path) -> None:
    add_copies(unknown, "layers.", f"{tower}.layers.")
    assert_same_heads(unknown, llama)
    (note,) = [note for note in open_folder(unknown)[2].outline.notes if "left out" in note]
    assert tower.rpartition(".")[0] in note


def test_two_stacks_that_no_name_tells_apart_are_refused(unknown: Path) -> None:
    add_copies(unknown, "layers.", "others.")
    assert "look like the attention of layer 0" in refusal(unknown)


def test_layers_that_predict_later_tokens_are_left_out(unknown: Path, llama: Path) -> None:
    add_copies(unknown, "layers.0.", "layers.2.")
    assert_same_heads(with_config(unknown, num_nextn_predict_layers=1), llama)


def test_attention_that_fits_no_rule_is_named(unknown: Path) -> None:
    rename(unknown, {"layers.1.self_attn.v_proj": "layers.1.self_attn.odd_proj"})
    outline = open_folder(unknown)[2].outline
    assert [layer.layer for layer in outline.layers] == [0]
    assert any("layers.N.self_attn" in note for note in outline.notes)


def test_linear_attention_is_recognised_by_the_tensors_beside_it(unknown: Path) -> None:
    with edited_weights(unknown) as tensors:
        tensors["layers.0.self_attn.A_log"] = torch.ones(4)
    assert [layer.name for layer in open_folder(unknown)[2].outline.layers] == [Head("decoder", 1)]


@pytest.mark.parametrize(
    ("heads", "more", "said"),
    [
        *((heads, {}, f"{heads} heads") for heads in (3, 5, 64, 1000)),
        *((heads, {"head_dim": 8, "model_type": "unheard_of"}, "heads") for heads in (2, 8)),
        *((heads, {}, "num_attention_heads is") for heads in (0, -4, "four", [4])),
    ],
)
def test_a_head_count_that_is_unusable_or_does_not_fit_the_weights_is_refused(
    heads: Any, more: dict[str, Any], said: str, tiny_copy: TinyModel
) -> None:
    assert said in refusal(with_config(tiny_copy("llama"), num_attention_heads=heads, **more))


def test_a_head_count_that_is_left_out_is_the_types_default_with_a_note(tiny_copy: TinyModel) -> None:
    folder = with_config(tiny_copy("opt", num_attention_heads=12, hidden_size=24), num_attention_heads=None)
    outline = open_folder(folder)[2].outline
    assert [layer.heads for layer in outline.layers] == [12, 12]
    assert "defaults of its type" in " ".join(outline.notes)
