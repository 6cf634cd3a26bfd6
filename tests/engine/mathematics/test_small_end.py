"""The small end of a spectrum: what squaring loses is found again, and so are kernels; else a dense way is taken."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.mathematics.factored_matrices import FactoredProduct
from engine.mathematics.measures import StoredSize, numerical_rank, product_noise
from engine.mathematics.spectra import MOST_SMALL_VALUES, product_singular_values, smallest_singular_values
from engine.mathematics.subspaces import image_in_kernel

N = 160
DOUBLE = 2.0**-52
SQUARE = (N, N)


def orthogonal(seed: int) -> Tensor:
    drawn = torch.randn(SQUARE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    turn: Tensor = torch.linalg.qr(drawn)[0]
    return turn


def product_with(sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Make factors (1, N, N) of a product with singular values that are known; both have some part in them."""
    roots = sigma.sqrt()
    turn = orthogonal(2)
    return (turn * roots @ orthogonal(0))[None], (turn * roots @ orthogonal(1))[None]


def with_small(count: int, smallest: float) -> Tensor:
    """Let all but some values be of the size of one, and those fall to the smallest."""
    small = torch.logspace(-5.3, float(torch.tensor(smallest).log10()), count, dtype=torch.float64)
    return torch.cat([torch.linspace(3, 0.01, N - count, dtype=torch.float64), small])


@pytest.fixture
def decomposed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Note the shapes of what is decomposed densely."""
    shapes: list[tuple[int, ...]] = []
    dense = torch.linalg.svdvals

    def svdvals(matrix: Tensor) -> Tensor:
        shapes.append(tuple(matrix.shape))
        values: Tensor = dense(matrix)
        return values

    monkeypatch.setattr(torch.linalg, "svdvals", svdvals)
    return shapes


@pytest.mark.parametrize("count", [0, 1, 2, 7, 30, MOST_SMALL_VALUES])
@pytest.mark.parametrize("smallest", [1e-6, 1e-9, 1e-13])
def test_small_values_that_were_planted_are_found(
    count: int, smallest: float, decomposed: list[tuple[int, ...]]
) -> None:
    sigma = with_small(count, smallest)
    found = product_singular_values(*product_with(sigma))[0]
    torch.testing.assert_close(found, sigma, rtol=4e-6, atol=float(64 * DOUBLE * sigma[0]))
    assert not any(shape[-2:] == SQUARE for shape in decomposed)
    assert len(decomposed) >= (count > 0)


@pytest.mark.parametrize(
    "sigma",
    [
        pytest.param(with_small(MOST_SMALL_VALUES + 20, 1e-9), id="too many"),
        pytest.param(torch.cat([torch.ones(N - 3), torch.zeros(3)]).double(), id="singular"),
        pytest.param(torch.zeros(N).double(), id="zero"),
        pytest.param(with_small(5, 1e-9) * 1e-140, id="tiny"),
    ],
)
def test_what_cannot_be_mended_is_decomposed_densely(sigma: Tensor) -> None:
    own, shared = product_with(sigma)
    found = product_singular_values(own, shared)[0]
    torch.testing.assert_close(found, sigma, rtol=4e-6, atol=float(64 * DOUBLE * sigma[0]))


@pytest.mark.parametrize("rank", [N, N - 1, N - 40, 3])
@pytest.mark.parametrize("stored", [torch.float64, torch.float32, torch.bfloat16])
def test_ranks_are_those_of_a_dense_decomposition(rank: int, stored: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rank)
    own = torch.randn(1, N, N, generator=generator, dtype=torch.float64)
    own[:, rank:] = own[:, :1] * torch.randn(1, N - rank, 1, generator=generator, dtype=torch.float64)
    own, shared = own.to(stored), torch.randn(1, N, N, generator=generator, dtype=torch.float64).to(stored)
    dense = torch.linalg.svdvals(own[0].double().T @ shared[0].double())
    found = product_singular_values(own, shared)[0]
    norms = [[float(torch.linalg.matrix_norm(each[0].double(), kind)) for kind in ("fro", 2)] for each in (own, shared)]
    noise = product_noise(*(StoredSize(N, N, torch.finfo(stored).eps, *each) for each in norms))
    assert numerical_rank(found.numpy(), noise) == numerical_rank(dense.numpy(), noise)
    torch.testing.assert_close(found, dense, rtol=4e-6, atol=float(16 * N * DOUBLE * dense[0]))


def test_a_singular_matrix_has_no_smallest_values_to_be_found() -> None:
    assert smallest_singular_values(torch.zeros(SQUARE, dtype=torch.float64), 1) is None
    assert smallest_singular_values(torch.full(SQUARE, torch.nan, dtype=torch.float64), 1) is None


@pytest.mark.parametrize("shared", [0, 2, 7])
@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-9, 1e-6])
def test_of_a_small_kernel_so_much_is_in_the_image_as_was_planted(
    shared: int, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel of seven directions, of which some stand at right angles to the image and the others lie in it."""
    axes, count = orthogonal(0), 7
    kernel = axes[:, :count]
    beyond = torch.cat([kernel[:, :shared], axes[:, count : 2 * count - shared]], 1)  # what the image leaves out
    mixed = orthogonal(1) @ orthogonal(2)
    matrix = mixed - beyond @ (beyond.T @ mixed)
    matrix = matrix - (matrix @ kernel) @ kernel.T
    matrix += noise * (beyond @ orthogonal(3)[:count, :count] @ kernel.T)
    assert numerical_rank(torch.linalg.svdvals(matrix).numpy(), 1e-5) == N - count
    identity = torch.eye(N, dtype=torch.float64)[None]
    whole = FactoredProduct(identity, matrix[None], identity, is_whole=True)
    if noise:
        dense = torch.linalg.svd
        monkeypatch.setattr(torch.linalg, "svd", lambda each, **how: dense(_not_square(each), **how))
    assert image_in_kernel(whole, N - count, 1e-5) == count - shared


def _not_square(matrix: Tensor) -> Tensor:
    """Let no whole matrix be decomposed densely."""
    assert matrix.shape != SQUARE
    return matrix
