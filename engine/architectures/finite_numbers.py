"""Whether tensors hold numbers that can be computed with, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

NAMED = 3
"""Tensors that are named of those that hold NaN or infinite numbers."""

SMALLEST, LARGEST = 2.0**-250, 2.0**250
"""Between which the largest number of a float64 matrix is to be: measures of circuits multiply four of them, and
float64 holds nothing beyond ``2^±1022``. No product of numbers of other dtypes comes near that."""


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


def has_products(part: Tensor) -> bool:
    """Say whether float64 holds what is made of a matrix by multiplying it."""
    return part.dtype is not torch.float64 or part.ndim == 1 or _fits(_largest([part]))


def without_products(tensors: Mapping[str, Iterable[Tensor]]) -> str:
    """Say how large the largest number is of the first tensor of which float64 holds no products.

    Parameters
    ----------
    tensors : as in `not_finite`.
    """
    for name, parts in tensors.items():
        if not _fits(largest := _largest(parts)):
            return f"{name} holds numbers up to {largest:.0e}, whose products are beyond float64"
    return "products of its tensors hold numbers whose products are beyond float64"


def _largest(parts: Iterable[Tensor]) -> float:
    """Give the size of the largest number; 0 where there is none."""
    return max((float(part.abs().max()) for part in parts if part.numel()), default=0.0)


def _fits(largest: float) -> bool:
    """Say whether products of numbers up to that size are neither too large for float64 nor lost in it."""
    return not largest or SMALLEST <= largest <= LARGEST
