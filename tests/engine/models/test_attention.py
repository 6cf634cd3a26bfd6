"""Maps are the probabilities that the model itself returns in eager mode, and tokens are what was typed."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from engine.models.reader import Reader
from engine.values.display_text import visible
from engine.values.heads import Head
from tests.architecture_cases import ARCHITECTURES
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_reader
from tests.own_maps import Maps, eager_maps

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


def assert_maps_of_model(reader: Reader, folder: Path) -> None:
    """Compare all maps of the sentence that was read last with the model's own."""
    assert reader.sentence is not None
    assert_same_maps(shown_maps(reader), eager_maps(folder, reader.sentence.ids))


def read_as_model_does(folder: Path) -> Reader:
    """Read a sentence, and compare all its maps with the model's own."""
    reader = open_reader(folder)
    reader.read(SENTENCE, no_hurry)
    assert_maps_of_model(reader, folder)
    return reader


CONTEXTS = {"gpt2": 64, "bert": 64, "roberta": 61, "bloom": None}
"""Tokens that a type can read: all its positions, those after the padding's, or any number."""


@pytest.mark.parametrize("model_type", [*ARCHITECTURES, "falcon"])
def test_maps_are_those_the_model_returns_of_as_much_as_it_can_read(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type, with_head=True)
    reader = open_reader(folder)
    context = reader.outline.context
    assert context == CONTEXTS.get(model_type, context)
    for text in (SENTENCE, LONG if context else ANOTHER, SENTENCE):
        sentence = reader.read(text, no_hurry)
        assert_maps_of_model(reader, folder)
        if context and text == LONG:
            assert len(sentence.ids) == context < sentence.full_length
            assert str(sentence.full_length) in sentence.notice
            assert str(context) in sentence.notice
        else:
            assert sentence.notice == ""


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
    for character in steering:
        assert visible(f"a{character}b").encode("ascii").startswith(b"a\\")
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
