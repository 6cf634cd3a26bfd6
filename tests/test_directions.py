"""Singular directions in words: signs, groups of equal singular values, and projections."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.mathematics.directions import NEAR, groups, projections, with_signs


def test_equal_singular_values_are_one_group_and_others_stand_alone() -> None:
    assert groups(np.array([5.0, 3.0, 3.0, 3.0, 1.0])) == [(0, 0), (1, 3), (1, 3), (1, 3), (4, 4)]


def test_nearly_equal_is_less_than_a_thousandth_apart() -> None:
    assert groups(np.array([1.0, 1.0 - 0.9 * NEAR])) == [(0, 1), (0, 1)]
    assert groups(np.array([1.0, 1.0 - 1.1 * NEAR])) == [(0, 0), (1, 1)]


def test_a_chain_of_near_neighbours_is_one_group() -> None:
    sigma = np.array([(1.0 - 0.5 * NEAR) ** place for place in range(6)])
    assert groups(sigma) == [(0, 5)] * 6


def test_signs_make_the_largest_number_on_the_left_positive_and_keep_the_product() -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(2, 7, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    turned = with_signs(left, right)
    torch.testing.assert_close(turned[0] @ turned[1].mT, left @ right.mT)
    places = turned[0].abs().argmax(-2, keepdim=True)
    assert bool((turned[0].gather(-2, places) > 0).all())
    again = with_signs(-left, -right)
    assert all(torch.equal(one, other) for one, other in zip(turned, again, strict=True))


@pytest.mark.parametrize("tokens", [3, 200_000])
def test_projections_are_products_with_the_gain_between(tokens: int) -> None:
    generator = torch.Generator().manual_seed(0)
    table, gain = torch.randn(tokens, 4, generator=generator), torch.randn(4, generator=generator)
    vectors = torch.randn(4, 2, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(projections(table, vectors, gain).T, (table.double() * gain.double()) @ vectors)
    torch.testing.assert_close(projections(table, vectors).T, table.double() @ vectors)
