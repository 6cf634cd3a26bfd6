"""Angles of subspaces that are known by hand, and those of random ones."""

from __future__ import annotations

import math

import pytest
import torch

from engine.mathematics import distances
from tests.engine.mathematics.dense_spectra import gaussian, orthogonal


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
