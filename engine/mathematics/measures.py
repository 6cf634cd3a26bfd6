"""Measures of a spectrum, ranks and norms, and norms of stored tensors.

Every measure takes singular values along the last axis, largest first, and returns one number per spectrum.
With ``p_i = σ_i² / Σσ²`` and ``q_i = σ_i / Σσ``. A zero matrix has rank 0 in every sense and condition number infinity.

The screen imports this module before torch is loaded, so it must not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.values.spectra import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

NUMBERS_AT_ONCE = 2**16
"""Numbers that are squared at once in float64: as many as fit in a core's cache."""

COMPUTE_EPSILON = float(np.finfo(np.float64).eps)
"""That of float64, in which all singular values are computed."""

DEFAULT_EPSILON = 0.01
"""The share of the energy that `energy_rank` leaves out by default."""


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


def _unit(sigma: FloatArray) -> FloatArray:
    """Scale each spectrum to a largest value of one, so that squares and fourth powers neither overflow nor vanish."""
    return _ratio(sigma, sigma[..., :1])


def energies(sigma: FloatArray) -> FloatArray:
    """Compute each singular value's share of the energy, ``p_i = σ_i² / Σσ²``; (..., r) to (..., r)."""
    squares = _unit(sigma) ** 2
    return _ratio(squares, squares.sum(-1, keepdims=True))


def energy_rank(sigma: FloatArray, epsilon: float = DEFAULT_EPSILON) -> NDArray[np.int64]:
    """Find the smallest k with ``Σ_{i≤k} p_i ≥ 1 − ε``: the rank of the best approximation that keeps the energy.

    Eckart & Young 1936. Computed as ``count(cumsum(σ²) < (1−ε)·Σσ²) + 1``, and 0 for a zero matrix.
    """
    cumulative = np.cumsum(_unit(sigma) ** 2, axis=-1)
    total = cumulative[..., -1:]
    below = np.count_nonzero(cumulative < (1.0 - epsilon) * total, axis=-1) + 1
    return np.where(total[..., 0] > 0, np.minimum(below, sigma.shape[-1]), 0)


def numerical_rank(sigma: FloatArray, noise: float | FloatArray) -> NDArray[np.int64]:
    """Count the singular values (..., r) above their matrix's noise (...), as `StoredSize.noise` bounds it."""
    counts: NDArray[np.int64] = np.count_nonzero(sigma > np.asarray(noise)[..., None], axis=-1)
    return counts


def random_norm(rows: int, cols: int) -> float:
    """Estimate the spectral norm of a random matrix of norm one, ``(√m + √n) / √(mn)`` (Vershynin 2018, 4.4)."""
    return (math.sqrt(rows) + math.sqrt(cols)) / math.sqrt(rows * cols)


@dataclass(frozen=True, slots=True)
class StoredSize:
    """The shape and norms of a stored matrix, and how finely its numbers are stored; (batch,) arrays for several.

    ``epsilon`` is the distance between neighbouring stored numbers, relative to the numbers.
    """

    rows: int
    cols: int
    epsilon: float | FloatArray
    frobenius: float | FloatArray
    spectral: float | FloatArray

    @property
    def noise(self) -> FloatArray:
        """Bound what rounding adds to the matrix: smaller singular values say nothing about the weights.

        ``max(σ₁ · max(m, n) · eps(float64), eps(stored) · ‖W‖_F · (√m + √n) / √(mn))``. The first term is NumPy's for
        singular values in float64. The second is the spectral norm of a random matrix whose entries have the size of
        eps(stored) times those of W (Vershynin 2018, 4.4), about three times that of the rounding itself.
        """
        computed = np.multiply(self.spectral, max(self.rows, self.cols) * COMPUTE_EPSILON)
        stored = np.multiply(self.epsilon, self.frobenius) * random_norm(self.rows, self.cols)
        return np.maximum(computed, stored)


def product_noise(first: StoredSize, second: StoredSize) -> FloatArray:
    """Bound what rounding adds to a product AB, ``noise(A) ‖B‖₂ + ‖A‖₂ noise(B)``."""
    return first.noise * second.spectral + first.spectral * second.noise


def cosine_noise(dimensions: int, epsilon: float) -> float:
    """Compute ``max(d · eps(float64), eps(stored))``; smaller cosines of subspaces of d dimensions are rounding."""
    return max(dimensions * COMPUTE_EPSILON, epsilon)


def effective_rank(sigma: FloatArray) -> FloatArray:
    """Compute ``exp(−Σ q ln q)``, the exponential of the entropy of the normalised spectrum (Roy & Vetterli 2007)."""
    scaled = _unit(sigma)
    total = scaled.sum(-1, keepdims=True)
    q = _ratio(scaled, total)
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
    """Return σ₁."""
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
    title : its name on the screen.
    compute : (singular values (..., r), ε, noise (...)) to one number per spectrum.
    is_norm : whether it grows with the matrix; the others depend only on the spectrum's shape.
    is_heavy_tailed : whether its mean over random matrices is infinite; chance is then the median.
    """

    name: str
    title: str
    compute: Callable[[FloatArray, float, float | FloatArray], NDArray[np.generic]]
    is_norm: bool = False
    is_heavy_tailed: bool = False


MEASURES: tuple[Measure, ...] = (
    Measure("energy_rank", "energy rank", lambda sigma, epsilon, _: energy_rank(sigma, epsilon)),
    Measure("numerical_rank", "numerical rank", lambda sigma, _, noise: numerical_rank(sigma, noise)),
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
    """Compute ``√Σw²`` (Golub & Van Loan 2013, section 2.3) in float64, for a tensor that comes in parts (numbers,).

    NaN if any number is NaN; otherwise infinite if any is infinite.
    """
    blocks = (block.double() for part in parts for block in part.detach().cpu().split(NUMBERS_AT_ONCE))
    return math.sqrt(sum(float(block @ block) for block in blocks))


def orthogonal_norm(before: Tensor, after: Tensor) -> float:
    """Compute ``√(‖x‖² + ‖y − x‖²)`` of (d,): the norm that y would have if ``y − x`` were orthogonal to x.

    Unrelated directions nearly are, in many dimensions: the root mean square of their cosine is ``1/√d``.

    Examples
    --------
    >>> import torch
    >>> orthogonal_norm(torch.tensor([3.0, 0.0]), torch.tensor([3.0, 4.0]))
    5.0
    """
    return tensor_norm([before.flatten().float(), (after.double() - before.double()).flatten()])
