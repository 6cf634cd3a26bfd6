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
from tests.conftest import CallsOf

Matrix = NDArray[np.float64]
Precisions = Callable[[], list[torch.dtype]]

SINGLE, DOUBLE = [torch.float32] * 2, [torch.float32] * 2 + [torch.float64] * 2
"""The precisions in which a matrix is solved when single precision is enough, and when it is not."""


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


@pytest.fixture
def precisions(calls_of: CallsOf) -> Precisions:
    """Give a function that lists the precisions of the matrices solved so far."""
    solved = calls_of(torch.linalg, "eigvals")
    return lambda: [matrix.dtype for (matrix,) in solved]


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


SINGLE_IS_ENOUGH: tuple[Callable[[], Matrix], ...] = (
    lambda: gaussian(0),
    lambda: 1e30 * gaussian(0) @ gaussian(1),
    lambda: 1e-60 * gaussian(0) @ gaussian(1) @ gaussian(2),
    lambda: gaussian(0) + gaussian(0).T,
    lambda: gaussian(0) @ gaussian(0).T,
    lambda: np.eye(WIDE) + 1e-3 * gaussian(0),
    lambda: decaying(2.0),
    lambda: decaying(4.0),
)


@pytest.mark.parametrize(
    ("make", "tolerance", "solved"),
    [*((make, 2e-6, SINGLE) for make in SINGLE_IS_ENOUGH), (into_its_own_kernel, 1e-6, DOUBLE)],
)
def test_shares_are_those_of_double_precision_in_which_only_a_nilpotent_part_is_solved(
    make: Callable[[], Matrix], tolerance: float, solved: list[torch.dtype], precisions: Precisions
) -> None:
    matrix = make()
    assert shares_of(matrix) == pytest.approx(shares(np.linalg.eigvals(matrix)), abs=tolerance)
    assert precisions() == solved


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


@pytest.mark.parametrize("steps", [20, 40])
def test_long_cycles_take_double_precision(steps: int, precisions: Precisions) -> None:
    matrix, cycles = 0.25 * np.eye(WIDE), WIDE // steps
    for start in range(0, cycles * steps, steps):
        for step in range(steps):
            matrix[start + step, start + (step + 1) % steps] = 4.0 if step < steps // 2 else 0.25
    # The weights of a cycle multiply to 1, so that its eigenvalues are the diagonal plus roots of unity.
    own = 0.25 + np.exp(2j * np.pi * np.arange(steps) / steps)
    expected = np.concatenate([np.tile(own, cycles), np.full(WIDE - cycles * steps, 0.25 + 0j)])
    assert shares_of(turned(matrix)) == pytest.approx(shares(expected), abs=1e-5)
    assert precisions() == DOUBLE


def test_a_matrix_of_rank_one_has_one_eigenvalue() -> None:
    column = gaussian(0)[:, :1] + 1.0
    found = eigenvalues(torch.from_numpy(column * np.ones(WIDE))[None])[0]
    assert float(found.real.max()) == pytest.approx(column.sum(), rel=1e-6)
    assert float(copying_score(found)) == pytest.approx(1.0, abs=1e-4)


def test_a_circulant_matrix_has_its_fourier_transform(precisions: Precisions) -> None:
    column = np.random.default_rng(0).standard_normal(WIDE)
    matrix = np.stack([np.roll(column, step) for step in range(WIDE)], axis=1)
    assert shares_of(matrix) == pytest.approx(shares(np.fft.fft(column)), abs=1e-6)
    found = eigenvalues(torch.from_numpy(matrix)[None])[0].numpy()
    assert np.allclose(np.sort(np.abs(found)), np.sort(np.abs(np.fft.fft(column))), rtol=0, atol=1e-3)
    assert precisions() == 2 * SINGLE


def test_a_small_chain_is_undefined_too() -> None:
    basis = np.linalg.qr(gaussian(0)[:64, :64])[0]
    chain, sound = basis @ np.eye(64, k=1) @ basis.T, basis @ np.diag(np.arange(1.0, 65)) @ basis.T
    found = eigenvalues(torch.from_numpy(np.stack([sound, chain, 1e-30 * chain, 1e30 * sound])))
    assert found[[1, 2]].isnan().all()
    assert copying_score(found)[[0, 3]].tolist() == pytest.approx([1.0, 1.0])


def test_small_matrices_are_solved_together_in_double_precision(precisions: Precisions) -> None:
    batch = torch.from_numpy(gaussian(0)[:128].reshape(16, 64, 64))
    expected = np.linalg.eigvals(batch.numpy())
    assert np.allclose(np.sort_complex(eigenvalues(batch).numpy()), np.sort_complex(expected), rtol=0, atol=1e-9)
    assert precisions() == [torch.float64] * 2


def test_wide_matrices_of_a_batch_are_solved_one_by_one(precisions: Precisions) -> None:
    batch = torch.from_numpy(np.stack([gaussian(0), into_its_own_kernel(), np.zeros((WIDE, WIDE))]))
    found = eigenvalues(batch)
    assert precisions() == SINGLE + DOUBLE
    assert not found[2].any()
    for own, alone in zip(found, batch, strict=True):
        assert torch.equal(own, eigenvalues(alone[None])[0])


@pytest.mark.parametrize("size", [8, WIDE])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_matrix_with_numbers_that_are_not_finite_is_undefined(size: int, number: float) -> None:
    batch = torch.from_numpy(np.stack([gaussian(0)[:size, :size]] * 2))
    batch[1, 3, 4] = number
    found = eigenvalues(batch)
    assert torch.equal(found[0], eigenvalues(batch[:1])[0])
    assert found[1].isnan().all()
    assert copying_score(found)[1].isnan()
