"""Eigenvalues of matrices that need not be symmetric, and their shares: known by hand, or left unsaid."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.mathematics.eigenvalues import copying, eigenvalues, negative_mass, positive_mass

Matrix = NDArray[np.float64]

WIDE = 512
"""As wide as a whole layer of a small model."""


def gaussian(seed: int, size: int = WIDE) -> Matrix:
    return np.random.default_rng(seed).standard_normal((size, size))


def shares(found: NDArray[Any]) -> list[float]:
    """Work out the shares that tables have, by their definitions."""
    total = np.abs(found).sum()
    real = found.real
    return [real.sum() / total, np.maximum(real, 0.0).sum() / total, np.maximum(-real, 0.0).sum() / total]


def shares_of(matrix: Matrix) -> list[float]:
    """Measure a matrix as tables do."""
    found = eigenvalues(torch.from_numpy(matrix)[None])
    assert found.shape == (1, len(matrix))
    assert found.dtype == torch.complex128
    return [float(measure(found)[0]) for measure in (copying, positive_mass, negative_mass)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gaussian(0),
        lambda: 1e30 * gaussian(0) @ gaussian(1),
        lambda: 1e-60 * gaussian(0) @ gaussian(1) @ gaussian(2),
        lambda: gaussian(0) + gaussian(0).T,
        lambda: gaussian(0) @ gaussian(0).T,
        lambda: np.eye(WIDE) + 1e-3 * gaussian(0),
        lambda: gaussian(0) @ np.diag(np.logspace(0, -4.0, WIDE)) @ gaussian(1),
    ],
)
def test_shares_are_those_of_all_eigenvalues(make: Callable[[], Matrix]) -> None:
    matrix = make()
    assert shares_of(matrix) == pytest.approx(shares(np.linalg.eigvals(matrix)), abs=1e-6)


def beside_a_chain(steps: int, weight: float, size: int = WIDE) -> Matrix:
    """Make a matrix that copies in a part of a space, and is a chain in the rest, of which all eigenvalues are zero."""
    basis, matrix = np.linalg.qr(gaussian(0, size))[0], np.eye(size)
    matrix[size - steps :, size - steps :] = weight * np.eye(steps, k=1)
    turned: Matrix = basis @ matrix @ basis.T
    return turned


@pytest.mark.parametrize(
    ("size", "steps", "power"),
    [
        *((64, *chain) for chain in [(20, 0), (40, 0), (60, 0), (20, 4), (40, 4), (60, 8)]),
        *((WIDE, *chain) for chain in [(40, 0), (200, 0), (500, 0), (40, 4), (200, 8), (500, 8), (500, 12)]),
    ],
)
def test_a_chain_is_noticed_and_of_what_rounding_makes_of_it_nothing_is_said(size: int, steps: int, power: int) -> None:
    assert np.isnan(shares_of(beside_a_chain(steps, 2.0**-power, size))).all()


@pytest.mark.parametrize(("steps", "power"), [(8, 3), (8, 4), (8, 5), (8, 6), (500, 16)])
def test_of_a_chain_that_is_just_noticed_or_just_not_nothing_or_three_digits_are_said(steps: int, power: int) -> None:
    """Which of them it is depends on how the machine rounds, the basis that hides the chain too.

    The shares of 500 steps of 2⁻¹⁶ move by about 2.2e-6, and 2e-6 are tolerated. Nor is there more to tell: rounding
    to float64 has spread the chain's own eigenvalues to a ring, so that the truth has three digits as well.
    """
    found = shares_of(beside_a_chain(steps, 2.0**-power))
    assert np.isnan(found).all() or found == pytest.approx([1.0, 1.0, 0.0], abs=1e-3)


@pytest.mark.parametrize(("steps", "power"), [(8, 8), (40, 12), (200, 12), (500, 20)])
def test_a_chain_that_weighs_too_little_to_be_noticed_leaves_three_digits(steps: int, power: int) -> None:
    assert shares_of(beside_a_chain(steps, 2.0**-power)) == pytest.approx([1.0, 1.0, 0.0], abs=1e-3)


@pytest.mark.parametrize("steps", [20, 40])
def test_long_cycles_have_roots_of_unity(steps: int) -> None:
    matrix = 0.25 * np.eye(WIDE)
    for start in range(0, WIDE - steps + 1, steps):
        for step in range(steps):
            matrix[start + step, start + (step + 1) % steps] = 4.0 if step < steps // 2 else 0.25
    basis = np.linalg.qr(gaussian(0))[0]
    cycles = WIDE // steps
    # Around a cycle the weights multiply to 1, so that its eigenvalues are roots of unity beside the diagonal.
    own = 0.25 + np.exp(2j * np.pi * np.arange(steps) / steps)
    expected = np.concatenate([np.tile(own, cycles), np.full(WIDE - cycles * steps, 0.25 + 0j)])
    assert shares_of(basis @ matrix @ basis.T) == pytest.approx(shares(expected), abs=1e-5)


def test_one_eigenvalue_is_all_there_is_of_a_matrix_of_rank_one() -> None:
    column = gaussian(0)[:, :1] + 1.0
    found = eigenvalues(torch.from_numpy(column * np.ones(WIDE))[None])[0]
    assert float(found.real.max()) == pytest.approx(column.sum(), rel=1e-6)
    assert float(copying(found)) == pytest.approx(1.0, abs=1e-4)


def test_a_circulant_matrix_has_its_fourier_transform() -> None:
    column = np.random.default_rng(0).standard_normal(WIDE)
    matrix = np.stack([np.roll(column, step) for step in range(WIDE)], axis=1)
    assert shares_of(matrix) == pytest.approx(shares(np.fft.fft(column)), abs=1e-6)
    found = eigenvalues(torch.from_numpy(matrix)[None])[0].numpy()
    assert np.allclose(np.sort(np.abs(found)), np.sort(np.abs(np.fft.fft(column))), rtol=0, atol=1e-9)


def test_of_a_small_chain_alone_nothing_is_said_at_any_scale() -> None:
    basis = np.linalg.qr(gaussian(0, 64))[0]
    chain, sound = basis @ np.eye(64, k=1) @ basis.T, basis @ np.diag(np.arange(1.0, 65)) @ basis.T
    found = eigenvalues(torch.from_numpy(np.stack([sound, chain, 1e-30 * chain, 1e30 * sound])))
    assert found[[1, 2]].isnan().all()
    assert copying(found)[[0, 3]].tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("size", [64, WIDE])
def test_a_batch_has_the_eigenvalues_of_each(size: int) -> None:
    batch = torch.from_numpy(np.stack([gaussian(0, size), gaussian(1, size), np.zeros((size, size))]))
    found = eigenvalues(batch)
    assert not found[2].any()
    for own, alone in zip(found, batch.numpy(), strict=True):
        expected = np.linalg.eigvals(alone)
        assert np.allclose(np.sort_complex(own.numpy()), np.sort_complex(expected), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [8, WIDE])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_is_not_passed_off_as_one(size: int, number: float) -> None:
    batch = torch.from_numpy(np.stack([gaussian(0, size)] * 2))
    batch[1, 3, 4] = number
    found = eigenvalues(batch)
    assert torch.equal(found[0], eigenvalues(batch[:1])[0])
    assert found[1].isnan().all()
    assert copying(found)[1].isnan()
    assert eigenvalues(batch[1:]).isnan().all()
