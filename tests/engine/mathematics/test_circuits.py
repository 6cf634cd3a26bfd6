"""Circuits of heads and their composition: answers known by hand, dense float64 matrices, and invariances."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.mathematics import distances
from engine.mathematics.chance import DRAWS
from engine.mathematics.circuits import (
    SPECTRA,
    CircuitSettings,
    LayerFactors,
    Numbers,
    chance_ranks,
    circuit_chance,
    composition,
    factor_heads,
    factor_layer,
    measure_circuits,
    rows_read,
    rows_written,
    spectra_of,
)
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.progress import finish
from tests.engine.mathematics.dense_spectra import dense_matrices, draw_layer, orthogonal

BOTH = frozenset({"QK", "OV"})


def rows(*vectors: Tensor) -> Tensor:
    """Make one head's W_Q, W_K or W_V from the vectors that it reads."""
    return torch.stack(vectors)[None]


def dense_rank(matrix: Tensor) -> int:
    return int(torch.linalg.matrix_rank(matrix, rtol=1e-12))


def measured(
    factors: LayerFactors,
    head: int | None = 0,
    token_map: Tensor | None = None,
    tolerance: float = 1e-9,
) -> Numbers:
    """Measure one head, or the whole layer, with ranks counted on dense matrices."""
    heads = range(len(factors[0])) if head is not None else [None]
    dense = [dense_matrices(factors, each) for each in heads]
    ranks = {matrix: np.array([dense_rank(each[matrix]) for each in dense]) for matrix in MATRICES}
    solved = spectra_of(BOTH, token_map is not None)
    settings = CircuitSettings(BOTH, dict.fromkeys(BOTH, tolerance), head is not None, solved, token_map)
    noise = tolerance * np.array([float(torch.linalg.matrix_norm(each["QK"], 2)) for each in dense])
    made = factor_layer(factors) if head is None else factor_heads(factors)
    return finish(measure_circuits(made, ranks, noise, settings))[head or 0]


def qk(query: Tensor, key: Tensor) -> LayerFactors:
    return query, key, key, query.mT


def ov(value: Tensor, output: Tensor) -> LayerFactors:
    """Make a head of its OV circuit alone; the output is given as rows that are written."""
    return value, value, value, output.mT


def draw(heads: int, shared: int, r: int, d: int, seed: int = 0) -> LayerFactors:
    return draw_layer(heads, shared, r, r, d, d, seed)


AXES = torch.eye(6, dtype=torch.float64)
NOTHING, PLANE = torch.zeros(6, dtype=torch.float64), rows(AXES[0], AXES[1])
TURNED = rows(AXES[1], -AXES[0])

near = pytest.approx
UNDEFINED = near(math.nan, nan_ok=True)

KNOWN: dict[str, tuple[LayerFactors, dict[str, Any]]] = {
    "an antisymmetric circuit": (qk(PLANE, TURNED), {
        "qk_symmetry": near(-1.0), "qk_symmetric_energy": near(0.0, abs=1e-12), "qk_antisymmetric_energy": near(1.0),
        "qk_identity_distance": near(1.0), "qk_symmetric_identity_distance": UNDEFINED,
        "qk_symmetric_identity_floor": 1.0,
        "qk_positive_mass": near(0.0, abs=1e-7), "qk_negative_mass": near(0.0, abs=1e-7),
    }),
    "orthogonal subspaces": (qk(PLANE, rows(AXES[2], AXES[3])), {
        "qk_symmetry": near(0.0, abs=1e-12), "qk_image_in_kernel": 2, "qk_factors_lost": 0,
        "qk_angle_smallest": near(90.0), "qk_angle_largest": near(90.0), "qk_overlap": near(0.0, abs=1e-12),
    }),
    "one orthogonal direction of two": (qk(PLANE, rows(AXES[0], AXES[2])), {
        "qk_image_in_kernel": 1, "qk_angle_smallest": near(0.0, abs=1e-5), "qk_angle_largest": near(90.0),
        "qk_overlap": near(0.5),
    }),
    "queries that drop a direction of the keys": (
        qk(rows(AXES[0], AXES[1], NOTHING), rows(NOTHING, AXES[4], AXES[5])),
        {"rank_q": 2, "rank_k": 2, "rank_qk": 1, "qk_factors_lost": 1},
    ),
    "a head of zeros": (qk(0 * AXES[None, :3], AXES[None, :3]), {
        "qk_symmetry": UNDEFINED, "qk_positive_mass": UNDEFINED, "rank_qk": 0, "qk_overlap": None,
    }),
    "an output that drops values": (ov(AXES[None, :3], rows(NOTHING, NOTHING, AXES[5])), {
        "rank_v": 3, "rank_o": 1, "rank_ov": 1, "ov_factors_lost": 2, "ov_image_in_kernel": 1,
    }),
}  # fmt: skip
"""Heads and their measures; None where there is none."""


