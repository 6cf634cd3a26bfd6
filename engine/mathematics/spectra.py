"""Singular values of heads, circuits and whole layers, batched, without forming a head's ``d_model × d_model`` product.

A head's ``QK = W_Qᵀ W_K`` is a product of two thin factors, so its non-zero singular values are those of a
``head_dim × head_dim`` core. There are two ways to compute them:

* Gram matrices. ``σ(W)² = λ(W Wᵀ)``, and with ``W_K W_Kᵀ = L Lᵀ`` (Cholesky) the squares of QK's singular values are
  the eigenvalues of ``Lᵀ (W_Q W_Qᵀ) L``. Fast, but squaring halves the digits: a singular value σ carries a relative
  error of about ``eps · (σ₁/σ)²``.
* QR. ``A = Q R`` of each factor and an SVD of ``R_A R_Bᵀ``, errors ``eps · σ₁/σ`` (Golub & Van Loan 2013, §8.6).

Everything is float64. A Gram matrix is used where its smallest eigenvalue shows that it has enough digits; other
matrices are solved again by QR and SVD. The Gram matrix of a large square matrix nearly always loses a few values;
those alone are computed again, by inverse iteration. So the ranks are those of a dense float64 SVD: the noise of a
product, below which singular values do not count, exceeds what float64 loses of its factors. Stored numbers are
converted to float64 a piece at a time, so that a large matrix is not copied and the next product's piece is cached.

Factors may be on any device. Results are in main memory.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ACCURATE_EIGENVALUE_RATIO = 1e-10
"""A Gram matrix with ``λ_min/λ_max`` above this gives σ_min a relative error of about ``eps · λ_max/λ_min``, at most
3e-6. Larger singular values have smaller errors, and ranks are decided far from it."""

LEAST_EIGENVALUE = 1e-280
"""Below it float64 has fewer digits left, or none."""

GRAM_BLOCK = 128
"""Rows of a large Gram matrix that are multiplied at once, so that little above the diagonal is computed."""

PIECE = 2**18
"""Numbers that are converted to float64 at once: two mebibytes, about a core's cache."""

SMALL = 512
"""Up to this size a batch of symmetric eigenproblems is solved on the CPU; a GPU solves one after the other, slowly."""

MOST_SMALL_VALUES = 64
"""Small singular values of a square matrix that inverse iteration computes; for more an SVD is quicker."""

SPARE_VECTORS = 8
"""Vectors of the iterated block besides two for each value, so that it converges quickly."""

MOST_STEPS = 12
"""Steps within which a block has to converge."""

POWER_STEPS = 6
"""Steps that give a large matrix's spectral norm to a few hundredths, enough to bound rounding by it."""

CONVERGENCE = 1e-8
"""A value has converged when a step changes it by less than this share, or than rounding does."""


def matrix_singular_values(matrices: Tensor, gram: Tensor | None = None) -> Tensor:
    """Compute the singular values of matrices (batch, rows, cols): (batch, min(rows, cols)) float64, largest first.

    Pass their `gram_of` if it is known; there must then be no more rows than columns.
    """
    wide = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    values, doubtful = _solve_gram(gram_of(wide) if gram is None else gram)
    if bool(doubtful.any()):
        again = wide if bool(doubtful.all()) else wide[doubtful.to(wide.device)]
        values[doubtful] = _solve_directly(again.double(), values[doubtful])
    return values


def circuit_singular_values(
    own: Tensor, shared: Tensor, has_own: bool = False, has_shared: bool = False
) -> list[Tensor]:
    """Compute the singular values of the factors that are wanted, and then of the products ``ownᵀ shared``.

    ``own``, queries or transposed outputs, is (heads, r, m); ``shared``, keys or values, is (key_value_heads, r, n),
    each for consecutive heads. The results are (heads, min(r, m)), (key_value_heads, min(r, n)) and, for the products,
    (heads, min(r, m, n)): float64, largest first.
    """
    if own.shape[-2] >= min(own.shape[-1], shared.shape[-1]):
        alone = [matrix_singular_values(each) for each, wanted in ((own, has_own), (shared, has_shared)) if wanted]
        return [*alone, matrix_singular_values(_form_products(own, shared))]
    own_gram, shared_gram = gram_of(own), gram_of(shared)
    of_own = [matrix_singular_values(own, own_gram)] if has_own else []
    of_shared = matrix_singular_values(shared, shared_gram)
    products = _thin_products(own, shared, own_gram, shared_gram, of_shared)
    return [*of_own, *([of_shared] if has_shared else []), products]


