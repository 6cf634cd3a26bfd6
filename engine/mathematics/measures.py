"""Measures of a spectrum: how many directions a matrix really uses, and how strongly; and norms of stored tensors.

Every measure takes singular values along the last axis, largest first, and returns one number per spectrum.
With ``p_i = σ_i² / Σσ²`` and ``q_i = σ_i / Σσ``; a zero matrix has rank 0 in every sense and condition number infinity.

The screen imports this module before torch is there, so that it must not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.values.spectra import FloatArray
from engine.values.views import OF_SPECTRA

if TYPE_CHECKING:
    from torch import Tensor

NUMBERS_AT_ONCE = 2**16
"""Numbers of a tensor that are squared at once in float64; as many as stay in a core's cache."""

COMPUTE_EPSILON = float(np.finfo(np.float64).eps)
"""All singular values are computed in float64."""

DEFAULT_EPSILON = 0.01
"""The share of the energy that `energy_rank` leaves out, unless the person says otherwise."""


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Divide where the denominator is not zero; 0 elsewhere."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def _unit(sigma: FloatArray) -> FloatArray:
    """Scale each spectrum to a largest value of one, so that squares and fourth powers neither overflow nor vanish."""
    return _ratio(sigma, np.broadcast_to(sigma[..., :1], sigma.shape))


def energies(sigma: FloatArray) -> FloatArray:
    """Give each singular value's share of the energy, ``p_i = σ_i² / Σσ²``; (..., r) to (..., r)."""
    squares = _unit(sigma) ** 2
    return _ratio(squares, np.broadcast_to(squares.sum(-1, keepdims=True), squares.shape))


def energy_rank(sigma: FloatArray, epsilon: float = DEFAULT_EPSILON) -> NDArray[np.int64]:
    """Find the smallest k with ``Σ_{i≤k} p_i ≥ 1 − ε``: the rank of the best approximation that keeps the energy.

    Eckart & Young 1936. Computed as ``count(cumsum(σ²) < (1−ε)·Σσ²) + 1``, and 0 for a zero matrix.
    """
    cumulative = np.cumsum(_unit(sigma) ** 2, axis=-1)
    total = cumulative[..., -1:]
    below = np.count_nonzero(cumulative < (1.0 - epsilon) * total, axis=-1) + 1
    return np.where(total[..., 0] > 0, np.minimum(below, sigma.shape[-1]), 0)


def numerical_rank(sigma: FloatArray, noise: float | FloatArray) -> NDArray[np.int64]:
    """Count the singular values (..., r) above the noise (...) of their matrix (`StoredSize.noise`)."""
    counts: NDArray[np.int64] = np.count_nonzero(sigma > np.asarray(noise)[..., None], axis=-1)
    return counts


def random_norm(rows: int, cols: int) -> float:
    """Give the spectral norm of a random matrix of Frobenius norm one, ``(√m + √n) / √(mn)`` (Vershynin 2018, 4.4)."""
    return (math.sqrt(rows) + math.sqrt(cols)) / math.sqrt(rows * cols)


@dataclass(frozen=True, slots=True)
class StoredSize:
    """How large a stored matrix is, and how finely its numbers are stored; arrays (batch,) tell of several matrices.

    Attributes
    ----------
    rows, cols : its shape.
    epsilon : the distance between neighbouring numbers as they are stored, relative to the numbers.
    frobenius, spectral : its norms.
    """

    rows: int
    cols: int
    epsilon: float | FloatArray
    frobenius: float | FloatArray
    spectral: float | FloatArray

    @property
    def noise(self) -> FloatArray:
        """Give what rounding adds to the matrix at most: smaller singular values say nothing of the weights.

        ``max(σ₁ · max(m, n) · eps(float64), eps(stored) · ‖W‖_F · (√m + √n) / √(mn))``. The first term is NumPy's for
        singular values in float64. The second is the spectral norm of a random matrix with entries of the size of
        eps(stored) times those of W (Vershynin 2018, 4.4), about three times that of what rounding has added.
        """
        computed = np.multiply(self.spectral, max(self.rows, self.cols) * COMPUTE_EPSILON)
        stored = np.multiply(self.epsilon, self.frobenius) * random_norm(self.rows, self.cols)
        return np.maximum(computed, stored)


def product_noise(first: StoredSize, second: StoredSize) -> FloatArray:
    """Give what rounding adds to a product AB at most, ``noise(A) ‖B‖₂ + ‖A‖₂ noise(B)``."""
    return first.noise * second.spectral + first.spectral * second.noise


def cosine_noise(dimensions: int, epsilon: float) -> float:
    """Give ``max(d · eps(float64), eps(stored))``, up to which cosines of subspaces of d dimensions are rounding."""
    return max(dimensions * COMPUTE_EPSILON, epsilon)


