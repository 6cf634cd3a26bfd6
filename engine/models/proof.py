"""A model's own numbers against the heads that were cut from its files: two identities, layer by layer.

x is what the projections read, out what the output projection wrote, A_h the attention probabilities.

(a)  Σ_h A_h (x W_V,hᵀ + b_V,h) W_O,hᵀ + b_O = out
(b)  softmax(scale · (x W_Qᵀ + b_Q)(x W_Kᵀ + b_K)ᵀ + mask) = A_h, with all positions at zero

A wrong slice of any projection breaks one of them. Where a model does something beside the plain formula, the identity
is tried with that, one modifier after the other, and the one it holds with is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.heads import LayerWeights
from engine.models.outline import AttentionModule
from engine.models.witness import Observation
from engine.values.proof import Finding, LayerProof

TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""Of the largest number: what rounding in a model's own arithmetic may add up to."""

VALUE_NORMS, QUERY_NORMS, KEY_NORMS = (
    tuple(f"{side}_{kind}" for side in sides for kind in ("norm", "layernorm"))
    for sides in (("v", "value"), ("q", "query"), ("k", "key"))
)
SHARED_QUERY_KEY_NORM = "qk_norm"
OUTPUT_NORMS = ("attn_sub_norm", "sub_norm")
GATES = ("gate_proj", "g_proj", "g")
SHARED_KEY_NORM = "k_rope_only_layernorm"
"""What models call the modules beside the projections that act on values, queries, keys and heads' outputs."""

LATENT_SCALES = {"Q": ("mla_scale_q_lora", "q_lora_scale"), "K": ("mla_scale_kv_lora", "kv_lora_scale")}
VALUE_SCALE = "v_scale"
"""What attention modules call the numbers that they multiply latents and values by."""

BEYOND = frozenset(
    {"differential pairs", "residual convolution", "landmarks", "dynamic mask", "relative position terms"}
)
"""Marks of what depends on the sentence in ways that the identities do not cover."""


@dataclass(frozen=True)
class Case:
    """One layer that is being checked."""

    module: AttentionModule
    weights: LayerWeights
    seen: Observation

    def child(self, names: tuple[str, ...]) -> Any:
        """Find a module beside the projections by one of its names, or None."""
        children = dict(self.seen.module.named_children())
        return next((children[name] for name in names if name in children), None)

    def latent_size(self, matrix: str) -> Tensor | None:
        """Give what a first step's norm multiplies a token's latent by, (sentences, tokens, 1), or None."""
        latent = self.module.latents.get(matrix)
        if latent is None:
            return None
        children = dict(self.seen.module.named_children())
        down, norm = (children[name.split(".")[-2]] for name in (latent.down, latent.norm))
        gain: Any = norm.weight
        with torch.inference_mode():
            written = down(self.seen.reads[matrix])[..., : len(gain)]
            plain = written * gain
            normed: Tensor = norm(written)
        size: Tensor = (normed * plain).sum(-1, keepdim=True) / plain.square().sum(-1, keepdim=True)
        scales = [getattr(self.seen.module, name, None) for name in LATENT_SCALES["Q" if matrix == "Q" else "K"]]
        return size * next((scale for scale in scales if scale is not None), 1.0)


def prove(module: AttentionModule, weights: LayerWeights, seen: Observation) -> LayerProof:
    """Check both identities for one layer.

    Parameters
    ----------
    module : where the layer's projections are, and the rule that cuts them.
    weights : its heads as the engine has cut them.
    seen : what the module read and wrote, with all positions at zero.
    """
    missing = _what_is_missing(seen)
    if missing:
        nothing = Finding(None, math.nan, missing)
        return LayerProof(module.outline.name, nothing, nothing)
    assert seen.probabilities is not None
    case = Case(module, weights, seen)
    queries = seen.probabilities.shape[2]
    if seen.reads["V"].shape[-2] != seen.probabilities.shape[3] or seen.reads["Q"].shape[-2] != queries:
        nothing = Finding(None, math.nan, "its maps are not of the tokens that its projections read")
        return LayerProof(module.outline.name, nothing, nothing)
    return LayerProof(module.outline.name, _first_that_holds(case, _outputs), _first_that_holds(case, _scores))


def _what_is_missing(seen: Observation) -> str:
    """Say why a layer cannot be checked, if so."""
    if seen.written is None:
        return "it took no part in the sentence, or calls its projections in a way that cannot be watched"
    if seen.probabilities is None:
        return "it does not return its attention probabilities"
    return ""


