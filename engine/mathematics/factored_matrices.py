"""Products of thin matrices, kept factored as orthonormal bases around a small core; batched, in float64.

A head's ``QK = W_Qᵀ W_K`` is ``left · core · rightᵀ``: an orthonormal basis of what W_Q reads, one of what W_K reads,
and a ``head_dim × head_dim`` core between them. Norm, trace, eigenvalues and singular vectors of the product follow
from the core, or from the core and ``rightᵀ left``; the ``d_model × d_model`` product is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.mathematics.measures import StoredSize, frobenius_norm, spectral_norm
from engine.values.spectra import FloatArray

NEARLY_DEPENDENT = 1e-3
"""Below this ratio of a Cholesky factor's smallest to its largest diagonal element, squaring may have cost digits."""


@dataclass(frozen=True)
class FactoredMatrix:
    """A batch of matrices Wᵀ as ``basis · triangle``, (batch, d, k) with orthonormal columns and (batch, k, r) float64.

    k = min(d, r). A square basis is the identity.
    """

    basis: Tensor
    triangle: Tensor

    def repeat(self, times: int) -> FactoredMatrix:
        """Repeat each matrix ``times`` times, as a key/value head for each of its query heads."""
        if times == 1:
            return self
        basis, triangle = (part.repeat_interleave(times, 0) for part in (self.basis, self.triangle))
        return FactoredMatrix(basis, triangle)

    def __getitem__(self, places: slice) -> FactoredMatrix:
        return FactoredMatrix(self.basis[places], self.triangle[places])

    def stored_size(self, epsilon: float | FloatArray) -> StoredSize:
        """Return the sizes (batch,) of the matrices; ``epsilon`` (batch,) says how finely they are stored."""
        sigma: FloatArray = torch.linalg.svdvals(self.triangle).numpy()
        rows, cols = self.triangle.shape[-1], self.basis.shape[-2]
        return StoredSize(rows, cols, epsilon, frobenius_norm(sigma), spectral_norm(sigma))


@dataclass(frozen=True)
class FactoredProduct:
    """A batch of products ``left · core · rightᵀ``: (batch, m, k), (batch, k, l) and (batch, n, l) float64.

    The outer ones have orthonormal columns.
    """

    left: Tensor
    core: Tensor
    right: Tensor

    def __getitem__(self, places: slice) -> FactoredProduct:
        return FactoredProduct(self.left[places], self.core[places], self.right[places])

    @property
    def is_whole(self) -> bool:
        """Whether the outer ones are square, and so identities; then the core is the product."""
        return all(each.shape[-2] == each.shape[-1] for each in (self.left, self.right))

    @property
    def squared_norm(self) -> Tensor:
        """Compute ``‖M‖_F²``: (batch,)."""
        return (self.core**2).sum((-2, -1))

    def eigenvalue_core(self, between: Tensor | None = None) -> Tensor:
        """Form a small matrix (batch, k, k) with the trace and the non-zero eigenvalues of M, or of ``M · T``.

        ``left C rightᵀ T`` and ``C rightᵀ T left`` have the same ones, as XY and YX do. T, ``between``, is (n, m)
        float64; None is the identity, for products from a space to itself.
        """
        if self.is_whole:
            return self.core if between is None else self.core @ between
        onto_left = self.left if between is None else between @ self.left
        return self.core @ (self.right.mT @ onto_left)

    def singular_triples(self) -> tuple[Tensor, Tensor, Tensor]:
        """Decompose into ``Σ σ_i u_i v_iᵀ``: (batch, m, r), (batch, r) largest first, and (batch, n, r).

        The largest number of u_i in size is positive (`fix_signs`).
        """
        left, values, right = torch.linalg.svd(self.core, full_matrices=False)
        first, second = fix_signs(self.left @ left, self.right @ right.mT)
        return first, values, second


def fix_signs(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Choose the sign that a decomposition leaves open, so that the largest number of u_i in size is positive.

    Singular vectors are columns, (batch, m, r) and (batch, n, r); both change sign together.
    """
    largest = left.abs().argmax(-2, keepdim=True)
    signs = left.gather(-2, largest).sign()
    return left * signs, right * signs


def root(rows: Tensor) -> Tensor:
    """Compute L with ``W Wᵀ = L Lᵀ`` for each matrix of a batch (batch, r, d): (batch, r, min(r, d)).

    By Cholesky where squaring leaves enough digits, otherwise by Householder's QR. ``‖Wᵀ B‖_F = ‖Lᵀ B‖_F`` for every B.
    """
    wide = rows.double()
    if wide.shape[-1] <= wide.shape[-2]:
        return wide
    lower: Tensor
    lower, failed = torch.linalg.cholesky_ex(wide @ wide.mT)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    doubtful = (failed != 0) | ~(diagonal.amin(-1) > NEARLY_DEPENDENT * diagonal.amax(-1))
    if bool(doubtful.any()):
        lower[doubtful] = torch.linalg.qr(wide[doubtful].mT, mode="r")[1].mT
    return lower


def factor_matrices(rows: Tensor) -> FactoredMatrix:
    """Split each matrix of a batch (batch, r, d) into an orthonormal basis of what it reads, and a triangle, by QR."""
    wide = rows.double()
    batch, r, d = wide.shape
    if d <= r:  # they read the whole space, of which any basis will do
        return FactoredMatrix(torch.eye(d, dtype=wide.dtype).expand(batch, d, d), wide.mT)
    return FactoredMatrix(*torch.linalg.qr(wide.mT))


def product(left: FactoredMatrix, right: FactoredMatrix) -> FactoredProduct:
    """Multiply ``W_leftᵀ W_right`` for two factored batches of matrices (batch, r, m) and (batch, r, n)."""
    return FactoredProduct(left.basis, left.triangle @ right.triangle.mT, right.basis)
