"""A decoder that was saved without its encoder is run as the class that its checkpoint names, on the very tokens."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.exporting import attn_tui, exported, exported_maps, refusal
from tests.tiny_configurations import tiny_configuration
from tests.tiny_models import build, byte_level_tokenizer, randomise

TEXT = "The cat sat on the mat."
L0 = ("--stack", "decoder", "--layer", "0", "--head", "0")

CLASSES = {
    "bart": "BartForCausalLM", "bigbird_pegasus": "BigBirdPegasusForCausalLM", "blenderbot": "BlenderbotForCausalLM",
    "blenderbot-small": "BlenderbotSmallForCausalLM", "marian": "MarianForCausalLM", "mbart": "MBartForCausalLM",
    "mvp": "MvpForCausalLM", "pegasus": "PegasusForCausalLM", "plbart": "PLBartForCausalLM",
    "prophetnet": "ProphetNetForCausalLM", "trocr": "TrOCRForCausalLM", "whisper": "WhisperForCausalLM",
}  # fmt: skip
"""The class of a decoder with a language-modelling head, by type."""


def saved(model: Any, folder: Path) -> Path:
    """Save a model with random parameters, and a tokenizer beside it."""
    randomise(model)
    model.save_pretrained(folder)
    byte_level_tokenizer().save_pretrained(folder)
    return folder


def own_maps(model: Any) -> list[np.ndarray[Any, Any]]:
    """Give the probabilities (heads, queries, keys) of each layer that a model itself returns for the sentence."""
    ids = torch.tensor([byte_level_tokenizer()(TEXT)["input_ids"]])
    with torch.inference_mode():
        said = model(input_ids=ids, output_attentions=True, use_cache=False)
    return [each[0].numpy() for each in said.attentions]


@pytest.mark.parametrize("model_type", CLASSES)
def test_its_maps_are_those_of_the_class_that_was_saved(model_type: str, tmp_path: Path) -> None:
    kind = getattr(transformers, CLASSES[model_type])
    model = kind._from_config(tiny_configuration(model_type), attn_implementation="eager").eval()
    found = exported_maps(saved(model, tmp_path / "model"), TEXT, tmp_path / "maps.npz")
    expected = own_maps(model)
    assert list(found) == [f"decoder.L{layer}" for layer in range(len(expected))]
    for maps, own in zip(found.values(), expected, strict=True):
        np.testing.assert_allclose(maps, own, rtol=0, atol=1e-5)
    rows = exported(tmp_path / "model", "attention", "--text", TEXT, *L0)
    assert "".join(row["query_token"] for row in rows if row["key"] == "0") == TEXT


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("model_type", ["bart", "t5"])
def test_one_side_saved_by_itself_is_read_as_that_side(model_type: str, side: str, tmp_path: Path) -> None:
    model = getattr(build(tiny_configuration(model_type)), side)
    found = exported_maps(saved(model, tmp_path / "model"), TEXT, tmp_path / "maps.npz")
    for maps, own in zip(found.values(), own_maps(model), strict=True):
        np.testing.assert_allclose(maps, own, rtol=0, atol=1e-5)


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """Make a decoder of BART without its encoder."""
    config = tiny_configuration("bart")
    return saved(transformers.BartForCausalLM._from_config(config, attn_implementation="eager").eval(), tmp_path)


def test_what_it_predicts_is_what_the_class_predicts(alone: Path) -> None:
    ids = torch.tensor([byte_level_tokenizer()(TEXT)["input_ids"]])
    with torch.inference_mode():
        logits = (
            transformers.BartForCausalLM.from_pretrained(alone).eval()(input_ids=ids, use_cache=False).logits[0, -1]
        )
    likeliest = exported(alone, "predictions", "--text", TEXT)[0]
    assert int(likeliest["token_id"]) == int(logits.argmax())
    assert float(likeliest["probability"]) == pytest.approx(float(logits.double().softmax(0).max()), rel=1e-4)


def test_no_map_across_is_made_up_and_the_others_are_written(alone: Path) -> None:
    said = "cross L0 took no part in reading this sentence"
    assert said in refusal(alone, "attention", "--text", TEXT, "--stack", "cross", "--layer", "0")
    done = attn_tui("export", alone, "attention", "--text", TEXT)
    assert done.returncode == 0
    assert said in done.stderr
    assert {row["stack"] for row in csv.DictReader(io.StringIO(done.stdout))} == {"decoder"}
    mean = attn_tui("export", alone, "attention", "--text", TEXT, "--layer", "mean")
    assert {row["stack"] for row in csv.DictReader(io.StringIO(mean.stdout))} == {"decoder"}


def test_its_heads_are_proven(alone: Path) -> None:
    done = attn_tui("check", alone)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "6 layers: 6 verified"


def test_heads_are_switched_off_and_counted_where_they_are_read(alone: Path) -> None:
    done = attn_tui("export", alone, "ablation", "--text", TEXT)
    assert done.returncode == 0, done.stderr
    assert "cross L0 is left out: it takes no part in reading this sentence" in done.stderr
    assert {row["stack"] for row in csv.DictReader(io.StringIO(done.stdout))} == {"decoder"}
    assert exported(alone, "ablation", "--text", TEXT, "--by-mean", "--head", "decoder.L0H0")
    assert {row["stack"] for row in exported(alone, "contributions", "--text", TEXT)} == {"decoder"}
