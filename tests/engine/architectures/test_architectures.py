"""Each common type opens with its heads, whose matrices give the model's own attention, and its maps and embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from engine.architectures.vocabulary import NORMS_BEFORE, Vocabulary, final_gain, gain_before, read_gain, vocabulary
from engine.models.reader import Reader
from engine.values.errors import NotFolded
from tests import tiny_models
from tests.conformance import Row, labels_untrue, table
from tests.conftest import TinyModel
from tests.engine.models.test_attention import LONG, SENTENCE, assert_same_maps, shown_maps
from tests.opening import no_hurry, open_folder, open_reader, prove_layers
from tests.own_maps import returned_maps
from tests.tiny_classes import COMMON_TYPES
from tests.tiny_configurations import tiny_configuration

TYPES = {row.model_type: row for row in table()}

HEADS, WIDTH = 6, 48

CONTEXTS = {"gpt2": 64, "bert": 64, "roberta": 61, "bloom": None}
"""Tokens that a type can read: all its positions, those after the padding's, or any number."""


@dataclass(frozen=True)
class Opened:
    """A tiny model with other counts than in the table of all types, how it opens, and the table's row of its type."""

    row: Row
    settings: dict[str, Any]
    model: Any
    folder: Path
    reader: Reader


def other_counts(row: Row) -> dict[str, Any]:
    """Give the settings of such a model, where the configuration of its type knows them."""
    known = transformers.AutoConfig.for_model(row.model_type).to_dict()
    settings: dict[str, Any] = {"num_attention_heads": HEADS, "hidden_size": WIDTH, "tie_word_embeddings": False}
    if row.heads == "4/2":
        settings["num_key_value_heads"] = 3
    if "head_dim" in known and row.model_type != "helium":  # whose output projection is square whatever it says
        settings["head_dim"] = 10
    if "decoder_attention_heads" in known:
        settings["decoder_attention_heads"] = 3
    if "attention_bias" in known:
        settings["attention_bias"] = True
    if row.model_type == "esm":
        settings["position_embedding_type"] = "absolute"
    return settings


