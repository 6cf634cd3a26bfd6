"""Each measure against answers known by hand, and against the invariances of its definition."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.mathematics.measures import MEASURES, Measure, energies

Sigma = NDArray[np.float64]

every_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)

BY_NAME = {measure.name: measure for measure in MEASURES}


def measured(name: str, sigma: list[float] | Sigma, epsilon: float = 0.01, noise: float = 1e-12) -> float:
    """Compute one measure of one spectrum, with noise relative to the largest value."""
    values = np.asarray(sigma, dtype=np.float64)
    return float(BY_NAME[name].compute(values, epsilon, noise * values[0]))


def spectra() -> list[Sigma]:
    """Draw spectra of several lengths and decays, largest first."""
    generator = np.random.default_rng(0)
    drawn = [np.sort(generator.gamma(shape, size=length))[::-1] for length in (1, 2, 7, 64) for shape in (0.2, 1, 9)]
    return [*drawn, 0.5 ** np.arange(40.0), 1 / np.arange(1.0, 65.0)]


KNOWN: list[tuple[str, list[float], float]] = [
    ("energy_rank", [1, 1, 1, 1], 4),
    ("energy_rank", [10, 0.5, 0.5], 1),       # the first holds 100/100.5 of the energy
    ("energy_rank", [3, 1, 0.1], 2),          # 9/10.01, then 10/10.01
    ("energy_rank", [5], 1),
    ("numerical_rank", [1, 1e-3, 1e-11, 1e-13, 0], 3),
    ("effective_rank", [2, 2, 2, 2, 2], 5),
    ("effective_rank", [2, 1, 1], 2 * math.sqrt(2)),   # entropy of (1/2, 1/4, 1/4) is 3/2 ln 2
    ("effective_rank", [7, 0, 0], 1),
    ("stable_rank", [2, 1, 1], 1.5),
    ("stable_rank", [3, 3, 3], 3),
    ("participation_ratio", [2, 1, 1], 2),             # (4+1+1)² / (16+1+1)
    ("participation_ratio", [3, 3, 3, 0], 3),
    ("spectral_norm", [5, 2, 1], 5),
    ("frobenius_norm", [4, 3], 5),
    ("nuclear_norm", [4, 3, 0.5], 7.5),
    ("condition_number", [8, 4, 2], 4),
    ("condition_number", [8, 4, 0], math.inf),
]  # fmt: skip


@pytest.mark.parametrize(("name", "sigma", "answer"), KNOWN)
def test_a_measure_has_the_answer_known_by_hand(name: str, sigma: list[float], answer: float) -> None:
    assert measured(name, sigma) == pytest.approx(answer, rel=1e-14)


@pytest.mark.parametrize("epsilon", [0.5, 0.1, 0.01, 1e-3, 1e-6])
def test_energy_rank_is_the_smallest_k_that_keeps_the_energy(epsilon: float) -> None:
    for sigma in spectra():
        squares = [Fraction(float(value)) ** 2 for value in sigma]  # exact
        enough = (1 - Fraction(epsilon)) * sum(squares)
        smallest = next(k for k in range(1, len(sigma) + 1) if sum(squares[:k]) >= enough)
        assert measured("energy_rank", sigma, epsilon) == smallest


@pytest.mark.parametrize(("count", "epsilon", "rank"), [(4, 0.25, 3), (4, 0.5, 2), (2, 0.5, 1), (8, 0, 8), (8, 1, 1)])
def test_exactly_the_wanted_energy_is_enough(count: int, epsilon: float, rank: int) -> None:
    assert measured("energy_rank", [1.0] * count, epsilon) == rank


@pytest.mark.parametrize("factor", [1e-150, 3.0, 1e150])
@every_measure
def test_a_factor_scales_the_norms_and_nothing_else(measure: Measure, factor: float) -> None:
    for sigma in spectra():
        before, after = measured(measure.name, sigma), measured(measure.name, sigma * factor)
        assert after == pytest.approx(before * factor if measure.is_norm else before, rel=1e-12)


@every_measure
def test_the_zero_matrix_has_rank_zero_and_infinite_condition(measure: Measure) -> None:
    assert measured(measure.name, [0.0] * 3) == (math.inf if measure.name == "condition_number" else 0.0)


@pytest.mark.parametrize("largest", [5e-324, 1e-300, 1e300, 1.7e308])
@every_measure
def test_the_smallest_and_the_largest_numbers_neither_vanish_nor_overflow(measure: Measure, largest: float) -> None:
    assert measured(measure.name, [largest]) == (largest if measure.is_norm else 1.0)


def test_numerical_rank_counts_what_is_above_the_noise() -> None:
    assert measured("numerical_rank", [1.0, 0.5, 0.0101, 0.01, 0.005], noise=0.01) == 3


def test_energies_are_shares_that_sum_to_one() -> None:
    np.testing.assert_allclose(energies(np.array([2.0, 1.0, 1.0])), [4 / 6, 1 / 6, 1 / 6])
    for sigma in spectra():
        assert energies(sigma * 1e200).sum() == pytest.approx(1.0)
