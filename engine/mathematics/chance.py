"""Chance: the spectra of Gaussian factors of the same shapes and norms, drawn as small cores.

A Gaussian matrix has the singular values of a small core, exactly in distribution, so nothing as wide as the model is
ever drawn:

* one factor: a bidiagonal matrix of χ-distributed numbers (Dumitriu & Edelman 2002, for β = 1);
* a product: two triangles, since ``A = Q R`` of a Gaussian A has a Haar-distributed Q that is independent of R, and R
  has χ-distributed numbers on its diagonal and Gaussian ones above (Bartlett 1933);
* two factors that read the same space, for whatever does not depend on a rotation of that space (`gaussian_pair`):
  rotated so that the first one's rows fill a triangle, the second is Gaussian there and has a triangle beyond.

Cores wider than `WIDEST` are not drawn. A wider factor gets the quantiles of the Marchenko–Pastur law. A wider product
gets those of a product whose widths are all reduced by one ratio, since its law depends only on their ratios.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import numpy as np

from engine.mathematics.measures import MEASURES, Measure
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.spectra import FloatArray, Spectrum

DRAWS = 64
"""Matrices that are drawn for each shape; fewer for wide ones, whose singular values hardly vary."""

NUMBERS = 2**21
"""The most numbers in all cores of one shape together."""

PAIR_NUMBERS = 2**19
"""The most in the smaller cores of a pair, for which non-symmetric eigenproblems may be solved."""

WIDEST = 512
"""The widest core that is drawn."""

_GRID = 4001
"""Points at which the Marchenko–Pastur law is integrated."""


def inner_rows(layer: LayerOutline, whole_layer: bool) -> dict[str, int]:
    """Count the rows of each circuit's two factors, after heads that share keys are summed."""
    shared = layer.key_value_heads if whole_layer else 1
    return {"QK": shared * layer.head_dim, "OV": shared * layer.value_head_dim}


def chance_of(layer: LayerOutline, whole_layer: bool, matrices: Collection[str] = MATRICES) -> Mapping[str, FloatArray]:
    """Draw singular values for the shapes of a layer's heads, or of the whole layer; an adapter's change has no chance.

    By matrix, (draws, structural rank), each factor of Frobenius norm one. The sum over heads that share keys is a
    product as well, since sums of Gaussian queries are Gaussian.
    """
    if layer.is_change:
        return {}
    inner = inner_rows(layer, whole_layer)
    shapes = {matrix: layer.shape(matrix, whole_layer) for matrix in MATRICES if matrix in matrices}
    return {
        matrix: chance_of_product(inner[matrix], *shape) if matrix in inner else chance_of_factor(*shape)
        for matrix, shape in shapes.items()
    }


def chance_curve(spectrum: Spectrum) -> FloatArray | None:
    """Average the draws, scaled to a head's own factors: (structural rank,), or None without chance."""
    if spectrum.chance is None:
        return None
    curve: FloatArray = spectrum.chance.mean(0) * spectrum.chance_scale
    return curve


def chance_measures(
    spectra: Sequence[Spectrum], epsilon: float, measures: Sequence[Measure] = MEASURES
) -> list[tuple[float, ...] | None]:
    """Measure the chance of each spectrum; norms are scaled to a head's own factors; None without chance.

    The draws are measured once for all heads that share them.
    """
    means: dict[tuple[int, float], list[float]] = {}
    rows: list[tuple[float, ...] | None] = []
    for spectrum in spectra:
        draws, noise = spectrum.chance, spectrum.chance_noise
        if draws is None:
            rows.append(None)
            continue
        key = id(draws), noise
        if key not in means:
            drawn = [(measure, measure.compute(draws, epsilon, noise).astype(np.float64)) for measure in measures]
            means[key] = [float(np.median(each) if of.is_heavy_tailed else each.mean()) for of, each in drawn]
        scale = spectrum.chance_scale
        pairs = zip(measures, means[key], strict=True)
        rows.append(tuple(mean * scale if measure.is_norm else mean for measure, mean in pairs))
    return rows


