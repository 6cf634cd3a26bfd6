"""The attention probabilities among all that an attention module may return, in one form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def returned_probabilities(returned: Any, sentences: int, heads: int) -> Tensor | None:
    """Pick the probabilities (sentences, heads, queries, keys) out of what an attention module returns.

    They are its last four-dimensional tensor: T5 returns its position bias, of the same shape, before them. Where a
    softmax goes over two kinds of keys, each has its part of it.
    """
    found = four_dimensional(returned)
    if found and found[-1].shape[:2] != (sentences, heads):
        found = [_by_head(found[-1], sentences, heads)]
    if not found or found[-1].shape[:2] != (sentences, heads):
        return None
    last = found[-1]
    slack = _slack(last)
    if len(found) > 1 and found[-2].shape[:3] == last.shape[:3]:
        both = torch.cat([found[-2], last], -1)
        is_part = bool((last.sum(-1) < 1 - slack).all())
        if is_part and bool((both >= 0).all()) and bool(((both.sum(-1) - 1).abs() <= slack).all()):
            return both
    return last if is_distribution(last) else None


def is_distribution(weights: Tensor) -> bool:
    """Say whether weights (…, keys) can be probabilities: none below zero, and no sum above one."""
    slack = _slack(weights)
    return bool(weights.amin() >= 0) and bool(weights.sum(-1).amax() <= 1 + slack)


def _slack(weights: Tensor) -> float:
    """Say how far rounding may bring a sum of probabilities from one."""
    return 0.05 if weights.dtype in (torch.bfloat16, torch.float16) else 1e-3


def four_dimensional(returned: Any) -> list[Tensor]:
    """List the four-dimensional tensors that a module returns; of a tuple of tuples, those of the first."""
    parts = list(returned.values()) if isinstance(returned, dict) else returned
    parts = parts if isinstance(parts, (tuple, list)) else ()
    if parts and all(isinstance(part, tuple) for part in parts):
        parts = parts[0]
    return [part for part in parts if isinstance(part, Tensor) and part.ndim == 4]


def _by_head(part: Tensor, sentences: int, heads: int) -> Tensor:
    """Bring other orders into (sentences, heads, queries, keys): XLNet's, and Longformer's band around each query."""
    is_band = part.shape[0] == sentences and part.shape[2] == heads and part.shape[3] % 2 == 1
    if not is_band or part.shape[2:] == (sentences, heads):
        return part.permute(2, 3, 0, 1)
    return dense_band(part)


def dense_band(part: Tensor) -> Tensor:
    """Lay a band out on the diagonal (Beltagy et al. 2020, Longformer): entry j of row i is key i + j − window.

    Parameters
    ----------
    part : (sentences, queries, heads, 2 · window + 1); in the middle of its last axis is what a query gives itself.

    Returns
    -------
    weights : (sentences, heads, queries, queries)
    """
    band = part.transpose(1, 2)  # (sentences, heads, queries, 2 · window + 1)
    queries, width = band.shape[2:]
    places = torch.arange(queries, device=band.device)[:, None] + torch.arange(width, device=band.device)
    wide = band.new_zeros(*band.shape[:2], queries, queries + width - 1)
    window = width // 2
    return wide.scatter(-1, places.expand_as(band), band)[..., window : window + queries]