@pytest.mark.parametrize("name", KNOWN)
def test_measures_known_by_hand(name: str) -> None:
    factors, expected = KNOWN[name]
    found = measured(factors)
    assert {measure: found.get(measure) for measure in expected} == expected


@pytest.mark.parametrize("head", [0, None])
def test_shares_of_eigenvalues_that_are_only_rounding_are_undefined(head: int | None) -> None:
    """Bases are rotated and stored in float32, so that no product is exactly zero."""
    d, r = 48, 12
    turned = torch.linalg.qr(draw(1, 1, d, d, seed=3)[0][0])[0].float().double()
    read, written, heard = turned[None, :r], turned[None, r : 2 * r], turned[2 * r :]
    factors = read, written, read, written.mT
    found = measured(factors, head, heard.T @ heard, tolerance=1.2e-7)
    assert found["qk_image_in_kernel"] == found["ov_image_in_kernel"] == r
    assert all(np.isnan(found[name]) for names in SPECTRA.values() for name in names)
    tokens = turned.T @ turned
    assert np.isnan(measured(factors, head, tokens, tolerance=1.2e-7)["ov_copying"])
    copies = measured((read, read, read, read.mT), head, tokens, tolerance=1.2e-7)
    assert copies["ov_copying"] == copies["ov_copying_residual"] == pytest.approx(1.0)
    assert copies["qk_positive_mass"] == pytest.approx(1.0)


def by_definition(matrices: dict[str, Tensor], token_map: Tensor) -> dict[str, float]:
    qk, ov = matrices["QK"], matrices["OV"]
    d, norm = len(qk), torch.linalg.norm
    identity = torch.eye(d, dtype=torch.float64)
    symmetric, antisymmetric = (qk + qk.T) / 2, (qk - qk.T) / 2

    def distance(matrix: Tensor) -> float:
        """Find the multiple of the identity that is nearest, by least squares."""
        solved = torch.linalg.lstsq(identity.reshape(-1, 1), matrix.reshape(-1, 1)).solution
        return float(norm(matrix - solved * identity) / norm(matrix))

    def image_in_kernel(matrix: Tensor) -> int:
        """Count the dimensions that are lost when the matrix is applied a second time."""
        return dense_rank(matrix) - dense_rank(matrix @ matrix)

    def angles(first: Tensor, second: Tensor) -> NDArray[np.float64]:
        bases = [np.linalg.qr(each.numpy())[0] for each in (first, second)]
        cosine = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[: min(dense_rank(first), dense_rank(second))]
        degrees: NDArray[np.float64] = np.degrees(np.arccos(np.clip(cosine, 0, 1)))
        return degrees

    def copying(matrix: Tensor) -> float:
        found = torch.linalg.eigvals(matrix)
        return float(found.real.sum() / found.abs().sum())

    eigenvalues = torch.linalg.eigvals(qk)
    both = {"qk": angles(matrices["Q"].T, matrices["K"].T), "ov": angles(matrices["V"].T, matrices["O"])}
    return {
        "qk_symmetry": float((qk @ qk).trace() / norm(qk) ** 2),
        "qk_identity_distance": distance(qk),
        "qk_symmetric_identity_distance": distance(symmetric),
        "qk_identity_floor": (1 - dense_rank(qk) / len(qk)) ** 0.5,
        "qk_symmetric_identity_floor": (1 - dense_rank(symmetric) / len(qk)) ** 0.5,
        "qk_symmetric_energy": float(norm(symmetric) ** 2 / norm(qk) ** 2),
        "qk_antisymmetric_energy": float(norm(antisymmetric) ** 2 / norm(qk) ** 2),
        "qk_positive_mass": float(eigenvalues.real.clamp_min(0).sum() / eigenvalues.abs().sum()),
        "qk_negative_mass": float((-eigenvalues.real).clamp_min(0).sum() / eigenvalues.abs().sum()),
        "ov_copying_residual": copying(ov),
        "ov_copying": copying(ov @ token_map),
        "qk_image_in_kernel": image_in_kernel(qk),
        "ov_image_in_kernel": image_in_kernel(ov),
        "qk_factors_lost": dense_rank(matrices["K"]) - dense_rank(qk),
        "ov_factors_lost": dense_rank(matrices["V"]) - dense_rank(ov),
        **{f"{name}_angle_smallest": float(each.min()) for name, each in both.items()},
        **{f"{name}_angle_largest": float(each.max()) for name, each in both.items()},
        **{f"{name}_angle_mean": float(each.mean()) for name, each in both.items()},
        **{f"{name}_overlap": float((np.cos(np.radians(each)) ** 2).mean()) for name, each in both.items()},
    }


