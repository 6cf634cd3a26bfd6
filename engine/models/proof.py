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
from dataclasses import replace

import torch
from torch import Tensor

from engine.architectures.finite_numbers import all_finite
from engine.architectures.heads import LayerWeights
from engine.architectures.outline import AttentionModule
from engine.models.proof_case import Case, Try
from engine.models.proof_output import outputs
from engine.models.proof_scores import scores
from engine.models.widened import in_float32
from engine.models.witness import Observation
from engine.values.proof import Finding, LayerProof

TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
"""Of the largest number: what rounding in a module's own arithmetic may add up to, by the dtype of its numbers."""

ROUNDINGS = 4
"""How many roundings of the largest score may show in a probability, where scores are large."""

PARTS = {
    "Q": ("query", "query_bias", "gate", "gate_bias"),
    "K": ("key", "key_bias"),
    "V": ("value", "value_bias"),
    "O": ("output", "output_bias"),
}
"""What a layer's weights hold of each projection."""

BEYOND = frozenset(
    {
        "differential pairs",
        "residual convolution",
        "landmarks",
        "dynamic mask",
        "short convolution",
        "output scaled by a sink",
        "relative position terms",
        "hashed attention",
        "outputs beyond OV",
        "scores beyond QK",
        "terms beside the heads",
    }
)
"""Marks of what depends on the sentence in ways that the identities do not cover."""

UNHELD = "the scores take in more than queries and keys, such as positions that the model counts itself"
"""Said of scores that do not follow from queries and keys where positions could not be held still."""

ROUNDING_MODULES = frozenset({"Linear8bitLt"})
"""Projections that do not compute what their weights say, but nearly."""


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
    with in_float32(seen.module, seen.key_value_module, *seen.projections.values()):
        return _prove(Case(module, _as_loaded(module, weights, seen.loaded_as), seen))


def _as_loaded(module: AttentionModule, weights: LayerWeights, dtype: torch.dtype | None) -> LayerWeights:
    """Round weights as they were when the model was loaded in half precision; those that take two steps stay."""
    if dtype is None:
        return weights
    in_two_steps = {*module.latents, *("O" if module.output_first else "")}
    parts = {
        name: getattr(weights, name)
        for matrix, names in PARTS.items() if matrix not in in_two_steps
        for name in names
    }  # fmt: skip
    return replace(weights, **{name: part.to(dtype) for name, part in parts.items() if part is not None})


def _prove(case: Case) -> LayerProof:
    """Check both identities for one layer whose weights are there."""
    module, seen = case.module, case.seen
    assert seen.probabilities is not None
    assert seen.written is not None
    queries = seen.probabilities.shape[2]
    if seen.reads["V"].shape[-2] != seen.probabilities.shape[3] or seen.reads["Q"].shape[-2] != queries:
        nothing = Finding(None, math.nan, "its maps are not of the tokens that its projections read")
        return LayerProof(module.outline.name, nothing, nothing)
    looking = _first_that_holds(case, scores, seen.probabilities)
    if looking.holds is False and not seen.positions_are_held:
        looking = Finding(None, looking.residual, UNHELD)
    return LayerProof(module.outline.name, _first_that_holds(case, outputs, seen.written), looking)


def _what_is_missing(seen: Observation) -> str:
    """Say why a layer cannot be checked, if so."""
    if seen.written is None:
        return "it took no part in the sentence, or calls its projections in a way that cannot be watched"
    if not all_finite(seen.written):
        return "it computes NaN or infinite numbers, of a parameter that holds such or that the checkpoint lacks"
    if seen.probabilities is None:
        return "it does not return its attention probabilities"
    return ""


def _first_that_holds(case: Case, tries: Callable[[Case], Iterator[Try]], seen: Tensor) -> Finding:
    """Try modifiers in turn, the plain formula first; without one that holds give the smallest residual.

    ``seen`` is what the module made, which the formula is to give.
    """
    tolerance = TOLERANCES[seen.dtype]
    if case.loads_rounded:
        tolerance = max(tolerance, TOLERANCES[case.seen.loaded_as or seen.dtype])
    best = math.inf
    for modifier, residual, size in tries(case):
        if residual <= max(tolerance, ROUNDINGS * torch.finfo(seen.dtype).eps * size):
            return Finding(True, residual, modifier)
        best = min(best, residual)
    if any(type(each).__name__ in ROUNDING_MODULES for each in case.seen.module.modules()):
        return Finding(None, best, "its projections round what they read to eight bits")
    marks = ", ".join(case.module.outline.marks)
    if beyond := BEYOND & set(case.module.outline.marks):
        return Finding(None, best, f"{', '.join(sorted(beyond))}: no identity covers it")
    return Finding(False, best, f"holds neither plainly nor with anything known ({marks or 'no marks'})")