@lru_cache(maxsize=256)
def chance_of_factor(rows: int, cols: int) -> FloatArray:
    """Draw the singular values of Gaussian (rows, cols) matrices of Frobenius norm one, largest first.

    They are (draws, min(rows, cols)) float64, or one row, the mean, if the matrix is wide.
    """
    short, long = sorted((rows, cols))
    if short > WIDEST:
        return _marchenko_pastur_quantiles(short, long)[None]
    random = np.random.default_rng((short, long))
    draws = _count_draws(short)
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

    They are (draws, min(inner, rows, cols)) float64, largest first, or one row, the mean, if the product is wide.
    """
    rank, widest = min(inner, rows, cols), max(min(inner, rows), min(inner, cols))
    if widest <= WIDEST:
        return _draw_product(inner, rows, cols)
    ratio = WIDEST / widest
    fewer = [max(1, round(ratio * width)) for width in (inner, rows, cols)]
    small = np.median(_draw_product(*fewer), axis=0)
    scale = np.sqrt(len(small) * fewer[0] / (rank * inner))  # the mean square of σ is 1 / (rank · inner)
    return np.asarray(scale * _interpolate_quantiles(small, rank))[None]


def gaussian_pair(first: int, second: int, d: int) -> tuple[FloatArray, FloatArray]:
    """Draw pairs of Gaussian matrices of d columns, rotated to w: (draws, first, w) and (draws, second, w).

    Whatever does not change when both are rotated, ``A → A O`` and ``B → B O`` with O orthogonal, has the same
    distribution as for matrices of d columns: products ``A Bᵀ``, traces of ``Aᵀ B``, angles between what the rows span.
    The first is a lower triangle followed by zeros. The second is Gaussian in those columns and a lower triangle in the
    rest, up to a rotation that leaves the first as it is: w = min(first + second, d). If that exceeds `WIDEST`, all
    widths are reduced by one ratio.
    """
    ratio = min(1.0, WIDEST / min(first + second, d))
    first, second, d = (max(1, round(ratio * width)) for width in (first, second, d))
    draws = int(np.clip(PAIR_NUMBERS // min(first, second, d) ** 2, 4, DRAWS))
    random = np.random.default_rng((first, second, d))
    near = min(first, d)
    beyond = min(second, d - near)
    one = np.zeros((draws, first, near + beyond))
    one[:, :, :near] = _draw_triangles(random, draws, first, d).mT
    other = np.empty((draws, second, near + beyond))
    other[:, :, :near] = random.standard_normal((draws, second, near))
    if beyond:
        other[:, :, near:] = _draw_triangles(random, draws, second, d - near).mT
    return one, other


def _count_draws(width: int) -> int:
    return int(np.clip(NUMBERS // width**2, 8, DRAWS))


def _draw_product(inner: int, rows: int, cols: int) -> FloatArray:
    random = np.random.default_rng((inner, rows, cols))
    draws = _count_draws(max(min(inner, rows), min(inner, cols)))
    left, right = (_draw_triangles(random, draws, inner, width) for width in (rows, cols))
    left, right = (each / np.linalg.norm(each, axis=(-2, -1), keepdims=True) for each in (left, right))
    return np.asarray(np.linalg.svd(left @ right.mT, compute_uv=False), np.float64)


def _draw_triangles(random: np.random.Generator, draws: int, inner: int, width: int) -> FloatArray:
    """Draw the factors R of ``A = Q R`` of Gaussian (width, inner) matrices: (draws, min(inner, width), inner)."""
    short = min(inner, width)
    drawn = np.triu(random.standard_normal((draws, short, inner)), 1)
    place = np.arange(short)
    drawn[:, place, place] = np.sqrt(random.chisquare(np.arange(width, width - short, -1), (draws, short)))
    return np.asarray(drawn)


def _marchenko_pastur_quantiles(short: int, long: int) -> FloatArray:
    """Compute the quantiles of a wide matrix's singular values, of norm one: (short,), largest first.

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


def _interpolate_quantiles(values: FloatArray, rank: int) -> FloatArray:
    """Read ``rank`` quantiles off singular values, largest first; the small end is extrapolated as a power law."""
    ends = np.log((np.arange(len(values), 0, -1) - 0.5) / len(values))
    wanted = np.log((np.arange(rank, 0, -1) - 0.5) / rank)
    logs = np.log(values)
    slope = (logs[-2] - logs[-1]) / (ends[-2] - ends[-1])
    beyond = logs[-1] + slope * (wanted - ends[-1])
    return np.exp(np.where(wanted < ends[-1], beyond, np.interp(wanted, ends[::-1], logs[::-1])))
