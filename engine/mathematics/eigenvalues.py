"""Eigenvalues of circuits from a space to itself, which need not be symmetric, and shares of them.

LAPACK turns M into a triangle by orthogonal similarities, so that what it gives are the exact eigenvalues of a matrix
that differs from M by rounding (Golub & Van Loan, Matrix Computations, 7.5). In float32 that takes a third of the time,
and shares of all eigenvalues, as `copying`, change in their seventh digit, unless M is so far from normal that
eigenvalues move by far more than M (Trefethen & Embree, Spectra and Pseudospectra, 2005). Whether they do is tried:
M is solved a second time with noise of several roundings added on purpose, and where the shares notice, float64
follows.
"""

from __future__ import annotations

import torch
from torch import Tensor

SPECTRA = {
    "QK": ("qk_positive_mass", "qk_negative_mass"),
    "OV": ("ov_copying_residual",),
    "tokens": ("ov_copying",),
}
"""What is measured of the eigenvalues of QK, of OV, and of OV from tokens to tokens."""

WIDE = 512
"""The size from which float32 is tried first; smaller problems take no time."""

NOISE = 32.0
"""How many roundings of float32 are added to each element, in the mean square: more than solving it takes by itself."""

UNMOVED = 1e-6
"""By how much the shares may differ then. Where a cycle or a nilpotent part of k steps spreads eigenvalues to rings of
a radius ``ε^(1/k)``, that changes it by a share of about 2/k, and it differs from float64's by about 20/k: with a part
that weighs little beside another what is not noticed is in the fifth digit."""

TOLERATED = 2e-6
"""By how much they may differ in float64; of what differs by more it cannot tell three digits, as of long chains."""


def eigenvalues(squares: Tensor) -> Tensor:
    """Compute the eigenvalues of a batch of matrices, in no order.

    Parameters
    ----------
    squares : (batch, k, k) float64.

    Returns
    -------
    (batch, k) complex128: of matrices from `WIDE` on those of a matrix that differs from M by a rounding to float32,
    unless they show that this does not do. NaN where float64 does not do either, and for a matrix that holds what is no
    finite number, of which LAPACK makes numbers, or ends the process.
    """
    is_finite = squares.isfinite().flatten(1).all(1)
    found = torch.full(squares.shape[:-1], torch.nan, dtype=torch.complex128, device=squares.device)
    if squares.shape[-1] < WIDE:
        found[is_finite] = _eigenvalues(squares[is_finite])
        return found
    for place in is_finite.nonzero()[:, 0].tolist():
        size = squares[place].norm()
        single = _in_float32(squares[place] / size) if float(size) else torch.zeros(()).to(found)
        found[place] = _eigenvalues(squares[place]) if single is None else single * size
    return found


def copying(found: Tensor) -> Tensor:
    """Compute ``Σλ / Σ|λ|`` over eigenvalues (..., r): 1 where all that is read is written as it was, −1 if reversed.

    Elhage et al. 2021, of the eigenvalues of ``W_E · OV · W_U``, tokens to tokens. Complex ones come in pairs whose sum
    is real.
    """
    total: Tensor = found.abs().sum(-1)
    summed: Tensor = found.real.sum(-1)
    return summed / total


def positive_mass(found: Tensor) -> Tensor:
    """Compute ``Σ max(Re λ, 0) / Σ|λ|`` over eigenvalues (..., r); with `negative_mass` it is at most 1.

    What is missing from 1 is rotation: complex eigenvalues count by their real part alone.
    """
    positive: Tensor = found.real.clamp_min(0.0).sum(-1)
    return positive / found.abs().sum(-1)


def negative_mass(found: Tensor) -> Tensor:
    """Compute ``Σ max(−Re λ, 0) / Σ|λ|`` over eigenvalues (..., r)."""
    return positive_mass(-found)


def eigenvalue_measures(kind: str, found: Tensor) -> dict[str, Tensor]:
    """List what follows from the eigenvalues (batch, k) of one of `SPECTRA`: (batch,) each."""
    if kind == "QK":
        return dict(zip(SPECTRA[kind], (positive_mass(found), negative_mass(found)), strict=True))
    return dict.fromkeys(SPECTRA[kind], copying(found))


def _in_float32(square: Tensor) -> Tensor | None:
    """Solve a matrix of norm one in float32; None where its shares show that this does not do."""
    found: Tensor = torch.linalg.eigvals(square.float()).to(torch.complex128)
    moved = (_shares(found) - _shares(_eigenvalues_with_noise(square.float()))).abs().max()
    return found if float(moved) < UNMOVED else None


def _eigenvalues(squares: Tensor) -> Tensor:
    """Solve matrices (..., k, k) in float64; NaN where noise moves the shares, or ``Σ|λ|``."""
    found, others = torch.linalg.eigvals(squares), _eigenvalues_with_noise(squares)
    totals = others.abs().sum(-1) / found.abs().sum(-1)
    moved = torch.maximum((_shares(found) - _shares(others)).abs().amax(0), (1.0 - totals).abs())
    result: Tensor = found.masked_fill((moved > TOLERATED)[..., None], torch.nan)
    return result


def _eigenvalues_with_noise(squares: Tensor) -> Tensor:
    """Solve matrices (..., k, k) with noise of some roundings added, each to its own size."""
    k = squares.shape[-1]
    noise = torch.randn((k, k), generator=torch.Generator().manual_seed(0)).to(squares) / k
    size = NOISE * torch.finfo(squares.dtype).eps * squares.flatten(-2).norm(dim=-1)
    found: Tensor = torch.linalg.eigvals(squares + size[..., None, None] * noise)
    return found.to(torch.complex128)


def _shares(found: Tensor) -> Tensor:
    """Work out the shares (2, ...) of both signs of the real parts of eigenvalues (..., k)."""
    return torch.stack([positive_mass(found), negative_mass(found)])
