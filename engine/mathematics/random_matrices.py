"""Chance: the singular values of Gaussian factors, and of their products, each factor of Frobenius norm one.

A Gaussian matrix has the singular values of a small core, exactly in distribution, so nothing of the width of the model
is ever drawn:

* one factor: a bidiagonal matrix of χ-distributed numbers (Dumitriu & Edelman 2002, for β = 1);
* a product: two triangles, since ``A = Q R`` of a Gaussian A has a Haar-distributed Q that is independent of R, and R
  has χ-distributed numbers on its diagonal and Gaussian ones above (Bartlett 1933).

Cores wider than `WIDEST` are not drawn. One factor has the quantiles of the Marchenko–Pastur law then, and a product
those of a product whose widths are all made smaller by one ratio, since its law depends on their ratios alone.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from engine.values.spectra import FloatArray

DRAWS = 64
"""Matrices that are drawn for each shape; fewer of wide ones, whose singular values hardly vary."""

NUMBERS = 2**21
"""Numbers of all cores of one shape together."""

WIDEST = 512
"""The widest core that is drawn."""

_GRID = 4001
"""Points at which the Marchenko–Pastur law is summed up."""


@lru_cache(maxsize=256)
def chance_of_factor(rows: int, cols: int) -> FloatArray:
    """Draw the singular values of Gaussian (rows, cols) matrices of Frobenius norm one.

    Returns
    -------
    (draws, min(rows, cols)) float64, largest first; one row, the mean, where the matrix is wide.
    """
    short, long = sorted((rows, cols))
    if short > WIDEST:
        return _marchenko_pastur(short, long)[None]
    random = np.random.default_rng((short, long))
    draws = _draws(short)
    diagonal, below = np.arange(long, long - short, -1), np.arange(short - 1, 0, -1)
    cores = np.zeros((draws, short, short))
    place = np.arange(short)
    cores[:, place, place] = np.sqrt(random.chisquare(diagonal, (draws, short)))
    cores[:, place[1:], place[:-1]] = np.sqrt(random.chisquare(below, (draws, short - 1)))
    values = np.linalg.svd(cores, compute_uv=False)
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True))


@lru_cache(maxsize=256)
def chance_of_product(inner: int, rows: int, cols: int) -> FloatArray:
    """Draw the singular values of ``Aᵀ B``, for Gaussian A (inner, rows) and B (inner, cols) of Frobenius norm one.

    Returns
    -------
    (draws, min(inner, rows, cols)) float64, largest first; one row, the mean, where the product is wide.
    """
    rank, widest = min(inner, rows, cols), max(min(inner, rows), min(inner, cols))
    if widest <= WIDEST:
        return _drawn_product(inner, rows, cols)
    ratio = WIDEST / widest
    fewer = [max(1, round(ratio * width)) for width in (inner, rows, cols)]
    small = np.median(_drawn_product(*fewer), axis=0)
    scale = np.sqrt(len(small) * fewer[0] / (rank * inner))  # the mean square of σ is 1 / (rank · inner)
    return np.asarray(scale * _stretched(small, rank))[None]


def _draws(width: int) -> int:
    """Choose how many cores of a width are drawn."""
    return int(np.clip(NUMBERS // width**2, 8, DRAWS))


def _drawn_product(inner: int, rows: int, cols: int) -> FloatArray:
    """Draw products whose cores are small."""
    random = np.random.default_rng((inner, rows, cols))
    draws = _draws(max(min(inner, rows), min(inner, cols)))
    left, right = (_triangles(random, draws, inner, width) for width in (rows, cols))
    return np.asarray(np.linalg.svd(left @ right.mT, compute_uv=False), np.float64)


def _triangles(random: np.random.Generator, draws: int, inner: int, width: int) -> FloatArray:
    """Draw the factors R, of norm one, of ``A = Q R`` of Gaussian (width, inner) matrices: (draws, min, inner)."""
    short = min(inner, width)
    drawn = np.triu(random.standard_normal((draws, short, inner)), 1)
    place = np.arange(short)
    drawn[:, place, place] = np.sqrt(random.chisquare(np.arange(width, width - short, -1), (draws, short)))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=(-2, -1), keepdims=True))


def _marchenko_pastur(short: int, long: int) -> FloatArray:
    """Give the quantiles of a wide matrix's singular values, of norm one: (short,), largest first.

    With γ = short/long the squares, over ``1/short``, have the density ``√((b − x)(x − a)) / (2πγx)`` between
    ``a, b = (1 ∓ √γ)²`` (Marchenko & Pastur 1967). ``x = 1 + γ + 2√γ cos t`` keeps it smooth at both ends.
    """
    gamma = short / long
    angle = np.linspace(0.0, np.pi, _GRID)
    x = np.maximum(1 + gamma + 2 * np.sqrt(gamma) * np.cos(angle), np.finfo(float).tiny)
    density = np.sin(angle) ** 2 / x
    if gamma == 1:
        density[-1] = 1.0  # the limit of sin²t / (2 + 2 cos t)
    share = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    quantiles = np.interp((np.arange(short) + 0.5) / short, share / share[-1], angle)
    values = np.sqrt(1 + gamma + 2 * np.sqrt(gamma) * np.cos(quantiles))
    return np.asarray(values / np.linalg.norm(values))


def _stretched(values: FloatArray, rank: int) -> FloatArray:
    """Read as many quantiles off singular values, largest first; the small end goes on as the power law that it is."""
    ends = np.log((np.arange(len(values), 0, -1) - 0.5) / len(values))
    wanted = np.log((np.arange(rank, 0, -1) - 0.5) / rank)
    logs = np.log(values)
    slope = (logs[-2] - logs[-1]) / (ends[-2] - ends[-1])
    beyond = logs[-1] + slope * (wanted - ends[-1])
    return np.exp(np.where(wanted < ends[-1], beyond, np.interp(wanted, ends[::-1], logs[::-1])))