def _thin_products(own: Tensor, shared: Tensor, own_gram: Tensor, shared_gram: Tensor, of_shared: Tensor) -> Tensor:
    group = len(own) // len(shared)
    factor, failed = torch.linalg.cholesky_ex(shared_gram)
    lower = torch.where((failed == 0)[:, None, None], factor, 0.0).repeat_interleave(group, 0)
    own_gram = own_gram.tril() + own_gram.tril(-1).mT
    squares = of_shared.square().repeat_interleave(group, 0)
    # Rounding is relative to the factors, whose product may be far smaller.
    largest = torch.linalg.matrix_norm(own_gram).cpu() * squares[:, 0]
    values, doubtful = _solve_gram(lower.mT @ own_gram @ lower, largest)
    least = (ACCURATE_EIGENVALUE_RATIO * squares[:, 0]).clamp_min(LEAST_EIGENVALUE)
    doubtful |= (squares[:, -1] <= least) & (squares[:, 0] != 0)
    if bool(doubtful.any()):
        places = doubtful.nonzero()[:, 0].to(own.device)
        core = _triangle(own[places].double()) @ _triangle(shared[places // group].double()).mT
        values[doubtful] = torch.linalg.svdvals(core).cpu()
    return values


def _solve_directly(wide: Tensor, roots: Tensor) -> Tensor:
    """Compute singular values of (batch, r, n), r ≤ n; ``roots`` are those from Gram matrices, which lack digits."""
    if wide.shape[-1] > wide.shape[-2]:
        wide = _triangle(wide)
    else:
        lost = int((roots**2 <= ACCURATE_EIGENVALUE_RATIO * roots[:, :1] ** 2).sum())
        if len(wide) == 1 and 0 < lost <= MOST_SMALL_VALUES and float(roots[0, 0]) ** 2 > LEAST_EIGENVALUE:
            small = smallest_singular_values(wide[0], lost)
            if small is not None:
                return torch.cat([roots[:, :-lost], small[0][None].cpu()], -1)
    values: Tensor = torch.linalg.svdvals(wide)
    return values.cpu()


def _form_products(own: Tensor, shared: Tensor) -> Tensor:
    """Form products, a few rows of the factors at a time: (heads, m, n)."""
    group, rows = len(own) // len(shared), max(1, 4 * PIECE // own.shape[-1])
    products = torch.zeros(len(own), own.shape[-1], shared.shape[-1], dtype=torch.float64, device=own.device)
    for left, right in zip(own.split(rows, -2), shared.split(rows, -2), strict=True):
        products.baddbmm_(left.double().mT, right.double().repeat_interleave(group, 0))
    return products


def layer_factors(matrix: str, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> tuple[Tensor, ...]:
    """Return the factor of one matrix of a whole layer, or the two factors of a product, as batches of 1.

    Q, K, V and O stack all heads, each key/value head once, as the checkpoint stores them. QK and OV are the sums of
    the heads' products. Heads that share a key/value head sum their queries (their outputs) first, so the factors of
    the product have ``key_value_heads · head_dim`` rows.
    """
    stored = {"Q": query, "K": key, "V": value, "O": output.mT}
    if matrix in stored:
        return (stored[matrix].flatten(0, 1)[None],)
    shared, own = (key, query) if matrix == "QK" else (value, output.mT)
    return sum_over_groups(own, len(shared)).flatten(0, 1)[None], shared.flatten(0, 1)[None]


def sum_over_groups(own: Tensor, shared: int) -> Tensor:
    """Sum the factors of heads that share a key/value head: (heads, r, m) to (shared, r, m)."""
    by_shared = own.unflatten(0, (shared, -1))
    if by_shared.shape[1] == 1:
        return own
    total: Tensor = by_shared[:, 0].to(torch.float64, copy=True)
    for place in range(1, by_shared.shape[1]):
        for part, head in zip(total, by_shared[:, place], strict=True):
            part += head  # one head at a time is converted to float64
    return total


def gram_of(wide: Tensor) -> Tensor:
    """Multiply (batch, r, n) by its transpose, in float64: (batch, r, r).

    If the result is large, only its lower triangle is filled, which is all that eigenvalue solvers read.
    """
    rows, cols = wide.shape[-2:]
    if rows < 2 * GRAM_BLOCK:
        pieces = (piece.double() for piece in wide.split(max(1, PIECE // (rows * cols))))
        return torch.cat([piece @ piece.mT for piece in pieces])
    gram = torch.zeros(*wide.shape[:-1], rows, dtype=torch.float64, device=wide.device)
    for columns in wide.split(max(GRAM_BLOCK, 4 * PIECE // rows), -1):
        piece = columns.double()
        for start in range(0, rows, GRAM_BLOCK):
            end = min(start + GRAM_BLOCK, rows)
            gram[..., start:end, :end] += piece[..., start:end, :] @ piece[..., :end, :].mT
    return gram


def _solve_gram(gram: Tensor, largest: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Turn Gram matrices (batch, r, r) into singular values, largest first, and say which of the batch lack digits.

    A matrix whose square has overflowed gives NaN; a matrix of zeros lacks no digits. Digits are relative to
    ``largest`` (batch,), by default the largest eigenvalue.
    """
    gram = gram.cpu() if gram.shape[-1] <= SMALL else gram
    if bool(gram.sum().isfinite()):
        eigenvalues: Tensor = torch.linalg.eigvalsh(gram).cpu()
    else:
        is_finite = gram.isfinite().flatten(1).all(1)
        solved = torch.linalg.eigvalsh(torch.where(is_finite[:, None, None], gram, 0.0))
        eigenvalues = solved.masked_fill(~is_finite[:, None], torch.nan).cpu()
    largest = eigenvalues[:, -1] if largest is None else largest
    has_digits = eigenvalues[:, 0] > (ACCURATE_EIGENVALUE_RATIO * largest).clamp_min(LEAST_EIGENVALUE)
    return eigenvalues.clamp_min(0).sqrt().flip(-1), ~has_digits & (largest != 0)


def _triangle(wide: Tensor) -> Tensor:
    """Reduce (batch, r, n), r ≤ n, to the (batch, r, r) factor R of the QR decomposition of its transpose."""
    upper: Tensor = torch.linalg.qr(wide.mT, mode="r")[1]
    return upper


def layer_norms(heads: Tensor) -> tuple[float, float]:
    """Compute the Frobenius and the spectral norm of heads' factors (heads, r, d) stacked, one head at a time.

    The spectral norm comes from a few steps of power iteration, so it is slightly underestimated.
    """
    frobenius = math.hypot(*(float(head.double().norm()) for head in heads))
    vector, largest = torch.randn(heads.shape[-1], generator=torch.Generator().manual_seed(0)), 0.0
    for _ in range(POWER_STEPS if frobenius else 0):
        vector /= vector.norm()
        following = torch.zeros_like(vector)
        square = 0.0
        for head in heads:
            rows = head.float()
            seen = rows @ vector
            square += float(seen.norm()) ** 2
            following += rows.mT @ seen
        vector, largest = following, math.sqrt(square)
    return frobenius, largest


def _shrunk_most(square: Tensor, block: Tensor, count: int) -> Tensor:
    """Find the directions in a block (n, m) of orthonormal columns that a matrix shrinks most: (n, count)."""
    right: Tensor = torch.linalg.svd(square @ block, full_matrices=False)[2]
    return block @ right.mT[:, -count:]


def smallest_singular_values(square: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """Compute a square matrix's smallest singular values, which squaring it has lost, and the subspaces they belong to.

    They are the largest of the inverse. A block of vectors that is repeatedly multiplied by ``M⁻¹ M⁻ᵀ`` turns towards
    their directions (subspace iteration; Golub & Van Loan 2013, §8.2). They are the singular values of M on the space
    that the block then spans (Rayleigh–Ritz), with errors of ``eps · σ₁``, like those of a dense decomposition.

    Returns
    -------
    (count,) float64, largest first, and two orthonormal (n, count) bases: nearly the complement of the image, and the
    kernel. Each is iterated separately, since computing one from the other, as ``M v / σ``, would lose digits. None if
    the iteration fails, as for a singular matrix.
    """
    n = square.shape[-1]
    factors, pivots, failed = torch.linalg.lu_factor_ex(square)
    if bool(failed):
        return None
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(n, min(n, 2 * count + SPARE_VECTORS), generator=generator, dtype=torch.float64).to(
        square.device
    )
    noise = torch.finfo(torch.float64).eps * torch.linalg.matrix_norm(square)
    before = torch.full((count,), torch.inf, dtype=torch.float64, device=square.device)
    for _ in range(MOST_STEPS):
        back = torch.linalg.lu_solve(factors, pivots, block, adjoint=True)
        back /= back.norm(dim=0)  # so that nothing overflows where the smallest value is next to nothing
        solved = torch.linalg.lu_solve(factors, pivots, back)
        if not bool(solved.isfinite().all()):
            return None
        block = torch.linalg.qr(solved)[0]
        values: Tensor = torch.linalg.svdvals(torch.linalg.qr(square @ block, mode="r")[1])[-count:]
        if bool(((before - values).abs() <= CONVERGENCE * values + noise).all()):
            return (
                values,
                _shrunk_most(square.mT, torch.linalg.qr(back)[0], count),
                _shrunk_most(square, block, count),
            )
        before = values
    return None
