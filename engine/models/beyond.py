"""Whether attention that was watched is what its matrices alone say, for the marks of modules written by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.mathematics.scores import fitted_scale
from engine.models.devices import wide
from engine.models.tracing import Traced

ROUNDING = {torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""What rounding may do to probabilities, and to outputs in proportion; a thousandth in wider types."""


def marks_beyond(traced: Traced) -> tuple[str, ...]:
    """Name what takes part besides the four matrices, in the words of `engine.values.outline.MARKS`."""
    slack = ROUNDING.get(traced.output.read.dtype, 1e-3)
    weights = wide(traced.weights)
    sums = weights.sum(-1, keepdim=True)
    marks = ["attention sink"] if bool((sums < 1 - slack).any()) else []
    if not _follows(traced, weights / sums.clamp_min(1e-30), slack):
        marks.append("scores beyond QK")
    value = traced.value.by_head().repeat_interleave(len(weights) // len(traced.value.places), 0)
    read = wide(traced.output.read)
    mixed = torch.stack([read[:, places] for places in traced.output.places])  # (heads, queries, width)
    if value.shape[1] != weights.shape[2] or _far(weights @ value, mixed, slack):
        marks.append("outputs beyond OV")
    return tuple(marks)


def _follows(traced: Traced, weights: Tensor, slack: float) -> bool:
    """Say whether probabilities are the softmax of products of queries and keys, with whatever scale fits best."""
    query = traced.query.by_head()
    key = traced.key.by_head().repeat_interleave(len(weights) // len(traced.key.places), 0)
    if (query.shape[1], key.shape[1]) != weights.shape[1:]:
        return False
    products, seen = query @ key.mT, weights > 0
    fitted = fitted_scale(products, weights.clamp_min(1e-30).log(), seen)
    for scale in (query.shape[-1] ** -0.5, 1.0, fitted):
        predicted = (scale * products).masked_fill(~seen, -torch.inf).softmax(-1)
        if bool((predicted.nan_to_num() - weights).abs().max() <= slack):
            return True
    return False


def _far(found: Tensor, expected: Tensor, slack: float) -> bool:
    """Say whether two things differ by more than rounding."""
    return bool((found - expected).abs().max() > slack * expected.abs().max().clamp_min(1e-30))