def effective_rank(sigma: FloatArray) -> FloatArray:
    """Compute ``exp(−Σ q ln q)``, the exponential of the entropy of the normalised spectrum (Roy & Vetterli 2007)."""
    scaled = _unit(sigma)
    total = scaled.sum(-1, keepdims=True)
    q = _ratio(scaled, np.broadcast_to(total, scaled.shape))
    entropy = -(q * np.log(np.where(q > 0, q, 1.0))).sum(-1)
    return np.where(total[..., 0] > 0, np.exp(entropy), 0.0)


def stable_rank(sigma: FloatArray) -> FloatArray:
    """Compute ``Σσ² / σ₁²`` (Rudelson & Vershynin 2007)."""
    result: FloatArray = (_unit(sigma) ** 2).sum(-1)
    return result


def participation_ratio(sigma: FloatArray) -> FloatArray:
    """Compute ``(Σσ²)² / Σσ⁴``."""
    squares = _unit(sigma) ** 2
    return _ratio(squares.sum(-1) ** 2, (squares**2).sum(-1))


def spectral_norm(sigma: FloatArray) -> FloatArray:
    """Give σ₁."""
    return sigma[..., 0].copy()


def frobenius_norm(sigma: FloatArray) -> FloatArray:
    """Compute ``√Σσ²``."""
    result: FloatArray = sigma[..., 0] * np.sqrt((_unit(sigma) ** 2).sum(-1))
    return result


def condition_number(sigma: FloatArray) -> FloatArray:
    """Compute ``σ₁ / σ_r``, r the structural rank; infinite when σ_r is zero."""
    first, last = sigma[..., 0], sigma[..., -1]
    return np.divide(first, last, out=np.full_like(first, np.inf), where=last != 0)


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the ``ranks`` table.

    Attributes
    ----------
    title : what a screen calls it.
    compute : (singular values (..., r), ε, noise (...)) to one number per spectrum.
    is_count : whether its values are whole numbers.
    is_norm : whether it grows with the matrix; the others depend on the spectrum's shape alone.
    is_heavy_tailed : whether its mean over random matrices is infinite, so that chance is their median.
    """

    name: str
    title: str
    compute: Callable[[FloatArray, float, float | FloatArray], NDArray[np.generic]]
    is_count: bool = False
    is_norm: bool = False
    is_heavy_tailed: bool = False

    @property
    def formula(self) -> str:
        """What it is, for the screen."""
        return OF_SPECTRA[self.name]


MEASURES: tuple[Measure, ...] = (
    Measure("energy_rank", "energy rank", lambda sigma, epsilon, _: energy_rank(sigma, epsilon), is_count=True),
    Measure("numerical_rank", "numerical rank", lambda sigma, _, noise: numerical_rank(sigma, noise), is_count=True),
    Measure("effective_rank", "effective rank", lambda sigma, *_: effective_rank(sigma)),
    Measure("stable_rank", "stable rank", lambda sigma, *_: stable_rank(sigma)),
    Measure("participation_ratio", "participation ratio", lambda sigma, *_: participation_ratio(sigma)),
    Measure("spectral_norm", "spectral norm", lambda sigma, *_: spectral_norm(sigma), is_norm=True),
    Measure("frobenius_norm", "Frobenius norm", lambda sigma, *_: frobenius_norm(sigma), is_norm=True),
    Measure("nuclear_norm", "nuclear norm", lambda sigma, *_: sigma.sum(-1), is_norm=True),
    Measure("condition_number", "condition number", lambda sigma, *_: condition_number(sigma), is_heavy_tailed=True),
)
"""Every measure, in the order of the table's columns."""


def tensor_norm(parts: Iterable[Tensor]) -> float:
    """Give ``√Σw²`` (Golub & Van Loan 2013, section 2.3) in float64 of a tensor whose numbers come in parts (numbers,).

    It is NaN where a number is NaN, and infinite where one is infinite and none NaN.
    """
    blocks = (block.double() for part in parts for block in part.detach().cpu().split(NUMBERS_AT_ONCE))
    return math.sqrt(sum(float(block @ block) for block in blocks))


def orthogonal_norm(before: Tensor, after: Tensor) -> float:
    """Give ``√(‖x‖² + ‖y − x‖²)`` of (d,): what y's norm would be if what is added to x stood at a right angle to it.

    Directions that know nothing of each other do, in many dimensions: the root mean square of their cosine is ``1/√d``.

    Examples
    --------
    >>> import torch
    >>> orthogonal_norm(torch.tensor([3.0, 0.0]), torch.tensor([3.0, 4.0]))
    5.0
    """
    return tensor_norm([before.flatten().float(), (after.double() - before.double()).flatten()])
