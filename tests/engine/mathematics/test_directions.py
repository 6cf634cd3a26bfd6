"""Tokens of singular directions: signs, groups of equal singular values, and projections."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from engine.mathematics.factored_matrices import fix_signs
from engine.mathematics.tokens import DRAWS, NEAR, chance_projections, groups
from tests.engine.mathematics.dense_spectra import gaussian


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [
        ([5.0, 3.0, 3.0, 3.0, 1.0], [(0, 0), (1, 3), (1, 3), (1, 3), (4, 4)]),
        ([1.0, 1.0 - 0.9 * NEAR], [(0, 1), (0, 1)]),
        ([1.0, 1.0 - 1.1 * NEAR], [(0, 0), (1, 1)]),
        ([(1.0 - 0.5 * NEAR) ** place for place in range(6)], [(0, 5)] * 6),
    ],
)
def test_nearly_equal_neighbours_form_a_group(sigma: list[float], expected: list[tuple[int, int]]) -> None:
    assert groups(np.array(sigma)) == expected


def test_signs_make_the_largest_number_on_the_left_positive_and_keep_the_product() -> None:
    left, right = gaussian(2, 7, 3), gaussian(2, 7, 3, seed=1)
    turned = fix_signs(left, right)
    torch.testing.assert_close(turned[0] @ turned[1].mT, left @ right.mT)
    places = turned[0].abs().argmax(-2, keepdim=True)
    assert bool((turned[0].gather(-2, places) > 0).all())
    again = fix_signs(-left, -right)
    assert all(torch.equal(one, other) for one, other in zip(turned, again, strict=True))


def test_chance_is_that_of_random_directions() -> None:
    random = np.random.default_rng(0)
    table = random.standard_normal((300, 24)) * random.uniform(0.1, 3, (300, 1)) + random.standard_normal(24)
    gain = random.uniform(0.5, 2, 24)
    drawn = random.standard_normal((24, 20_000))
    drawn /= np.linalg.norm(drawn, axis=0)
    for fold in (None, gain):
        met = np.sort((table if fold is None else table * fold) @ drawn, axis=0)  # (tokens, directions)
        both = (met[:-6:-1] - met[:5]) / 2  # each direction with its opposite
        for draws in (DRAWS, 16_384):
            folded = None if fold is None else torch.from_numpy(fold)
            found = chance_projections(torch.from_numpy(table), 5, lambda: None, folded, draws).numpy()
            error = both.std(axis=1) * math.sqrt(1 / draws + 1 / drawn.shape[1])
            assert np.all(np.abs(found - both.mean(axis=1)) < 4 * error)  # of twenty numbers, fails once in a thousand
            assert np.all(error < (0.02 if draws == DRAWS else 0.002) * found)
