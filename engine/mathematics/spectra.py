"""Singular values of heads, circuits and whole layers, batched; no head's ``d_model × d_model`` product is formed.

A head's ``QK = W_Qᵀ W_K`` is a product of two thin factors, so its non-zero singular values are those of a
``head_dim × head_dim`` core. Two ways lead to them:

* Gram matrices. ``σ(W)² = λ(W Wᵀ)``, and with ``W_K W_Kᵀ = L Lᵀ`` (Cholesky) the squares of QK's singular values are
  the eigenvalues of ``Lᵀ (W_Q W_Qᵀ) L``. Fast, but squaring halves the digits: a singular value σ carries a relative
  error of about ``eps · (σ₁/σ)²``.
* QR. ``A = Q R`` of each factor and an SVD of ``R_A R_Bᵀ``, errors ``eps · σ₁/σ`` (Golub & Van Loan 2013, §8.6).

Everything is float64. A Gram matrix is used where its smallest eigenvalue shows that it has digits to spare; other
matrices are done again by QR and SVD. Of a large square matrix, whose Gram matrix nearly always loses a few values,
those alone are found again by inverse iteration. So the ranks are those of a dense float64 SVD: the noise of a product,
up to which singular values do not count, is above what float64 loses of its factors. Stored numbers are made float64 a
piece at a time, so that a large matrix is not copied and what is multiplied next is in the cache.

Factors may be on any device. Results are in main memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from engine.values.heads import MATRICES

ACCURATE_EIGENVALUE_RATIO = 1e-10
"""A Gram matrix with ``λ_min/λ_max`` above this leaves σ_min with a relative error of at most about 3e-6, since that is
about ``eps · λ_max/λ_min``; larger singular values have smaller ones, and ranks are decided far from it."""

LEAST_EIGENVALUE = 1e-280
"""Below it float64 has fewer digits left, or none."""

GRAM_BLOCK = 128
"""Rows of a large Gram matrix that are multiplied at once, so that what lies above the diagonal is spared."""

PIECE = 2**18
"""Numbers that are made float64 at once: two mebibytes, about what a core's cache holds."""

SMALL = 512
"""Up to this size symmetric eigenproblems of a batch are solved on the CPU: a GPU does one after the other, slowly."""

MOST_SMALL_VALUES = 64
"""Small singular values of a square matrix that are found by inverse iteration; for more an SVD is quicker."""

SPARE = 8
"""Vectors of the iterated block beside two for each value, which make it converge quickly."""

STEPS = 12
"""Steps after which a block that has not converged is given up."""

POWER_STEPS = 6
"""That tell a large matrix's spectral norm to a few hundredths, enough to know rounding by its size."""

CONVERGED = 1e-8
"""Relative change of each value between two steps below which it is found, beside what rounding changes."""


def singular_values(factors: Sequence[Tensor]) -> Tensor:
    """Compute the singular values of matrices given by one factor, or of products ``leftᵀ right`` given by two.

    Parameters
    ----------
    factors : as in `matrix_singular_values` or `product_singular_values`.
    """
    return matrix_singular_values(*factors) if len(factors) == 1 else product_singular_values(*factors)


def matrix_singular_values(matrices: Tensor, gram: Tensor | None = None) -> Tensor:
    """Compute the singular values of a batch of matrices.

    Parameters
    ----------
    matrices : (batch, rows, cols), any real dtype.
    gram : `gram_of` the matrices, if it is there already; then there are no more rows than columns.

    Returns
    -------
    (batch, min(rows, cols)) float64, largest first.
    """
    wide = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    eigenvalues = _eigenvalues(gram_of(wide) if gram is None else gram)
    values = _roots(eigenvalues)
    doubtful = _lacks_digits(eigenvalues[..., 0], eigenvalues[..., -1])
    if bool(doubtful.any()):
        again = wide if bool(doubtful.all()) else wide[doubtful.to(wide.device)]
        values[doubtful] = _without_gram(again.double(), eigenvalues[doubtful])
    return values


def _without_gram(wide: Tensor, eigenvalues: Tensor) -> Tensor:
    """Compute singular values of (batch, r, n), r ≤ n, of whose Gram matrices the eigenvalues lack digits."""
    if wide.shape[-1] > wide.shape[-2]:
        return _svdvals(_triangle(wide))
    lost = int((eigenvalues <= ACCURATE_EIGENVALUE_RATIO * eigenvalues[..., -1:]).sum())
    if len(wide) == 1 and 0 < lost <= MOST_SMALL_VALUES and bool(eigenvalues[0, -1] > LEAST_EIGENVALUE):
        small = smallest_singular_values(wide[0], lost)
        if small is not None:
            return torch.cat([_roots(eigenvalues[:, lost:]), small[None].cpu()], -1)
    return _svdvals(wide)


