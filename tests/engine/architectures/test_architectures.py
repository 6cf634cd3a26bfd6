"""Every known type is cut into heads, and its attention is computed again from them.

Two identities, on the transformers model's own numbers: x is what the value projection reads, out what the output
projection writes, A_h the attention probabilities that the model returns.

(a)  Σ_h A_h (x W_V,hᵀ + b_V,h) W_O,hᵀ + b_O = out
(b)  softmax(scores) = A_h, with the scores computed from x W_Qᵀ + b_Q and x W_Kᵀ + b_K as the type does (`Scores`)

All positions are zero, so that rotations cancel; the mask is read off A_h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.architectures.heads import read_layer
from engine.architectures.outline import Anatomy, AttentionModule
from engine.architectures.tensors import Tensors
from tests import tiny_models
from tests.architecture_cases import ARCHITECTURES, FORMS, Architecture, Scores, expected_counts, settings_of_form
from tests.opening import open_folder
from tests.tiny_configurations import tiny_configuration

EXACT = 2e-5
"""The tolerance, relative to the largest number; the models compute in float32."""

Head = Mapping[str, Tensor]
"""One head's matrices and biases, by name."""


@dataclass(frozen=True)
class Dissection:
    """A model that has run on two sentences, and what the engine found in its files, which is all that it saw.

    Attributes
    ----------
    settings : with which the model was made.
    probabilities : by stack, for every layer, (sentence, head, query, key), as the model returned them.
    reads, writes : by a projection's name, its input and its output.
    """

    case: Architecture
    settings: Mapping[str, Any]
    model: Any
    anatomy: Anatomy
    checkpoint: Tensors
    probabilities: Mapping[str, tuple[Tensor, ...]]
    reads: Mapping[str, Tensor]
    writes: Mapping[str, Tensor]


def _run(model: Any, stacks: tuple[str, ...]) -> dict[str, tuple[Tensor, ...]]:
    """Run two sentences of random tokens; return the model's attention probabilities."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 200, (2, 7), generator=generator)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
    if len(stacks) > 1:
        inputs["decoder_input_ids"] = torch.randint(5, 200, (2, 5), generator=generator)
    elif any(getattr(model.config, name, None) for name in ("rope_parameters", "rotary_dim")):
        inputs["position_ids"] = torch.zeros_like(ids)
    with torch.no_grad():
        returned = model(**inputs, output_attentions=True)
    if len(stacks) > 1:
        return {stack: getattr(returned, f"{stack}_attentions") for stack in stacks}
    return {stacks[0]: returned.attentions}


def dissect(model_type: str, form: str, folder: Path) -> Dissection:
    """Build and save a model of a type, open its files with the engine, and run it."""
    case = ARCHITECTURES[model_type]
    settings = settings_of_form(model_type, form)
    model = tiny_models.build(tiny_configuration(model_type, **settings), with_head=form != "base class")
    model.save_pretrained(folder)
    _, checkpoint, anatomy = open_folder(folder)
    reads: dict[str, Tensor] = {}
    writes: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        reads[name], writes[name] = args[0].detach(), result.detach()

    for weight in {name for module in anatomy.modules.values() for name in module.weights.values()}:
        model.get_submodule(weight.removesuffix(".weight")).register_forward_hook(partial(keep, weight))
    return Dissection(case, settings, model, anatomy, checkpoint, _run(model, case.stacks), reads, writes)


def _projected(x: Tensor, head: Head, matrix: str) -> Tensor:
    """Apply a head's projection, with its bias if there is one: (sentence, token, width) to rows of the head."""
    return x @ head[f"W_{matrix}"].T + head.get(f"b_{matrix}", 0.0)


def _normed(attention: nn.Module, side: str, rows: Tensor) -> Tensor:
    """Apply the attention's own norm to (sentence, head, token, head_dim): over each head, or the full width."""
    norm: Any = next(each for name, each in attention.named_children() if name[0] == side and name.endswith("norm"))
    with torch.no_grad():
        if norm.weight.numel() == rows.shape[-1]:
            result: Tensor = norm(rows)
        else:
            result = norm(rows.transpose(1, 2).flatten(2)).unflatten(2, rows.shape[1::2]).transpose(1, 2)
    return result


