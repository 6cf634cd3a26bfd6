"""Singular values of a layer's heads and circuits, batched; no head's ``d_model × d_model`` product is ever formed.

A head's ``QK = W_Qᵀ W_K`` is a product of two thin factors, so its non-zero singular values are those of a
``head_dim × head_dim`` core. Two ways lead to them:

* Gram matrices. ``σ(W)² = λ(W Wᵀ)``, and with ``W_K W_Kᵀ = L Lᵀ`` (Cholesky) the squares of QK's singular values are
  the eigenvalues of ``Lᵀ (W_Q W_Qᵀ) L``. Fast, but squaring halves the digits: a singular value σ carries a relative
  error of about ``eps · (σ₁/σ)²``.
* QR. ``A = Q R`` of each factor and an SVD of ``R_A R_Bᵀ``, errors ``eps · σ₁/σ`` (Golub & Van Loan 2013, §8.6).

Everything is float64. The Gram way is taken, and kept for each matrix whose smallest eigenvalue shows that it has
digits to spare; the others are done again by QR, and of a product of full rank, where squaring nearly always loses a
few values, those alone (`engine.mathematics.small_end`). So the ranks are those of a dense float64 SVD: the noise of a
product, up to which singular values do not count, is above what float64 loses of its factors. Stored numbers are made
float64 a piece at a time: of a large matrix there is no copy, and what is multiplied next is in the cache.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.mathematics.gram import (
    ACCURATE_EIGENVALUE_RATIO,
    PIECE,
    descending_roots,
    eigenvalues_of,
    filled,
    gram_of,
    is_ill_conditioned,
    lacks_digits,
)
from engine.mathematics.small_end import MOST, smallest_singular_values
from engine.values.spectra import FloatArray


def _lying(matrices: Tensor) -> Tensor:
    """Turn (batch, rows, cols) so that there are no more rows than columns."""
    return matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices


def _again(wide: Tensor, eigenvalues: Tensor) -> Tensor:
    """Turn eigenvalues of Gram matrices into singular values, and do again what squaring does not resolve.

    Parameters
    ----------
    wide : (batch, r, n), what the Gram matrices are of.
    eigenvalues : (batch, r), ascending.
    """
    result = descending_roots(eigenvalues)
    doubtful = is_ill_conditioned(eigenvalues)
    if bool(doubtful.any()):
        rows = wide[doubtful.to(wide.device)].double()
        if rows.shape[-1] > rows.shape[-2]:
            values = torch.linalg.svdvals(_triangle(rows.mT))
        elif len(rows) == 1:  # a layer as a whole
            values = _mended(rows[0], eigenvalues[doubtful][0])[None]
        else:
            values = torch.linalg.svdvals(rows)
        result[doubtful] = values.to(result.device)
    return result


def matrix_singular_values(matrices: Tensor, solver: str | None = None) -> Tensor:
    """Compute the singular values of a batch of matrices.

    Parameters
    ----------
    matrices : (batch, rows, cols), any real dtype.
    solver : the device that takes the Gram matrices apart; None is the one they are on.

    Returns
    -------
    (batch, min(rows, cols)) float64, largest first, on the solver's device.
    """
    wide = _lying(matrices)
    return _again(wide, eigenvalues_of(_moved(gram_of(wide), solver)))


def _moved(gram: Tensor, solver: str | None) -> Tensor:
    """Bring a small matrix to where it is taken apart."""
    return gram if solver is None else gram.to(solver)


def _triangle(tall: Tensor) -> Tensor:
    """Reduce (batch, m, n), m ≥ n, to the (batch, n, n) factor R of its QR decomposition, which has the same σ."""
    upper: Tensor = torch.linalg.qr(tall, mode="r")[1]
    return upper


def circuit_singular_values(own: Tensor, shared: Tensor, solver: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the singular values of two factors and of their products ``ownᵀ shared``, from the same Gram matrices.

    Parameters
    ----------
    own : (batch, r, m), any real dtype.
    shared : (batch / group, r, n), any real dtype; each stands beside the ``group`` of own factors that follow.
    solver : the device that takes the Gram matrices apart; None is the one they are on.

    Returns
    -------
    tuple
        (batch, min(r, m)), (batch / group, min(r, n)) and (batch, min(r, m, n)) float64, largest first, on the
        solver's device; singular values of the (m, n) products beyond their rank are zero.
    """
    if own.shape[-2] >= min(own.shape[-1], shared.shape[-1]):
        products = _full_products(own, shared, solver, is_squared=False)
        return matrix_singular_values(own, solver), matrix_singular_values(shared, solver), products
    own_gram, shared_gram = _moved(gram_of(own), solver), _moved(gram_of(shared), solver)
    shared_values = eigenvalues_of(shared_gram)
    return (
        _again(own, eigenvalues_of(own_gram)),
        _again(shared, shared_values),
        _thin_products(own, shared, own_gram, shared_gram, shared_values),
    )


