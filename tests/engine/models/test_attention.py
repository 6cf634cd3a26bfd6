"""Maps are the probabilities that the model itself returns in eager mode, and tokens are what was typed."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.models.reader import Reader
from engine.values.display_text import visible
from engine.values.errors import Superseded
from engine.values.heads import Head
from tests.architecture_cases import ARCHITECTURES
from tests.conftest import TinyModel
from tests.opening import no_hurry, open_folder, open_reader, superseded_at
from tests.own_maps import Maps, eager_maps

SENTENCE = "The cat sat on the mat, and Mary gave a drink to John."
ANOTHER = "def attend(query): return query"
LONG = " ".join([SENTENCE] * 20)


def shown_maps(reader: Reader, folder: Path, check: Callable[[], None] = no_hurry) -> dict[str, Maps]:
    """Give every layer's maps from the engine, as `eager_maps` does."""
    outline = open_folder(folder)[2].outline
    one = len(outline.stacks) == 1
    return {
        "" if one else stack: [reader.layer_maps(layer.name, check).weights for layer in outline.stack_layers(stack)]
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
    assert_same_maps(shown_maps(reader, folder), eager_maps(folder, reader.sentence.ids))


@pytest.mark.parametrize("model_type", [*ARCHITECTURES, "falcon"])
def test_maps_are_those_the_model_returns_of_as_much_as_it_can_read(model_type: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type, with_head=True)
    reader = open_reader(folder)
    context = reader.outline.context
    for text in (SENTENCE, LONG if context else ANOTHER, SENTENCE):
        sentence = reader.read(text, no_hurry)
        assert_maps_of_model(reader, folder)
        if context and text == LONG:
            assert len(sentence.ids) == context < sentence.full_length
            assert str(sentence.full_length) in sentence.notice
            assert str(context) in sentence.notice
        else:
            assert sentence.notice == ""


@pytest.mark.parametrize(("model_type", "context"), [("gpt2", 64), ("bert", 64), ("roberta", 61), ("bloom", None)])
def test_the_context_is_as_long_as_the_positions_allow(
    model_type: str, context: int | None, tiny_model: TinyModel
) -> None:
    folder = tiny_model(model_type)
    assert open_folder(folder)[2].outline.context == context


def test_shortening_keeps_the_special_tokens_at_both_ends(tiny_model: TinyModel) -> None:
    sentence = open_reader(tiny_model("bert")).read(LONG, no_hurry)
    assert (sentence.tokens[0], sentence.tokens[-1]) == ("[CLS]", "[SEP]")


@pytest.fixture
def grouped(tiny_model: TinyModel) -> Path:
    return tiny_model("llama", num_attention_heads=4, num_key_value_heads=2)


@pytest.mark.parametrize(("model_type", "stack"), [("llama", "decoder"), ("bert", "encoder"), ("t5", "encoder"),
                                                   ("t5", "decoder"), ("bart", "cross")])  # fmt: skip
def test_the_mean_over_layers_is_taken_head_by_head(model_type: str, stack: str, tiny_model: TinyModel) -> None:
    folder = tiny_model(model_type)
    reader = open_reader(folder)
    sentence = reader.read(SENTENCE, no_hurry)
    expected = eager_maps(folder, sentence.ids)
    mean = np.mean(expected.get(stack, expected.get("", [])), axis=0)
    maps = reader.layer_maps(stack)
    np.testing.assert_allclose(maps.weights, mean, rtol=0, atol=1e-5)
    np.testing.assert_allclose(maps.select(None).weights, mean.mean(0), rtol=0, atol=1e-5)
    assert maps.layer is None
    assert str(maps.select(None).name) == "mean over layers and heads"


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


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_show_what_was_typed_and_cannot_steer_a_terminal(text: str, grouped: Path) -> None:
    sentence = open_reader(grouped).read(text, no_hurry)
    shown = "".join(sentence.tokens)
    assert shown.isprintable()
    # Escapes are those of Python; bytes of one character that fell into several tokens are escaped one by one.
    unescaped = shown.encode("latin-1", "backslashreplace").decode("unicode_escape")
    as_bytes = unescaped.encode("latin-1", "backslashreplace")
    assert text == unescaped or text.encode() == as_bytes or _join_bytes(sentence.tokens) == text


def test_no_character_that_steers_a_terminal_is_shown_as_it_is() -> None:
    kinds = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    steering = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in kinds]
    assert len(steering) > 130_000
    for character in steering:
        assert visible(f"a{character}b").encode("ascii").startswith(b"a\\")
    assert visible("ünïcödé 日本語 😀 [bold]") == "ünïcödé 日本語 😀 [bold]"


def _join_bytes(tokens: tuple[str, ...]) -> str:
    """Join whole characters and escaped bytes to a text."""
    content = b""
    for token in tokens:
        if "\\" in token:
            content += token.encode("ascii", "backslashreplace").decode("unicode_escape").encode("latin-1")
        else:
            content += token.encode()
    return content.decode(errors="replace")


def test_special_tokens_and_word_pieces_are_shown_by_name(tiny_model: TinyModel) -> None:
    tokens = open_reader(tiny_model("bert")).read("The drinking 😀", no_hurry).tokens
    assert (tokens[:2], tokens[-2:]) == (("[CLS]", "the"), ("[UNK]", "[SEP]"))
    first, *rest = tokens[2:-2]
    assert first + "".join(piece.removeprefix("##") for piece in rest) == "drinking"
    assert rest
    assert all(piece.startswith("##") for piece in rest)


def test_a_superseded_reading_leaves_the_reader_usable(grouped: Path) -> None:
    reader = open_reader(grouped)
    reader.read(ANOTHER, no_hurry)
    with pytest.raises(Superseded):
        reader.read(SENTENCE, superseded_at(2))
    reader.read(ANOTHER, no_hurry)
    assert_maps_of_model(reader, grouped)


def test_half_precision_is_kept_when_asked_for(grouped: Path) -> None:
    reader = open_reader(grouped, dtype="bfloat16")
    sentence = reader.read(SENTENCE, no_hurry)
    weights = reader.layer_maps(Head("decoder", 0)).weights
    expected = eager_maps(grouped, sentence.ids)[""][0]
    assert weights.dtype == np.float32
    assert 1e-5 < np.abs(weights - expected).max() < 0.2
