"""Sentences read with kernels, and maps in blocks of queries, are those that the model returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.engine.models.test_attention import SENTENCE, assert_same_maps, read_as_model_does, shown_maps
from tests.opening import no_hurry, open_reader, refused
from tests.own_maps import eager_maps
from tests.tiny_configurations import save_tiny

WINDOWED = ["mistral", "gemma2", "gemma3_text", "gpt_oss", "cohere2", "modernbert", "olmo3", "exaone4"]


@pytest.mark.parametrize("model_type", WINDOWED)
def test_a_sentence_longer_than_the_window(model_type: str, tiny_model: TinyModel) -> None:
    settings: dict[str, Any] = {"local_attention" if model_type == "modernbert" else "sliding_window": 4}
    if model_type not in ("mistral", "modernbert"):
        settings["layer_types"] = ["sliding_attention", "full_attention"]
    maps = shown_maps(read_as_model_does(tiny_model(model_type, **settings)))[""]
    places = np.arange(len(maps[0][0]))
    far = np.abs(places[:, None] - places) >= 4
    windowed = [bool((layer[:, far] == 0).all()) for layer in maps]
    assert windowed == ([False, True] if model_type == "modernbert" else [True, model_type == "mistral"])


def test_attention_that_differs_from_the_kernel_is_not_read_with_it(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.llama import modeling_llama

    own = modeling_llama.eager_attention_forward

    def gated(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        attended, weights = own(*args, **kwargs)
        return 0.9 * attended, weights

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", gated)
    read_as_model_does(tiny_model("llama"))


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("jamba", {}),
        ("lfm2", {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2}),
        ("olmo_hybrid", {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}),
        ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"]}),
    ],
)
def test_layers_with_attention_among_others_have_their_own_numbers_and_maps(
    model_type: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    reader = open_reader(save_tiny(model_type, tmp_path, **settings))
    sentence = reader.read(SENTENCE, no_hurry)
    numbers = [layer.layer for layer in reader.modules]
    assert numbers == list(range(1, settings.get("num_hidden_layers", 2), 2))
    assert "no attention in layer 0" in refused(lambda: reader.outline.layer(Head("decoder", 0)))
    assert_same_maps(shown_maps(reader), {"": eager_maps(tmp_path, sentence.ids)[""][-len(numbers) :]})


FAMILIES = ["gpt2", "llama", "mistral", "gemma2", "gpt_oss", "bert", "bart"]
"""Causal, with grouped queries, a window, a soft cap, sinks, without a mask, and an encoder with a decoder."""


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("model_type", FAMILIES)
def test_maps_in_blocks_are_those_the_model_returns(model_type: str, tiny_model: TinyModel) -> None:
    read_as_model_does(tiny_model(model_type))


@pytest.mark.usefixtures("small_blocks")
def test_a_module_that_changes_its_probabilities_is_run_with_its_own_code(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, last = open_reader(tiny_model("llama")), Head("decoder", 1)
    reader.read(SENTENCE, no_hurry)
    plain, kind = reader.layer_maps(last).weights, type(reader.modules[last])
    own = kind.forward

    def halved(self: Any, *args: Any, **kwargs: Any) -> Any:
        written, weights = own(self, *args, **kwargs)
        return written, weights / 2

    monkeypatch.setattr(kind, "forward", halved)
    np.testing.assert_allclose(reader.layer_maps(last).weights, plain / 2, rtol=0, atol=1e-6)
    np.testing.assert_allclose(reader.layer_maps("decoder").weights.sum(-1), 0.5, rtol=1e-5)
