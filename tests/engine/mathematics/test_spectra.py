"""Spectra from thin factors in batches, and their small end, compared with a dense float64 SVD."""

from __future__ import annotations

from collections.abc import Iterator
from operator import methodcaller

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.mathematics.distances import image_in_kernel
from engine.mathematics.factored_matrices import FactoredProduct
from engine.mathematics.measures import MEASURES, StoredSize, frobenius_norm, numerical_rank, product_noise
from engine.mathematics.spectra import MOST_SMALL_VALUES, circuit_singular_values
from engine.values.heads import MATRICES
from engine.values.table import Kind, kind_of
from tests.engine.mathematics.dense_spectra import (
    Factors,
    change_all,
    dense_matrices,
    draw_layer,
    gaussian,
    head_singular_values,
    layer_singular_values,
    orthogonal,
)

DOUBLE = 2.0**-52


def conditioned(condition: float, factors: Factors) -> Factors:
    """Set the singular values of every matrix to a geometric sequence down to ``1/condition``."""

    def change(factor: Tensor) -> Tensor:
        left, sigma, right = torch.linalg.svd(factor, full_matrices=False)
        changed: Tensor = left * torch.logspace(0, -np.log10(condition), sigma.shape[-1], dtype=torch.float64) @ right
        return changed

    return change_all(factors, change)


def deficient(factors: Factors) -> Factors:
    """Repeat the first third of each head's rows, or of its columns if they are fewer, as the last third."""

    def change(factor: Tensor) -> Tensor:
        tall = factor.shape[-2] > factor.shape[-1]
        rows = (factor.mT if tall else factor).clone()
        third = rows.shape[-2] // 3
        rows[:, -third:] = rows[:, :third]
        return rows.mT.contiguous() if tall else rows

    return change_all(factors, change)


def layers() -> Iterator[tuple[str, Factors]]:
    """Make layers of every kind that checkpoints have, and difficult ones."""
    for name, shape, dtype in (
        ("Gaussian", (4, 4, 8, 8, 96, 96), torch.float32),
        ("in bfloat16", (4, 4, 8, 8, 96, 96), torch.bfloat16),
        ("in float16", (4, 4, 8, 8, 96, 96), torch.float16),
        ("grouped", (6, 2, 8, 8, 96, 96), torch.float32),
        ("multi-query", (4, 1, 8, 8, 48, 48), torch.float32),
        ("another width of values", (4, 2, 8, 5, 64, 64), torch.float32),
        ("a single head", (1, 1, 16, 16, 40, 40), torch.float32),
        ("across stacks", (4, 4, 8, 8, 64, 40), torch.float32),
        ("across stacks to a wider one", (4, 4, 8, 8, 40, 64), torch.float32),
        ("heads taller than wide", (3, 3, 24, 20, 16, 16), torch.float32),
        ("one row", (3, 3, 1, 1, 12, 12), torch.float32),
        ("heads fill the width", (4, 4, 8, 8, 32, 32), torch.float32),
        ("heads overfill the width", (6, 3, 8, 8, 32, 32), torch.float32),
    ):
        yield name, change_all(draw_layer(*shape), methodcaller("to", dtype))
    for shape in ((4, 2, 8, 8, 96, 96), (4, 4, 8, 8, 32, 32)):
        base, width = draw_layer(*shape), shape[4]
        for exponent in (1, 3, 4, 5, 6, 8, 12):
            yield f"condition 1e{exponent}, width {width}", conditioned(10.0**exponent, base)
        yield f"rank-deficient, width {width}", deficient(base)
        yield f"one head zero, width {width}", change_all(base, lambda own: own * torch.arange(len(own))[:, None, None])
        for name, factor in (("zero", 0.0), ("tiny numbers", 1e-60), ("huge numbers", 1e60)):
            yield f"{name}, width {width}", change_all(base, methodcaller("mul", factor))


