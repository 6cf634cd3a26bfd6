"""Embeddings, unembeddings and norms found by name are those that the models of transformers use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from engine.architectures.vocabulary import NORMS_BEFORE, Vocabulary, final_gain, gain_before, read_gain, vocabulary
from tests import tiny_models
from tests.architecture_cases import ARCHITECTURES
from tests.conftest import TinyModel
from tests.opening import open_folder
from tests.tiny_configurations import need_type, tiny_configuration


def found_in(folder: Path, stack: str) -> tuple[Vocabulary, dict[str | None, Tensor]]:
    """Find and read a stack's embeddings and unembedding."""
    source, tensors, anatomy = open_folder(folder)
    found = vocabulary(anatomy.outline, stack, tensors.entries, source.setting)
    names = {name for name in (found.queries, found.source, found.unembedding) if name is not None}
    return found, {name: tensors.read(name) for name in names}


@pytest.mark.parametrize("model_type", sorted(ARCHITECTURES))
def test_embeddings_are_those_of_the_model_and_without_its_head_only_a_tied_unembedding_is_found(
    tiny_model: TinyModel, model_type: str
) -> None:
    stack = "decoder" if "decoder" in ARCHITECTURES[model_type].stacks else "encoder"
    model: Any = tiny_models.build(tiny_configuration(model_type), with_head=True)
    found, tables = found_in(tiny_model(model_type, with_head=True), stack)
    assert torch.equal(tables[found.queries], model.get_input_embeddings().weight)
    assert torch.equal(tables[found.unembedding], model.get_output_embeddings().weight)
    folder = tiny_model(model_type)
    is_tied = transformers.AutoConfig.from_pretrained(folder).tie_word_embeddings
    found, _ = found_in(folder, stack)
    assert found.queries is not None
    assert found.unembedding == (found.queries if is_tied else None)


def test_encoders_have_no_unembedding_and_cross_attention_reads_both(tiny_model: TinyModel, tmp_path: Path) -> None:
    whole = tiny_model("t5", with_head=True)
    alone = tiny_models.save(transformers.T5EncoderModel.from_pretrained(whole), tmp_path)
    for folder in (whole, alone):
        assert found_in(folder, "encoder")[0] == Vocabulary("shared.weight", "shared.weight", None)
    assert found_in(whole, "cross")[0] == Vocabulary("shared.weight", "shared.weight", "shared.weight")


def test_each_side_may_have_its_own_embedding(tiny_model: TinyModel) -> None:
    settings = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    assert found_in(tiny_model("marian", with_head=True, **settings), "cross")[0] == Vocabulary(
        "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight", "lm_head.weight"
    )


def measured_gain(norm: nn.Module, d: int) -> Tensor:
    """Measure the gain of a norm from its results for x and −x, against a plain norm of x."""
    x = torch.randn(d, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        odd = (norm(x[None])[0] - norm(-x[None])[0]) / 2
        is_centred = torch.allclose(norm(x[None] + 1), norm(x[None]), atol=1e-4)
    plain = x - x.mean() if is_centred else x
    gain: Tensor = odd / (plain / plain.square().mean().sqrt())
    return gain


@pytest.mark.parametrize("model_type", sorted(set().union(*NORMS_BEFORE.values())))
def test_gains_are_those_that_attention_reads_through(tiny_model: TinyModel, model_type: str) -> None:
    need_type(model_type)
    folder = tiny_model(model_type)
    _, tensors, anatomy = open_folder(folder)
    model: Any = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    layer = anatomy.outline.stack_layers("decoder" if "decoder" in anatomy.outline.stacks else "encoder")[1]
    gain = gain_before(anatomy.outline, layer, tensors.entries)
    norm, attention = model.get_submodule(gain.name.removesuffix(".weight")), model.get_submodule(layer.module)
    seen: dict[str, Tensor] = {}
    norm.register_forward_hook(lambda module, given, made: seen.update(made=made))
    attention.register_forward_pre_hook(
        lambda module, given, named: seen.update(read=given[0] if given else named["hidden_states"]), with_kwargs=True
    )
    ids = torch.randint(5, 200, (1, 6), generator=torch.Generator().manual_seed(0))
    more = {"decoder_input_ids": ids} if len(anatomy.outline.stacks) > 1 else {}
    with torch.no_grad():
        model(input_ids=ids, **more)
    torch.testing.assert_close(seen["read"], seen["made"])
    for found in (gain, final_gain(anatomy.outline, layer, tensors.entries)):
        measured = measured_gain(model.get_submodule(found.name.removesuffix(".weight")), layer.d_model)
        torch.testing.assert_close(read_gain(tensors, found).float(), measured, atol=1e-3, rtol=1e-3)
