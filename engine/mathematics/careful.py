"""Singular values beyond what float64's rounding leaves, where a rank would be decided by that.

The factors of a product may nearly cancel: with ``‖W_Q‖ ‖W_K‖`` a thousand times ``‖QK‖``, rounding is a thousand times
as large beside QK's singular values as it should be, and may reach the tolerance of a rank. Here products are summed in
pairs of float64 numbers, of some 32 digits, and nothing is rounded to 16 before what is large has been split off:

* Each factor is written in an orthonormal basis of its rows and of what rounding left out of that (QR, twice).
  Changing a basis that is orthonormal to rounding changes every singular value, also the smallest, by no more than a
  relative ``eps`` (Ostrowski 1959; Ipsen 1998, "Relative perturbation results", §4).
* The core between the bases is turned by its own singular vectors, so that it is diagonal but for rounding. The small
  singular values are those of what is left of their block without what the large ones explain, the Schur complement.

Products of numbers cut into slices, so short that float64 sums their products without any rounding, are ordinary matrix
products (Ozaki, Ogita, Oishi & Rump 2012, "Error-free transformations of matrix multiplication").
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.mathematics.measures import rank_tolerance

DIGITS = 53
"""Binary digits of a float64 number."""

PRECISION = 110
"""Binary digits below the largest number of a row that a product of rows is computed from."""

LARGE = 2.0**-26
"""Share of the largest singular value above which float64 leaves one half of its digits."""

DEPENDENT = 1e-13
"""Share of what a basis has left out of a row, below which it is what rounding left out of that."""

ROUNDING = 16
"""How many times ``eps · (σ₁ + √Σ_i ‖left_i‖² ‖right_i‖²)``, over the rows i of both factors, rounding is at most taken
to move the small singular values of a product, or ``eps · σ₁`` those of a matrix. Of some thousand hard ones those that
come from QR were moved by up to 1.6 times as much, those of products that are formed by 10, a matrix's own by 5.5."""

MOST_NUMBERS = 2**22
"""Of a factor; a larger one would take half a gigabyte, and its singular values are left as they are."""

Pair = tuple[Tensor, Tensor]
"""A matrix as the sum of two, of which the second is what rounding took from the first."""


