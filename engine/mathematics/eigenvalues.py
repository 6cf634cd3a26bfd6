"""Eigenvalues of square matrices that need not be symmetric, as circuits from a space to itself are.

LAPACK turns M into a triangle by orthogonal similarities, so that what it gives are the exact eigenvalues of a matrix
that differs from M by rounding (Golub & Van Loan, Matrix Computations, 7.5). In float32 that takes a third of the time,
and the rounding is that which weights have been stored with already. Shares of all eigenvalues, as `circuits.copying`,
change by it in their seventh digit; more where M is so far from normal that single eigenvalues move by far more than M
(Trefethen & Embree, Spectra and Pseudospectra, 2005), and most where many of them are zero in truth. The latter can be
told afterwards: ``Σ log|λ| = log|det M|``, where small eigenvalues count as much as large ones, and the determinant
comes of an LU factorisation, which is quick and in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

WIDE = 512
"""The size from which float32 is tried first; smaller problems take no time."""

MEAN_ERROR = 0.01
"""How far off a logarithm of an eigenvalue may be on average for those of float32 to be kept.

Of Gaussian matrices, products of several, symmetric and antisymmetric ones and singular values spread over five decades
it is less, and shares were off by 2e-7 at most. Where a part is nilpotent, or a triangle of noise outweighs what stands
on the diagonal, it is more, and shares were off by 1e-5 to 5e-2. Between them are matrices of which even the third
digit of a share depends on how the weights were rounded, and it is left at that.
"""


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
    single: Tensor = torch.linalg.eigvals(scaled.float()).to(torch.complex128)
    error = single.abs().log().sum() - torch.linalg.slogdet(scaled).logabsdet
    if float(error.abs()) < MEAN_ERROR * len(square):
        return single * size
    double: Tensor = torch.linalg.eigvals(scaled)
    return double * size