def _first_that_holds(case: Case, tries: Callable[[Case], Iterator[tuple[str, float]]]) -> Finding:
    """Try modifiers in turn, the plain formula first; without one that holds give the smallest residual."""
    assert case.seen.written is not None
    tolerance = TOLERANCES[case.seen.written.dtype]
    best = math.inf
    for modifier, residual in tries(case):
        if residual <= tolerance:
            return Finding(True, residual, modifier)
        best = min(best, residual)
    marks = ", ".join(case.module.outline.marks)
    if beyond := BEYOND & set(case.module.outline.marks):
        return Finding(None, best, f"{', '.join(sorted(beyond))}: no identity covers it")
    return Finding(False, best, f"holds neither plainly nor with anything known ({marks or 'no marks'})")


def _relative(difference: Tensor, whole: Tensor) -> float:
    """Give the largest difference relative to the largest number."""
    return float(difference.abs().max() / whole.abs().max().clamp_min(1e-30))


def _by_head(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Project (sentences, tokens, width) by head, in float64: (sentences, heads, tokens, rows)."""
    rows = torch.einsum("btd,hrd->bhtr", x.double(), weight.to(x.device).double())
    return rows if bias is None else rows + bias[None, :, None].to(rows)


# What heads write


def _outputs(case: Case) -> Iterator[tuple[str, float]]:
    """Try (a): values, perhaps normed; mixed by the probabilities; perhaps normed or gated; written."""
    seen, weights = case.seen, case.weights
    assert seen.probabilities is not None
    assert seen.written is not None
    value = _by_head(seen.reads["V"], weights.value, weights.value_bias)
    names = []
    if (size := case.latent_size("V")) is not None:
        value, names = value * size[:, None].to(value), ["latent norm"]
    yield from _written(case, _mix(case, value), names)
    scale = getattr(seen.module, VALUE_SCALE, None)
    if isinstance(scale, float):
        yield from _written(case, _mix(case, value * scale), [*names, "value scale"])
    if (norm := case.child(VALUE_NORMS)) is not None:
        yield from _written(case, _mix(case, _call(norm, value, seen)), [*names, "value norm"])


def _mix(case: Case, value: Tensor) -> Tensor:
    """Mix values by the probabilities: (sentences, heads, queries, value_head_dim)."""
    assert case.seen.probabilities is not None
    return case.seen.probabilities.to(value) @ value.repeat_interleave(case.weights.group, 1)


def _written(case: Case, mixed: Tensor, names: list[str]) -> Iterator[tuple[str, float]]:
    """Write what the heads have mixed, plainly, and by way of a norm or a gate where the module has one."""
    seen, weights = case.seen, case.weights
    assert seen.written is not None
    written = seen.written.reshape(mixed.shape[0], mixed.shape[2], -1).to(mixed)

    def residual(heads: Tensor) -> float:
        total = torch.einsum("bhtr,hdr->btd", heads, weights.output.to(heads))
        total = total if weights.output_bias is None else total + weights.output_bias.to(total)
        return _relative(total - written, written)

    yield ", ".join(names), residual(mixed)
    if (norm := case.child(OUTPUT_NORMS)) is not None:
        normed = _call(norm, mixed.transpose(1, 2).flatten(2), seen)
        yield ", ".join([*names, "output norm"]), residual(normed.unflatten(2, (mixed.shape[1], -1)).transpose(1, 2))
    for gate in _gates(case, mixed):
        yield ", ".join([*names, "output gate"]), residual(mixed * gate)


def _gates(case: Case, mixed: Tensor) -> Iterator[Tensor]:
    """Compute what an output gate may multiply the heads by, (sentences, heads, queries, value_head_dim or 1)."""
    x = case.seen.reads["Q"]
    heads = mixed.shape[1]
    if case.weights.gate is not None:
        yield _by_head(x, case.weights.gate, case.weights.gate_bias).sigmoid()
    if (projection := case.child(GATES)) is not None:
        with torch.inference_mode():
            rows = projection(x).to(mixed)
        if rows.shape[-1] % heads == 0:
            by_head = rows.unflatten(-1, (heads, -1)).transpose(1, 2)
            bias = getattr(case.seen.module, "gate_bias", None)
            if isinstance(bias, Tensor):
                by_head = by_head + bias.detach().to(mixed).reshape(1, heads, 1, -1)
            for squash in (torch.sigmoid, nn.functional.silu, nn.functional.softplus, lambda each: 2 * each.sigmoid()):
                yield squash(by_head)


# Where heads look


def _scores(case: Case) -> Iterator[tuple[str, float]]:
    """Try (b): queries and keys, perhaps normed; their products scaled, capped, or with a bias of the positions."""
    seen, weights = case.seen, case.weights
    assert seen.probabilities is not None
    query = _by_head(seen.reads["Q"], weights.query, weights.query_bias)
    key = _by_head(seen.reads["K"], weights.key, weights.key_bias)
    names = []
    if (size := case.latent_size("Q")) is not None:
        query = query * size[:, None].to(query)
    if (size := case.latent_size("K")) is not None:
        own = key.shape[-1] - weights.shared_key_rows
        shared = key[..., own:]
        if (norm := case.child((SHARED_KEY_NORM,))) is not None:
            shared = _call(norm, shared, seen)
        key = torch.cat([key[..., :own] * size[:, None].to(key), shared], -1)
        names = ["latent norm"]
    actual = seen.probabilities.to(query)
    sums = actual.sum(-1, keepdim=True)
    if bool((sums < 1 - 1e-3).any()):
        names = [*names, "attention sink"]
    actual = actual / sums.clamp_min(1e-30)
    yield from _softmaxes(case, query, key, actual, names)
    norms = case.child((*QUERY_NORMS, SHARED_QUERY_KEY_NORM)), case.child((*KEY_NORMS, SHARED_QUERY_KEY_NORM))
    if norms != (None, None):
        query, key = _normed(norms[0], query, seen), _normed(norms[1], key, seen)
        yield from _softmaxes(case, query, key, actual, [*names, "query/key norm"])


def _normed(norm: Any, rows: Tensor, seen: Observation) -> Tensor:
    """Norm each head's rows, or all heads' rows together where the gain is as wide as that; None norms nothing."""
    if norm is None:
        return rows
    gain = getattr(norm, "weight", None)
    if not isinstance(gain, Tensor) or gain.numel() == rows.shape[-1]:
        return _call(norm, rows, seen)
    full = _call(norm, rows.transpose(1, 2).flatten(2), seen)
    by_head: Tensor = full.unflatten(2, (rows.shape[1], -1))
    return by_head.transpose(1, 2)


def _softmaxes(case: Case, query: Tensor, key: Tensor, actual: Tensor, names: list[str]) -> Iterator[tuple[str, float]]:
    """Turn products of queries and keys into probabilities in every way that models do."""
    products = query @ key.repeat_interleave(case.weights.group, 1).mT
    unseen = actual == 0

    def residual(logits: Tensor) -> float:
        predicted = logits.masked_fill(unseen, -torch.inf).softmax(-1)
        return float((predicted.nan_to_num() - actual).abs().max())

    usual = query.shape[-1] ** -0.5
    yield ", ".join(names), residual(usual * products)
    own = _fitted_scale(products, actual)
    for scale in dict.fromkeys((1.0, own)):
        yield ", ".join([*names, f"scale {scale:.4g}"]), residual(scale * products)
    config: Any = getattr(case.seen.module, "config", None)
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap:
        for scale in (usual, getattr(case.seen.module, "scaling", usual)):
            yield ", ".join([*names, "soft cap"]), residual(cap * torch.tanh(scale * products / cap))
    if len(actual) > 1:  # a bias of the positions is whatever the first sentence says; the others must then follow
        for scale in dict.fromkeys((usual, own)):
            following = actual[:1].log() + scale * (products - products[:1])
            yield ", ".join([*names, "bias of the positions"]), residual(following)


def _fitted_scale(products: Tensor, actual: Tensor) -> float:
    """Find the scale with which products differ between sentences as log-probabilities do, by least squares."""
    both = (actual > 0).all(0, keepdim=True)
    rise = (actual.clamp_min(1e-30).log() - actual[:1].clamp_min(1e-30).log()).where(both, 0.0)
    run = (products - products[:1]).where(both, 0.0)
    count = both.sum(-1, keepdim=True).clamp_min(1)
    rise = (rise - rise.sum(-1, keepdim=True) / count).where(both, 0.0)
    run = (run - run.sum(-1, keepdim=True) / count).where(both, 0.0)
    return float((rise * run).sum() / run.square().sum().clamp_min(1e-30))


def _call(norm: nn.Module, rows: Tensor, seen: Observation) -> Tensor:
    """Call one of the model's own norms in the dtype that it runs in."""
    assert seen.written is not None
    with torch.inference_mode():
        result: Tensor = norm(rows.to(seen.written.dtype)).to(rows)
    return result
