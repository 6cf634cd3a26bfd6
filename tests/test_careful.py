"""Ranks that float64's rounding would decide: they are those of exact arithmetic, counted in whole numbers.

By Sylvester's law of inertia as many eigenvalues of ``MᵀM − t²`` are positive, that is as many singular values of M are
above t, as there are positive pivots when it is eliminated, which whole numbers do without any rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
import torch
from torch import Tensor

from engine.mathematics import careful
from engine.mathematics.careful import careful_singular_values
from engine.mathematics.measures import numerical_rank, rank_tolerance
from engine.mathematics.spectra import (
    circuit_singular_values,
    head_singular_values,
    layer_matrix,
    matrix_singular_values,
    product_singular_values,
)

DOUBLE = 2.0**-52
ROWS, WIDTH = 6, 14
Pair = tuple[Tensor, Tensor]
Exact = tuple[list[list[int]], int]
"""Whole numbers, and how often they are to be halved."""


def exact(matrix: Tensor) -> Exact:
    """Write numbers without rounding."""
    rows = [[Fraction(number) for number in row] for row in matrix.double().tolist()]
    halvings = max(number.denominator.bit_length() - 1 for row in rows for number in row)
    return [[int(number * 2**halvings) for number in row] for row in rows], halvings


def multiplied(left: Exact, right: Exact) -> Exact:
    """Multiply the transpose of (r, m) by (r, n)."""
    columns, others = ([*zip(*rows, strict=True)] for rows, _ in (left, right))
    products = [[sum(a * b for a, b in zip(mine, other, strict=True)) for other in others] for mine in columns]
    return products, left[1] + right[1]


def count_above(matrix: Exact, threshold: Fraction) -> int:
    """Count the singular values above a threshold, which is none of them, by exact elimination (Bareiss 1968)."""
    square, halvings = multiplied(matrix, matrix)
    squared = threshold**2
    for place, row in enumerate(square):
        square[place] = [number * squared.denominator for number in row]
        square[place][place] -= squared.numerator * 2**halvings
    positive, before = 0, 1
    while square:
        (pivot, *first), *rest = square
        positive += (pivot > 0) == (before > 0)
        square = [
            [(number * pivot - row[0] * above) // before for number, above in zip(row[1:], first, strict=True)]
            for row in rest
        ]
        before = pivot
    return positive


def exact_matrix(own: Tensor, shared: Tensor | None) -> Exact:
    """Form a matrix, or a product, without rounding, with no more columns than rows."""
    if shared is not None:
        return multiplied(exact(own), exact(shared))
    return exact(own.T if own.shape[0] < own.shape[1] else own)


def exact_rank(values: Tensor, own: Tensor, shared: Tensor | None = None) -> int:
    """Count the singular values above the tolerance of a rank; of those computed only the largest is used."""
    rows, cols = own.shape if shared is None else (own.shape[1], shared.shape[1])
    stored = max(torch.finfo(each.dtype).eps for each in (own, own if shared is None else shared))
    tolerance = rank_tolerance(rows, cols, DOUBLE, stored)
    return count_above(exact_matrix(own, shared), Fraction(float(values[0])) * Fraction(tolerance))


def rank(values: Tensor, own: Tensor, shared: Tensor | None = None) -> int:
    """Count as the tables do."""
    rows, cols = own.shape if shared is None else (own.shape[1], shared.shape[1])
    stored = max(torch.finfo(each.dtype).eps for each in (own, own if shared is None else shared))
    return int(numerical_rank(values[None].numpy(), rank_tolerance(rows, cols, DOUBLE, stored))[0])


def drawn(seed: int, rows: int = ROWS, width: int = WIDTH) -> Tensor:
    """Draw a factor."""
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turn(seed: int, size: int) -> Tensor:
    """Draw a rotation."""
    turned: Tensor = torch.linalg.qr(drawn(seed, size, size))[0]
    return turned


def cancelling(seed: int, left_over: float) -> Pair:
    """Let two factors read different halves of what is between them, but for a little."""
    query, key = drawn(seed), drawn(seed + 1)
    query[ROWS // 2 :], key[: ROWS // 2] = 0, 0
    turned = turn(seed + 2, ROWS)
    return turned @ query, turned @ key + left_over * drawn(seed + 3)


def near_the_tolerance(seed: int, width: int = WIDTH) -> Tensor:
    """Let a matrix have singular values of which rounding to float64 may say that they count, or not."""
    generator = torch.Generator().manual_seed(seed)
    off = 0.1 * torch.rand(ROWS - 1, generator=generator, dtype=torch.float64) - 0.05
    sigma = torch.cat([torch.ones(1, dtype=torch.float64), width * DOUBLE * (1 + off)])
    return turn(seed + 1, ROWS) * sigma @ turn(seed + 2, width)[:ROWS]


def repeated(seed: int) -> Tensor:
    """Let rows be others' multiples."""
    factor = drawn(seed)
    factor[ROWS // 2 :] = factor[: ROWS // 2] * 3.0
    return factor


def graded(seed: int) -> Tensor:
    """Let singular values fall through the tolerance, closely spaced."""
    sigma = torch.cat([torch.ones(2), torch.logspace(-13.6, -15.2, ROWS - 2)]).double()
    return turn(seed, ROWS) * sigma @ turn(seed + 1, WIDTH)[:ROWS]


HARD: dict[str, Callable[[int], Pair]] = {
    **{f"cancelling to {left:g}": partial(cancelling, left_over=left) for left in (0, 1e-12, 1e-6, 0.03, 0.1)},
    "the tolerance itself": lambda seed: (turn(seed, ROWS) @ near_the_tolerance(seed), turn(seed, ROWS)),
    "falling": lambda seed: (graded(seed), drawn(seed + 7)),
    "repeated rows": lambda seed: (repeated(seed), repeated(seed + 5)),
    "one beside its own": lambda seed: (graded(seed), graded(seed)),
}
"""Pairs of factors by name."""


@pytest.mark.parametrize("kind", HARD)
def test_ranks_of_hard_products_are_exact(kind: str) -> None:
    for seed in range(0, 60, 10):
        own, shared = HARD[kind](seed)
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            stored = own.to(dtype), shared.to(dtype)
            found = product_singular_values(stored[0][None], stored[1][None])[0]
            assert rank(found, *stored) == exact_rank(found, *stored), (seed, dtype)


@pytest.mark.parametrize("made", [near_the_tolerance, graded, repeated])
def test_ranks_of_hard_matrices_are_exact(made: Callable[[int], Tensor]) -> None:
    for seed in range(0, 100, 10):
        for matrix in (made(seed), made(seed)[:, :ROWS], made(seed).T):
            found = matrix_singular_values(matrix[None])[0]
            assert rank(found, matrix) == exact_rank(found, matrix), seed


def assert_right(found: Tensor, matrix: Exact) -> None:
    """Find each of some singular values in its place, but for its last digits."""
    for place, value in enumerate(map(Fraction, found.tolist())):
        off = max(value / 10**8, Fraction(float(found[0])) / 10**21)
        assert count_above(matrix, value + off) <= place, place
        assert value <= off or count_above(matrix, value - off) > place, place


@pytest.mark.parametrize("kind", HARD)
def test_every_digit_that_is_promised_is_right(kind: str) -> None:
    own, shared = HARD[kind](3)
    assert_right(careful_singular_values(own, shared), exact_matrix(own, shared))
    assert_right(careful_singular_values(own), exact_matrix(own, None))


@pytest.mark.parametrize("scales", [(1e150, 1e-150), (1e140, 1e140), (1e-150, 1e-140)])
def test_digits_are_as_many_at_every_scale(scales: tuple[float, float]) -> None:
    own, shared = (factor[:, :8] * scale for factor, scale in zip(cancelling(3, 1e-6), scales, strict=True))
    assert_right(careful_singular_values(own, shared), exact_matrix(own, shared))


def test_what_stands_beside_a_hard_head_is_left_as_it_is() -> None:
    own, shared = cancelling(0, 1e-3)
    heads = torch.stack([drawn(5), own, drawn(6), own]), torch.stack([drawn(7), shared])
    found = circuit_singular_values(*heads)[2]
    for place in (0, 2, 3):
        alone = circuit_singular_values(heads[0][place : place + 1], heads[1][place // 2 :][:1])[2][0]
        torch.testing.assert_close(found[place], alone, rtol=1e-12, atol=0)
    assert rank(found[3], own, shared) == exact_rank(found[3], own, shared)


def test_a_whole_layers_rank_is_exact_too() -> None:
    own, shared = zip(*(cancelling(seed, 0.03) for seed in (0, 10)), strict=True)
    query, key = torch.stack(own), torch.stack(shared)
    for is_squared in (False, True):
        for width in (WIDTH, 2 * ROWS):  # products of thin factors, and of full rank
            factors = query[..., :width], key[..., :width], key[..., :width], query[..., :width].mT
            for matrix in ("QK", "OV"):
                found = layer_matrix(matrix, *factors, is_squared=is_squared)
                stacked = [each[..., :width].flatten(0, 1) for each in (query, key)]
                assert rank(found, *stacked) == exact_rank(found, *stacked)


def test_factors_whose_squares_are_beyond_float64_have_their_spectra() -> None:
    query, key = drawn(0)[None], drawn(1)[None]
    plain = head_singular_values(query, key, key, query.mT)
    for left, right in ((1e160, 1e-160), (1e150, 1e150), (1e-150, 1e-150), (1e-79, 1e-79)):
        scaled = head_singular_values(query * left, key * right, key * right, query.mT * left)
        for matrix, scale in (("Q", left), ("K", right), ("QK", left * right), ("OV", left * right)):
            torch.testing.assert_close(scaled[matrix] / scale, plain[matrix], rtol=1e-12, atol=0)


def test_nothing_is_computed_again_where_rounding_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(careful, "careful_singular_values", None)
    wide = 192
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        full = torch.stack([drawn(seed, 16, wide) for seed in range(2)]).to(dtype)
        low = torch.stack([drawn(seed, 16, 4) @ drawn(seed, 4, wide) for seed in range(2)]).to(dtype)
        zeros = full * (torch.arange(16) < 9)[:, None]
        for own in (full, low, zeros, zeros * 0):
            for shared in (full.flip(0), low.flip(0)):
                head_singular_values(own, shared, shared, own.mT)
                layer_matrix("QK", own, shared, shared, own.mT)


def test_too_large_factors_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    own, shared = (factor[None] for factor in cancelling(0, 1e-3))
    again = product_singular_values(own, shared)
    monkeypatch.setattr(careful, "MOST_NUMBERS", ROWS * WIDTH - 1)
    assert not torch.equal(product_singular_values(own, shared), again)