def product_singular_values(left: Tensor, right: Tensor, solver: str | None = None, is_squared: bool = False) -> Tensor:
    """Compute the singular values of ``leftᵀ right`` for a batch of thin factors.

    Parameters
    ----------
    left, right : (batch, r, m) and (batch, r, n), any real dtype; the products are (m, n), of rank at most r.
    solver : the device that takes the Gram matrices apart; None is the one they are on.
    is_squared : whether products of full rank are squared, which is quicker where only few of their singular values
        are too small for that.

    Returns
    -------
    (batch, min(r, m, n)) float64, largest first; singular values beyond are zero.
    """
    if left.shape[-2] >= min(left.shape[-1], right.shape[-1]):
        return _full_products(left, right, solver, is_squared)
    left_gram, right_gram = _moved(gram_of(left), solver), _moved(gram_of(right), solver)
    return _thin_products(left, right, left_gram, right_gram, eigenvalues_of(right_gram))


def _full_products(own: Tensor, shared: Tensor, solver: str | None, is_squared: bool) -> Tensor:
    """Form products of full rank, and decompose them densely, or by squaring them once more."""
    group, rows = own.shape[0] // shared.shape[0], max(1, 4 * PIECE // own.shape[-1])
    products = torch.zeros(own.shape[0], own.shape[-1], shared.shape[-1], dtype=torch.float64, device=own.device)
    for mine, theirs in zip(own.split(rows, -2), shared.split(rows, -2), strict=True):
        products += mine.double().mT @ theirs.double().repeat_interleave(group, 0)
    if is_squared and products.shape[-1] == products.shape[-2]:
        eigenvalues = eigenvalues_of(_moved(gram_of(products), solver))
        return torch.stack([_mended(*each) for each in zip(products, eigenvalues, strict=True)])
    values: Tensor = torch.linalg.svdvals(_moved(products, solver))
    return values


def _mended(product: Tensor, eigenvalues: Tensor) -> Tensor:
    """Turn ascending eigenvalues (n,) of the square of an (n, n) matrix into singular values, all of them right."""
    lost = int((~(eigenvalues > ACCURATE_EIGENVALUE_RATIO * eigenvalues[-1])).sum())
    if lost == 0:
        return descending_roots(eigenvalues)
    mended = smallest_singular_values(product, lost) if lost <= MOST else None
    if mended is None:
        values: Tensor = torch.linalg.svdvals(product)
        return values.to(eigenvalues.device)
    return torch.cat([descending_roots(eigenvalues[lost:]), mended.to(eigenvalues.device)])


