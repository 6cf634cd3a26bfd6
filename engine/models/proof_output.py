"""Identity (a): what a layer's heads write, added up, is what its attention writes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.devices import wide
from engine.models.proof_case import (
    GATES,
    OUTPUT_NORMS,
    VALUE_CONVOLUTION,
    VALUE_NORMS,
    VALUE_SCALE,
    Case,
    Try,
    call_norm,
    convolve,
    relative,
    rows_by_head,
    takes_rows_alone,
)
from engine.models.proof_mixing import remixed
from engine.models.witness import Observation


def outputs(case: Case) -> Iterator[Try]:
    """Try (a): values, perhaps normed; mixed by the probabilities; perhaps normed or gated; written."""
    seen, weights = case.seen, case.weights
    assert seen.probabilities is not None
    assert seen.written is not None
    value = rows_by_head(seen.reads["V"], weights.value, weights.value_bias)
    names = []
    if (size := case.latent_size("V")) is not None:
        value, names = value * size[:, None].to(value), ["latent norm"]
    if case.clip < math.inf:
        value, names = value.clamp(-case.clip, case.clip), [*names, "clipping"]
    if (convolution := case.child(VALUE_CONVOLUTION)) is not None and takes_rows_alone(convolution):
        value, names = convolve(convolution, value, seen), [*names, "short convolution"]
    yield from _written(case, _mix(case, value), names)
    for name, mixed in remixed(case, value, _mix(case, value)):
        yield from _written(case, mixed, [*names, name])
    scale = getattr(seen.module, VALUE_SCALE, None)
    if isinstance(scale, float):
        yield from _written(case, _mix(case, value * scale), [*names, "value scale"])
    if (norm := case.child(VALUE_NORMS)) is not None:
        yield from _written(case, _mix(case, call_norm(norm, value, seen)), [*names, "value norm"])


def _mix(case: Case, value: Tensor) -> Tensor:
    """Mix values by the probabilities: (sentences, heads, queries, value_head_dim)."""
    assert case.seen.probabilities is not None
    return case.seen.probabilities.to(value) @ value.repeat_interleave(case.weights.group, 1)


def _written(case: Case, mixed: Tensor, names: list[str]) -> Iterator[Try]:
    """Write what the heads have mixed, plainly, and by way of a norm or a gate where the module has one."""
    seen, weights = case.seen, case.weights
    assert seen.written is not None
    written = seen.written.reshape(mixed.shape[0], mixed.shape[2], -1).to(mixed)
    if (tail := _tail(case)) is not None:
        written, names = written - tail.to(mixed), [*names, "what is beside the heads"]

    def residual(heads: Tensor) -> float:
        total = torch.einsum("bhtr,hdr->btd", heads, weights.output.to(heads))
        total = total if weights.output_bias is None else total + weights.output_bias.to(total)
        return relative(total - written, written)

    handed_on = [(names, mixed)]
    if (norm := case.child(OUTPUT_NORMS)) is not None:
        handed_on += [([*names, "output norm"], normed) for normed in _normed(norm, mixed, seen)]
    for said, heads in handed_on:
        yield ", ".join(said), residual(heads), 1.0
        for gate in _gates(case, heads):
            yield ", ".join([*said, "output gate"]), residual(heads * gate), 1.0


def _normed(norm: nn.Module, mixed: Tensor, seen: Observation) -> Iterator[Tensor]:
    """Norm all heads' outputs together, and each head's by itself where the norm's gain is no wider."""
    gain = getattr(norm, "weight", None)
    width = gain.numel() if isinstance(gain, Tensor) else None
    if width in (None, mixed.shape[1] * mixed.shape[3]):
        yield call_norm(norm, mixed.transpose(1, 2).flatten(2), seen).unflatten(2, (mixed.shape[1], -1)).transpose(1, 2)
    if width in (None, mixed.shape[3]):
        yield call_norm(norm, mixed, seen)


def _tail(case: Case) -> Tensor | None:
    """Write what the output projection reads after the heads, in columns that are no head's."""
    outline, mixed = case.module.outline, case.seen.mixed
    own = outline.heads * outline.value_head_dim
    if not case.module.rule.has_tail or mixed is None:
        return None
    weight: Any = case.seen.projections["O"].weight
    tail: Tensor = wide(mixed[..., own:]) @ wide(weight[:, own:]).T
    return tail


def _gates(case: Case, mixed: Tensor) -> Iterator[Tensor]:
    """Compute what an output gate may multiply the heads by, (sentences, heads, queries, value_head_dim or 1)."""
    x = case.seen.reads["Q"]
    heads = mixed.shape[1]
    if case.weights.gate is not None:
        yield rows_by_head(x, case.weights.gate, case.weights.gate_bias).sigmoid()
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
