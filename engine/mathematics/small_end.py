"""The few smallest singular values of a square matrix, which squaring it has lost.

They are the largest of the inverse, which a block of vectors turns towards when it is multiplied by ``M⁻¹ M⁻ᵀ`` again
and again (subspace iteration; Golub & Van Loan 2013, §8.2). The singular values of M on the space that the block then
spans are theirs (Rayleigh–Ritz), with errors of ``eps · σ₁``, as those of a dense decomposition have.

Both functions take ``square``, (n, n) float64, and ``count``, how many values are asked for, up to `MOST`. They give
None where those could not be found in this way, as when the matrix is singular.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 64
"""Values that are worth finding one by one; with more a dense decomposition is the quicker way."""

SPARE = 8
"""Vectors of the block beside two for each value, which make it turn quickly."""

STEPS = 12
"""After which a block that still turns is given up."""

SETTLED = 1e-8
"""Relative change between steps, of each value, below which it is found; what rounding changes is let pass."""


def smallest_singular_values(square: Tensor, count: int) -> Tensor | None:
    """Compute a matrix's smallest singular values: (count,) float64, largest first."""
    turned = _turned(square, count)
    return None if turned is None else turned[0]


def smallest_singular_spaces(square: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
    """Compute what belongs to a matrix's smallest singular values: nearly its image's complement, and its kernel.

    They are (n, count) left and (n, count) right, orthonormal. Both are turned towards by themselves: the one from the
    other, as ``M v / σ``, would lose what σ has lost.
    """
    turned = _turned(square, count)
    if turned is None:
        return None
    _, left, right = turned
    return _least(square.mT, torch.linalg.qr(left)[0], count), _least(square, right, count)


def _least(square: Tensor, block: Tensor, count: int) -> Tensor:
    """Take of a block (n, m) of orthonormal columns the directions that a matrix shrinks most: (n, count)."""
    right: Tensor = torch.linalg.svd(square @ block, full_matrices=False)[2]
    return block @ right.mT[:, -count:]


def _turned(square: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """Turn a block towards the smallest singular values, and give those, what is left of it, and what is right."""
    n = square.shape[-1]
    factors, pivots, failed = torch.linalg.lu_factor_ex(square)
    if bool(failed):
        return None
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(n, min(n, 2 * count + SPARE), generator=generator, dtype=torch.float64).to(square.device)
    noise = torch.finfo(torch.float64).eps * torch.linalg.matrix_norm(square)
    before = torch.full((count,), torch.inf, dtype=torch.float64, device=square.device)
    for _ in range(STEPS):
        back = torch.linalg.lu_solve(factors, pivots, block, adjoint=True)
        back /= back.norm(dim=0)  # so that nothing overflows where the smallest value is next to nothing
        solved = torch.linalg.lu_solve(factors, pivots, back)
        if not bool(solved.isfinite().all()):
            return None
        block = torch.linalg.qr(solved)[0]
        values: Tensor = torch.linalg.svdvals(torch.linalg.qr(square @ block, mode="r")[1])[-count:]
        if bool(((before - values).abs() <= SETTLED * values + noise).all()):
            return values, back, block
        before = values
    return None
