"""What a few models do between mixing values and writing them, computed from their own parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from engine.models.proof_case import Case, rows_by_head


def remixed(case: Case, value: Tensor, mixed: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Give what heads hand to the output projection instead of what they mixed, and its name.

    Parameters
    ----------
    case : the layer.
    value : (sentences, key_value_heads, keys, value_head_dim)
    mixed : (sentences, heads, queries, value_head_dim)
    """
    marks = case.module.outline.marks
    if "output scaled by a sink" in marks:
        yield "output scaled by a sink", mixed * _sink_scale(case).to(mixed)
    if "differential pairs" in marks:
        yield "differential pairs", _pairs(case, value)


def _sink_scale(case: Case) -> Tensor:
    """Compute ``sigmoid(logsumexp(scores) − sink)``, (sentences, heads, queries, 1), as Granite with sinks does."""
    seen, weights = case.seen, case.weights
    module: Any = seen.module
    assert seen.probabilities is not None
    query = rows_by_head(seen.reads["Q"], weights.query, weights.query_bias)
    key = rows_by_head(seen.reads["K"], weights.key, weights.key_bias).repeat_interleave(weights.group, 1)
    scores = (module.scaling * query @ key.mT).masked_fill(seen.probabilities == 0, -torch.inf)
    sinks: Tensor = module.sinks.detach().to(scores).reshape(1, -1, 1, 1)
    scale: Tensor = (scores.logsumexp(-1, keepdim=True) - sinks).sigmoid()
    return scale


def _pairs(case: Case, value: Tensor) -> Tensor:
    """Subtract the second half of the heads from the first, each with both halves of the values (Ye et al. 2024)."""
    module: Any = case.seen.module
    assert case.seen.probabilities is not None
    probabilities = case.seen.probabilities.to(value)
    halves = [half.repeat(1, 2, 1, 1).repeat_interleave(case.weights.group, 1) for half in value.chunk(2, 1)]
    both = torch.cat([probabilities @ half for half in halves], -1)  # (sentences, heads, queries, 2 · value_head_dim)
    first, second = both.chunk(2, 1)
    with torch.inference_mode():
        ones, twos = ((getattr(module, f"lambda_q{n}") * getattr(module, f"lambda_k{n}")).sum().exp() for n in (1, 2))
        share = float(ones - twos) + float(module.lambda_init)
        normed = module.groupnorm((first - share * second).to(module.o_proj.weight.dtype)).to(value)
    paired: Tensor = (1 - float(module.lambda_init)) * normed
    by_token: Tensor = paired.transpose(1, 2).flatten(2).unflatten(2, (probabilities.shape[1], -1))
    return by_token.transpose(1, 2)