def _thin_products(own: Tensor, shared: Tensor, own_gram: Tensor, shared_gram: Tensor, shared_values: Tensor) -> Tensor:
    """Compute the singular values of ``ownᵀ shared`` from the Gram matrices of both, and the eigenvalues of the second.

    Where the second has no Cholesky factor it is ill-conditioned, and the product is done again by QR.
    """
    group = own.shape[0] // shared.shape[0]
    factor, failed = torch.linalg.cholesky_ex(shared_gram)
    lower = torch.where((failed == 0)[:, None, None], factor, 0.0).repeat_interleave(group, 0)
    own_gram = filled(own_gram)
    eigenvalues = eigenvalues_of(lower.mT @ own_gram @ lower)
    result = descending_roots(eigenvalues)
    # Rounding is relative to the factors, whose product may be far smaller than they are.
    largest = torch.linalg.matrix_norm(own_gram) * shared_values[..., -1].repeat_interleave(group, 0)
    doubtful = lacks_digits(eigenvalues, largest)
    doubtful |= is_ill_conditioned(shared_values).repeat_interleave(group, 0)
    if bool(doubtful.any()):
        places = doubtful.to(own.device).nonzero()[:, 0]
        left, right = own[places], shared[places // group]
        core = _triangle(left.double().mT) @ _triangle(right.double().mT).mT
        result[doubtful] = torch.linalg.svdvals(core).to(result.device)
    return result


def head_singular_values(
    query: Tensor, key: Tensor, value: Tensor, output: Tensor, solver: str | None = None
) -> dict[str, Tensor]:
    """Compute the singular values of every head's four matrices and two circuits.

    Parameters
    ----------
    query : (heads, head_dim, d_model)
    key : (key_value_heads, head_dim, d_source)
    value : (key_value_heads, value_head_dim, d_source)
    output : (heads, d_model, value_head_dim)
    solver : the device that takes the Gram matrices apart; None is the one they are on.

    Returns
    -------
    By matrix, (heads, structural rank) float64, largest first; a key/value head's values stand at each of its heads.
    """
    return circuit_of_heads("QK", query, key, solver) | circuit_of_heads("OV", output.mT, value, solver)


def circuit_of_heads(circuit: str, own: Tensor, shared: Tensor, solver: str | None = None) -> dict[str, Tensor]:
    """Compute one half of `head_singular_values`: a circuit and its two factors.

    Parameters
    ----------
    circuit : ``QK`` or ``OV``.
    own : (heads, r, m), the queries, or the transposed outputs.
    shared : (key_value_heads, r, n), the keys or the values.
    solver : the device that takes the Gram matrices apart; None is the one they are on.
    """
    group = own.shape[0] // shared.shape[0]
    own_values, shared_values, products = circuit_singular_values(own, shared, solver)
    return {circuit[0]: own_values, circuit[1]: shared_values.repeat_interleave(group, 0), circuit: products}


def squaring_pays(values: FloatArray) -> bool:
    """Say whether a product with such singular values (..., r), largest first, is quicker decomposed by squaring it."""
    lost = values <= np.sqrt(ACCURATE_EIGENVALUE_RATIO) * values[..., :1]
    return bool(lost.sum(-1).max(initial=0) <= MOST)


def layer_matrix(
    name: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    solver: str | None = None,
    is_squared: bool = False,
) -> Tensor:
    """Compute the singular values of one matrix of a whole layer; shapes as in `head_singular_values`.

    Q, K, V and O are those of all heads stacked, each key/value head once, as the checkpoint stores them. QK and OV are
    the sums of the heads' products: heads that share a key/value head add up their queries (their outputs) first, so
    the product is one of factors with ``key_value_heads · head_dim`` rows, and ``is_squared`` as for those.

    Returns
    -------
    (structural rank,) float64, largest first.
    """
    stored = {"Q": query, "K": key, "V": value, "O": output.mT}
    if name in stored:
        return matrix_singular_values(stored[name].flatten(0, 1).unsqueeze(0), solver)[0]
    shared, own = (key, query) if name == "QK" else (value, output.mT)
    summed = added_up(own, shared.shape[0])
    return product_singular_values(summed.flatten(0, 1)[None], shared.flatten(0, 1)[None], solver, is_squared)[0]


def added_up(own: Tensor, shared: int) -> Tensor:
    """Add up the factors of heads that share a key/value head: (heads, r, m) to (shared, r, m), a head at a time."""
    by_shared = own.unflatten(0, (shared, -1))
    if by_shared.shape[1] == 1:
        return own
    total: Tensor = by_shared[:, 0].to(torch.float64, copy=True)
    for place in range(1, by_shared.shape[1]):
        for part, head in zip(total, by_shared[:, place], strict=True):
            part += head  # which is made float64 by itself
    return total