@pytest.mark.parametrize("shape", [(6, 2, 3, 12), (3, 3, 4, 12), (2, 2, 5, 4)])
@pytest.mark.parametrize("is_whole", [False, True])
def test_measures_of_heads_of_any_shape_are_those_of_dense_matrices(
    shape: tuple[int, int, int, int], is_whole: bool
) -> None:
    """Shared keys, heads that fill the width of the model, and heads wider than the model."""
    factors, (embedding, unembedding) = draw(*shape), draw(2, 1, 30, shape[3], seed=1)[0]
    token_map = unembedding.T @ embedding
    for head in [None] if is_whole else range(len(factors[0])):
        found = measured(factors, head, token_map)
        for name, value in by_definition(dense_matrices(factors, head), token_map).items():
            assert found[name] == pytest.approx(value, rel=1e-6, abs=2e-5 if "angle" in name else 1e-9), (name, head)


SIMULATED = int(os.environ.get("SIMULATED_HEADS", "200"))
"""Gaussian heads, or layers, that chance is compared with; ``SIMULATED_HEADS=2000 pytest …`` compares more closely."""


@pytest.mark.parametrize("is_one_head", [True, False])
@pytest.mark.parametrize(("heads", "shared", "r", "s", "d"), [(4, 4, 3, 5, 16), (2, 2, 8, 8, 16), (3, 1, 4, 4, 5)])
def test_chance_is_that_of_simulated_heads_and_layers(
    is_one_head: bool, heads: int, shared: int, r: int, s: int, d: int
) -> None:
    layer = LayerOutline("decoder", 0, heads, shared, d, d, d, d, r, s, "")
    own, others = (SIMULATED, SIMULATED) if is_one_head else (heads, shared)  # all heads in one batch
    at_once, summed = (SIMULATED, 1) if is_one_head else (1, shared)
    full = {matrix: min(layer.shape(matrix, not is_one_head)) for matrix in "QKVO"}
    full |= {"QK": min(summed * r, d), "OV": min(summed * s, d)}
    ranks = {name: np.full(at_once, rank) for name, rank in full.items()}
    settings = CircuitSettings(BOTH, dict.fromkeys(BOTH, 1e-9), is_one_head, ("QK", "OV"))
    drawn = []
    for seed in range(SIMULATED // at_once):
        factors = draw_layer(own, others, r, s, d, d, seed)
        made = factor_heads(factors) if is_one_head else factor_layer(factors)
        drawn += finish(measure_circuits(made, ranks, np.zeros(at_once), settings))
    assert len(drawn) == SIMULATED
    chance = circuit_chance(layer, chance_ranks(layer, not is_one_head, {}), settings)
    chance |= {f"rank_{name.lower()}": float(rank) for name, rank in full.items()}
    assert chance.keys() == drawn[0].keys()
    for name in drawn[0]:
        values = np.array([each[name] for each in drawn])
        error = values.std() * math.sqrt(1 / SIMULATED + 1 / DRAWS)
        assert abs(values.mean() - chance[name]) <= 4 * error + 1e-6, (name, values.mean(), chance[name], error)


def test_the_chance_of_wide_layers_is_near_that_of_drawn_layers() -> None:
    layers = [LayerOutline("decoder", 0, 4, 2, d, d, d, d, d // 4, d // 4, "") for d in (500, 2000)]
    settings = CircuitSettings(BOTH, dict.fromkeys(BOTH, 1e-9), False, ("QK", "OV"))
    drawn, wide = (circuit_chance(layer, chance_ranks(layer, True, {}), settings) for layer in layers)
    assert drawn.keys() == wide.keys()
    for name, value in drawn.items():
        if not name.startswith("rank"):
            assert wide[name] == pytest.approx(value, abs=0.02 if "angle" not in name else 0.5), name


def composed(earlier: LayerFactors, later: LayerFactors) -> dict[str, Tensor]:
    """Compute the compositions of every head of one layer with every head of another, by kind."""
    return {kind: composition(rows_written(*earlier[2:]), part) for kind, part in rows_read(*later).items()}


def test_chance_of_composition_is_the_root_mean_square_of_unrelated_heads() -> None:
    squares = composed(draw(60, 60, 3, 16), draw(60, 60, 3, 16, seed=1))["Q"] ** 2
    error = float(squares.std()) / math.sqrt(60)  # pairs share heads, so only 60 are independent
    assert abs(float(squares.mean()) - 1 / 16) <= 4 * error


def test_the_composition_of_a_head_of_zeros_is_undefined() -> None:
    plane = PLANE, PLANE, PLANE, PLANE.mT
    assert composed((PLANE, PLANE, 0 * PLANE, PLANE.mT), plane)["Q"].isnan().all()


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