every_layer = pytest.mark.parametrize("factors", [pytest.param(made, id=name) for name, made in layers()])


def assert_agree(sigma: Tensor, parts: dict[str, Tensor], matrix: str, rank: int, stored: torch.dtype) -> None:
    """Compare at most ``rank`` singular values and every measure with those of a dense float64 SVD.

    A dense product's rounding errors scale with the product of its factors' spectral norms. Below ``1e-9`` of it the
    reference itself is noise, and only noise is expected.
    """
    found, reference = sigma.numpy(), torch.linalg.svdvals(parts[matrix]).numpy()[:rank]
    assert (found.dtype, found.shape) == (reference.dtype, reference.shape), matrix
    assert np.all(np.diff(found) <= 0)
    norms = float(np.prod([float(torch.linalg.matrix_norm(parts[factor], 2)) for factor in matrix]))
    resolved = reference > 1e-9 * norms
    np.testing.assert_allclose(found[resolved], reference[resolved], rtol=1e-5, err_msg=matrix)
    np.testing.assert_array_less(found[~resolved], 1.1e-9 * norms + 1e-320)
    rows, cols = parts[matrix].shape
    noise = StoredSize(rows, cols, torch.finfo(stored).eps, frobenius_norm(reference), norms).noise
    for measure in MEASURES:
        for epsilon in (0.01, 0.1, 1e-4):
            ours, theirs = (measure.compute(each, epsilon, noise).item() for each in (found, reference))
            if kind_of(measure.name) is Kind.WHOLE:
                assert ours == theirs, (matrix, measure.name, epsilon)
            elif measure.name != "condition_number" or resolved.all():
                assert ours == pytest.approx(theirs, rel=1e-5), (matrix, measure.name)


@every_layer
def test_every_heads_spectrum_is_that_of_the_dense_matrix(factors: Factors) -> None:
    spectra = head_singular_values(*factors)
    assert {matrix: (len(sigma), sigma.dtype) for matrix, sigma in spectra.items()} == dict.fromkeys(
        MATRICES, (len(factors[0]), torch.float64)
    )
    for head in range(len(factors[0])):
        parts = dense_matrices(factors, head)
        for matrix, sigma in spectra.items():
            rank = min(*parts[matrix].shape, *(min(parts[factor].shape) for factor in matrix))
            assert_agree(sigma[head], parts, matrix, rank, factors[0].dtype)


@every_layer
def test_a_whole_layers_spectrum_is_that_of_the_dense_matrix(factors: Factors) -> None:
    parts = dense_matrices(factors, None)
    for matrix in MATRICES:
        rank = min(len(parts[{"QK": "K", "OV": "V"}.get(matrix, matrix)]), *parts[matrix].shape)
        assert_agree(layer_singular_values(matrix, *factors), parts, matrix, rank, factors[0].dtype)


