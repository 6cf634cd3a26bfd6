"""A layer whose heads share keys and values, and its spectra from dense float64 decompositions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.architectures.heads import LayerWeights
from engine.mathematics.spectra import circuit_singular_values, layer_factors, matrix_singular_values
from engine.values.heads import MATRICES
from engine.values.spectra import Arrays, FloatArray

Factors = tuple[Tensor, Tensor, Tensor, Tensor]
"""W_Q, W_K, W_V and W_O by head."""

HEADS, SHARED, WIDTH, D_MODEL = 8, 4, 6, 40


def _draw_factors() -> Factors:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    shared = draw(SHARED, WIDTH, D_MODEL), draw(SHARED, WIDTH, D_MODEL)
    return draw(HEADS, WIDTH, D_MODEL), *shared, draw(HEADS, D_MODEL, WIDTH)


FACTORS = _draw_factors()


def weights_of(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> LayerWeights:
    """Make a layer without biases."""
    return LayerWeights(
        query, key, value, output, None, None, None, None, dict.fromkeys("QKVO", np.full(len(query), 2.0**-23))
    )


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


def dense_heads() -> dict[str, FloatArray]:
    """Decompose each head's six matrices."""
    query, key, value, output = (factor.double() for factor in FACTORS)
    found: dict[str, list[FloatArray]] = {matrix: [] for matrix in MATRICES}
    for head in range(HEADS):
        q, k, v, o = query[head], key[head // 2], value[head // 2], output[head]
        dense = {"Q": q, "K": k, "V": v, "O": o, "QK": q.T @ k, "OV": v.T @ o.T}
        for matrix, weights in dense.items():
            found[matrix].append(torch.linalg.svdvals(weights)[:WIDTH].numpy())
    return {matrix: np.stack(rows) for matrix, rows in found.items()}


def dense_layer() -> dict[str, FloatArray]:
    """Decompose the six matrices of all heads together."""
    query, key, value, output = (factor.double() for factor in FACTORS)
    qk = sum((query[head].T @ key[head // 2] for head in range(HEADS)), torch.zeros(D_MODEL, D_MODEL))
    ov = sum((value[head // 2].T @ output[head].T for head in range(HEADS)), torch.zeros(D_MODEL, D_MODEL))
    rows = {"Q": query.flatten(0, 1), "K": key.flatten(0, 1), "V": value.flatten(0, 1), "O": output.mT.flatten(0, 1)}
    rank = SHARED * WIDTH
    return {
        **{matrix: torch.linalg.svdvals(weights).numpy()[None] for matrix, weights in rows.items()},
        "QK": torch.linalg.svdvals(qk).numpy()[None, :rank],
        "OV": torch.linalg.svdvals(ov).numpy()[None, :rank],
    }


def stacked(found: Sequence[Arrays]) -> dict[str, FloatArray]:
    """Stack a decomposer's results of each head: by matrix, (heads, rank)."""
    return {matrix: np.stack([each[matrix] for each in found]) for matrix in MATRICES if matrix in found[0]}


def assert_same(found: dict[str, FloatArray], expected: dict[str, FloatArray]) -> None:
    """Compare the spectra of all matrices."""
    assert list(found) == list(expected)
    for matrix, values in expected.items():
        np.testing.assert_allclose(found[matrix], values, rtol=1e-7, err_msg=matrix)
