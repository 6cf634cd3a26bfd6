"""Distances of circuits and angles of subspaces, known by hand and from dense matrices."""

from __future__ import annotations

import math

import pytest
import torch

from engine.mathematics import distances
from tests.engine.mathematics.dense_spectra import gaussian, orthogonal


def test_another_inner_basis_changes_no_circuit_and_a_small_change_keeps_its_digits() -> None:
    query, key, turn = gaussian(3, 5, 40), gaussian(3, 5, 30, seed=1), orthogonal(5)
    assert float(distances.distance((query, key), (turn @ query, turn @ key)).max()) < 1e-14
    assert float(distances.distance((query,), (turn @ query,)).min()) > 0.5
    grown = query * (1 + 2.0**-40)
    expected = torch.full((3,), 2.0**-40, dtype=torch.float64)
    torch.testing.assert_close(distances.distance((query, key), (grown, key)), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize(("r", "m", "n"), [(3, 20, 30), (12, 10, 15), (6, 40, 6)])
def test_circuit_distances_are_those_of_dense_products(r: int, m: int, n: int) -> None:
    before, now = ((gaussian(4, r, m, seed=seed), gaussian(4, r, n, seed=seed + 1)) for seed in (2, 4))
    one, other = (left.mT @ right for left, right in (before, now))
    expected = (other - one).flatten(1).norm(dim=1) / one.flatten(1).norm(dim=1)
    torch.testing.assert_close(distances.distance(before, now), expected, rtol=1e-12, atol=0)
    nothing = torch.zeros_like(before[0])
    assert distances.distance((nothing, before[1]), (nothing, now[1])).tolist() == [0.0] * 4
    assert distances.distance((nothing, before[1]), now).tolist() == [math.inf] * 4


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-9, 1e-5, 0.3, 45.0, 60.0, 90.0])
def test_principal_angles_are_those_of_a_tilted_plane(angle: float) -> None:
    basis, radians = orthogonal(12, 3), math.radians(angle)
    first = basis[:, :3]
    tilted = math.cos(radians) * basis[:, 0] + math.sin(radians) * basis[:, 5]
    second = torch.stack([tilted, basis[:, 1], basis[:, 6]], 1) @ orthogonal(3)
    degrees = distances.principal_angles(first[None], second[None])[0]
    expected = torch.tensor(sorted([angle, 0.0, 90.0]), dtype=torch.float64)
    torch.testing.assert_close(degrees, expected, rtol=1e-6, atol=2e-13)
    overlap = distances.angle_columns("Q", degrees[None])["q_overlap"]
    assert overlap == pytest.approx((1 + math.cos(radians) ** 2) / 3)
    same = distances.principal_angles(first[None], first[None] @ orthogonal(3))
    assert same.tolist() == [[0.0, 0.0, 0.0]]
    both_ways = (first[None], second[None, :, :1]), (second[None, :, :1], first[None])
    torch.testing.assert_close(*(distances.principal_angles(*each) for each in both_ways))


def test_random_subspaces_overlap_by_their_share_of_the_space() -> None:
    drawn = (torch.linalg.qr(gaussian(400, 24, 6, seed=seed))[0] for seed in (0, 1))
    expected, random = distances.principal_angles(*drawn), distances.angles(distances.random_cosines(6, 6, 24))
    simulated, many = (distances.angle_columns("Q", degrees) for degrees in (expected, random))
    assert many == pytest.approx(simulated, rel=0.04)
    assert many["q_overlap"] == pytest.approx(0.25, rel=0.04)
    assert not distances.angles(distances.random_cosines(8, 8, 8)).any()
