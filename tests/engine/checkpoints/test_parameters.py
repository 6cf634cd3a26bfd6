"""The list of a checkpoint's tensors: as stored, in reading order, with what is tied shown as tied."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

from tests.conftest import TinyModel
from tests.opening import open_folder


@pytest.mark.parametrize(
    ("model_type", "tied", "source"),
    [
        ("gpt2", "lm_head.weight", "transformer.wte.weight"),
        ("t5", "decoder.embed_tokens.weight", "shared.weight"),
        ("bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    ],
)
def test_tied_parameters_are_listed_with_the_one_they_share(
    model_type: str, tied: str, source: str, tiny_model: TinyModel
) -> None:
    opened = open_folder(tiny_model(model_type, with_head=True))[0]
    listed = {each.name: each for each in opened.parameters()}
    assert listed[tied].tied_to == source
    assert listed[source].tied_to == ""
    assert listed[tied].shape == listed[source].shape


def test_parameters_are_listed_as_stored_and_in_reading_order(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama", num_hidden_layers=11, with_head=True, tie_word_embeddings=False)
    source = open_folder(folder)[0]
    listed = source.parameters()
    stored = load_file(folder / "model.safetensors")
    assert {each.name: each.shape for each in listed} == {name: tuple(each.shape) for name, each in stored.items()}
    assert not any(each.tied_to for each in listed)
    assert sum(each.parameters for each in listed) == sum(each.numel() for each in stored.values())
    names = [each.name for each in listed]
    assert names.index("model.layers.2.mlp.up_proj.weight") < names.index("model.layers.10.mlp.up_proj.weight")
