"""Eigenvalues of wide matrices: their shares are those of float64, computed in float32 where that is enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.mathematics import circuits
from engine.mathematics.circuits import copying_score, eigenvalues, positive_mass

Matrix = NDArray[np.float64]

SIZE = 128


@pytest.fixture(autouse=True)
def wide_from_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try float32 for matrices that float64 takes little time for."""
    monkeypatch.setattr(circuits, "WIDE", SIZE)


def gaussian(seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((SIZE, SIZE))


def decaying(decades: float) -> Matrix:
    """Multiply two Gaussian matrices around singular values that fall by powers of ten."""
    return gaussian(0) @ np.diag(np.logspace(0, -decades, SIZE)) @ gaussian(1)


def into_its_own_kernel() -> Matrix:
    """Make a matrix of half the rank, part of whose image lies in its kernel."""
    basis = np.linalg.qr(gaussian(0))[0]
    half, start = SIZE // 2, SIZE // 4
    written: Matrix = basis[:, :half] @ gaussian(1)[:half, :half] @ basis[:, start : start + half].T
    return written


def with_a_chain(size: int, steps: int) -> Matrix:
    """Make the identity in one part of a space, and in the rest a nilpotent chain; in another orthonormal basis."""
    basis, matrix = np.linalg.qr(gaussian(0)[:size, :size])[0], np.eye(size)
    matrix[size - steps :, size - steps :] = np.eye(steps, k=1)
    written: Matrix = basis @ matrix @ basis.T
    return written


def shares(found: NDArray[Any]) -> list[float]:
    """Compute the shares of the tables by their definitions."""
    total = np.abs(found).sum()
    real = found.real
    return [real.sum() / total, np.maximum(real, 0.0).sum() / total, np.maximum(-real, 0.0).sum() / total]


def shares_of(matrix: Matrix) -> list[float]:
    """Compute the shares of a matrix as the tables do."""
    found = eigenvalues(torch.from_numpy(matrix)[None])
    assert found.shape == (1, SIZE)
    assert found.dtype == torch.complex128
    return [float(each[0]) for each in (copying_score(found), positive_mass(found), positive_mass(-found))]


MATRICES: tuple[Callable[[], Matrix], ...] = (
    lambda: gaussian(0),
    lambda: 1e30 * gaussian(0) @ gaussian(1),
    lambda: 1e-60 * gaussian(0) @ gaussian(1) @ gaussian(2),
    lambda: gaussian(0) + gaussian(0).T,
    lambda: gaussian(0) @ gaussian(0).T,
    lambda: np.eye(SIZE) + 1e-3 * gaussian(0),
    lambda: decaying(2.0),
    lambda: decaying(4.0),
    into_its_own_kernel,
)


@pytest.mark.parametrize("make", MATRICES)
def test_shares_are_those_of_double_precision(make: Callable[[], Matrix]) -> None:
    matrix = make()
    assert shares_of(matrix) == pytest.approx(shares(np.linalg.eigvals(matrix)), abs=2e-6)


@pytest.mark.parametrize(("size", "steps"), [(SIZE, 40), (64, 64)])
def test_shares_that_rounding_decides_are_undefined(size: int, steps: int) -> None:
    found = eigenvalues(torch.from_numpy(with_a_chain(size, steps))[None])
    assert all(each.isnan().all() for each in (copying_score(found), positive_mass(found), positive_mass(-found)))


@pytest.mark.parametrize("size", [8, SIZE])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_matrix_with_numbers_that_are_not_finite_is_undefined(size: int, number: float) -> None:
    batch = torch.from_numpy(np.stack([gaussian(0)[:size, :size]] * 2))
    batch[1, 3, 4] = number
    found = eigenvalues(batch)
    assert torch.equal(found[0], eigenvalues(batch[:1])[0])
    assert found[1].isnan().all()
    assert copying_score(found)[1].isnan()
