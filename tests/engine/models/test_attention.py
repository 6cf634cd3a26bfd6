"""Maps are the probabilities that the model itself returns in eager mode, and tokens are what was typed."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from transformers.models.llama import modeling_llama

from engine.models import attention_capture
from engine.models.reader import Reader
from engine.values.display_text import visible
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_reader, refused
from tests.own_maps import Maps, eager_maps
from tests.tiny_configurations import save_tiny

SENTENCE = "The cat sat on the mat, and Mary gave a drink to John."
ANOTHER = "def attend(query): return query"
LONG = " ".join([SENTENCE] * 20)


def shown_maps(reader: Reader) -> dict[str, Maps]:
    """Give every layer's maps from the engine, as `eager_maps` does."""
    outline = reader.outline
    return {
        stack if len(outline.stacks) > 1 else "": [
            reader.layer_maps(layer.name).weights for layer in outline.stack_layers(stack)
        ]
        for stack in outline.stacks
    }


def assert_same_maps(shown: dict[str, Maps], expected: dict[str, Maps]) -> None:
    assert shown.keys() == expected.keys()
    for stack, layers in expected.items():
        assert len(shown[stack]) == len(layers)
        for ours, theirs in zip(shown[stack], layers, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def read_as_model_does(folder: Path) -> Reader:
    """Read a sentence, and compare all its maps with the model's own."""
    reader = open_reader(folder)
    ids = reader.read(SENTENCE, no_hurry).ids
    assert_same_maps(shown_maps(reader), eager_maps(folder, ids))
    return reader


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks of two or three queries of a tiny sentence, and try them on fewer tokens than it has."""
    monkeypatch.setattr(attention_capture, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(attention_capture, "FEWEST_QUERIES", 1)
    monkeypatch.setattr(attention_capture, "TRIED_TOKENS", 7)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("model_type", "stack"), [("llama", "decoder"), ("bert", "encoder"), ("t5", "encoder"),
                                                   ("t5", "decoder"), ("bart", "cross")])  # fmt: skip
def test_the_mean_over_layers_is_taken_head_by_head(model_type: str, stack: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type, num_hidden_layers=5)
    reader = open_reader(folder)
    returned = eager_maps(folder, reader.read(SENTENCE, no_hurry).ids)
    maps = reader.layer_maps(stack)
    over_heads = maps.select(None)
    layers = np.stack([reader.layer_maps(layer.name).weights for layer in reader.outline.stack_layers(stack)])
    for expected, atol in ((returned.get(stack, returned.get("")), 1e-5), (layers.astype(np.float64), 2e-7)):
        assert expected is not None
        np.testing.assert_allclose(maps.weights, np.mean(expected, axis=0), rtol=0, atol=atol)
        np.testing.assert_allclose(over_heads.weights, np.mean(expected, axis=(0, 1)), rtol=0, atol=atol)
    assert maps.layer is None
    assert str(over_heads.name) == "mean over layers and heads"


def test_the_axes_of_an_encoder_and_its_decoder(tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("t5"))
    sentence = reader.read(SENTENCE, no_hurry)
    shifted = ("<s>", *sentence.tokens[:-1])
    for stack, queries, keys in (
        ("encoder", sentence.tokens, sentence.tokens),
        ("decoder", shifted, shifted),
        ("cross", shifted, sentence.tokens),
    ):
        maps = reader.layer_maps(Head(stack, 0))
        assert (maps.query_tokens, maps.key_tokens) == (queries, keys)


TEXTS = [
    SENTENCE, ANOTHER, "  two  spaces  ", "a_b ⟨c⟩ → d", "[bold]red[/bold]", "line\nbreak",
    "\x1b[31mred\x1b[0m", "tab\there", "null\x00bell\x07", "ünïcödé", "日本語 文", "emoji 😀👍🏽",
    "right\u202eleft", "zero\u200bwidth", "\ud7ff\ue000", "soft\u00adhyphen",
]  # fmt: skip


def test_tokens_show_what_was_typed_and_cannot_steer_a_terminal(tiny_model: TinyModel) -> None:
    reader = open_reader(tiny_model("llama"))
    for text in TEXTS:
        shown = "".join(reader.read(text, no_hurry).tokens)
        assert shown.isprintable()
        # Escapes are Python's, of single bytes, as each byte of a rare character is a token.
        assert shown.encode("ascii").decode("unicode_escape").encode("latin-1") == text.encode()


def test_no_character_that_steers_a_terminal_is_shown_as_it_is() -> None:
    kinds = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    steering = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in kinds]
    assert len(steering) > 130_000
    shown = visible("".join(steering))
    assert shown.isascii()
    assert shown.isprintable()
    assert shown.count("\\") == len(steering)
    assert visible("ünïcödé 日本語 😀 [bold]") == "ünïcödé 日本語 😀 [bold]"


def test_special_tokens_and_word_pieces_are_shown_by_name_and_special_ones_stay_at_both_ends(
    tiny_model: TinyModel,
) -> None:
    reader = open_reader(tiny_model("bert"))
    begin, the, first, *rest, unknown, end = reader.read("The drinking 😀", no_hurry).tokens
    assert (begin, the, unknown, end) == ("[CLS]", "the", "[UNK]", "[SEP]")
    assert rest
    assert all(piece.startswith("##") for piece in rest)
    assert first + "".join(rest).replace("##", "") == "drinking"
    begin, *_, end = reader.read(LONG, no_hurry).tokens
    assert (begin, end) == ("[CLS]", "[SEP]")


def test_half_precision_is_kept_when_asked_for(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    reader = open_reader(folder, dtype="bfloat16")
    expected = eager_maps(folder, reader.read(SENTENCE, no_hurry).ids)[""][0]
    weights = reader.layer_maps(Head("decoder", 0)).weights
    assert weights.dtype == np.float32
    assert 1e-5 < np.abs(weights - expected).max() < 0.2


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
        ("olmo_hybrid", {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}),
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
