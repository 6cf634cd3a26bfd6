"""What the circuits of heads do: answers known by hand, dense float64 matrices, and what must not change anything."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.mathematics.circuits import (
    Frame,
    LayerFactors,
    Numbers,
    factor_heads,
    factor_layer,
    measure_circuits,
    spectra_of,
)
from engine.mathematics.eigenvalues import SPECTRA

TOLERANCE = 1e-12
BOTH = frozenset({"QK", "OV"})
SHAPES = {"one layer": (4, 4, 3, 12), "shared keys": (6, 2, 3, 12), "as wide as the model": (3, 3, 4, 12),
          "wider than the model": (2, 2, 5, 4)}  # fmt: skip


def axis(number: int, d: int = 6) -> Tensor:
    """Give a unit vector of the residual stream."""
    return torch.eye(d, dtype=torch.float64)[number]


def rows(*vectors: Tensor) -> Tensor:
    """Make one head's W_Q, W_K or W_V of the vectors that it reads."""
    return torch.stack(vectors)[None]


def dense_rank(matrix: Tensor) -> int:
    """Count a dense matrix's rank."""
    return int(torch.linalg.matrix_rank(matrix, rtol=TOLERANCE))


def spectral_norm(matrix: Tensor) -> float:
    """Give a dense matrix's σ₁."""
    return float(torch.linalg.matrix_norm(matrix, 2))


