"""Layers of Gaussian heads, their dense matrices, and spectra from dense float64 decompositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.architectures.heads import LayerWeights
from engine.mathematics.spectra import circuit_singular_values, layer_factors, matrix_singular_values
from engine.values.heads import MATRICES
from engine.values.spectra import Arrays, FloatArray, SpectraGroup

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
"""W_Q, W_K, W_V and W_O by head."""

HEADS, SHARED, WIDTH, D_MODEL = 8, 4, 6, 40


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    """Draw Gaussian numbers in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthogonal(size: int, seed: int = 9) -> Tensor:
    """Draw an orthogonal matrix."""
    drawn: Tensor = torch.linalg.qr(gaussian(size, size, seed=seed))[0]
    return drawn


def draw_layer(
    heads: int, shared: int, head_dim: int, value_head_dim: int, d_model: int, d_source: int, seed: int = 0
) -> Factors:
    """Draw a layer of Gaussian heads in float64."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return (
        draw(heads, head_dim, d_model), draw(shared, head_dim, d_source),
        draw(shared, value_head_dim, d_source), draw(heads, d_model, value_head_dim),
    )  # fmt: skip


def change_all(factors: Factors, change: Callable[[Tensor], Tensor]) -> Factors:
    query, key, value, output = factors
    return change(query), change(key), change(value), change(output)


def dense_matrices(factors: Factors, head: int | None) -> dict[str, Tensor]:
    """Form the six float64 matrices of a head, or of the whole layer: projections stacked, products summed."""
    query, key, value, output = change_all(factors, Tensor.double)
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


FACTORS = change_all(draw_layer(HEADS, SHARED, WIDTH, WIDTH, D_MODEL, D_MODEL), Tensor.float)
"""A layer whose heads share keys and values, in float32."""


def weights_of(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> LayerWeights:
    """Make a layer without biases."""
    return LayerWeights(query, key, value, output, dict.fromkeys("QKVO", np.full(len(query), 2.0**-23)))


def head_singular_values(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> dict[str, Tensor]:
    """Compute the singular values of every head's six matrices as the engine does."""
    found: dict[str, Tensor] = {}
    for circuit, own, shared in (("QK", query, key), ("OV", output.mT, value)):
        of_own, of_shared, products = circuit_singular_values(own, shared, True, True)
        found |= {circuit[0]: of_own, circuit: products}
        found[circuit[1]] = of_shared.repeat_interleave(len(own) // len(shared), 0)
    return found


def layer_singular_values(matrix: str, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """Compute the singular values of one matrix of a whole layer as the engine does."""
    factors = layer_factors(matrix, query, key, value, output)
    if len(factors) == 1:
        return matrix_singular_values(*factors)[0]
    return circuit_singular_values(factors[0], factors[1])[-1][0]


@cache
def dense_heads() -> dict[str, FloatArray]:
    heads = [dense_matrices(FACTORS, head) for head in range(HEADS)]
    return {
        matrix: np.stack([torch.linalg.svdvals(each[matrix])[:WIDTH].numpy() for each in heads]) for matrix in MATRICES
    }


@cache
def dense_layer() -> dict[str, FloatArray]:
    rank = {"QK": SHARED * WIDTH, "OV": SHARED * WIDTH}
    whole = dense_matrices(FACTORS, None)
    return {matrix: torch.linalg.svdvals(whole[matrix]).numpy()[None, : rank.get(matrix)] for matrix in MATRICES}


def stacked(found: Sequence[Arrays]) -> dict[str, FloatArray]:
    """Stack a decomposer's results of each head: by matrix, (heads, rank)."""
    return {matrix: np.stack([each[matrix] for each in found]) for matrix in MATRICES if matrix in found[0]}


def assert_same_spectra(found: SpectraGroup, expected: SpectraGroup, *, rtol: float = 0.0) -> None:
    """Compare the spectra of a layer's heads, or of the whole layer; bit by bit unless given another tolerance."""
    assert found.spectra.keys() == expected.spectra.keys()
    for number in expected.spectra:
        for mine, theirs in zip(found.listed([number]), expected.listed([number]), strict=True):
            assert (mine.head, mine.matrix, mine.rows, mine.cols) == (
                theirs.head, theirs.matrix, theirs.rows, theirs.cols
            )  # fmt: skip
            assert mine.noise == pytest.approx(theirs.noise, rel=rtol, abs=0.0)
            np.testing.assert_allclose(
                mine.singular_values, theirs.singular_values, rtol=rtol, atol=1e-15 if rtol else 0.0
            )


def assert_same(found: dict[str, FloatArray], expected: dict[str, FloatArray]) -> None:
    assert list(found) == list(expected)
    for matrix, values in expected.items():
        np.testing.assert_allclose(found[matrix], values, rtol=1e-7, err_msg=matrix)
