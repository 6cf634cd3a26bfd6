"""Models that read in a way of their own: blocks that layers share, boxes of a page, and what reads no text alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.exporting import attn_tui, exported_maps, refusal
from tests.tiny_configurations import need_type, tiny_configuration
from tests.tiny_models import build, byte_level_tokenizer, randomise

TEXT = "The cat sat on the mat."

SHARING: dict[str, dict[str, Any]] = {
    "zamba": {"layer_types": ["linear_attention", "hybrid"] * 3, "num_hidden_layers": 6},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 3, "num_hidden_layers": 6, "num_mem_blocks": 2},
}
"""Settings of models whose hybrid layers share one block, or two in turns."""


def saved(model_type: str, folder: Path, **settings: Any) -> Path:
    """Save a tiny model of a type, and a tokenizer beside it."""
    need_type(model_type)
    build(tiny_configuration(model_type, **settings)).save_pretrained(folder)
    byte_level_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("model_type", SHARING)
def test_layers_that_share_a_block_have_their_own_maps_also_with_a_head(model_type: str, tmp_path: Path) -> None:
    need_type(model_type)
    config = tiny_configuration(model_type, **SHARING[model_type])
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    randomise(model)
    model.save_pretrained(tmp_path)
    byte_level_tokenizer().save_pretrained(tmp_path)
    ids = torch.tensor([byte_level_tokenizer()(TEXT)["input_ids"]])
    with torch.inference_mode():
        expected = model(ids, output_attentions=True, use_cache=False).attentions
    found = exported_maps(tmp_path, TEXT, tmp_path / "maps.npz")
    assert list(found) == ["L1", "L3", "L5"]
    for maps, own in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(maps, own[0].numpy(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("has_adapters", [True, False])
def test_matrices_without_the_adapters_of_a_shared_block_say_so(has_adapters: bool, tmp_path: Path) -> None:
    folder = saved("zamba2", tmp_path, **SHARING["zamba2"], use_shared_attention_adapter=has_adapters, adapter_rank=3)
    done = attn_tui("export", folder, "matrices", "-o", tmp_path / "heads.npz")
    assert done.returncode == 0
    assert ("W_Q, W_K, W_V are without them" in done.stderr) is has_adapters


@pytest.mark.parametrize("model_type", ["bros", "udop"])
def test_a_reader_of_pages_reads_with_boxes_of_zero_and_says_so(model_type: str, tmp_path: Path) -> None:
    done = attn_tui("export", saved(model_type, tmp_path), "attention", "--text", TEXT, "--layer", "0", "--head", "0")
    assert done.returncode == 0
    assert "the boxes that the model reads with them are all zero" in done.stderr


def test_settings_of_single_layers_keep_no_sentence_from_being_read(tmp_path: Path) -> None:
    assert attn_tui("export", saved("neomme", tmp_path), "attention", "--text", TEXT).returncode == 0


def test_layers_with_keys_of_others_are_not_said_to_be_left_out(tmp_path: Path) -> None:
    done = attn_tui("export", saved("gemma3n_text", tmp_path), "ranks", "--layer", "3", "--head", "0")
    assert "left out" not in done.stderr


@pytest.mark.parametrize(
    ("model_type", "said"),
    [
        ("whisper", "reads input_features, not text alone"),
        ("blip_2_qformer", "reads query_embeds, not text alone"),
        ("voxtral_realtime", "You must specify exactly one of input_features"),
    ],
)
def test_what_reads_no_text_alone_says_what_it_reads(model_type: str, said: str, tmp_path: Path) -> None:
    assert said in refusal(saved(model_type, tmp_path), "attention", "--text", TEXT)
