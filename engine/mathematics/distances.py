"""Distances between two models' matrices, and angles between subspaces of the residual stream.

A is the open model, B the one it is compared with. Subspaces are orthonormal bases, (batch, d, k), compared by the
singular values of ``Aᵀ B``, the cosines of their principal angles (Björck & Golub 1973). These lie between 0 and 1
whatever the scale of the weights, so that a zero can be told from rounding. Everything is float64, and a head's
``d_model × d_model`` product is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from engine.mathematics.chance import gaussian_pair
from engine.mathematics.factored_matrices import FactoredMatrix, FactoredProduct, factor_matrices
from engine.mathematics.spectra import MOST_SMALL_VALUES, smallest_singular_values

CANCELLED_SHARE = 1e-8
"""A squared norm below this share of its bound is computed again by QR; above it, it has at least eight digits."""

Factors = tuple[Tensor, ...]
"""A batch of matrices (batch, r, d), or the factors (batch, r, m) and (batch, r, n) of circuits ``leftᵀ right``."""


def norm(factors: Factors) -> Tensor:
    """Compute ``‖W‖_F`` or ``‖leftᵀ right‖_F``: (batch,) float64."""
    wide = [each.double() for each in factors]
    return torch.linalg.matrix_norm(*wide) if len(wide) == 1 else product_norm(*wide)


def distance(first: Factors, second: Factors) -> Tensor:
    """Compute ``‖B − A‖_F / ‖A‖_F`` of a batch of matrices or circuits: 0 if nothing differs, infinite if only A is 0.

    For circuits, with ``left_B = left_A + Δ_left`` and ``right_B = right_A + Δ_right``,
    ``M_B − M_A = [Δ_left; left_A]ᵀ [right_B; Δ_right]`` exactly, so that a small change keeps its digits.
    """
    deltas = [now.double() - before.double() for before, now in zip(first, second, strict=True)]
    if len(deltas) == 2:
        deltas = [torch.cat([deltas[0], first[0].double()], 1), torch.cat([second[1].double(), deltas[1]], 1)]
    changed = norm(tuple(deltas))
    return torch.where(changed == 0, 0.0, changed / norm(first))


def unrelated_distance(first: Factors, second: Factors) -> Tensor:
    """Compute ``√(1 + ‖B‖² / ‖A‖²)``, the distance between A and an unrelated B; NaN if both are 0.

    If B is rotated at random against A, ``E ⟨A, B⟩ = 0`` and so ``E ‖B − A‖² = ‖A‖² + ‖B‖²``: √2 for equal norms.
    """
    size = norm(first)
    return torch.hypot(size, norm(second)) / size


def product_norm(left: Tensor, right: Tensor) -> Tensor:
    """Compute ``‖leftᵀ right‖_F`` of thin factors (batch, r, m) and (batch, r, n) float64: (batch,).

    Its square is ``Σ (left leftᵀ) ∘ (right rightᵀ)``, whose terms may cancel: rounding is relative to the bound
    ``(Σ_i ‖left_i‖ ‖right_i‖)²`` over the rows i. Where little of that is left, the norm is computed as that of
    ``R_left R_rightᵀ`` from QR decompositions, without squaring (Golub & Van Loan 2013, §5.2).
    """
    if left.shape[1] >= min(left.shape[2], right.shape[2]):
        multiplied: Tensor = torch.linalg.matrix_norm(left.mT @ right)
        return multiplied
    squares = ((left @ left.mT) * (right @ right.mT)).sum((1, 2))
    bound = (left.norm(dim=2) * right.norm(dim=2)).sum(1) ** 2
    norms: Tensor = squares.clamp_min(0.0).sqrt()
    doubtful = (squares <= CANCELLED_SHARE * bound) & (bound > 0)
    if bool(doubtful.any()):
        triangles = [torch.linalg.qr(each[doubtful].mT, mode="r")[1] for each in (left, right)]
        norms[doubtful] = torch.linalg.matrix_norm(triangles[0] @ triangles[1].mT)
    return norms


def image_angles(
    first: Tensor, first_ranks: Sequence[int], second: Tensor, second_ranks: Sequence[int]
) -> list[Tensor]:
    """Compare the subspaces that two batches of matrices (batch, r, d) read, up to their numerical ranks.

    Returns the principal angles of each pair in degrees, (1, dimensions of the smaller subspace).
    """
    one, other = factor_matrices(first), factor_matrices(second)
    return [
        principal_angles(*images(one[place : place + 1], rank, other[place : place + 1], other_rank))
        for place, (rank, other_rank) in enumerate(zip(first_ranks, second_ranks, strict=True))
    ]


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """Compute the cosines of the principal angles between two subspaces, largest first (Björck & Golub 1973).

    Orthonormal columns (batch, d, k) and (batch, d, l) give (batch, min(k, l)), from 0 to 1.
    """
    d, k = first.shape[-2:]
    least = min(k, second.shape[-1])
    if max(k, second.shape[-1]) >= d or least == 0:  # the whole space holds every subspace
        return torch.ones(*first.shape[:-2], least, dtype=first.dtype)
    values: Tensor = torch.linalg.svdvals(first.mT @ second).clamp(0.0, 1.0)
    return values


def angles(cosine: Tensor) -> Tensor:
    """Convert cosines (..., k) to degrees; angles below about a millionth of a degree cannot be told from zero."""
    return torch.rad2deg(torch.arccos(cosine))


def principal_angles(first: Tensor, second: Tensor) -> Tensor:
    """Compute the principal angles between two subspaces in degrees, smallest first: (batch, min(k, l)).

    Cosines, the singular values of ``Aᵀ B``, do not resolve angles below a millionth of a degree; sines, those of
    ``B − A Aᵀ B``, do (Björck & Golub 1973). Each angle comes from the smaller of the two. A sine below ``d · eps`` is
    rounding, and its angle zero.
    """
    if first.shape[2] < second.shape[2]:
        first, second = second, first
    batch, d, size = second.shape
    if first.shape[2] >= d or size == 0:  # the whole space holds every subspace
        return torch.zeros(batch, size, dtype=second.dtype)
    met = first.mT @ second
    outside = second - first @ met
    sines = torch.linalg.svdvals(torch.linalg.qr(outside, mode="r")[1]).flip(1)
    sines = sines.masked_fill(sines <= d * torch.finfo(sines.dtype).eps, 0.0).clamp_max(1.0)
    small = sines**2 < 0.5
    radians = torch.arcsin(sines)
    if not bool(small.all()):
        radians = torch.where(small, radians, torch.arccos(torch.linalg.svdvals(met).clamp(0.0, 1.0)))
    return torch.rad2deg(radians)


def angle_columns(name: str, degrees: Tensor) -> dict[str, float]:
    """Average over a batch the smallest, mean and largest of principal angles (batch, k), and the overlap.

    The overlap, the mean squared cosine, is 1 if one subspace holds the other and 0 if they are orthogonal. For
    independent random subspaces of dimensions k ≤ l in d dimensions it is l/d on average. Without angles there are no
    columns.
    """
    if not degrees.numel():
        return {}
    prefix = name.lower()
    return {
        f"{prefix}_angle_smallest": float(degrees.amin(-1).mean()),
        f"{prefix}_angle_mean": float(degrees.mean()),
        f"{prefix}_angle_largest": float(degrees.amax(-1).mean()),
        f"{prefix}_overlap": float(torch.deg2rad(degrees).cos().square().mean()),
    }


@lru_cache(maxsize=256)
def random_cosines(first: int, second: int, d: int) -> Tensor:
    """Draw the `cosines` between what Gaussian matrices of so many rows read of d dimensions: (draws, min(rows)).

    Both are rotated together so that few columns are needed, which changes no angle between them (`gaussian_pair`).
    """
    return cosines(*(factor_matrices(torch.from_numpy(each)).basis for each in gaussian_pair(first, second, d)))


def images(first: FactoredMatrix, first_rank: int, second: FactoredMatrix, second_rank: int) -> tuple[Tensor, Tensor]:
    """Return bases (1, d, rank) of the subspaces that two matrices read, up to their numerical ranks.

    If one of them reads the whole space, any subspace of the right dimension stands for the other's.
    """
    any_will_do = max(first_rank, second_rank) >= first.basis.shape[-2]

    def image(factor: FactoredMatrix, rank: int) -> Tensor:
        if any_will_do or rank >= factor.basis.shape[-1]:
            return factor.basis[..., :rank]
        left: Tensor = torch.linalg.svd(factor.triangle, full_matrices=False)[0]
        return factor.basis @ left[..., :rank]

    return image(first, first_rank), image(second, second_rank)


def image_in_head(factor: FactoredMatrix, rank: int) -> Tensor:
    """Return a basis of a matrix's image in the head's own ``r`` dimensions: (1, r, rank)."""
    right: Tensor = torch.linalg.svd(factor.triangle, full_matrices=False)[2]
    return right.mT[..., :rank]


def count_lost(onto: Tensor, read: Tensor, tolerance: float) -> int:
    """Count the dimensions of an image that fall into a kernel: ``dim(im B ∩ ker A)``.

    As in ``rank(AB) = rank(B) − dim(im B ∩ ker A)``, these are the directions of im B that are orthogonal to everything
    A reads: their cosines with ``(ker A)^⊥``, the span of A's rows, are zero, or below the tolerance. ``onto`` is a
    basis of that span, ``read`` one of im B.
    """
    kept = int((cosines(onto, read) > tolerance).sum())
    return int(onto.shape[-1]) - kept


def symmetric_rank(matrix: FactoredProduct, rank: int, noise: float) -> int:
    """Count the dimensions of ``S = (M + Mᵀ)/2`` above the noise, for an operator M of a numerical rank.

    With ``M = U C Vᵀ`` and ``[U V] = W R``, W orthonormal, S is ``W (R₁ C R₂ᵀ + R₂ Cᵀ R₁ᵀ)/2 Wᵀ``.
    """
    half = matrix.core[0]
    if rank and not matrix.is_whole:
        triangle = torch.linalg.qr(torch.cat([matrix.left[0], matrix.right[0]], -1), mode="r")[1]
        half = triangle[:, : len(half)] @ half @ triangle[:, len(half) :].mT
    return int((torch.linalg.eigvalsh((half + half.mT) / 2).abs() > noise).sum()) if rank else 0


def image_in_kernel(matrix: FactoredProduct, rank: int, tolerance: float) -> int:
    """Compute ``dim(im M ∩ ker M) = rank(M) − rank(M²)`` of an operator of a numerical rank on the residual stream."""
    kernel = matrix.left.shape[-2] - rank
    if kernel == 0:
        return 0
    if matrix.is_whole and kernel <= MOST_SMALL_VALUES:
        # What lies in both the kernel and the image is orthogonal to the image's complement, as small as the kernel.
        spaces = smallest_singular_values(matrix.core[0], kernel)
        if spaces is not None:
            return count_lost(spaces[2][None], spaces[1][None], tolerance)
    left, right = matrix.left, matrix.right
    if rank < min(matrix.core.shape[-2:]) or matrix.core.shape[-2] != matrix.core.shape[-1]:
        inner_left, _, inner_right = torch.linalg.svd(matrix.core, full_matrices=False)
        left, right = left @ inner_left[..., :rank], right @ inner_right.mT[..., :rank]
    return count_lost(left, right, tolerance)
