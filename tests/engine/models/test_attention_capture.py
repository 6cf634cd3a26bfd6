"""Kernels read a sentence without maps where they agree with the model; maps in blocks are those the model returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.models import reader as reader_module
from engine.models.reader import Reader
from engine.values.heads import Head
from tests.conftest import CallsOf, TinyModel
from tests.engine.models.test_attention import ANOTHER, SENTENCE, assert_same_maps, read_as_model_does, shown_maps
from tests.opening import no_hurry, open_reader, refused
from tests.own_maps import eager_maps
from tests.tiny_configurations import save_tiny

WITH_KERNELS = ["llama", "gpt2", "gpt_neox", "opt", "mistral", "gemma3_text", "cohere2", "bert", "modernbert", "bart"]
WITHOUT_KERNELS = ["gemma2", "gpt_oss", "t5", "bloom", "gptj", "mpnet", "falcon"]
WINDOWED = ["mistral", "gemma2", "gemma3_text", "gpt_oss", "cohere2", "modernbert", "olmo3", "exaone4"]


class MapsMade(TorchDispatchMode):
    """Counts the maps of four heads that a run makes."""

    def __init__(self, tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shape, self.count = (1, 4, tokens, tokens), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += sum(isinstance(each, Tensor) and tuple(each.shape) == self.shape for each in tree_leaves(result))
        return result


def maps_made(reader: Reader, text: str) -> int:
    made = MapsMade(len(reader.words.read(text, None).ids))
    with made:
        reader.read(text, no_hurry)
    return made.count


@pytest.mark.parametrize(
    ("model_type", "dtype"), [*((each, "auto") for each in WITH_KERNELS), ("llama", "bfloat16"), ("llama", "float16")]
)
def test_no_map_is_made_while_a_sentence_is_read(model_type: str, dtype: str, tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model(model_type), dtype)
    assert maps_made(reader, SENTENCE) == 0
    reader.reads_with_kernels = False
    assert maps_made(reader, ANOTHER) > 0


def test_attention_that_upcasts_in_eager_mode_is_read_in_eager_mode(tiny_model: TinyModel) -> None:
    assert maps_made(open_reader(tiny_model("gpt2", reorder_and_upcast_attn=True)), SENTENCE) > 0


@pytest.mark.parametrize("model_type", WITH_KERNELS + WITHOUT_KERNELS)
def test_the_states_are_those_of_eager_mode(model_type: str, tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model(model_type))
    inputs = reader.inputs(reader.words.read(SENTENCE, None))

    def states() -> Tensor:
        """Run the whole model; reading for maps ends at the last attention module."""
        with reader.running(len(inputs["input_ids"][0]), no_hurry):
            found: Tensor = reader.model(**inputs)[0]
        return found

    with_kernels = states()
    reader.reads_with_kernels = False
    torch.testing.assert_close(with_kernels, states(), rtol=1e-4, atol=1e-4)


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


def test_padding_by_the_tokenizer_is_removed(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    words: Any = open_reader(tiny_model("llama")).words
    plain = words.read(SENTENCE, None).ids
    padded = {"input_ids": [2, 2, *plain], "attention_mask": [0, 0, *[1] * len(plain)]}
    monkeypatch.setattr(type(words._tokenizer), "__call__", lambda *args, **kwargs: padded)
    assert words.read(ANOTHER, None).ids == plain


FAMILIES = ["gpt2", "llama", "mistral", "gemma2", "gpt_oss", "bert", "bart"]
"""Causal, with grouped queries, a window, a soft cap, sinks, without a mask, and an encoder with a decoder."""


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("model_type", FAMILIES)
def test_maps_in_blocks_are_those_the_model_returns(model_type: str, tiny_model: TinyModel, calls_of: CallsOf) -> None:
    taken = calls_of(reader_module, "add_block")
    reader = read_as_model_does(tiny_model(model_type))
    assert len(taken) > 2 * [first for _, first, *_ in taken].count(0)
    if model_type in ("gemma2", "gpt_oss"):
        assert maps_made(reader, ANOTHER) == 0, "a sentence is read in blocks where there is no kernel"


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("model_type", ["t5", "gpt2"])
def test_an_eager_function_that_expects_all_queries_is_called_with_all(
    model_type: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if model_type == "gpt2":  # as its code was before masks were explicit
        from transformers.models.gpt2 import modeling_gpt2

        def eager(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **_: Any) -> Any:
            queries, keys = query.shape[2], key.shape[2]
            seen = torch.ones(keys, keys).tril()[keys - queries :].bool()
            weights = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf).softmax(-1)
            return (weights @ value).transpose(1, 2), weights

        monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", eager)
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