@pytest.mark.parametrize("rank", [100, 256, 300])
def test_products_of_large_factors_are_those_of_the_dense_matrix(rank: int) -> None:
    own, shared = gaussian(4, rank, 340).float(), gaussian(2, rank, 420, seed=1).float()
    of_own, of_shared, products = circuit_singular_values(own, shared, True, True)
    for head in range(4):
        q, k = own[head].double(), shared[head // 2].double()
        for found, dense in ((of_own[head], q), (of_shared[head // 2], k), (products[head], q.T @ k)):
            torch.testing.assert_close(found, torch.linalg.svdvals(dense)[:rank], rtol=1e-6, atol=0)


@pytest.mark.parametrize("loud", [1e4, 1e6, 1e8])
def test_a_circuit_far_smaller_than_its_factors_keeps_its_digits(loud: float) -> None:
    rows, turn = orthogonal(64)[:16], orthogonal(16)
    is_loud = torch.arange(16) < 8
    query = (turn * torch.where(is_loud, loud, 1.0)) @ rows
    key = (turn * torch.where(is_loud, 1.0, 1e4) * torch.linspace(1, 2, 16, dtype=torch.float64)) @ rows
    expected = torch.linalg.svdvals(query.T @ key)[:16]
    torch.testing.assert_close(circuit_singular_values(query[None], key[None])[0][0], expected, rtol=1e-5, atol=0)


N = 160


def product_with(sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Make factors (1, N, N) of a product with known singular values, to which both contribute."""
    roots = sigma.sqrt()
    turn = orthogonal(N, 2)
    return (turn * roots @ orthogonal(N, 0))[None], (turn * roots @ orthogonal(N, 1))[None]


def with_small(count: int, smallest: float) -> Tensor:
    """Make values of the size of one, and ``count`` small ones down to the smallest."""
    small = torch.logspace(-5.3, float(torch.tensor(smallest).log10()), count, dtype=torch.float64)
    return torch.cat([torch.linspace(3, 0.01, N - count, dtype=torch.float64), small])


@pytest.mark.parametrize(
    "sigma",
    [
        *(with_small(count, smallest) for count in (0, 1, 7, MOST_SMALL_VALUES) for smallest in (1e-6, 1e-9, 1e-13)),
        torch.zeros(N).double(),
        with_small(MOST_SMALL_VALUES + 20, 1e-9),
        torch.cat([torch.ones(N - 3), torch.zeros(3)]).double(),
        with_small(5, 1e-9) * 1e-140,
    ],
)
def test_small_values_are_found(sigma: Tensor) -> None:
    found = circuit_singular_values(*product_with(sigma))[0][0]
    torch.testing.assert_close(found, sigma, rtol=4e-6, atol=float(64 * DOUBLE * sigma[0]))


@pytest.mark.parametrize("rank", [N, N - 1, N - 40, 3])
@pytest.mark.parametrize("stored", [torch.float64, torch.float32, torch.bfloat16])
def test_ranks_are_those_of_a_dense_decomposition(rank: int, stored: torch.dtype) -> None:
    own = gaussian(1, N, N)
    own[:, rank:] = own[:, :1] * gaussian(1, N - rank, 1, seed=1)
    own, shared = own.to(stored), gaussian(1, N, N, seed=2).to(stored)
    dense = torch.linalg.svdvals(own[0].double().T @ shared[0].double())
    found = circuit_singular_values(own, shared)[0][0]
    norms = [[float(torch.linalg.matrix_norm(each[0].double(), kind)) for kind in ("fro", 2)] for each in (own, shared)]
    noise = product_noise(*(StoredSize(N, N, torch.finfo(stored).eps, *each) for each in norms))
    assert numerical_rank(found.numpy(), noise) == numerical_rank(dense.numpy(), noise)
    torch.testing.assert_close(found, dense, rtol=4e-6, atol=float(16 * N * DOUBLE * dense[0]))


@pytest.mark.parametrize("shared", [0, 2, 7])
@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-9, 1e-6])
def test_the_planted_part_of_a_small_kernel_lies_in_the_image(shared: int, noise: float) -> None:
    """A kernel of seven directions, of which some are orthogonal to the image and the others lie in it."""
    axes, count = orthogonal(N, 0), 7
    kernel = axes[:, :count]
    beyond = torch.cat([kernel[:, :shared], axes[:, count : 2 * count - shared]], 1)  # what the image leaves out
    mixed = orthogonal(N, 1) @ orthogonal(N, 2)
    matrix = mixed - beyond @ (beyond.T @ mixed)
    matrix = matrix - (matrix @ kernel) @ kernel.T
    matrix += noise * (beyond @ orthogonal(N, 3)[:count, :count] @ kernel.T)
    assert numerical_rank(torch.linalg.svdvals(matrix).numpy(), 1e-5) == N - count
    identity = torch.eye(N, dtype=torch.float64)[None]
    assert image_in_kernel(FactoredProduct(identity, matrix[None], identity), N - count, 1e-5) == count - shared
