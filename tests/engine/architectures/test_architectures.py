"""Every known type is cut into heads, and its attention is computed again from them.

Two identities, on the transformers model's own numbers: x is what the value projection reads, out what the output
projection writes, A_h the attention probabilities that the model returns.

(a)  Σ_h A_h (x W_V,hᵀ + b_V,h) W_O,hᵀ + b_O = out
(b)  softmax(scores) = A_h, with the scores computed from x W_Qᵀ + b_Q and x W_Kᵀ + b_K as the type does (`Scores`)

All positions are zero, so that rotations cancel; the mask is read off A_h.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from engine.architectures.heads import LayerWeights, read_layer
from engine.architectures.outline import Anatomy, AttentionModule
from engine.architectures.tensors import Tensors
from engine.values.heads import Head
from tests import tiny_models
from tests.architecture_cases import ARCHITECTURES, FORMS, Architecture, Scores, expected_counts, form
from tests.conftest import TinyModel
from tests.opening import open_folder, with_config

EXACT = 2e-5
"""The tolerance, relative to the largest number; the models compute in float32."""


@dataclass(frozen=True)
class Dissection:
    """A model that has run on two sentences, and what the engine found in its files.

    Attributes
    ----------
    case, settings : what the test knows about it.
    anatomy, checkpoint : from the engine, which saw only the files.
    probabilities : by stack, for every layer, (sentence, head, query, key), as the model returned them.
    reads, writes : by a projection's name in the files, its input and its output.
    modules : those of the model that ran, by name.
    """

    case: Architecture
    settings: Mapping[str, Any]
    anatomy: Anatomy
    checkpoint: Tensors
    probabilities: Mapping[str, tuple[Tensor, ...]]
    reads: Mapping[str, Tensor]
    writes: Mapping[str, Tensor]
    modules: Mapping[str, nn.Module]
    config: Any


def _named(modules: Mapping[str, nn.Module], name: str) -> nn.Module:
    """Find the module of a name in the files, which differs from the model's own by a prefix at most."""
    if name in modules:
        return modules[name]
    (found,) = [module for each, module in modules.items() if each and name.endswith(f".{each}") and "." in each]
    return found


def _run(model: Any, stacks: tuple[str, ...]) -> dict[str, tuple[Tensor, ...]]:
    """Run two sentences of random tokens; return the model's attention probabilities."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 200, (2, 7), generator=generator)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "output_attentions": True}
    taken = inspect.signature(model.forward).parameters
    if len(stacks) > 1:
        inputs["decoder_input_ids"] = torch.randint(5, 200, (2, 5), generator=generator)
    elif any(getattr(model.config, name, None) for name in ("rope_parameters", "rotary_dim")):
        inputs["position_ids"] = torch.zeros_like(ids)
    if "use_cache" in taken:
        inputs["use_cache"] = False
    with torch.no_grad():
        returned = model(**inputs)
    if len(stacks) > 1:
        return {stack: getattr(returned, f"{stack}_attentions") for stack in stacks}
    return {stacks[0]: returned.attentions}


def dissect(model_type: str, form_name: str, folder: Path) -> Dissection:
    """Build and save a model of a type, open its files with the engine, and run it."""
    case = ARCHITECTURES[model_type]
    known = transformers.AutoConfig.for_model(model_type).to_dict()
    wanted = form(model_type, form_name, known)
    config = tiny_models.configuration(model_type, **wanted.settings)
    model = tiny_models.build(config, wanted.with_head)
    model.save_pretrained(folder)
    _, checkpoint, anatomy = open_folder(folder)
    modules = dict(model.named_modules())
    reads: dict[str, Tensor] = {}
    writes: dict[str, Tensor] = {}

    def keep(name: str, module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        reads[name], writes[name] = args[0].detach(), result.detach()

    for module in anatomy.modules.values():
        for weight in module.weights.values():
            _named(modules, weight.removesuffix(".weight")).register_forward_hook(partial(keep, weight))
    probabilities = _run(model, case.stacks)
    return Dissection(case, wanted.settings, anatomy, checkpoint, probabilities, reads, writes, modules, config)


@pytest.fixture(params=[(name, each) for name in ARCHITECTURES for each in FORMS], ids=" ".join)
def dissection(request: pytest.FixtureRequest, tmp_path: Path) -> Dissection:
    model_type, form_name = request.param
    return dissect(model_type, form_name, tmp_path / "model")


def _projected(x: Tensor, weights: Mapping[str, Tensor], matrix: str) -> Tensor:
    """Apply one head's projection, with its bias if there is one: (sentence, token, width) to rows of the head."""
    return x @ weights[f"W_{matrix}"].T + weights.get(f"b_{matrix}", 0.0)


def _put_together(x: Tensor, probabilities: Tensor, layer: LayerWeights) -> Tensor:
    """Compute the left side of (a)."""
    total = torch.zeros(())
    for head in range(layer.query.shape[0]):
        weights = layer.of_head(head)
        total = total + probabilities[:, head] @ _projected(x, weights, "V") @ weights["W_O"].T
    return total if layer.output_bias is None else total + layer.output_bias