def settled(values: Tensor, own: Tensor, shared: Tensor | None = None) -> Tensor:
    """Compute again those of which rounding would decide how many count towards the numerical rank.

    Parameters
    ----------
    values : (batch, k) singular values as float64 gives them, largest first.
    own : (batch, r, m), as they are stored, the matrices that they are of; or the first factors of products.
    shared : (batch / group, r, n), the second factors; each stands beside the ``group`` of own factors that follow.

    Returns
    -------
    (batch, k), on the device of the values.
    """
    factors = [own] if shared is None else [own, shared]
    if max(factor[0].numel() for factor in factors) > MOST_NUMBERS:
        return values
    double, group = torch.finfo(torch.float64).eps, len(own) // len(factors[-1])
    stored = max(torch.finfo(factor.dtype).eps for factor in factors)
    rows, cols = own.shape[-2:] if shared is None else (own.shape[-1], shared.shape[-1])
    threshold = rank_tolerance(rows, cols, double, stored) * values[:, :1]
    is_close = ((values - threshold).abs() < ROUNDING * double * _sizes(values, factors)[:, None]).any(-1)
    for place in is_close.nonzero()[:, 0].tolist():
        others = [] if shared is None else [shared[place // group]]
        values[place] = careful_singular_values(own[place], *others).to(values.device)
    return values


def _sizes(values: Tensor, factors: list[Tensor]) -> Tensor:
    """Give what rounding of singular values (batch, k) is relative to: (batch,)."""
    if len(factors) == 1:
        return values[:, 0]
    left, right = (torch.linalg.vector_norm(factor, dim=-1, dtype=torch.float64) for factor in factors)
    summed: Tensor = (left * right.repeat_interleave(len(left) // len(right), 0)).norm(dim=-1)
    return values[:, 0] + summed.to(values.device)


def careful_singular_values(own: Tensor, shared: Tensor | None = None) -> Tensor:
    """Compute the singular values of a matrix, or of a product ``ownᵀ shared``, each with most of its digits.

    Parameters
    ----------
    own : (r, m), any real dtype.
    shared : (r, n), likewise; None where it is ``own`` itself that is decomposed.

    Returns
    -------
    (min(r, m),) or (min(r, m, n),) float64, largest first.
    """
    factors = [own] if shared is None else [own, shared]
    units, exponents = zip(*(_unit_rows(factor.double().cpu()) for factor in factors), strict=True)
    found = torch.zeros(min(len(own), *(factor.shape[1] for factor in factors)), dtype=torch.float64)
    is_there = torch.stack([rows.any(1) for rows in units]).all(0)
    if not bool(is_there.any()):
        return found
    summed = sum(exponents)[is_there]
    first, last = units[:-1], torch.ldexp(units[-1][is_there], (summed - summed.max()).clamp_min(-1000))
    core = _in_basis(last)
    for rows in first:
        core = _multiplied(_transposed(_in_basis(rows[is_there])), _transposed(core))
    values = _values(core)[: len(found)]
    found[: len(values)] = torch.ldexp(values, summed.max())
    return found


def _unit_rows(rows: Tensor) -> Pair:
    """Divide each row by a power of two that its largest number is next to: the rows, and the exponents (rows, 1)."""
    exponents = torch.frexp(rows.abs().amax(1, keepdim=True))[1].clamp_min(-1000)
    return torch.ldexp(rows, -exponents), exponents


def _transposed(pair: Pair) -> Pair:
    """Turn both parts."""
    return pair[0].T, pair[1].T


def _plain(matrix: Tensor) -> Pair:
    """Take float64 numbers as they are."""
    return matrix, torch.zeros_like(matrix)


def _in_basis(rows: Tensor) -> Pair:
    """Write (r, m) in an orthonormal basis of at most 2r directions that leaves nothing out: (r, k)."""
    r, m = rows.shape
    if m <= 2 * r:
        return _plain(rows)
    first = torch.linalg.qr(rows.T)[0]
    product, rest = _multiplied(_plain(rows @ first), _plain(first))
    rest = (rows - product) - rest
    largest = rest.abs().amax(1, keepdim=True)
    rest = (rest / torch.where(largest > 0, largest, 1.0)).T
    left, values, _ = torch.linalg.svd(rest - first @ (first.T @ rest), full_matrices=False)
    second = left[:, values > DEPENDENT]
    second = torch.linalg.qr(second - first @ (first.T @ second))[0]
    return _multiplied(_plain(rows), _plain(torch.cat([first, second], 1).T))


def _values(core: Pair) -> Tensor:
    """Compute all singular values of a matrix that is given as a pair, largest first."""
    values: Tensor
    left, values, right = torch.linalg.svd(core[0])  # with what rounding made seem empty
    large = int((values > LARGE * values[0]).sum())
    if large in (0, len(values)):
        return values
    half = _multiplied(_plain(left.T), _transposed(core))
    turned = torch.add(*_multiplied(half, _plain(right)))
    explained = turned[large:, :large] @ torch.linalg.solve(turned[:large, :large], turned[:large, large:])
    small = torch.linalg.svdvals(turned[large:, large:] - explained)
    both: Tensor = torch.cat([values[:large], small]).sort(descending=True)[0]
    return both


def _multiplied(left: Pair, right: Pair) -> Pair:
    """Multiply (a, k) by the transpose of (b, k): (a, b)."""
    k = left[0].shape[1]
    bits = (DIGITS - max(1, k - 1).bit_length()) // 2
    count = -(-PRECISION // bits)
    ours, theirs = (_sliced(each, bits, count) for each in (left, right))
    high = torch.zeros(len(left[0]), len(right[0]), dtype=torch.float64)
    low = torch.zeros_like(high)
    for place in range(count):
        for mine in range(place + 1):
            if mine < len(ours) and place - mine < len(theirs):
                high, rest = _sum(high, ours[mine] @ theirs[place - mine].T)
                low += rest
    return _sum(high, low)


def _sliced(pair: Pair, bits: int, count: int) -> list[Tensor]:
    """Cut the numbers of each row into so many slices, the first with the leading bits of the row's largest number.

    The numbers of a slice are multiples of one power of two and less than ``2^bits`` times that.
    """
    high, low = pair
    exponents = torch.frexp(high.abs().amax(1, keepdim=True))[1]
    slices = []
    for place in range(1, count + 1):
        if not bool(high.any()):
            break
        # Of a sum with this, the last binary digit is the last of the slice.
        anchor = torch.ldexp(torch.full_like(high[:, :1], 0.75), exponents - place * bits + DIGITS)
        part = (high + anchor) - anchor
        slices.append(part)
        high, low = _sum(high - part, low)
    return slices


def _sum(first: Tensor, second: Tensor) -> Pair:
    """Add without losing anything: the rounded sum, and what rounding took from it (Knuth's TwoSum)."""
    total = first + second
    back = total - first
    return total, (first - (total - back)) + (second - back)