def _logits(taken: Dissection, module: AttentionModule, heads: list[Head]) -> Tensor:
    """Compute scale · q kᵀ, (sentence, head, query, key), from the engine's W_Q and W_K."""
    outline, scale = module.outline, taken.case.scale
    q, k = (torch.stack([_projected(taken.reads[module.weights[each]], head, each) for head in heads], 1)
            for each in "QK")  # fmt: skip
    if taken.case.scores is Scores.NORMED:
        attention, group = taken.model.get_submodule(outline.module), outline.heads // outline.key_value_heads
        q, k = _normed(attention, "q", q), _normed(attention, "k", k[:, ::group]).repeat_interleave(group, 1)
    if isinstance(scale, str):
        scale = getattr(taken.model.config, scale) ** (-0.5 if scale == "query_pre_attn_scalar" else 1)
    return q @ k.mT * (outline.head_dim**-0.5 if scale is None else scale)


def _predicted(taken: Dissection, module: AttentionModule, logits: Tensor, actual: Tensor) -> Tensor:
    """Compute the left side of (b) from the logits, as the type does."""
    if taken.case.scores is Scores.BIASED:  # the first sentence tells the bias, which must then predict the second
        logits = actual[:1].log() + logits - logits[:1]
    if taken.case.scores is Scores.CAPPED:
        cap = taken.model.config.attn_logit_softcapping
        logits = cap * torch.tanh(logits / cap)
    logits = logits.masked_fill(actual == 0, -torch.inf)
    if taken.case.scores is Scores.SINKING:
        sinks = taken.model.get_submodule(module.outline.module).sinks.detach()
        sink = sinks[None, :, None, None].expand(*logits.shape[:3], 1)
        return torch.cat([logits, sink], -1).softmax(-1)[..., :-1]
    return logits.softmax(-1)


def assert_identities(taken: Dissection, module: AttentionModule, actual: Tensor) -> None:
    """Check (a) and (b) for one layer."""
    layer = read_layer(taken.checkpoint, module)
    heads: list[Head] = [layer.of_head(head) for head in range(module.outline.heads)]
    written = taken.writes[module.weights["O"]].reshape(*actual.shape[:1], actual.shape[2], -1)
    again = torch.zeros(()) if layer.output_bias is None else layer.output_bias
    for place, head in enumerate(heads):
        again = again + actual[:, place] @ _projected(taken.reads[module.weights["V"]], head, "V") @ head["W_O"].T
    assert (again - written).abs().max() <= EXACT * written.abs().max(), "identity (a)"
    preference = actual.amax(-1) * (actual > 0).sum(-1)  # 1 if a query attends equally to all its keys
    assert preference.max() > 1.1, "the attention is too uniform to tell anything"
    predicted = _predicted(taken, module, _logits(taken, module, heads), actual)
    assert (predicted - actual).abs().max() <= EXACT, "identity (b)"


@pytest.mark.parametrize("form_name", FORMS)
@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_heads_are_found_and_reproduce_the_attention(model_type: str, form_name: str, tmp_path: Path) -> None:
    taken = dissect(model_type, form_name, tmp_path)
    outline, case = taken.anatomy.outline, taken.case
    assert outline.stacks == case.stacks
    for stack in outline.stacks:
        layers = outline.stack_layers(stack)
        count, *expected = expected_counts(model_type, taken.settings, stack)
        assert [layer.layer for layer in layers] == list(range(count))
        for layer, actual in zip(layers, taken.probabilities[stack], strict=True):
            assert [layer.heads, layer.key_value_heads, layer.head_dim] == expected
            assert layer.value_head_dim == layer.head_dim
            assert set(case.marks) <= set(layer.marks)
            assert layer.marks or stack == "cross" or case.scores is Scores.PLAIN
            assert_identities(taken, taken.anatomy.modules[layer.name], actual)