def _normed(parent: nn.Module, side: str, rows: Tensor) -> Tensor:
    """Apply an attention module's own norm to (sentence, head, token, head_dim): over each head, or the full width."""
    norm = next(module for name, module in parent.named_children() if name in (f"{side}_norm", f"{side}_layernorm",
                {"q": "query_layernorm", "k": "key_layernorm"}[side]))  # fmt: skip
    gain: Any = norm.weight
    with torch.no_grad():
        if gain.numel() == rows.shape[-1]:
            result: Tensor = norm(rows)
            return result
        full: Tensor = norm(rows.transpose(1, 2).flatten(2))
        by_head: Tensor = full.unflatten(2, (rows.shape[1], rows.shape[3]))
        return by_head.transpose(1, 2)


def _logits(taken: Dissection, module: AttentionModule, layer: LayerWeights) -> Tensor:
    """Compute scale · q kᵀ, (sentence, head, query, key), from the engine's W_Q and W_K."""
    outline = module.outline
    heads = [layer.of_head(head) for head in range(outline.heads)]
    q = torch.stack([_projected(taken.reads[module.weights["Q"]], head, "Q") for head in heads], 1)
    k = torch.stack([_projected(taken.reads[module.weights["K"]], head, "K") for head in heads], 1)
    scale = taken.case.scale
    if taken.case.scores is Scores.NORMED:
        parent = _named(taken.modules, outline.module)
        shared = slice(None, None, outline.heads // outline.key_value_heads)
        group = outline.heads // outline.key_value_heads
        q, k = _normed(parent, "q", q), _normed(parent, "k", k[:, shared]).repeat_interleave(group, 1)
    if isinstance(scale, str):
        scale = getattr(taken.config, scale) ** (-0.5 if scale == "query_pre_attn_scalar" else 1)
    return q @ k.mT * (outline.head_dim**-0.5 if scale is None else scale)


def _predicted(taken: Dissection, module: AttentionModule, logits: Tensor, actual: Tensor) -> Tensor:
    """Compute the left side of (b) from the logits, as the type does."""
    unseen = actual == 0
    scores = taken.case.scores
    if scores is Scores.BIASED:  # the first sentence tells the bias, which must then predict the second
        following = actual[:1].log() + logits - logits[:1]
        return following.masked_fill(unseen, -torch.inf).softmax(-1)
    if scores is Scores.CAPPED:
        cap = taken.config.attn_logit_softcapping
        logits = cap * torch.tanh(logits / cap)
    logits = logits.masked_fill(unseen, -torch.inf)
    if scores is Scores.SINKING:
        parent: Any = _named(taken.modules, module.outline.module)
        sink = parent.sinks.detach()[None, :, None, None].expand(*logits.shape[:3], 1)
        return torch.cat([logits, sink], -1).softmax(-1)[..., :-1]
    return logits.softmax(-1)


def test_heads_are_found_and_reproduce_the_attention(dissection: Dissection) -> None:
    outline = dissection.anatomy.outline
    model_type = outline.model_type
    assert outline.stacks == dissection.case.stacks
    for stack in outline.stacks:
        layers = outline.stack_layers(stack)
        count, heads, shared, head_dim = expected_counts(model_type, dissection.settings, stack)
        assert [layer.layer for layer in layers] == list(range(count))
        assert len(dissection.probabilities[stack]) == count
        for layer, actual in zip(layers, dissection.probabilities[stack], strict=True):
            counts = (layer.heads, layer.key_value_heads, layer.head_dim, layer.value_head_dim)
            assert counts == (heads, shared, head_dim, head_dim)
            assert set(dissection.case.marks) <= set(layer.marks)
            assert layer.marks or stack == "cross" or dissection.case.scores is Scores.PLAIN
            module = dissection.anatomy.modules[layer.name]
            weights = read_layer(dissection.checkpoint, module)
            assert_identities(dissection, module, weights, actual)


def assert_identities(taken: Dissection, module: AttentionModule, weights: LayerWeights, actual: Tensor) -> None:
    """Check (a) and (b) for one layer."""
    written = taken.writes[module.weights["O"]].reshape(*actual.shape[:1], actual.shape[2], -1)
    again = _put_together(taken.reads[module.weights["V"]], actual, weights)
    assert (again - written).abs().max() <= EXACT * written.abs().max(), "identity (a)"
    preference = actual.amax(-1) * (actual > 0).sum(-1)  # 1 if a query attends equally to all its keys
    assert preference.max() > 1.1, "the attention is too uniform to tell anything"
    predicted = _predicted(taken, module, _logits(taken, module, weights), actual)
    assert (predicted - actual).abs().max() <= EXACT, "identity (b)"


def test_an_unproven_type_opens_with_a_note(tiny_copy: TinyModel) -> None:
    outline = open_folder(with_config(tiny_copy("llama"), model_type="a_type_of_next_year"))[2].outline
    assert "a_type_of_next_year" in " ".join(outline.notes)
    assert outline.layer(Head("decoder", 1)).key_value_heads == 2
