"""How far two models' heads are from each other: distances of weights and circuits, angles between what they read.

A is the model that was opened, B the one beside it. All is float64, and no head's ``d_model × d_model`` product is ever
formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from engine.mathematics.factored_matrices import factor_matrices
from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES
from engine.mathematics.subspaces import images, principal_angles
from engine.values.heads import MATRICES
from engine.values.spectra import Spectrum

CANCELLED = 1e-8
"""Share of its bound up to which a squared norm is computed again by QR; above it, it has at least eight digits."""


Factors = tuple[Tensor, ...]
"""A batch of matrices (batch, r, d) alone, or of circuits ``leftᵀ right`` (batch, r, m) and (batch, r, n)."""


def norm(factors: Factors) -> Tensor:
    """Compute ``‖W‖_F`` or ``‖leftᵀ right‖_F``: (batch,) float64."""
    wide = [each.double() for each in factors]
    norms: Tensor = torch.linalg.matrix_norm(*wide) if len(wide) == 1 else product_norm(*wide)
    return norms


def distance(first: Factors, second: Factors) -> Tensor:
    """Compute ``‖B − A‖_F / ‖A‖_F`` of a batch of matrices or circuits: 0 where nothing differs, infinite where A is 0.

    For circuits, with ``left_B = left_A + Δ_left`` and ``right_B = right_A + Δ_right``,
    ``M_B − M_A = [Δ_left; left_A]ᵀ [right_B; Δ_right]``, exactly: a small change is no difference of large products.
    """
    deltas = [now.double() - before.double() for before, now in zip(first, second, strict=True)]
    if len(deltas) == 2:
        deltas = [torch.cat([deltas[0], first[0].double()], 1), torch.cat([second[1].double(), deltas[1]], 1)]
    changed = norm(tuple(deltas))
    return torch.where(changed == 0, 0.0, changed / norm(first))


def unrelated_distance(first: Factors, second: Factors) -> Tensor:
    """Compute ``√(1 + ‖B‖² / ‖A‖²)``, the distance from A of a B that has nothing to do with it; NaN where both are 0.

    If B is turned at random against A, ``E ⟨A, B⟩ = 0`` and so ``E ‖B − A‖² = ‖A‖² + ‖B‖²``: √2 for one of A's size.

    Examples
    --------
    >>> unrelated_distance((torch.tensor([[[3.0]], [[0.0]], [[0.0]]]),), (torch.tensor([[[4.0]], [[4.0]], [[0.0]]]),))
    tensor([1.6667,    inf,    nan], dtype=torch.float64)
    """
    size = norm(first)
    return torch.hypot(size, norm(second)) / size


def product_norm(left: Tensor, right: Tensor) -> Tensor:
    """Compute ``‖leftᵀ right‖_F`` of thin factors (batch, r, m) and (batch, r, n) float64: (batch,).

    Its square is ``Σ (left leftᵀ) ∘ (right rightᵀ)``, whose terms may cancel: rounding is relative to the bound
    ``(Σ_i ‖left_i‖ ‖right_i‖)²`` over the rows i. Where little of that is left, the norm is that of ``R_left R_rightᵀ``
    from QR decompositions, which squares nothing (Golub & Van Loan 2013, §5.2).
    """
    if left.shape[1] >= min(left.shape[2], right.shape[2]):
        multiplied: Tensor = torch.linalg.matrix_norm(left.mT @ right)
        return multiplied
    squares = ((left @ left.mT) * (right @ right.mT)).sum((1, 2))
    bound = (left.norm(dim=2) * right.norm(dim=2)).sum(1) ** 2
    norms: Tensor = squares.clamp_min(0.0).sqrt()
    doubtful = (squares <= CANCELLED * bound) & (bound > 0)
    if bool(doubtful.any()):
        triangles = [torch.linalg.qr(each[doubtful].mT, mode="r")[1] for each in (left, right)]
        norms[doubtful] = torch.linalg.matrix_norm(triangles[0] @ triangles[1].mT)
    return norms


def image_angles(
    first: Tensor, first_ranks: Sequence[int], second: Tensor, second_ranks: Sequence[int]
) -> list[Tensor]:
    """Compare what two batches of matrices (batch, r, d) read, of the directions within their numerical ranks.

    Of each pair the principal angles in degrees, (1, dimensions of the smaller subspace).
    """
    one, other = factor_matrices(first), factor_matrices(second)
    return [
        principal_angles(*images(one[place : place + 1], rank, other[place : place + 1], other_rank))
        for place, (rank, other_rank) in enumerate(zip(first_ranks, second_ranks, strict=True))
    ]


def differences(before: Mapping[str, Spectrum], now: Mapping[str, Spectrum]) -> dict[str, float]:
    """Subtract every measure of the first model's matrices from the second's, those that both have."""
    found: dict[str, float] = {}
    for matrix in (matrix for matrix in MATRICES if matrix in before and matrix in now):
        for measure in MEASURES:
            one, other = (
                float(measure.compute(each.singular_values, DEFAULT_EPSILON, each.noise))
                for each in (before[matrix], now[matrix])
            )
            found[f"{matrix.lower()}_{measure.name}_change"] = 0.0 if one == other else other - one
    return found
