"""Whether tensors hold numbers that can be computed with, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

NAMED = 3
"""Tensors that are named of those that hold NaN or infinite numbers."""


def all_finite(part: Tensor) -> bool:
    """Say whether a tensor holds neither NaN nor infinite numbers.

    What is finite added up holds none; that is several times quicker to know than the extremes, which are asked for
    where a sum is too large for the dtype. Both are NaN where any number is.
    """
    return bool(part.sum().isfinite()) or bool(torch.stack(torch.aminmax(part)).isfinite().all())


def not_finite(tensors: Mapping[str, Iterable[Tensor]]) -> str:
    """Say of tensors which hold NaN or infinite numbers, and how many; of more than `NAMED` the first ones.

    Parameters
    ----------
    tensors : by name, each as one tensor in a tuple, or in parts.
    """
    said = []
    for name, parts in tensors.items():
        bad = numbers = 0
        for part in parts:
            bad += int((~part.isfinite()).sum())
            numbers += part.numel()
        if bad:
            said.append(f"{name} holds {bad} NaN or infinite numbers of {numbers}")
    more = len(said) - NAMED
    if more <= 0:
        return ", ".join(said)
    others = "so does one" if more == 1 else f"so do {more}"
    return f"{', '.join(said[:NAMED])} and {others} more of its tensors"
