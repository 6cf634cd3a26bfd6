"""Eigenvalues of square matrices that need not be symmetric, as circuits from a space to itself are.

LAPACK turns M into a triangle by orthogonal similarities, so that what it gives are the exact eigenvalues of a matrix
that differs from M by rounding (Golub & Van Loan, Matrix Computations, 7.5). In float32 that takes a third of the time,
and shares of all eigenvalues, as `circuits.copying`, change in their seventh digit, unless M is so far from normal that
eigenvalues move by far more than M (Trefethen & Embree, Spectra and Pseudospectra, 2005). Whether they do is tried:
M is solved a second time with a few times the rounding added on purpose, and where the shares notice, float64 follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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
    found = torch.full(squares.shape[:-1], torch.nan, dtype=torch.complex128, device=squares.device)
    if squares.shape[-1] < WIDE:
        found[is_finite] = torch.linalg.eigvals(squares[is_finite])
        return found
    return torch.stack([settled(square, [attempt() for attempt in attempts(square)]) for square in squares])


def attempts(square: Tensor) -> tuple[Callable[[], Tensor], ...]:
    """List what is to be solved of one matrix (k, k) for `settled`, each by itself: side by side they are done sooner.

    Nothing is of a matrix of zeros, or of one that holds what is no finite number.
    """
    if not bool(square.isfinite().all()) or not bool(square.any()):
        return ()
    if len(square) < WIDE:
        return (partial(torch.linalg.eigvals, square),)
    single = (square / square.norm()).float()
    return partial(torch.linalg.eigvals, single), partial(_pushed, single)


def _pushed(single: Tensor) -> Tensor:
    """Solve a matrix of the norm 1 with a few roundings added."""
    push = torch.randn(single.shape, generator=torch.Generator().manual_seed(0)).to(single.device) / len(single)
    found: Tensor = torch.linalg.eigvals(single + PUSHED * torch.finfo(single.dtype).eps * push)
    return found


def settled(square: Tensor, found: Sequence[Tensor]) -> Tensor:
    """Choose the eigenvalues (k,) complex128 of a matrix from what its `attempts` gave, or solve it in float64."""
    if not found:
        nothing = 0.0 if bool(square.isfinite().all()) else torch.nan
        return torch.full(square.shape[:1], nothing, dtype=torch.complex128, device=square.device)
    if len(found) == 1:
        return found[0]
    single, pushed = found
    if float((_shares(single) - _shares(pushed)).abs().max()) < UNMOVED:
        return single.to(torch.complex128) * float(square.norm())
    double: Tensor = torch.linalg.eigvals(square)
    return double


def _shares(found: Tensor) -> Tensor:
    """Work out the shares of positive and negative real parts: (2,) float64."""
    wide = found.to(torch.complex128)
    return torch.stack([wide.real.clamp_min(0.0).sum(), wide.real.clamp_max(0.0).sum()]) / wide.abs().sum()