def dense(factors: LayerFactors, head: int | None) -> dict[str, Tensor]:
    """Write out the six matrices of a head, or of the layer as a whole."""
    query, key, value, output = (factor.double() for factor in factors)
    group = len(query) // len(key)
    of = [
        {"Q": query[h], "K": key[h // group], "V": value[h // group], "O": output[h],
         "QK": query[h].T @ key[h // group], "OV": value[h // group].T @ output[h].T}
        for h in range(len(query))
    ]  # fmt: skip
    if head is not None:
        return of[head]
    whole = {"Q": query.flatten(0, 1), "K": key.flatten(0, 1), "V": value.flatten(0, 1)}
    whole["O"] = output.permute(1, 0, 2).flatten(1)
    return whole | {name: torch.stack([each[name] for each in of]).sum(0) for name in ("QK", "OV")}


def measured(
    factors: LayerFactors,
    head: int | None = 0,
    token_map: Tensor | None = None,
    eigenvalues: bool = True,
    tolerance: float = 1e-9,
) -> Numbers:
    """Measure one head, or the layer as a whole, with ranks counted on dense matrices."""
    heads = range(len(factors[0])) if head is not None else [None]
    ranks = {
        matrix: np.array([dense_rank(dense(factors, each)[matrix]) for each in heads])
        for matrix in ("Q", "K", "V", "O", "QK", "OV")
    }
    solved = spectra_of(BOTH, token_map is not None) if eigenvalues else ()
    frame = Frame(BOTH, dict.fromkeys(BOTH, tolerance), head is not None, solved, token_map)
    noise = tolerance * np.array([spectral_norm(dense(factors, each)["QK"]) for each in heads])
    return measure_circuits(factor_layer(factors) if head is None else factor_heads(factors), ranks, noise, frame)[
        head or 0
    ]


def with_qk(query: Tensor, key: Tensor) -> Numbers:
    """Measure a head whose queries and keys alone matter."""
    return measured((query, key, key, query.mT))


def with_ov(value: Tensor, output: Tensor, token_map: Tensor | None = None) -> Numbers:
    """Measure a head whose values and output alone matter; the output as rows that are written."""
    return measured((value, value, value, output.mT), token_map=token_map)


def draw(heads: int, shared: int, r: int, d: int, seed: int = 0) -> LayerFactors:
    """Draw a layer of Gaussian heads."""
    generator = torch.Generator().manual_seed(seed)

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return gaussian(heads, r, d), gaussian(shared, r, d), gaussian(shared, r, d), gaussian(heads, d, r)


def test_an_identity_is_symmetric_positive_and_at_no_distance_from_itself() -> None:
    everything = torch.eye(6, dtype=torch.float64)[None]
    found = with_qk(2.0 * everything, everything)
    assert found["qk_symmetry"] == pytest.approx(1.0)
    assert found["qk_identity_distance"] == pytest.approx(0.0, abs=1e-7)
    assert found["qk_identity_floor"] == 0.0
    assert found["qk_positive_mass"] == pytest.approx(1.0)
    assert found["qk_negative_mass"] == pytest.approx(0.0, abs=1e-12)


def test_a_projection_is_as_near_to_the_identity_as_its_rank_lets_it() -> None:
    plane = rows(axis(0), axis(1))
    found = with_qk(plane, plane)
    assert found["qk_identity_distance"] == pytest.approx(math.sqrt(1 - 2 / 6))
    assert found["qk_identity_floor"] == pytest.approx(math.sqrt(1 - 2 / 6))
    assert found["qk_symmetric_identity_distance"] == pytest.approx(math.sqrt(1 - 2 / 6))
    assert found["qk_symmetric_identity_floor"] == pytest.approx(math.sqrt(1 - 2 / 6))


def test_an_antisymmetric_head_turns_and_neither_likes_nor_dislikes() -> None:
    found = with_qk(rows(axis(0), axis(1)), rows(axis(1), -axis(0)))
    assert found["qk_symmetry"] == pytest.approx(-1.0)
    assert found["qk_symmetric_energy"] == pytest.approx(0.0, abs=1e-12)
    assert found["qk_antisymmetric_energy"] == pytest.approx(1.0)
    assert found["qk_identity_distance"] == pytest.approx(1.0)
    assert math.isnan(found["qk_symmetric_identity_distance"])
    assert found["qk_symmetric_identity_floor"] == 1.0
    assert found["qk_positive_mass"] == pytest.approx(0.0, abs=1e-7)
    assert found["qk_negative_mass"] == pytest.approx(0.0, abs=1e-7)


def test_a_head_that_reads_and_answers_in_orthogonal_subspaces_falls_into_its_own_kernel() -> None:
    found = with_qk(rows(axis(0), axis(1)), rows(axis(2), axis(3)))
    assert found["qk_symmetry"] == pytest.approx(0.0, abs=1e-12)
    assert found["qk_image_in_kernel"] == 2
    assert found["qk_factors_lost"] == 0
    assert found["qk_angle_smallest"] == found["qk_angle_largest"] == pytest.approx(90.0)
    assert found["qk_overlap"] == pytest.approx(0.0, abs=1e-12)


def test_one_orthogonal_direction_of_two_is_counted_once() -> None:
    found = with_qk(rows(axis(0), axis(1)), rows(axis(0), axis(2)))
    assert found["qk_image_in_kernel"] == 1
    assert found["qk_angle_smallest"] == pytest.approx(0.0, abs=1e-5)
    assert found["qk_angle_largest"] == pytest.approx(90.0)
    assert found["qk_overlap"] == pytest.approx(0.5)


def test_a_planted_angle_is_found() -> None:
    tilted = math.cos(math.radians(30)) * axis(0) + math.sin(math.radians(30)) * axis(2)
    found = with_qk(rows(axis(0), axis(1)), rows(5.0 * tilted, axis(1) + tilted))
    assert found["qk_angle_smallest"] == pytest.approx(0.0, abs=1e-5)
    assert found["qk_angle_largest"] == pytest.approx(30.0)
    assert found["qk_angle_mean"] == pytest.approx(15.0)
    assert found["qk_overlap"] == pytest.approx((1 + 0.75) / 2)


def test_what_the_queries_drop_of_the_keys_is_the_rank_that_the_product_lacks() -> None:
    none = torch.zeros(6, dtype=torch.float64)
    query, key = rows(axis(0), axis(1), none), rows(none, axis(4), axis(5))
    found = with_qk(query, key)
    assert (found["rank_q"], found["rank_k"], found["rank_qk"]) == (2, 2, 1)
    assert found["qk_factors_lost"] == 1


def test_what_the_output_drops_of_the_values_is_the_rank_that_the_product_lacks() -> None:
    none = torch.zeros(6, dtype=torch.float64)
    found = with_ov(rows(axis(0), axis(1), axis(2)), rows(none, none, axis(5)))
    assert (found["rank_v"], found["rank_o"], found["rank_ov"]) == (3, 1, 1)
    assert found["ov_factors_lost"] == 2
    assert found["ov_image_in_kernel"] == 1


@pytest.mark.parametrize(("sign", "copying"), [(1.0, 1.0), (-1.0, -1.0)])
def test_a_head_that_writes_what_it_reads_copies(sign: float, copying: float) -> None:
    plane = rows(axis(0), axis(1))
    generator = torch.Generator().manual_seed(0)
    embedding = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    found = with_ov(plane, sign * plane, embedding.T @ embedding)
    assert found["ov_copying"] == pytest.approx(copying)
    assert found["ov_copying_residual"] == pytest.approx(copying)


def test_a_head_that_turns_what_it_reads_copies_nothing() -> None:
    found = with_ov(rows(axis(0), axis(1)), rows(axis(1), -axis(0)), torch.eye(6, dtype=torch.float64))
    assert found["ov_copying"] == pytest.approx(0.0, abs=1e-7)
    assert found["ov_copying_residual"] == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("head", [0, None])
def test_shares_of_eigenvalues_that_are_mere_rounding_are_not_given(head: int | None) -> None:
    """Bases are turned and stored in float32, so that no product is zero in all digits."""
    d, r = 48, 12
    turned = torch.linalg.qr(draw(1, 1, d, d, seed=3)[0][0])[0].float().double()
    read, written, heard = turned[:r], turned[r : 2 * r], turned[2 * r :]
    factors = read[None], written[None], read[None], written.T[None]
    found = measured(factors, head, heard.T @ heard, tolerance=1.2e-7)
    assert found["qk_image_in_kernel"] == found["ov_image_in_kernel"] == r
    assert all(np.isnan(found[name]) for names in SPECTRA.values() for name in names)
    tokens = turned.T @ turned
    assert np.isnan(measured(factors, head, tokens, tolerance=1.2e-7)["ov_copying"])
    copies = measured((read[None], read[None], read[None], read.T[None]), head, tokens, tolerance=1.2e-7)
    assert copies["ov_copying"] == copies["ov_copying_residual"] == pytest.approx(1.0)
    assert copies["qk_positive_mass"] == pytest.approx(1.0)


def test_copying_is_of_tokens_where_the_unembedding_is_another_than_the_embedding() -> None:
    embedding = torch.diag(torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    unembedding = torch.diag(torch.tensor([3.0, -1.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64))
    plane = rows(axis(0), axis(1))
    found = with_ov(plane, plane, unembedding.T @ embedding)
    assert found["ov_copying"] == pytest.approx((3 - 1) / (3 + 1))
    assert found["ov_copying_residual"] == pytest.approx(1.0)


def by_definition(matrices: dict[str, Tensor], token_map: Tensor) -> dict[str, float]:
    """Measure dense matrices as the formulas say."""
    qk, ov = matrices["QK"], matrices["OV"]
    d, norm = len(qk), torch.linalg.norm
    identity = torch.eye(d, dtype=torch.float64)
    symmetric, antisymmetric = (qk + qk.T) / 2, (qk - qk.T) / 2

    def distance(matrix: Tensor) -> float:
        """Find the multiple of the identity that is nearest, by least squares."""
        solved = torch.linalg.lstsq(identity.reshape(-1, 1), matrix.reshape(-1, 1)).solution
        return float(norm(matrix - solved * identity) / norm(matrix))

    def null_space(matrix: Tensor) -> Tensor:
        rows: Tensor = torch.linalg.svd(matrix)[2][dense_rank(matrix) :]
        return rows.T

    def meeting(image: Tensor, kernel: Tensor) -> int:
        """Count the dimensions of an intersection: dim A + dim B − dim(A + B)."""
        both = torch.cat([image, kernel], 1)
        return dense_rank(image) + kernel.shape[1] - (dense_rank(both) if both.numel() else 0)

    def angles(first: Tensor, second: Tensor) -> NDArray[np.float64]:
        bases = [np.linalg.qr(each.numpy())[0] for each in (first, second)]
        cosine = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[: min(dense_rank(first), dense_rank(second))]
        degrees: NDArray[np.float64] = np.degrees(np.arccos(np.clip(cosine, 0, 1)))
        return degrees

    eigenvalues = {"qk": torch.linalg.eigvals(qk), "ov": torch.linalg.eigvals(ov),
                   "tokens": torch.linalg.eigvals(ov @ token_map)}  # fmt: skip
    mass = eigenvalues["qk"].abs().sum()
    both = {"qk": angles(matrices["Q"].T, matrices["K"].T), "ov": angles(matrices["V"].T, matrices["O"])}
    return {
        "qk_symmetry": float((qk @ qk).trace() / norm(qk) ** 2),
        "qk_identity_distance": distance(qk),
        "qk_symmetric_identity_distance": distance(symmetric),
        "qk_identity_floor": (1 - dense_rank(qk) / len(qk)) ** 0.5,
        "qk_symmetric_identity_floor": (1 - dense_rank(symmetric) / len(qk)) ** 0.5,
        "qk_symmetric_energy": float(norm(symmetric) ** 2 / norm(qk) ** 2),
        "qk_antisymmetric_energy": float(norm(antisymmetric) ** 2 / norm(qk) ** 2),
        "qk_positive_mass": float(eigenvalues["qk"].real.clamp_min(0).sum() / mass),
        "qk_negative_mass": float((-eigenvalues["qk"].real).clamp_min(0).sum() / mass),
        "ov_copying_residual": float(eigenvalues["ov"].real.sum() / eigenvalues["ov"].abs().sum()),
        "ov_copying": float(eigenvalues["tokens"].real.sum() / eigenvalues["tokens"].abs().sum()),
        "qk_image_in_kernel": meeting(qk, null_space(qk)),
        "ov_image_in_kernel": meeting(ov.T, null_space(ov.T)),
        "qk_factors_lost": dense_rank(matrices["K"]) - dense_rank(qk),
        "ov_factors_lost": dense_rank(matrices["V"]) - dense_rank(ov),
        **{f"{name}_angle_smallest": float(each.min()) for name, each in both.items()},
        **{f"{name}_angle_largest": float(each.max()) for name, each in both.items()},
        **{f"{name}_angle_mean": float(each.mean()) for name, each in both.items()},
        **{f"{name}_overlap": float((np.cos(np.radians(each)) ** 2).mean()) for name, each in both.items()},
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_every_measure_of_heads_is_that_of_dense_matrices(shape: str) -> None:
    factors = draw(*SHAPES[shape])
    embedding, unembedding = draw(2, 1, 30, SHAPES[shape][3], seed=1)[0]
    token_map = unembedding.T @ embedding
    for head in range(len(factors[0])):
        found, matrices = measured(factors, head, token_map), dense(factors, head)
        for name, value in by_definition(matrices, token_map).items():
            assert found[name] == pytest.approx(value, rel=1e-6, abs=2e-5 if "angle" in name else 1e-9), (name, head)


@pytest.mark.parametrize("shape", ["one layer", "shared keys", "wider than the model"])
def test_every_measure_of_whole_layers_is_that_of_dense_matrices(shape: str) -> None:
    factors = draw(*SHAPES[shape])
    embedding, unembedding = draw(2, 1, 30, SHAPES[shape][3], seed=1)[0]
    token_map = unembedding.T @ embedding
    found, matrices = measured(factors, None, token_map), dense(factors, None)
    for name, value in by_definition(matrices, token_map).items():
        assert found[name] == pytest.approx(value, rel=1e-6, abs=2e-5 if "angle" in name else 1e-9), name
    of_eigenvalues = {"qk_positive_mass", "qk_negative_mass", "ov_copying", "ov_copying_residual"}
    assert found.keys() - measured(factors, None, token_map, eigenvalues=False).keys() == of_eigenvalues
