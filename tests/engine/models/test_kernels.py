"""A sentence is read without making maps where that changes nothing, and in the model's own way where it would."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.models.reader import Reader
from tests.conftest import TinyModel
from tests.engine.models.test_attention import ANOTHER, SENTENCE, assert_same_maps, eager_maps, shown_maps
from tests.opening import no_hurry, open_reader
from tests.tiny_configurations import save_tiny

WITH_KERNELS = ["llama", "gpt2", "gpt_neox", "opt", "mistral", "gemma3_text", "cohere2", "bert", "modernbert", "bart"]
IN_THEIR_OWN_WAY = ["gemma2", "gpt_oss", "t5", "bloom", "gptj", "mpnet", "falcon"]
WINDOWED = ["mistral", "gemma2", "gemma3_text", "gpt_oss", "cohere2", "modernbert", "olmo3", "exaone4"]


class MapsMade(TorchDispatchMode):
    """Counts the tensors (1, heads, queries, keys) that a run makes."""

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shape = (1, heads, tokens, tokens)
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += sum(isinstance(each, Tensor) and tuple(each.shape) == self.shape for each in tree_leaves(result))
        return result


def maps_made(reader: Reader, text: str) -> int:
    """Read a sentence and count the maps made meanwhile."""
    tokens = len(reader.words.read(text, None).ids)
    made = MapsMade(4, tokens)
    with made:
        reader.read(text, no_hurry)
    return made.count


@contextmanager
def without_kernels(reader: Reader) -> Iterator[None]:
    """Have a reader read in eager mode."""
    able, reader.reads_with_kernels = reader.reads_with_kernels, False
    try:
        yield
    finally:
        reader.reads_with_kernels = able


@pytest.mark.parametrize("model_type", WITH_KERNELS)
def test_no_map_is_made_while_a_sentence_is_read(model_type: str, tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model(model_type))
    assert maps_made(reader, SENTENCE) == 0
    with without_kernels(reader):
        assert maps_made(reader, ANOTHER) > 0


@pytest.mark.parametrize("model_type", IN_THEIR_OWN_WAY)
def test_what_a_kernel_cannot_compute_is_read_in_the_models_own_way(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type)
    reader = open_reader(folder)
    sentence = reader.read(SENTENCE, no_hurry)
    assert_same_maps(shown_maps(reader, folder), eager_maps(folder, sentence.ids))


@pytest.mark.parametrize("model_type", WITH_KERNELS + IN_THEIR_OWN_WAY)
def test_the_layers_hand_on_what_they_do_in_eager_mode(model_type: str, tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model(model_type))
    inputs = reader.inputs(reader.words.read(SENTENCE, None))

    def states() -> Tensor:
        """Run the whole model, as predictions do; what is read for maps ends at the last attention module."""
        with reader.running(len(inputs["input_ids"][0]), no_hurry):
            found: Tensor = reader.model(**inputs)[0]
        return found

    with_kernels = states()
    with without_kernels(reader):
        torch.testing.assert_close(with_kernels, states(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model_type", WINDOWED)
def test_a_sentence_longer_than_the_window(model_type: str, tiny_model: TinyModel) -> None:
    name, window = ("local_attention", 4) if model_type == "modernbert" else ("sliding_window", 4)
    kinds = {} if model_type in ("mistral", "modernbert") else {"layer_types": ["sliding_attention", "full_attention"]}
    folder = tiny_model(model_type, **{name: window}, **kinds)
    reader = open_reader(folder)
    sentence = reader.read(SENTENCE, no_hurry)
    shown = shown_maps(reader, folder)
    assert_same_maps(shown, eager_maps(folder, sentence.ids))
    places = np.arange(len(sentence.ids))
    far = np.abs(places[:, None] - places) >= window
    windowed = [bool((layer[:, far] == 0).all()) for layer in shown[""]]
    assert windowed == ([False, True] if model_type == "modernbert" else [True, model_type == "mistral"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_read_with_kernels(dtype: str, tiny_model: TinyModel) -> None:
    assert maps_made(open_reader(tiny_model("llama"), dtype), SENTENCE) == 0


def test_a_model_whose_own_attention_does_more_is_not_read_with_kernels(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.llama import modeling_llama

    own = modeling_llama.eager_attention_forward

    def gated(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        attended, weights = own(*args, **kwargs)
        return 0.9 * attended, weights

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", gated)
    folder = tiny_model("llama")
    reader = open_reader(folder)
    sentence = reader.read(SENTENCE, no_hurry)
    assert_same_maps(shown_maps(reader, folder), eager_maps(folder, sentence.ids))


def test_attention_that_upcasts_in_eager_mode_is_read_in_eager_mode(tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("gpt2", reorder_and_upcast_attn=True))
    assert maps_made(reader, SENTENCE) > 0


HYBRIDS: list[tuple[str, dict[str, Any]]] = [
    ("jamba", {}),
    ("lfm2", {"layer_types": ["conv", "full_attention"]}),
    ("olmo_hybrid", {"layer_types": ["linear_attention", "full_attention"]}),
    ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"]}),
]


@pytest.mark.parametrize(("model_type", "settings"), HYBRIDS)
def test_the_layers_with_attention_among_others_have_their_own_maps(
    model_type: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    reader = open_reader(save_tiny(model_type, tmp_path, **settings))
    sentence = reader.read(SENTENCE, no_hurry)
    assert {layer.layer for layer in reader.modules} == {1}
    assert_same_maps(shown_maps(reader, tmp_path), {"": eager_maps(tmp_path, sentence.ids)[""][-1:]})


def test_a_tokenizer_that_pads_changes_no_map(tiny_model: TinyModel, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_model("bert"), tmp_path / "padding"))
    plain = open_reader(folder)
    plain.read(SENTENCE, no_hurry)
    described = json.loads((folder / "tokenizer.json").read_text())
    described["padding"] = {"strategy": {"Fixed": 50}, "direction": "Left", "pad_to_multiple_of": None,
                            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(described))
    padding = open_reader(folder)
    assert padding.read(SENTENCE, no_hurry).tokens == plain.read(SENTENCE, no_hurry).tokens
    assert_same_maps(shown_maps(padding, folder), shown_maps(plain, folder))


def test_padding_that_comes_unasked_is_taken_away(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_model("llama")
    reader = open_reader(folder)
    words: Any = reader.words
    own = words._tokenizer
    plain = reader.read(SENTENCE, no_hurry)
    padded = {"input_ids": [2, 2, *plain.ids], "attention_mask": [0, 0, *[1] * len(plain.ids)]}
    monkeypatch.setattr(type(own), "__call__", lambda *args, **kwargs: padded)
    assert reader.words.read(ANOTHER, None).ids == plain.ids