def product_singular_values(
    left: Tensor,
    right: Tensor,
    left_gram: Tensor | None = None,
    right_gram: Tensor | None = None,
    right_values: Tensor | None = None,
) -> Tensor:
    """Compute the singular values of ``leftᵀ right`` for a batch of factors.

    Parameters
    ----------
    left : (batch, r, m), any real dtype.
    right : (batch / group, r, n), any real dtype; each stands beside the ``group`` of left factors that follow.
    left_gram, right_gram : `gram_of` the factors, if they are there already.
    right_values : the singular values of the right factors, if they are there already.

    Returns
    -------
    (batch, min(r, m, n)) float64, largest first; the products, (m, n), are of rank r at most.
    """
    group = len(left) // len(right)
    if not is_thin(left, right):
        return matrix_singular_values(_products(left, right))
    left_gram = gram_of(left) if left_gram is None else left_gram
    right_gram = gram_of(right) if right_gram is None else right_gram
    right_values = matrix_singular_values(right, right_gram) if right_values is None else right_values
    factor, failed = torch.linalg.cholesky_ex(right_gram)
    lower = torch.where((failed == 0)[:, None, None], factor, 0.0).repeat_interleave(group, 0)
    left_gram = left_gram.tril() + left_gram.tril(-1).mT
    eigenvalues = _eigenvalues(lower.mT @ left_gram @ lower)
    values = _roots(eigenvalues)
    # Rounding is relative to the factors, whose product may be far smaller than they are.
    squares = right_values.square().repeat_interleave(group, 0)
    doubtful = _lacks_digits(eigenvalues[..., 0], torch.linalg.matrix_norm(left_gram).cpu() * squares[..., 0])
    doubtful |= _lacks_digits(squares[..., -1], squares[..., 0])
    if bool(doubtful.any()):
        places = doubtful.nonzero()[:, 0].to(left.device)
        core = _triangle(left[places].double()) @ _triangle(right[places // group].double()).mT
        values[doubtful] = _svdvals(core)
    return values


def is_thin(left: Tensor, right: Tensor) -> bool:
    """Say whether factors (…, r, m) and (…, r, n) have fewer rows than their product has rows and columns."""
    return left.shape[-2] < min(left.shape[-1], right.shape[-1])


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Form products of full rank, some rows of the factors at a time: (batch, m, n)."""
    group, rows = len(left) // len(right), max(1, 4 * PIECE // left.shape[-1])
    products = torch.zeros(len(left), left.shape[-1], right.shape[-1], dtype=torch.float64, device=left.device)
    for own, shared in zip(left.split(rows, -2), right.split(rows, -2), strict=True):
        products.baddbmm_(own.double().mT, shared.double().repeat_interleave(group, 0))
    return products


def circuit_singular_values(
    circuit: str, own: Tensor, shared: Tensor, matrices: Collection[str] = MATRICES
) -> dict[str, Tensor]:
    """Compute the singular values of a circuit of some heads, and of its two factors.

    Parameters
    ----------
    circuit : ``QK`` or ``OV``.
    own : (heads, r, m), the queries, or the transposed outputs.
    shared : (key_value_heads, r, n), the keys or the values.
    matrices : which are wanted; nothing is computed of the others.

    Returns
    -------
    By matrix, (heads, structural rank) float64, largest first; a key/value head's values stand at each of its heads.
    """
    one, other = circuit[0], circuit[1]
    has_product, group = circuit in matrices, len(own) // len(shared)
    grams = [gram_of(each) if has_product and is_thin(own, shared) else None for each in (own, shared)]
    found: dict[str, Tensor] = {}
    if one in matrices:
        found[one] = matrix_singular_values(own, grams[0])
    of_shared = matrix_singular_values(shared, grams[1]) if other in matrices else None
    if of_shared is not None:
        found[other] = of_shared.repeat_interleave(group, 0)
    if has_product:
        found[circuit] = product_singular_values(own, shared, grams[0], grams[1], of_shared)
    return found


def head_singular_values(
    query: Tensor, key: Tensor, value: Tensor, output: Tensor, matrices: Collection[str] = MATRICES
) -> dict[str, Tensor]:
    """Compute the singular values of every head's matrices and circuits.

    Parameters
    ----------
    query : (heads, head_dim, d_model)
    key : (key_value_heads, head_dim, d_source)
    value : (key_value_heads, value_head_dim, d_source)
    output : (heads, d_model, value_head_dim)
    matrices : which are wanted.

    Returns
    -------
    As `circuit_singular_values`.
    """
    found = circuit_singular_values("QK", query, key, matrices)
    return found | circuit_singular_values("OV", output.mT, value, matrices)


def layer_factors(matrix: str, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> tuple[Tensor, ...]:
    """Give what one matrix of a whole layer is made of, for `singular_values`; shapes as in `head_singular_values`.

    Q, K, V and O are those of all heads stacked, each key/value head once, as the checkpoint stores them. QK and OV are
    the sums of the heads' products: heads that share a key/value head add up their queries (their outputs) first, so
    the product is one of factors with ``key_value_heads · head_dim`` rows.
    """
    stored = {"Q": query, "K": key, "V": value, "O": output.mT}
    if matrix in stored:
        return (stored[matrix].flatten(0, 1)[None],)
    shared, own = (key, query) if matrix == "QK" else (value, output.mT)
    return sum_over_groups(own, len(shared)).flatten(0, 1)[None], shared.flatten(0, 1)[None]


def layer_singular_values(matrix: str, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """Compute the singular values of one matrix of a whole layer, `layer_factors`: (structural rank,) float64."""
    return singular_values(layer_factors(matrix, query, key, value, output))[0]


def sum_over_groups(own: Tensor, shared: int) -> Tensor:
    """Add up the factors of heads that share a key/value head: (heads, r, m) to (shared, r, m), a head at a time."""
    by_shared = own.unflatten(0, (shared, -1))
    if by_shared.shape[1] == 1:
        return own
    total: Tensor = by_shared[:, 0].to(torch.float64, copy=True)
    for place in range(1, by_shared.shape[1]):
        for part, head in zip(total, by_shared[:, place], strict=True):
            part += head  # which is made float64 by itself
    return total


def gram_of(wide: Tensor) -> Tensor:
    """Multiply (batch, r, n) by its transpose, in float64: (batch, r, r).

    Of a large result only the lower triangle is filled, which is what eigenvalues are computed from.
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


def _eigenvalues(gram: Tensor) -> Tensor:
    """Compute the eigenvalues of Gram matrices (batch, r, r), ascending; NaN where squaring has overflowed."""
    gram = gram.cpu() if gram.shape[-1] <= SMALL else gram
    if bool(gram.sum().isfinite()):
        values: Tensor = torch.linalg.eigvalsh(gram)
        return values.cpu()
    is_finite = gram.isfinite().flatten(1).all(1)
    values = torch.linalg.eigvalsh(torch.where(is_finite[:, None, None], gram, 0.0))
    return values.masked_fill(~is_finite[:, None], torch.nan).cpu()


def _roots(eigenvalues: Tensor) -> Tensor:
    """Turn ascending eigenvalues (..., r) of Gram matrices into singular values, largest first."""
    return eigenvalues.clamp_min(0).sqrt().flip(-1)


def _lacks_digits(smallest: Tensor, largest: Tensor) -> Tensor:
    """Say for each matrix whether its smallest squared singular value is below what squaring the largest resolves.

    Of a matrix of zeros all digits are known.
    """
    return ~(smallest > (ACCURATE_EIGENVALUE_RATIO * largest).clamp_min(LEAST_EIGENVALUE)) & (largest != 0)


def _triangle(wide: Tensor) -> Tensor:
    """Reduce (batch, r, n), r ≤ n, to the (batch, r, r) factor R of the QR decomposition of its transpose."""
    upper: Tensor = torch.linalg.qr(wide.mT, mode="r")[1]
    return upper


def _svdvals(matrices: Tensor) -> Tensor:
    """Decompose densely; into main memory."""
    values: Tensor = torch.linalg.svdvals(matrices)
    return values.cpu()


def layer_norms(heads: Tensor) -> tuple[float, float]:
    """Compute the Frobenius and the spectral norm of heads' factors (heads, r, d) stacked, a head after the other.

    The spectral norm, by a few steps of power iteration, is a little less than it is.
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


def smallest_singular_values(square: Tensor, count: int) -> Tensor | None:
    """Compute a square matrix's smallest singular values, which squaring it has lost.

    They are the largest of the inverse, which a block of vectors turns towards when it is multiplied by ``M⁻¹ M⁻ᵀ``
    again and again (subspace iteration; Golub & Van Loan 2013, §8.2). The singular values of M on the space that the
    block then spans are theirs (Rayleigh–Ritz), with errors of ``eps · σ₁``, as those of a dense decomposition have.

    Parameters
    ----------
    square : (n, n) float64.
    count : how many, up to `MOST_SMALL_VALUES`.

    Returns
    -------
    (count,) float64, largest first; None where they are not found in this way, as when the matrix is singular.
    """
    found = _inverse_iteration(square, count)
    return None if found is None else found[0]


def smallest_singular_spaces(square: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
    """Compute what belongs to a matrix's smallest singular values: nearly its image's complement, and its kernel.

    They are (n, count) left and (n, count) right, orthonormal. Each is iterated by itself: the one from the other, as
    ``M v / σ``, would lose what σ has lost. None as of `smallest_singular_values`.
    """
    found = _inverse_iteration(square, count)
    if found is None:
        return None
    _, left, right = found
    return _least(square.mT, torch.linalg.qr(left)[0], count), _least(square, right, count)


def _least(square: Tensor, block: Tensor, count: int) -> Tensor:
    """Take of a block (n, m) of orthonormal columns the directions that a matrix shrinks most: (n, count)."""
    right: Tensor = torch.linalg.svd(square @ block, full_matrices=False)[2]
    return block @ right.mT[:, -count:]


def _inverse_iteration(square: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor] | None:
    """Iterate a block towards the smallest singular values; give those, and the blocks on the left and the right."""
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
        if bool(((before - values).abs() <= CONVERGED * values + noise).all()):
            return values, back, block
        before = values
    return None
