"""Identity (b): where a layer's heads look follows from their queries and keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from engine.mathematics.scores import fitted_scale
from engine.models.proof_case import (
    KEY_CONVOLUTION,
    KEY_NORMS,
    QUERY_NORMS,
    SHARED_KEY_NORM,
    SHARED_QUERY_KEY_NORM,
    Case,
    Try,
    call_norm,
    convolve,
    rows_by_head,
    takes_rows_alone,
)
from engine.models.witness import Observation

SUM_SLACK = {torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""How far rows of probabilities may be from one by rounding alone; a thousandth in wider types."""

WHOLE_ROW = 0.5
"""How much of a row the first sentence must tell of, for it to be compared."""

TELLING = 1e-12
"""Probabilities below this say more about rounding than about a score."""


def scores(case: Case) -> Iterator[Try]:
    """Try (b): queries and keys, perhaps normed; their products scaled, capped, or with a bias of the positions."""
    seen, weights = case.seen, case.weights
    assert seen.probabilities is not None
    query = rows_by_head(seen.reads["Q"], weights.query, weights.query_bias)
    key = rows_by_head(seen.reads["K"], weights.key, weights.key_bias)
    names = []
    if (size := case.latent_size("Q")) is not None:
        query = query * size[:, None].to(query)
    if (size := case.latent_size("K")) is not None:
        own = key.shape[-1] - weights.shared_key_rows
        shared = key[..., own:]
        if (norm := case.child((SHARED_KEY_NORM,))) is not None:
            shared = call_norm(norm, shared, seen)
        key = torch.cat([key[..., :own] * size[:, None].to(key), shared], -1)
        names = ["latent norm"]
    if case.clip < math.inf:
        names = [*names, "clipping"]
    if (convolution := case.child(KEY_CONVOLUTION)) is not None and takes_rows_alone(convolution):
        key, names = convolve(convolution, key, seen), [*names, "short convolution"]
    actual = seen.probabilities.to(query)
    sums = actual.sum(-1, keepdim=True)
    if bool(((sums > 0) & (sums < 1 - SUM_SLACK.get(seen.probabilities.dtype, 1e-3))).any()):
        names = [*names, "attention sink"]
    actual = actual / sums.clamp_min(1e-30)
    yield from _softmaxes(case, _clipped(case, query), _clipped(case, key), actual, names)
    shared_norm = case.child((SHARED_QUERY_KEY_NORM,))
    norms = case.child(QUERY_NORMS) or shared_norm, case.child(KEY_NORMS) or shared_norm
    if norms != (None, None):
        query, key = _normed(norms[0], query, seen), _normed(norms[1], key, seen)
        yield from _softmaxes(case, _clipped(case, query), _clipped(case, key), actual, [*names, "query/key norm"])


def _clipped(case: Case, rows: Tensor) -> Tensor:
    """Cut queries or keys off where the module does, which is behind their norm."""
    return rows.clamp(-case.clip, case.clip)


def _normed(norm: Any, rows: Tensor, seen: Observation) -> Tensor:
    """Norm each head's rows, or all heads' rows together where the gain is as wide as that; None norms nothing."""
    if norm is None:
        return rows
    gain = getattr(norm, "weight", None)
    if not isinstance(gain, Tensor) or gain.numel() == rows.shape[-1]:
        return call_norm(norm, rows, seen)
    if gain.ndim == 2:  # each head has a gain of its own
        return call_norm(norm, rows.transpose(1, 2), seen).transpose(1, 2)
    full = call_norm(norm, rows.transpose(1, 2).flatten(2), seen)
    by_head: Tensor = full.unflatten(2, (rows.shape[1], -1))
    return by_head.transpose(1, 2)


def _softmaxes(case: Case, query: Tensor, key: Tensor, actual: Tensor, names: list[str]) -> Iterator[Try]:
    """Turn products of queries and keys into probabilities in every way that models do."""
    products = query @ key.repeat_interleave(case.weights.group, 1).mT
    unseen = actual == 0

    def residual(logits: Tensor) -> tuple[float, float]:
        predicted = logits.masked_fill(unseen, -torch.inf).softmax(-1)
        size = float(logits.masked_fill(unseen, 0.0).abs().max())
        return float((predicted.nan_to_num() - actual).abs().max()), size

    usual = query.shape[-1] ** -0.5
    yield ", ".join(names), *residual(usual * products)
    own = _fitted_scale(products, actual)
    stated = getattr(case.seen.module, "scaling", None)
    for scale in dict.fromkeys((1.0, *([stated] if isinstance(stated, float) else []), own)):
        yield ", ".join([*names, f"scale {scale:.4g}"]), *residual(scale * products)
    by_head = torch.tensor([_fitted_scale(products[:, [h]], actual[:, [h]]) for h in range(products.shape[1])])
    each = by_head.to(products)[None, :, None, None]
    yield ", ".join([*names, "a scale for each head"]), *residual(each * products)
    config: Any = getattr(case.seen.module, "config", None)
    cap = getattr(config, "attn_logit_softcapping", None)
    if cap:
        for scale in (usual, getattr(case.seen.module, "scaling", usual)):
            yield ", ".join([*names, "soft cap"]), *residual(cap * torch.tanh(scale * products / cap))
    if len(actual) > 1:  # a bias of the positions is whatever the first sentence says; the others must then follow
        for scale in dict.fromkeys((usual, 1.0, own)):
            yield ", ".join([*names, "bias of the positions"]), *_following(actual, scale * (products - products[:1]))


def _following(actual: Tensor, rise: Tensor) -> tuple[float, float]:
    """Compare with what the first sentence's probabilities and the others' rise in score say.

    A probability of the first sentence that its dtype has rounded to nothing says nothing of the bias at its place, so
    rows are compared over the keys that the first sentence tells of.
    """
    telling = actual[:1] > TELLING
    kept = (actual * telling).sum(-1, keepdim=True)
    expected = actual * telling / kept.clamp_min(1e-30)
    predicted = (actual[:1].clamp_min(1e-30).log() + rise).masked_fill(~telling | (actual == 0), -torch.inf).softmax(-1)
    off = (predicted.nan_to_num() - expected).abs().where(kept > WHOLE_ROW, 0.0)
    return float(off.max()), float(rise.masked_fill(actual == 0, 0.0).abs().max())


def _fitted_scale(products: Tensor, actual: Tensor) -> float:
    """Find the scale with which products differ between sentences as log-probabilities do, by least squares.

    Of one sentence they must do so between its keys, where no bias of the positions is added to them.
    """
    both = (actual > TELLING).all(0, keepdim=True)
    rise, run = actual.clamp_min(1e-30).log(), products
    if len(actual) > 1:
        rise, run = rise - rise[:1], run - run[:1]
    return fitted_scale(run, rise, both)