@pytest.fixture(scope="module", params=COMMON_TYPES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    row = TYPES[request.param]
    settings = other_counts(row)
    model = tiny_models.build(tiny_configuration(row.model_type, **settings), with_head=True)
    folder = tiny_models.save(model, tmp_path_factory.mktemp(row.model_type))
    return Opened(row, settings, model, folder, open_reader(folder))


def test_heads_are_found_and_reproduce_the_attention(opened: Opened) -> None:
    outline, proofs = opened.reader.outline, prove_layers(opened.folder, opened.reader)
    modifiers = modifiers_of(opened.row.scores.removeprefix("verified").removeprefix(" with "))
    assert outline.stacks == tuple(opened.row.stacks.split())
    for stack, count in zip(outline.stacks, opened.row.layers.split(), strict=True):
        heads = HEADS if stack == "encoder" else opened.settings.get("decoder_attention_heads", HEADS)
        shared = opened.settings.get("num_key_value_heads", heads)
        width = opened.settings.get("head_dim", WIDTH // heads)
        layers = outline.stack_layers(stack)
        assert [layer.layer for layer in layers] == list(range(int(count)))
        for layer in layers:
            assert (layer.heads, layer.key_value_heads, layer.head_dim) == (heads, shared, width)
            assert layer.value_head_dim == width
            assert layer.marks or stack == "cross" or not modifiers
            assert modifiers & {"query/key norm", "attention sink"} <= {*layer.marks}
            output, scores = proofs[layer.name].output, proofs[layer.name].scores
            assert (output.holds, output.note, scores.holds) == (True, "", True)
            assert modifiers_of(scores.note) == modifiers or (stack == "cross" and not modifiers_of(scores.note))


def modifiers_of(note: str) -> set[str]:
    """Take from a check's note what it names beside queries and keys; a scale follows from the settings."""
    return {each for each in note.split(", ") if each and not each.startswith("scale ")}


def test_maps_are_those_the_model_returns_of_as_much_as_it_can_read(opened: Opened) -> None:
    context = opened.reader.outline.context
    assert context == CONTEXTS.get(opened.row.model_type, context)
    for text in (SENTENCE, LONG if context else "def attend(query): return query", SENTENCE):
        sentence = opened.reader.read(text, no_hurry)
        assert_same_maps(shown_maps(opened.reader), returned_maps(opened.model, sentence.ids))
        if context and text == LONG:
            assert len(sentence.ids) == context < sentence.full_length
            assert str(sentence.full_length) in sentence.notice
            assert str(context) in sentence.notice
        else:
            assert sentence.notice == ""
    assert labels_untrue(opened.reader) == ""


def test_embeddings_are_those_of_the_model(opened: Opened) -> None:
    source, tensors, anatomy = open_folder(opened.folder)
    stack = "decoder" if "decoder" in anatomy.outline.stacks else "encoder"
    found = vocabulary(anatomy.outline, stack, tensors.entries, source.setting)
    assert found.queries is not None
    assert found.unembedding is not None
    own = opened.model.get_decoder() if "cross" in anatomy.outline.stacks else opened.model
    assert torch.equal(tensors.read(found.queries), own.get_input_embeddings().weight)
    assert torch.equal(tensors.read(found.unembedding), opened.model.get_output_embeddings().weight)


def measured_gain(norm: nn.Module, d: int) -> Tensor:
    """Measure the gain of a norm from its results for x and −x, against a plain norm of x."""
    x = torch.randn(d, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        odd = (norm(x[None])[0] - norm(-x[None])[0]) / 2
        is_centred = torch.allclose(norm(x[None] + 1), norm(x[None]), atol=1e-4)
    plain = x - x.mean() if is_centred else x
    gain: Tensor = odd / (plain / plain.square().mean().sqrt())
    return gain


def test_gains_are_those_that_attention_reads_through(opened: Opened) -> None:
    _, tensors, anatomy = open_folder(opened.folder)
    layer = anatomy.outline.stack_layers("decoder" if "decoder" in anatomy.outline.stacks else "encoder")[1]
    if opened.row.model_type not in set().union(*NORMS_BEFORE.values()):
        with pytest.raises(NotFolded):
            gain_before(anatomy.outline, layer, tensors.entries)
        return
    gains = (gain_before(anatomy.outline, layer, tensors.entries), final_gain(anatomy.outline, layer, tensors.entries))
    norm, final = (opened.model.get_submodule(gain.name.removesuffix(".weight")) for gain in gains)
    made, read = list[Tensor](), list[Tensor]()

    def keep_read(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        read.append(args[0] if args else named["hidden_states"])

    attention = opened.model.get_submodule(layer.module)
    with (
        norm.register_forward_hook(lambda module, args, result: made.append(result)),
        attention.register_forward_pre_hook(keep_read, with_kwargs=True),
    ):
        returned_maps(opened.model, tuple(range(5, 11)))
    torch.testing.assert_close(read, made)
    for gain, module in zip(gains, (norm, final), strict=True):
        measured = measured_gain(module, layer.d_model)
        torch.testing.assert_close(read_gain(tensors, gain).float(), measured, atol=1e-3, rtol=1e-3)


def found_in(folder: Path, stack: str) -> Vocabulary:
    source, tensors, anatomy = open_folder(folder)
    return vocabulary(anatomy.outline, stack, tensors.entries, source.setting)


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "opt", "bert", "xlm"])
@pytest.mark.parametrize("is_tied", [True, False])
def test_without_its_head_a_model_has_only_a_tied_unembedding(
    tiny_model: TinyModel, model_type: str, is_tied: bool
) -> None:
    found = found_in(tiny_model(model_type, tie_word_embeddings=is_tied), "decoder")
    assert found.queries is not None
    assert found.unembedding == (found.queries if is_tied else None)


def test_encoders_have_no_unembedding_and_cross_attention_reads_both(tiny_model: TinyModel, tmp_path: Path) -> None:
    whole = tiny_model("t5", with_head=True)
    alone = tiny_models.save(transformers.T5EncoderModel.from_pretrained(whole), tmp_path)
    for folder in (whole, alone):
        assert found_in(folder, "encoder") == Vocabulary("shared.weight", "shared.weight", None)
    assert found_in(whole, "cross") == Vocabulary("shared.weight", "shared.weight", "shared.weight")


def test_each_side_may_have_its_own_embedding(tiny_model: TinyModel) -> None:
    settings = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    assert found_in(tiny_model("marian", with_head=True, **settings), "cross") == Vocabulary(
        "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight", "lm_head.weight"
    )
