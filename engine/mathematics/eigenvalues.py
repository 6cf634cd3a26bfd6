"""Eigenvalues of circuits from a space to itself, which need not be symmetric, and shares of them.

LAPACK turns M into a triangle by orthogonal similarities, so that what it gives are the exact eigenvalues of a matrix
that differs from M by rounding (Golub & Van Loan, Matrix Computations, 7.5). They say nothing of M where it is so far
from normal that eigenvalues move by far more than M (Trefethen & Embree, Spectra and Pseudospectra, 2005), as those of
a nilpotent chain of k steps do, which rounding spreads to a ring of a radius ``ε^(1/k)``. Whether they do is tried: M
is solved a second time with noise of several roundings added on purpose.
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

NOISE = 32.0
"""How many roundings are added to each element, in the mean square: more than solving it takes by itself."""

TOLERATED = 2e-6
"""By how much shares may differ then; of what differs by more float64 cannot tell three digits, as of long chains."""


def eigenvalues(squares: Tensor) -> Tensor:
    """Compute the eigenvalues of a batch of matrices, in no order.

    Parameters
    ----------
    squares : (batch, k, k) float64.

    Returns
    -------
    (batch, k) complex128. NaN where noise shows that float64 does not do, and for a matrix that holds what is no finite
    number, of which LAPACK makes numbers, or ends the process.
    """
    is_finite = squares.isfinite().flatten(1).all(1)
    finite, k = squares[is_finite], squares.shape[-1]
    own: Tensor = torch.linalg.eigvals(finite)
    noise = torch.randn((k, k), generator=torch.Generator().manual_seed(0)).to(finite) / k
    size = NOISE * torch.finfo(finite.dtype).eps * torch.linalg.matrix_norm(finite)
    others = torch.linalg.eigvals(finite + size[:, None, None] * noise)
    totals = others.abs().sum(-1) / own.abs().sum(-1)
    moved = [share(own) - share(others) for share in (positive_mass, negative_mass)]
    largest = torch.stack([*moved, 1.0 - totals]).abs().amax(0)
    own = own.masked_fill((largest > TOLERATED)[:, None], torch.nan)
    found = torch.full(squares.shape[:-1], torch.nan, dtype=own.dtype, device=own.device)
    found[is_finite] = own
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
