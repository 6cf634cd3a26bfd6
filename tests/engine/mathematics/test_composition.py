"""How much of what one head writes another one reads: planted answers, and dense float64 products."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from engine.mathematics.circuits import LayerFactors
from engine.mathematics.composition import KINDS, chance, composition, reading, writing
from tests.engine.mathematics.test_circuits import axis, dense, draw, rows


def composed(earlier: LayerFactors, later: LayerFactors) -> dict[str, Tensor]:
    """Compare every head of one layer with every head of another, by kind."""
    return {kind: composition(writing(*earlier[2:]), part) for kind, part in reading(*later).items()}


def test_a_query_that_reads_just_what_a_head_writes_composes_as_much_as_two_planes_can() -> None:
    plane, elsewhere, nowhere = rows(axis(0), axis(1)), rows(axis(2), axis(3)), rows(axis(4), axis(5))
    writes = (nowhere, nowhere, elsewhere, plane.mT)
    reads = (plane, nowhere, nowhere, nowhere.mT)
    found = composed(writes, reads)
    assert float(found["Q"]) == pytest.approx(math.sqrt(2) / (math.sqrt(2) * math.sqrt(2)))
    assert float(found["K"]) == pytest.approx(0.0, abs=1e-12)
    assert float(found["V"]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_of_rank_one_heads_that_meet_the_composition_is_one_and_of_that_kind_alone(kind: str) -> None:
    hit, miss = rows(axis(0)), rows(axis(1))
    found = composed(
        (miss, miss, rows(axis(2)), 5.0 * hit.mT),
        (hit if kind == "Q" else miss, hit if kind == "K" else miss, hit if kind == "V" else miss, miss.mT),
    )
    assert {each: round(float(value), 12) for each, value in found.items()} == {
        each: float(each == kind) for each in KINDS
    }


@pytest.mark.parametrize("shapes", [((3, 3, 4, 12), (2, 2, 4, 12)), ((4, 2, 3, 12), (6, 3, 5, 12))])
def test_every_pair_is_that_of_dense_products(shapes: tuple[tuple[int, int, int, int], ...]) -> None:
    earlier, later = draw(*shapes[0]), draw(*shapes[1], seed=1)
    found, norm = composed(earlier, later), torch.linalg.matrix_norm
    for first in range(shapes[0][0]):
        ov = dense(earlier, first)["OV"]
        for second in range(shapes[1][0]):
            of = dense(later, second)
            read = {"Q": of["QK"], "K": of["QK"].T, "V": of["OV"]}
            for kind, matrix in read.items():
                expected = norm(ov @ matrix) / (norm(ov) * norm(matrix))
                assert float(found[kind][first, second]) == pytest.approx(float(expected), rel=1e-10), (kind, first)


def test_chance_is_the_root_mean_square_of_heads_that_know_nothing_of_each_other() -> None:
    squares = composed(draw(60, 60, 3, 16), draw(60, 60, 3, 16, seed=1))["Q"] ** 2
    error = float(squares.std()) / math.sqrt(60)  # pairs share heads, so no more than 60 are independent
    assert abs(float(squares.mean()) - chance(16) ** 2) <= 4 * error


def test_a_head_of_zeros_feeds_nothing_and_says_so() -> None:
    nothing = torch.zeros(1, 2, 6, dtype=torch.float64)
    plane = rows(axis(0), axis(1))
    assert math.isnan(float(composed((plane, plane, nothing, plane.mT), (plane, plane, plane, plane.mT))["Q"]))


@pytest.mark.parametrize("lost", [1e-2, 1e-5, 1e-9])
def test_nearly_dependent_rows_keep_their_digits(lost: float) -> None:
    """W_V and W_Q whose rows are nearly the same, followed by what sees nothing but the difference."""
    plane, apart = draw(1, 1, 2, 12)[0], torch.tensor([[[1.0, -1.0]]], dtype=torch.float64)
    twins = torch.cat([plane[:, :1], plane[:, :1] + lost * plane[:, 1:]], 1)
    blind = apart.mT @ plane[:, :1]
    later = draw(1, 1, 2, 12, seed=1)
    found = composed((twins, twins, twins, blind.mT), later)
    ov, of = dense((twins, twins, twins, blind.mT), 0)["OV"], dense(later, 0)
    for kind, matrix in {"Q": of["QK"], "K": of["QK"].T, "V": of["OV"]}.items():
        expected = torch.linalg.matrix_norm(ov @ matrix) / (
            torch.linalg.matrix_norm(ov) * torch.linalg.matrix_norm(matrix)
        )
        assert float(found[kind]) == pytest.approx(float(expected), rel=1e-6), kind
