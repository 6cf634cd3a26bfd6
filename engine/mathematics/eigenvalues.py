"""Eigenvalues of square matrices that need not be symmetric, as circuits from a space to itself are.

LAPACK turns M into a triangle by orthogonal similarities, so that what it gives are the exact eigenvalues of a matrix
that differs from M by rounding (Golub & Van Loan, Matrix Computations, 7.5). In float32 that takes a third of the time,
and shares of all eigenvalues, as `circuits.copying`, change in their seventh digit, unless M is so far from normal that
eigenvalues move by far more than M (Trefethen & Embree, Spectra and Pseudospectra, 2005). Whether they do is tried:
M is solved a second time with a few times the rounding added on purpose, and where the shares notice, float64 follows.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDE = 512
"""The size from which float32 is tried first; smaller problems take no time."""

PUSHED = 4.0
"""How many roundings of float32 are added to each element, in the mean square."""

UNMOVED = 2e-6
"""By how much the shares may differ then. Where a cycle or a nilpotent part of k steps spreads eigenvalues to rings of
a radius ``ε^(1/k)``, four times the rounding changes it by ``4^(1/k) − 1``: 3.5 % of the error is seen at k = 40."""


def eigenvalues(squares: Tensor) -> Tensor:
    """Compute the eigenvalues of a batch of matrices, in no order.

    Parameters
    ----------
    squares : (batch, k, k) float64.

    Returns
    -------
    (batch, k) complex128: of matrices from `WIDE` on those of a matrix that differs from M by a rounding to float32,
    unless they show that this does not do. NaN for a matrix that holds what is no finite number, of which LAPACK makes
    numbers, or ends the process.
    """
    is_finite = squares.isfinite().flatten(1).all(1)
    sound = squares[is_finite]
    found = torch.full(squares.shape[:-1], torch.nan, dtype=torch.complex128, device=squares.device)
    if squares.shape[-1] < WIDE:
        found[is_finite] = torch.linalg.eigvals(sound)
    elif len(sound):
        found[is_finite] = torch.stack([_of_wide(square) for square in sound])
    return found


def _of_wide(square: Tensor) -> Tensor:
    """Compute those of one matrix (k, k), in float32 if that does."""
    size = float(square.norm())
    if size == 0.0:
        return torch.zeros(len(square), dtype=torch.complex128, device=square.device)
    scaled = square / size
    generator = torch.Generator().manual_seed(0)
    push = torch.randn(scaled.shape, generator=generator).to(square.device) / len(square)  # of the norm 1, as M is
    single: Tensor = torch.linalg.eigvals(scaled.float())
    pushed = torch.linalg.eigvals(scaled.float() + PUSHED * torch.finfo(torch.float32).eps * push)
    if float((_shares(single) - _shares(pushed)).abs().max()) < UNMOVED:
        return single.to(torch.complex128) * size
    double: Tensor = torch.linalg.eigvals(scaled)
    return double * size


def _shares(found: Tensor) -> Tensor:
    """Work out the shares of positive and negative real parts: (2,) float64."""
    wide = found.to(torch.complex128)
    return torch.stack([wide.real.clamp_min(0.0).sum(), wide.real.clamp_max(0.0).sum()]) / wide.abs().sum()
