"""The list of a checkpoint's tensors, and parameters that are missing from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import transformers

from tests.conftest import TinyModel
from tests.exporting import attn_tui, exported, exported_maps, refusal
from tests.opening import edited_weights, with_config
from tests.own_maps import returned_maps
from tests.tiny_configurations import save_tiny, tiny_configuration
from tests.tiny_models import byte_level_tokenizer, save


@pytest.mark.parametrize(
    ("model_type", "tied", "source"),
    [
        ("t5", "decoder.embed_tokens.weight", "shared.weight"),
        ("bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ],
)
def test_a_tied_parameter_is_listed_with_the_one_it_shares(
    model_type: str, tied: str, source: str, tiny_model: TinyModel
) -> None:
    listed = {row["name"]: row for row in exported(tiny_model(model_type, with_head=True), "weights")}
    assert (listed[tied]["tied_to"], listed[source]["tied_to"]) == (source, "")
    assert listed[tied]["shape"] == listed[source]["shape"]


def test_parameters_are_listed_in_reading_order(tiny_model: TinyModel) -> None:
    listed = exported(tiny_model("llama", num_hidden_layers=11, with_head=True, tie_word_embeddings=False), "weights")
    assert not any(row["tied_to"] for row in listed)
    names = [row["name"] for row in listed]
    assert names.index("model.layers.2.mlp.up_proj.weight") < names.index("model.layers.10.mlp.up_proj.weight")


TEXT = "The cat sat on the mat."

LACKS = "the checkpoint lacks "


def without(folder: Path, *endings: str) -> Path:
    """Take the tensors with these endings out of a checkpoint."""
    with edited_weights(folder) as tensors:
        lacking = [tensors.pop(name) for name in list(tensors) if name.endswith(endings)]
    assert lacking
    return folder


def test_maps_before_a_missing_parameter_are_shown_and_later_ones_name_it(tiny_copy: TinyModel, tmp_path: Path) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    expected = exported_maps(folder, TEXT, tmp_path / "whole.npz")["L0"]
    without(folder, "h.0.mlp.c_fc.weight")
    found = exported_maps(folder, TEXT, tmp_path / "maps.npz")
    assert list(found) == ["L0"]
    np.testing.assert_array_equal(found["L0"], expected)
    done = attn_tui("export", folder, "attention", "--text", TEXT)
    assert done.returncode == 0
    assert "decoder L1 has no map to show" in done.stderr
    assert LACKS + "h.0.mlp.c_fc.weight" in refusal(folder, "attention", "--text", TEXT, "--layer", "1")
    said = refusal(folder, "predictions", "--text", TEXT)
    assert f"so it predicts nothing: {LACKS}transformer.h.0.mlp.c_fc.weight" in said


def test_check_names_a_missing_parameter_as_the_reason(tiny_copy: TinyModel) -> None:
    done = attn_tui("check", without(tiny_copy("gpt2"), "h.0.mlp.c_fc.weight"))
    first, second = done.stdout.splitlines()[:2]
    assert first.count("verified") == 2
    assert second.count("from a parameter that holds them or is missing") == 2


def test_parameters_that_maps_do_not_need_may_be_missing(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("gpt2", with_head=True)
    expected = exported(folder, "attention", "--text", TEXT)
    without(folder, "ln_f.weight", "ln_f.bias")
    assert exported(folder, "attention", "--text", TEXT) == expected
    assert "the checkpoint lacks transformer.ln_f.weight and 1 more" in refusal(folder, "lens", "--text", TEXT)


def test_a_decoder_without_its_class_reads_tokens_and_shows_no_encoder(tmp_path: Path) -> None:
    config = tiny_configuration("bart")
    model = transformers.BartForCausalLM._from_config(config, attn_implementation="eager").eval()
    with_config(save(model, tmp_path), architectures=None)
    found = exported_maps(tmp_path, TEXT, tmp_path / "maps.npz")
    assert list(found) == ["decoder.L0"]
    expected = returned_maps(model, byte_level_tokenizer()(TEXT)["input_ids"])[""][0]
    np.testing.assert_allclose(found["decoder.L0"], expected, rtol=0, atol=1e-5)
    assert f"{LACKS}encoder" in refusal(tmp_path, "attention", "--text", TEXT, "--stack", "decoder", "--layer", "1")


def test_a_choice_by_missing_numbers_is_refused(tmp_path: Path) -> None:
    without(save_tiny("deepseek_v32", tmp_path), "indexer.k_norm.weight")
    said = refusal(tmp_path, "attention", "--text", TEXT)
    assert "lacks numbers that it needs to run: the checkpoint lacks" in said
    assert "indexer.k_norm.weight" in said
