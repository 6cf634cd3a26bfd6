"""Eigenvalues of wide matrices: their shares are those of float64, computed in float32 where that is enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.mathematics.circuits import WIDE, copying_score, eigenvalues, positive_mass

Matrix = NDArray[np.float64]


def gaussian(seed: int) -> Matrix:
    """Draw a matrix of the size from which float32 is tried."""
    return np.random.default_rng(seed).standard_normal((WIDE, WIDE))


def decaying(decades: float) -> Matrix:
    """Multiply two Gaussian matrices around singular values that fall by powers of ten."""
    return gaussian(0) @ np.diag(np.logspace(0, -decades, WIDE)) @ gaussian(1)


def turned(matrix: Matrix) -> Matrix:
    """Write a matrix in another orthonormal basis."""
    basis = np.linalg.qr(gaussian(0))[0]
    written: Matrix = basis @ matrix @ basis.T
    return written


def into_its_own_kernel() -> Matrix:
    """Make a matrix of half the rank, part of whose image lies in its kernel."""
    basis = np.linalg.qr(gaussian(0))[0]
    half, start = WIDE // 2, WIDE // 4
    written: Matrix = basis[:, :half] @ gaussian(1)[:half, :half] @ basis[:, start : start + half].T
    return written


def shares(found: NDArray[Any]) -> list[float]:
    """Compute the shares of the tables by their definitions."""
    total = np.abs(found).sum()
    real = found.real
    return [real.sum() / total, np.maximum(real, 0.0).sum() / total, np.maximum(-real, 0.0).sum() / total]


def shares_of(matrix: Matrix) -> list[float]:
    """Compute the shares of a matrix as the tables do."""
    found = eigenvalues(torch.from_numpy(matrix)[None])
    assert found.shape == (1, WIDE)
    assert found.dtype == torch.complex128
    return [float(each[0]) for each in (copying_score(found), positive_mass(found), positive_mass(-found))]


MATRICES: tuple[Callable[[], Matrix], ...] = (
    lambda: gaussian(0),
    lambda: 1e30 * gaussian(0) @ gaussian(1),
    lambda: 1e-60 * gaussian(0) @ gaussian(1) @ gaussian(2),
    lambda: gaussian(0) + gaussian(0).T,
    lambda: gaussian(0) @ gaussian(0).T,
    lambda: np.eye(WIDE) + 1e-3 * gaussian(0),
    lambda: decaying(2.0),
    lambda: decaying(4.0),
    into_its_own_kernel,
)


@pytest.mark.parametrize("make", MATRICES)
def test_shares_are_those_of_double_precision(make: Callable[[], Matrix]) -> None:
    matrix = make()
    assert shares_of(matrix) == pytest.approx(shares(np.linalg.eigvals(matrix)), abs=2e-6)


def beside_a_chain(steps: int, power: int) -> Matrix:
    """Make a matrix that is the identity in one part of a space, and in the rest 2⁻ᵖ times a nilpotent chain."""
    matrix = np.eye(WIDE)
    matrix[WIDE - steps :, WIDE - steps :] = 2.0**-power * np.eye(steps, k=1)
    return turned(matrix)


UNDEFINED, THREE_DIGITS = pytest.approx([math.nan] * 3, nan_ok=True), pytest.approx([1.0, 1.0, 0.0], abs=1e-3)

CHAINS = [
    ([(40, 0), (40, 4), (200, 8), (500, 12)], [UNDEFINED]),
    # Rounding decides, also in the basis. To float64 it spreads a chain's own eigenvalues to a ring, so that the truth
    # has only three digits as well: the shares beside 500 steps of 2⁻¹⁶ move by about 2.2e-6, and 2e-6 are tolerated.
    ([(8, 3), (8, 4), (8, 5), (8, 6), (500, 16)], [UNDEFINED, THREE_DIGITS]),
    ([(8, 8), (40, 12), (200, 12), (500, 20)], [THREE_DIGITS]),
]


@pytest.mark.parametrize(("chains", "either"), CHAINS, ids=["heavy", "light", "negligible"])
def test_the_shares_beside_a_chain_are_undefined_or_have_three_digits(
    chains: list[tuple[int, int]], either: list[object]
) -> None:
    for chain in chains:
        assert shares_of(beside_a_chain(*chain)) in either, chain


def test_the_shares_of_a_matrix_far_from_normal_are_undefined() -> None:
    assert shares_of(turned(100 * np.triu(gaussian(1), 1) + np.diag(np.arange(1.0, WIDE + 1)))) == UNDEFINED


def test_a_small_chain_is_undefined_too() -> None:
    basis = np.linalg.qr(gaussian(0)[:64, :64])[0]
    chain, sound = basis @ np.eye(64, k=1) @ basis.T, basis @ np.diag(np.arange(1.0, 65)) @ basis.T
    found = eigenvalues(torch.from_numpy(np.stack([sound, chain, 1e-30 * chain, 1e30 * sound])))
    assert found[[1, 2]].isnan().all()
    assert copying_score(found)[[0, 3]].tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("size", [8, WIDE])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_matrix_with_numbers_that_are_not_finite_is_undefined(size: int, number: float) -> None:
    batch = torch.from_numpy(np.stack([gaussian(0)[:size, :size]] * 2))
    batch[1, 3, 4] = number
    found = eigenvalues(batch)
    assert torch.equal(found[0], eigenvalues(batch[:1])[0])
    assert found[1].isnan().all()
    assert copying_score(found)[1].isnan()
