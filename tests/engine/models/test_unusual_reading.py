"""Models that read without an encoder, without a tokenizer, or more than text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.conftest import TinyModel
from tests.exporting import attn_tui, exported, exported_maps, refusal, rows_in
from tests.own_maps import returned_maps
from tests.tiny_configurations import save_tiny, tiny_configuration
from tests.tiny_models import build, byte_level_tokenizer, randomise, save

TEXT = "The cat sat on the mat."

IDS: list[int] = byte_level_tokenizer()(TEXT)["input_ids"]


def language_model(model_type: str, **settings: Any) -> Any:
    """Make the model of a type that continues text; without its encoder if it has one."""
    config = tiny_configuration(model_type, **settings)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


def save_random(model: Any, folder: Path) -> Path:
    """Save a model with random parameters, and a tokenizer beside it."""
    randomise(model)
    return save(model, folder)


def layers_with_own_maps(model: Any, folder: Path, atol: float = 1e-5) -> list[str]:
    """Save a model, export its maps, and compare them with what it returns; name their layers."""
    found = exported_maps(save_random(model, folder), TEXT, folder / "maps.npz")
    for maps, own in zip(found.values(), returned_maps(model, IDS)[""], strict=True):
        np.testing.assert_allclose(maps, own, rtol=0, atol=atol)
    return list(found)


def test_layers_that_share_two_blocks_in_turn_have_their_own_maps(tmp_path: Path) -> None:
    kinds = ["mamba", "hybrid"] * 3
    model = language_model("zamba2", layers_block_type=kinds, num_hidden_layers=6, num_mem_blocks=2)
    assert layers_with_own_maps(model, tmp_path, atol=2e-5) == ["L1", "L3", "L5"]


@pytest.mark.parametrize(
    ("model_type", "said"),
    [
        ("whisper", "reads input_features, not text alone"),
        ("blip_2_qformer", "reads query_embeds, not text alone"),
        ("voxtral_realtime", "You must specify exactly one of input_features"),
    ],
)
def test_a_model_that_needs_more_than_text_says_what_it_reads(model_type: str, said: str, tmp_path: Path) -> None:
    assert said in refusal(save_tiny(model_type, tmp_path), "attention", "--text", TEXT)


@pytest.mark.parametrize("model_type", ["bart", "prophetnet", "trocr", "whisper"])
def test_maps_of_a_decoder_alone_are_those_of_its_class(model_type: str, tmp_path: Path) -> None:
    layers = layers_with_own_maps(language_model(model_type), tmp_path)
    assert layers == [f"decoder.L{layer}" for layer in range(len(layers))]
    rows = exported(tmp_path, "attention", "--text", TEXT, "--head", "decoder.L0H0")
    assert "".join(row["query_token"] for row in rows if row["key"] == "0") == TEXT


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("model_type", ["bart", "t5"])
def test_an_encoder_or_decoder_saved_alone_is_read(model_type: str, side: str, tmp_path: Path) -> None:
    assert layers_with_own_maps(getattr(build(tiny_configuration(model_type)), side), tmp_path)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """Make a decoder of BART without its encoder."""
    return save_random(language_model("bart"), tmp_path)


def test_a_decoder_alone_predicts_what_its_class_predicts(alone: Path) -> None:
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(alone).eval()
        logits = model(input_ids=torch.tensor([IDS]), use_cache=False).logits[0, -1]
    likeliest = exported(alone, "predictions", "--text", TEXT)[0]
    assert int(likeliest["token_id"]) == int(logits.argmax())
    assert float(likeliest["probability"]) == pytest.approx(float(logits.double().softmax(0).max()), rel=1e-4)


def test_a_decoder_alone_has_no_cross_maps(alone: Path) -> None:
    said = "cross L0 did not run on this sentence"
    assert said in refusal(alone, "attention", "--text", TEXT, "--stack", "cross", "--layer", "0")
    done = attn_tui("export", alone, "attention", "--text", TEXT)
    assert done.returncode == 0
    assert said in done.stderr
    assert {row["stack"] for row in rows_in(done.stdout)} == {"decoder"}
    mean = attn_tui("export", alone, "attention", "--text", TEXT, "--layer", "mean")
    assert {row["stack"] for row in rows_in(mean.stdout)} == {"decoder"}


NUMBERS = (5, 17, 3, 5, 17, 30)


@pytest.fixture
def bare(tiny_copy: TinyModel) -> Path:
    """Give a model with its head and without a tokenizer."""
    folder = tiny_copy("gpt2", with_head=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / file).unlink(missing_ok=True)
    return folder


def test_maps_and_predictions_of_token_numbers_are_the_models_own(bare: Path) -> None:
    text = " ".join(map(str, NUMBERS))
    model = AutoModelForCausalLM.from_pretrained(bare, attn_implementation="eager").eval()
    with torch.inference_mode():
        said = model(torch.tensor([NUMBERS]), output_attentions=True)
    found = exported(bare, "attention", "--text", text, "--head", "L1H2")
    expected = said.attentions[1][0, 2]
    assert len(found) == len(NUMBERS) ** 2
    assert [int(row["key_token"]) for row in found[: len(NUMBERS)]] == list(NUMBERS)
    for row in found:
        assert float(row["weight"]) == pytest.approx(float(expected[int(row["query"]), int(row["key"])]), abs=1e-6)
    (likeliest,) = (row for row in exported(bare, "predictions", "--text", text) if row["rank"] == "1")
    assert int(likeliest["token_id"]) == int(likeliest["token"]) == int(said.logits[0, -1].argmax())


@pytest.mark.parametrize("model_type", ["t5", "mbart", "splinter", "udop", "bert"])
def test_types_for_which_transformers_makes_up_a_tokenizer_read_numbers(model_type: str, tmp_path: Path) -> None:
    build(tiny_configuration(model_type)).save_pretrained(tmp_path)
    found = exported(tmp_path, "attention", "--text", "5 17 3", "--layer", "0", "--stack", "encoder", "--head", "0")
    assert [row["key_token"] for row in found[:3]] == ["5", "17", "3"]
    assert "type token numbers, such as 5 17 3" in refusal(tmp_path, "attention", "--text", "the cat")


def test_other_text_than_token_numbers_is_refused(bare: Path) -> None:
    assert "without a tokenizer; type token numbers, such as 5 17 3" in refusal(bare, "attention", "--text", "the cat")
    vocabulary = AutoModelForCausalLM.from_pretrained(bare).config.vocab_size
    for view in ("attention", "predictions", "ablation", "contributions"):
        said = refusal(bare, view, "--text", f"5 {vocabulary} 3")
        assert f"has no token {vocabulary}; type numbers from 0 to {vocabulary - 1}" in said


def test_a_damaged_tokenizer_is_refused(bare: Path) -> None:
    (bare / "tokenizer.json").write_text("{")
    assert "has a tokenizer that does not open" in refusal(bare, "attention", "--text", "5 17 3")
    (bare / "tokenizer.json").unlink()
    (bare / "tokenizer_config.json").write_text("{}")
    assert "has no tokenizer, or an empty one" in refusal(bare, "attention", "--text", "5 17 3")
