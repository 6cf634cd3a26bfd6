"""Gram matrices ``W Wᵀ`` in float64. Their eigenvalues are squares of singular values, with half of the digits."""

from __future__ import annotations

import torch
from torch import Tensor

ACCURATE_EIGENVALUE_RATIO = 1e-10
"""A Gram matrix with ``λ_min/λ_max`` above this leaves σ_min with a relative error of at most about 3e-6, since that is
about ``eps · λ_max/λ_min``; larger singular values have smaller ones, and ranks are decided far from it."""

LEAST_EIGENVALUE = 1e-280
"""Below it float64 has fewer digits left, or none."""

GRAM_BLOCK = 128
"""Rows of a large Gram matrix that are multiplied at once, so that what lies above the diagonal is spared."""

PIECE = 2**18
"""Numbers that are made float64 at once: two mebibytes, about what a core's cache holds."""


def descending_roots(eigenvalues: Tensor) -> Tensor:
    """Turn ascending eigenvalues (..., r) of a Gram matrix into singular values, largest first."""
    return eigenvalues.clamp_min(0).sqrt().flip(-1)


def is_ill_conditioned(eigenvalues: Tensor) -> Tensor:
    """Say for each matrix of a batch whether its ascending eigenvalues (..., r) reach below what squaring resolves."""
    return lacks_digits(eigenvalues, eigenvalues[..., -1])


def lacks_digits(eigenvalues: Tensor, largest: Tensor) -> Tensor:
    """Say likewise where rounding is relative to a largest number (...) that is given."""
    return ~(eigenvalues[..., 0] > (ACCURATE_EIGENVALUE_RATIO * largest).clamp_min(LEAST_EIGENVALUE))


def eigenvalues_of(gram: Tensor) -> Tensor:
    """Compute the eigenvalues of Gram matrices (..., r, r), ascending; zeros where squaring has overflowed."""
    if not bool(gram.sum().isfinite()):
        gram = torch.where(gram.isfinite().all(-1).all(-1)[..., None, None], gram, 0.0)
    values: Tensor = torch.linalg.eigvalsh(gram)
    return values


def gram_of(wide: Tensor) -> Tensor:
    """Multiply (batch, r, n) by its transpose, in float64: (batch, r, r).

    Of a large result only the lower triangle is filled, which is what eigenvalues are computed from.
    """
    rows, cols = wide.shape[-2:]
    if rows < 2 * GRAM_BLOCK:
        pieces = (piece.double() for piece in wide.split(max(1, PIECE // (rows * cols))))
        return torch.cat([piece @ piece.mT for piece in pieces])
    gram = torch.zeros(*wide.shape[:-1], rows, dtype=torch.float64, device=wide.device)
    for columns in wide.split(max(GRAM_BLOCK, 4 * PIECE // rows), -1):
        piece = columns.double()
        for start in range(0, rows, GRAM_BLOCK):
            end = min(start + GRAM_BLOCK, rows)
            gram[..., start:end, :end] += piece[..., start:end, :] @ piece[..., :end, :].mT
    return gram


def filled(gram: Tensor) -> Tensor:
    """Fill what `gram_of` may have left out."""
    return gram if gram.shape[-1] < 2 * GRAM_BLOCK else gram.tril() + gram.tril(-1).mT
