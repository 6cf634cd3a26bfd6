"""What a head's circuits do as maps of the residual stream: how symmetric, how near the identity, how copying.

``M = QK = W_Qᵀ W_K`` scores a query against a key, and ``OV = W_Vᵀ W_Oᵀ`` says what is written for what is read
(Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"). All functions are of batches of products
whose two sides are the same space of d dimensions; they return one number per product, NaN for one that is zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.mathematics.factored import Product

MASS_NUMBERS = 4096
"""Eigenvalues of Gaussian products that the chance of their masses is averaged over, of sixteen products at least."""


@dataclass(frozen=True)
class Traces:
    """What symmetry and the distance from the identity come from, for a batch of maps of d dimensions.

    Attributes
    ----------
    trace : (batch,) ``tr(M)``.
    of_square : (batch,) ``tr(M²) = Σ B ∘ Bᵀ``, B a small matrix with M's non-zero eigenvalues.
    squared_norm : (batch,) ``‖M‖_F²``.
    d : how many dimensions the space has.
    """

    trace: Tensor
    of_square: Tensor
    squared_norm: Tensor
    d: int

    def symmetry(self) -> Tensor:
        """Compute ``tr(M²) / ‖M‖_F²``: 1 for a symmetric M, −1 for an antisymmetric one.

        With S and A the symmetric and antisymmetric parts it is ``(‖S‖² − ‖A‖²) / (‖S‖² + ‖A‖²)``. Of two independent
        Gaussian factors it is 1/d on average.
        """
        return self.of_square / self.squared_norm

    def symmetric_energy(self) -> Tensor:
        """Compute ``‖S‖_F² / ‖M‖_F²`` with ``S = (M + Mᵀ)/2``; what is left is the antisymmetric part's."""
        return (1.0 + self.symmetry()) / 2.0

    def identity_distance(self) -> Tensor:
        """Compute ``min_c ‖M − c·1‖_F / ‖M‖_F = √(1 − tr(M)² / (d ‖M‖_F²))``: 0 for a multiple of the identity.

        A matrix of rank r stays ``√(1 − r/d)`` away, see `identity_floor`.
        """
        return (1.0 - self.trace**2 / (self.d * self.squared_norm)).clamp_min(0.0).sqrt()

    def symmetric_identity_distance(self) -> Tensor:
        """Compute the same of the symmetric part, ``√(1 − tr(M)² / (d ‖S‖_F²))``; NaN where there is none.

        The antisymmetric part has no trace, so its distance is 1 whatever the head does.
        """
        of_symmetric = (self.squared_norm + self.of_square) / 2.0
        none = of_symmetric <= torch.finfo(of_symmetric.dtype).eps * self.squared_norm
        distance = (1.0 - self.trace**2 / (self.d * of_symmetric)).clamp(0.0, 1.0).sqrt()
        return distance.masked_fill(none, torch.nan)


def identity_floor(rank: int, d: int) -> float:
    """Give ``√(1 − rank/d)``, how near to a multiple of the identity a matrix of a rank can come.

    ``tr(M)² ≤ rank · ‖M‖_F²`` by Cauchy and Schwarz.
    """
    return float((1.0 - min(rank, d) / d) ** 0.5)


def traces(matrix: Product) -> Traces:
    """Compute ``tr(M)``, ``tr(M²)`` and ``‖M‖_F²`` through the core."""
    small = matrix.reversed_core()
    return Traces(
        small.diagonal(dim1=-2, dim2=-1).sum(-1),
        (small * small.mT).sum((-2, -1)),
        matrix.squared_norm,
        matrix.left.shape[-2],
    )


def copying(eigenvalues: Tensor) -> Tensor:
    """Compute ``Σλ / Σ|λ|`` over eigenvalues (..., r): 1 where all that is read is written as it was, −1 if reversed.

    Elhage et al. 2021, of the eigenvalues of ``W_E · OV · W_U``, tokens to tokens. Complex ones come in pairs whose sum
    is real.
    """
    total: Tensor = eigenvalues.abs().sum(-1)
    summed: Tensor = eigenvalues.real.sum(-1)
    return summed / total


def positive_mass(eigenvalues: Tensor) -> Tensor:
    """Compute ``Σ max(Re λ, 0) / Σ|λ|`` over eigenvalues (..., r); with `negative_mass` it is at most 1.

    What is missing from 1 is rotation: complex eigenvalues count by their real part alone.
    """
    positive: Tensor = eigenvalues.real.clamp_min(0.0).sum(-1)
    return positive / eigenvalues.abs().sum(-1)


def negative_mass(eigenvalues: Tensor) -> Tensor:
    """Compute ``Σ max(−Re λ, 0) / Σ|λ|`` over eigenvalues (..., r)."""
    return positive_mass(-eigenvalues)


def mass_chance(r: int, d: int) -> float:
    """Average `positive_mass` over Gaussian products ``W_Qᵀ W_K`` of (r, d) factors; `negative_mass` has the same.

    Turning the sign of W_Q leaves a head as probable and changes one into the other, so both are averaged together.
    The eigenvalues are those of ``W_K W_Qᵀ``. With ``W_Q = L Bᵀ``, B orthonormal and L lower triangular, that is
    ``(W_K B) Lᵀ``: W_K B is Gaussian, and so is L below its diagonal, on which stand roots of χ² with d, d − 1, …
    degrees of freedom (Bartlett 1933). So nothing of d columns is drawn. Draws are those of a fixed seed.
    """
    generator = torch.Generator().manual_seed(0)
    size, draws = min(r, d), max(16, MASS_NUMBERS // min(r, d))

    def draw(*shape: int) -> Tensor:
        return torch.randn(draws, *shape, generator=generator, dtype=torch.float64)

    if d <= r:
        products = draw(r, d).mT @ draw(r, d)
    else:
        squares = np.random.default_rng(0).chisquare(np.arange(d, d - size, -1), (draws, size))
        roots = torch.from_numpy(squares).sqrt()
        products = draw(size, size) @ (draw(size, size).tril(-1) + torch.diag_embed(roots)).mT
    eigenvalues = torch.linalg.eigvals(products)
    return float((positive_mass(eigenvalues) + negative_mass(eigenvalues)).mean() / 2.0)
