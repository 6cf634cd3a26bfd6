"""What changes no measure of a circuit, what chance gives, and the factors put together again."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.mathematics.chance import DRAWS
from engine.mathematics.circuits import (
    Frame,
    LayerFactors,
    circuit_chance,
    factor_heads,
    factor_layer,
    mass_chance,
    measure_circuits,
    sizes_of,
)
from engine.mathematics.factored_matrices import factor_matrices, product
from engine.mathematics.subspaces import angles, cosines
from engine.values.outline import LayerOutline
from tests.engine.mathematics.test_circuits import BOTH, axis, draw, measured, rows, with_qk


def test_the_rank_of_a_product_is_the_rank_of_a_factor_less_what_is_lost() -> None:
    query, key, _, _ = (factor[0].clone() for factor in draw(1, 1, 5, 12))
    query[3:] = 0.0  # what W_Qᵀ drops are the last two of the head's dimensions
    key[[0, 1, 4]] = 0.0  # and of the two that W_K fills one is among them
    turned = torch.linalg.qr(invertible(5, 3))[0]
    found = with_qk((turned @ query)[None], (turned @ key)[None])
    assert (found["rank_q"], found["rank_k"], found["rank_qk"]) == (3, 2, 1)
    assert found["qk_factors_lost"] == 1


def invertible(r: int, seed: int) -> Tensor:
    """Draw a change of a head's inner basis."""
    return torch.randn(r, r, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("is_rotation", [True, False])
def test_another_inner_basis_of_a_head_changes_nothing(is_rotation: bool) -> None:
    query, key, value, output = draw(1, 1, 4, 12)
    first, second = (torch.linalg.qr(each)[0] if is_rotation else each for each in (invertible(4, 5), invertible(4, 6)))
    turned = (
        (first @ query[0])[None],
        (torch.linalg.inv(first).T @ key[0])[None],
        (second @ value[0])[None],
        (output[0] @ torch.linalg.inv(second))[None],
    )
    token_map = draw(1, 1, 12, 12, seed=2)[0][0]
    before, after = (measured(each, 0, token_map) for each in ((query, key, value, output), turned))
    assert after == pytest.approx(before, rel=1e-6, abs=2e-5)


def test_scale_changes_nothing_but_norms() -> None:
    factors = draw(1, 1, 4, 12)
    scaled: LayerFactors = tuple(scale * each for scale, each in zip((1e-6, 3.0, 20.0, 1e7), factors, strict=True))  # type: ignore[assignment]
    token_map = draw(1, 1, 12, 12, seed=2)[0][0]
    assert measured(scaled, 0, 7.0 * token_map) == pytest.approx(measured(factors, 0, token_map), rel=1e-7, abs=2e-5)


@pytest.mark.parametrize(("r", "d"), [(8, 20), (6, 6), (7, 5), (1, 9)])
def test_the_chance_of_eigenvalue_masses_is_what_many_gaussian_products_give(r: int, d: int) -> None:
    chance = np.random.default_rng(3)
    query, key = chance.normal(size=(2, 3000, r, d))
    eigenvalues = np.linalg.eigvals(query.swapaxes(1, 2) @ key)
    total = np.abs(eigenvalues).sum(-1)
    for sign in (1, -1):
        mass = np.maximum(sign * eigenvalues.real, 0.0).sum(-1) / total
        error = mass.std() * math.sqrt(1 / 3000 + 1 / DRAWS)
        assert abs(mass.mean() - mass_chance(r, d)) <= 3 * error, (sign, mass.mean(), error)


SIMULATED = int(os.environ.get("ATTN_TUI_SIMULATED_HEADS", "400"))
"""Gaussian heads that chance is compared with; 2000 tell more."""


@pytest.mark.parametrize("is_one_head", [True, False])
@pytest.mark.parametrize(
    ("heads", "shared", "r", "s", "d"), [(4, 4, 3, 5, 16), (4, 2, 6, 6, 16), (2, 2, 8, 8, 16), (3, 1, 4, 4, 5)]
)
def test_chance_is_what_simulated_heads_and_layers_give(
    is_one_head: bool, heads: int, shared: int, r: int, s: int, d: int
) -> None:
    layer = LayerOutline("decoder", 0, heads, shared, d, d, d, d, r, s, "")
    own, others = (1, 1) if is_one_head else (heads, shared)
    generator = torch.Generator().manual_seed(1)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    full = {matrix: min(layer.shape(matrix, not is_one_head)) for matrix in "QKVO"}
    full |= {"QK": min(others * r, d), "OV": min(others * s, d)}
    frame = Frame(BOTH, dict.fromkeys(BOTH, 1e-9), is_one_head, ("QK", "OV"))
    drawn = []
    for _ in range(SIMULATED):
        factors = gaussian(own, r, d), gaussian(others, r, d), gaussian(others, s, d), gaussian(own, d, s)
        made = factor_heads(factors) if is_one_head else factor_layer(factors)
        drawn += measure_circuits(made, {name: np.array([rank]) for name, rank in full.items()}, np.zeros(1), frame)
    chance = circuit_chance(sizes_of(layer, not is_one_head, {}), frame)
    chance |= {f"rank_{name.lower()}": float(rank) for name, rank in full.items()}
    assert chance.keys() == drawn[0].keys()
    for name in drawn[0]:
        values = np.array([each[name] for each in drawn])
        error = values.std() * math.sqrt(1 / SIMULATED + 1 / DRAWS)
        assert abs(values.mean() - chance[name]) <= 4 * error + 1e-6, (name, values.mean(), chance[name], error)


def test_chance_angles_are_those_of_what_coarsely_stored_gaussian_factors_keep() -> None:
    layer = LayerOutline("decoder", 0, 4, 4, 16, 16, 16, 16, 4, 4, "")  # whole, so that factors are of full rank
    frame = Frame(BOTH, dict.fromkeys(BOTH, 0.05), False)
    sizes = sizes_of(layer, True, dict.fromkeys(("Q", "K", "V", "O", "QK", "OV"), 0.05))
    chance, counted = circuit_chance(sizes, frame), {name: round(rank) for name, rank in sizes.ranks.items()}
    assert max(counted.values()) < 16
    generator = torch.Generator().manual_seed(1)

    def simulated(first: str, second: str) -> Tensor:
        one, other = (
            torch.linalg.qr(torch.randn(2000, 16, counted[name], generator=generator, dtype=torch.float64))[0]
            for name in (first, second)
        )
        return cosines(one, other)

    for circuit, factors in (("qk", ("Q", "K")), ("ov", ("V", "O"))):
        degrees = angles(simulated(*factors))
        assert chance[f"{circuit}_angle_mean"] == pytest.approx(float(degrees.mean()), rel=0.1)
        assert chance[f"{circuit}_angle_largest"] == pytest.approx(float(degrees.amax(-1).mean()), rel=0.1)
        lost = float((simulated(circuit.upper(), circuit.upper()) <= 0.05).sum(-1).double().mean())
        assert chance[f"{circuit}_image_in_kernel"] == pytest.approx(lost, abs=0.25)


@pytest.mark.parametrize("d", [600, 2000])
def test_the_chance_of_wide_layers_is_near_that_of_layers_that_are_drawn(d: int) -> None:
    layers = [LayerOutline("decoder", 0, 4, 2, width, width, width, width, width // 4, width // 4, "")
              for width in (500, d)]  # fmt: skip
    frame = Frame(BOTH, dict.fromkeys(BOTH, 1e-9), False, ("QK", "OV"))
    drawn, wide = (circuit_chance(sizes_of(layer, True, {}), frame) for layer in layers)
    assert drawn.keys() == wide.keys()
    for name, value in drawn.items():
        if not name.startswith("rank"):
            assert wide[name] == pytest.approx(value, abs=0.02 if "angle" not in name else 0.5), name


def test_a_head_of_zeros_has_no_measures_and_does_not_fail() -> None:
    zeros = torch.zeros(1, 3, 6, dtype=torch.float64)
    found = with_qk(zeros, rows(axis(0), axis(1), axis(2)))
    assert math.isnan(found["qk_symmetry"])
    assert math.isnan(found["qk_positive_mass"])
    assert found["rank_qk"] == 0
    assert "qk_overlap" not in found


@pytest.mark.parametrize("condition", [1e1, 1e7, 1e12, math.inf])
def test_a_split_is_exact_and_orthonormal_however_ill_conditioned(condition: float) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(2, 5, 40, generator=generator, dtype=torch.float64)
    matrix[1, 4] = matrix[1, 3] + matrix[1, 4] / condition
    found = factor_matrices(matrix)
    gram = found.basis.mT @ found.basis
    torch.testing.assert_close(gram, torch.eye(5, dtype=torch.float64).expand(2, 5, 5), atol=1e-13, rtol=0)
    torch.testing.assert_close(found.basis @ found.triangle, matrix.mT, atol=1e-13, rtol=0)


def test_singular_triples_put_the_product_together_again() -> None:
    query, key, _, _ = draw(2, 2, 3, 10)
    left, sigma, right = product(factor_matrices(query), factor_matrices(key)).singular_triples()
    torch.testing.assert_close((left * sigma[:, None]) @ right.mT, query.mT @ key, atol=1e-12, rtol=0)
    torch.testing.assert_close(sigma, torch.linalg.svdvals(query.mT @ key)[:, :3], atol=1e-12, rtol=0)
