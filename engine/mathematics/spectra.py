"""Singular values of a layer's heads and circuits, batched; no head's ``d_model × d_model`` product is ever formed.

A head's ``QK = W_Qᵀ W_K`` is a product of two thin factors, so its non-zero singular values are those of a
``head_dim × head_dim`` core. Two ways lead to them:

* Gram matrices. ``σ(W)² = λ(W Wᵀ)``, and with ``W_Q W_Qᵀ = U S² Uᵀ`` the squares of QK's singular values are the
  eigenvalues of ``S Uᵀ (W_K W_Kᵀ) U S``. Fast, but squaring halves the digits: a singular value σ carries a relative
  error of about ``eps · (σ₁/σ)²``.
* QR. ``A = Q R`` of each factor and an SVD of ``R_A R_Bᵀ``, errors ``eps · σ₁/σ`` (Golub & Van Loan 2013, §8.6).

Everything is float64. The Gram way is taken, and kept for each matrix whose smallest eigenvalue shows that it has
digits to spare; the others are done again by QR. So the ranks are those of a dense float64 SVD.
"""

from __future__ import annotations

import torch
from torch import Tensor

ACCURATE_EIGENVALUE_RATIO = 1e-8
"""A Gram matrix with ``λ_min/λ_max`` above this leaves σ_min with a relative error of at most about 1e-8."""


def _descending_roots(eigenvalues: Tensor) -> Tensor:
    """Turn ascending eigenvalues (..., r) of a Gram matrix into singular values, largest first."""
    return eigenvalues.clamp_min(0).sqrt().flip(-1)


def _ill_conditioned(eigenvalues: Tensor) -> Tensor:
    """Say for each matrix of a batch whether its ascending eigenvalues (..., r) reach below what squaring resolves."""
    return ~(eigenvalues[..., 0] > ACCURATE_EIGENVALUE_RATIO * eigenvalues[..., -1])


def matrix_singular_values(matrices: Tensor) -> Tensor:
    """Compute the singular values of a batch of matrices.

    Parameters
    ----------
    matrices : (batch, rows, cols), any real dtype.

    Returns
    -------
    (batch, min(rows, cols)) float64, largest first.
    """
    wide = matrices.double()
    if wide.shape[-2] > wide.shape[-1]:
        wide = wide.mT
    eigenvalues = torch.linalg.eigvalsh(wide @ wide.mT)
    result = _descending_roots(eigenvalues)
    again = _ill_conditioned(eigenvalues)
    if bool(again.any()):
        doubtful = wide[again]
        is_square = doubtful.shape[-1] == doubtful.shape[-2]
        result[again] = torch.linalg.svdvals(doubtful if is_square else _triangle(doubtful.mT))
    return result


def _triangle(tall: Tensor) -> Tensor:
    """Reduce (batch, m, n), m ≥ n, to the (batch, n, n) factor R of its QR decomposition, which has the same σ."""
    upper: Tensor = torch.linalg.qr(tall, mode="r")[1]
    return upper


def product_singular_values(left: Tensor, right: Tensor) -> Tensor:
    """Compute the singular values of ``leftᵀ right`` for a batch of thin factors.

    Parameters
    ----------
    left, right : (batch, r, m) and (batch, r, n), any real dtype; the products are (m, n), of rank at most r.

    Returns
    -------
    (batch, min(r, m, n)) float64, largest first; singular values beyond are zero.
    """
    left, right = left.double(), right.double()
    rank, rows, cols = left.shape[-2], left.shape[-1], right.shape[-1]
    if rank >= min(rows, cols):  # a product of full rank is too ill-conditioned for squaring once more
        values: Tensor = torch.linalg.svdvals(left.mT @ right)
        return values
    left_values, left_vectors = torch.linalg.eigh(left @ left.mT)
    root = left_vectors * left_values.clamp_min(0).sqrt().unsqueeze(-2)  # (batch, r, r): U S
    core = root.mT @ (right @ right.mT) @ root
    eigenvalues = torch.linalg.eigvalsh(core)
    result = _descending_roots(eigenvalues)
    again = _ill_conditioned(left_values) | _ill_conditioned(eigenvalues)
    if bool(again.any()):
        core = _triangle(left[again].mT) @ _triangle(right[again].mT).mT
        result[again] = torch.linalg.svdvals(core)
    return result


def head_singular_values(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> dict[str, Tensor]:
    """Compute the singular values of every head's four matrices and two circuits.

    Parameters
    ----------
    query : (heads, head_dim, d_model)
    key : (key_value_heads, head_dim, d_source)
    value : (key_value_heads, value_head_dim, d_source)
    output : (heads, d_model, value_head_dim)

    Returns
    -------
    By matrix, (heads, structural rank) float64, largest first; a key/value head's values stand at each of its heads.
    """
    group = query.shape[0] // key.shape[0]
    key_rows, value_rows = (part.repeat_interleave(group, 0) for part in (key, value))
    return {
        "Q": matrix_singular_values(query),
        "K": matrix_singular_values(key).repeat_interleave(group, 0),
        "V": matrix_singular_values(value).repeat_interleave(group, 0),
        "O": matrix_singular_values(output),
        "QK": product_singular_values(query, key_rows),
        "OV": product_singular_values(value_rows, output.mT),
    }


def layer_matrix(name: str, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """Compute the singular values of one matrix of a whole layer; shapes as in `head_singular_values`.

    Q, K, V and O are those of all heads stacked, each key/value head once, as the checkpoint stores them. QK and OV are
    the sums of the heads' products: heads that share a key/value head add up their queries (their outputs) first, so
    the product is one of factors with ``key_value_heads · head_dim`` rows.

    Returns
    -------
    (structural rank,) float64, largest first.
    """
    stored = {"Q": query, "K": key, "V": value, "O": output.mT}
    if name in stored:
        return matrix_singular_values(stored[name].flatten(0, 1).unsqueeze(0))[0]
    shared, own = (key, query) if name == "QK" else (value, output.mT)
    summed = own.double().unflatten(0, (shared.shape[0], -1)).sum(1).flatten(0, 1)  # (kv_heads · head_dim, d_model)
    factors = (summed, shared.flatten(0, 1)) if name == "QK" else (shared.flatten(0, 1), summed)
    return product_singular_values(factors[0].unsqueeze(0), factors[1].unsqueeze(0))[0]
