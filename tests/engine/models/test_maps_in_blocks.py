"""Maps made in blocks of queries are those the model itself returns, and need no more memory than they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engine.models import attention_capture
from engine.models import reader as reader_module
from engine.models.attention_maps import add_block
from engine.values.errors import Superseded
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.engine.models.test_attention import SENTENCE, assert_same_maps, eager_maps, shown_maps
from tests.opening import no_hurry, open_reader

FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {}),
    ("llama", {"num_attention_heads": 4, "num_key_value_heads": 2}),
    ("mistral", {"num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 4}),
    ("gemma2", {}),
    ("gpt_oss", {}),
    ("bert", {}),
    ("bart", {}),
]
"""Causal, with grouped queries, with a window, with a cap, with sinks, in both directions, encoder and decoder."""


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a block have two or three of the queries of a tiny sentence, and be tried on fewer tokens than it has."""
    monkeypatch.setattr(attention_capture, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(attention_capture, "FEWEST_QUERIES", 1)
    monkeypatch.setattr(attention_capture, "TRIED_TOKENS", 7)


def blocks_taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the first queries of all blocks that are taken in from now on."""
    taken: list[int] = []

    def keeping(maps: Any, first: int, block: Tensor, layers: int) -> None:
        taken.append(first)
        add_block(maps, first, block, layers)

    monkeypatch.setattr(reader_module, "add_block", keeping)
    return taken


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("model_type", "settings"), FAMILIES)
def test_maps_in_blocks_are_those_the_model_returns(
    model_type: str, settings: dict[str, Any], tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model(model_type, **settings)
    reader = open_reader(folder)
    taken = blocks_taken(monkeypatch)
    sentence = reader.read(SENTENCE, no_hurry)
    assert_same_maps(shown_maps(reader, folder), eager_maps(folder, sentence.ids))
    assert len(taken) > 2 * taken.count(0)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("model_type", ["t5", "gpt2"])
def test_an_eager_function_that_looks_at_all_queries_is_called_with_all(
    model_type: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if model_type == "gpt2":  # as its code was until its masks became explicit
        from transformers.models.gpt2 import modeling_gpt2

        def eager(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any) -> Any:
            queries, keys = query.shape[2], key.shape[2]
            seen = torch.ones(keys, keys).tril()[keys - queries :].bool()
            weights = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf).softmax(-1)
            return (weights @ value).transpose(1, 2), weights

        monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", eager)
    folder = tiny_model(model_type)
    reader = open_reader(folder)
    taken = blocks_taken(monkeypatch)
    sentence = reader.read(SENTENCE, no_hurry)
    assert_same_maps(shown_maps(reader, folder), eager_maps(folder, sentence.ids))
    assert set(taken) == {0}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("model_type", ["gemma2", "gpt_oss"])
def test_what_has_no_kernel_is_read_without_a_whole_map(model_type: str, tiny_model: TinyModel) -> None:
    from tests.engine.models.test_kernels import maps_made

    assert maps_made(open_reader(tiny_model(model_type)), SENTENCE) == 0


@pytest.mark.usefixtures("small_blocks")
def test_the_mean_over_layers_in_blocks(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama", num_hidden_layers=5)
    reader = open_reader(folder)
    sentence = reader.read(SENTENCE, no_hurry)
    maps = reader.layer_maps("decoder")
    returned = np.mean(eager_maps(folder, sentence.ids)[""], axis=0)
    np.testing.assert_allclose(maps.weights, returned, rtol=0, atol=1e-5)
    layers = np.stack([reader.layer_maps(Head("decoder", layer)).weights for layer in range(5)])
    np.testing.assert_allclose(maps.weights, layers.mean(0, dtype=np.float64), rtol=0, atol=2e-7)
    np.testing.assert_allclose(maps.select(None).weights, layers.mean((0, 1), dtype=np.float64), rtol=0, atol=2e-7)


@pytest.mark.usefixtures("small_blocks")
def test_a_module_that_changes_its_probabilities_is_called_as_it_was_made_to_be(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model("llama")
    reader = open_reader(folder)
    reader.read(SENTENCE, no_hurry)
    plain = reader.layer_maps(Head("decoder", 1)).weights
    kind = type(reader.modules[Head("decoder", 1)])
    own = kind.forward

    def halved(self: Any, *args: Any, **kwargs: Any) -> Any:
        written, weights = own(self, *args, **kwargs)
        return written, weights / 2

    monkeypatch.setattr(kind, "forward", halved)
    np.testing.assert_allclose(reader.layer_maps(Head("decoder", 1)).weights, plain / 2, rtol=0, atol=1e-6)
    np.testing.assert_allclose(reader.layer_maps("decoder").weights.sum(-1), 0.5, rtol=1e-5)


@pytest.mark.usefixtures("small_blocks")
def test_it_can_be_given_up_between_blocks(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    reader = open_reader(folder)
    sentence = reader.read(SENTENCE, no_hurry)
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 5:
            raise Superseded("replaced by a newer request")

    with pytest.raises(Superseded):
        reader.layer_maps(Head("decoder", 0), look)
    assert_same_maps(shown_maps(reader, folder), eager_maps(folder, sentence.ids))


def test_means_are_of_layers_that_see_unlike_keys_and_numbers_that_are_none_stay() -> None:
    generator, causal = torch.Generator().manual_seed(0), torch.ones(150, 150).tril()
    all_seen = torch.rand(2, 150, 150, generator=generator)
    some_seen = torch.rand(2, 150, 150, generator=generator) * causal.triu(-20)  # through a window
    some_seen[1, 100, 90] = torch.nan
    mean = np.zeros((2, 150, 150), np.float32)
    for weights in (some_seen, all_seen):
        for first in range(0, 150, 70):
            add_block(mean, first, weights[:, first : first + 70], 2)
    np.testing.assert_allclose(mean, (some_seen + all_seen) / 2, rtol=1e-6)
