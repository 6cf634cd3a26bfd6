"""Gaussian factors of a layer's shapes and of Frobenius norm one, from a fixed seed: what chance is computed of."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import torch

from engine.values.model import LayerOutline

if TYPE_CHECKING:
    from torch import Generator, Tensor

Shape = tuple[int, int, int]


def factor_shapes(layer: LayerOutline, heads: int, shared: int) -> dict[str, Shape]:
    """Give the shapes of factors of so many heads."""
    return {
        "Q": (heads, layer.head_dim, layer.d_model),
        "K": (shared, layer.head_dim, layer.d_source),
        "V": (shared, layer.value_head_dim, layer.d_values),
        "O": (heads, layer.d_output, layer.value_head_dim),
    }


def gaussian_heads(layer: LayerOutline, heads: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw the factors of single heads, each of norm one and with keys and values of its own."""

    def draw(shape: Shape) -> Tensor:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.div_(drawn.flatten(1).norm(dim=1)[:, None, None])

    shapes = factor_shapes(layer, heads, heads)
    return draw(shapes["Q"]), draw(shapes["K"]), draw(shapes["V"]), draw(shapes["O"])


def gaussian_layer(layer: LayerOutline, matrices: Collection[str]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw a whole layer's factors, each of norm one for all heads together, and the same whichever are wanted.

    Parameters
    ----------
    layer : of what shapes.
    matrices : what is to be computed. Zeros that take no memory stand for factors that none of them needs; where they
        are circuits alone, heads that share a key/value head are added up as they are drawn.
    """
    generator = torch.Generator().manual_seed(0)
    of_circuits = all(len(matrix) == 2 for matrix in matrices)
    wanted, shared = set("".join(matrices)), layer.key_value_heads

    def draw(matrix: str, shape: Shape) -> Tensor:
        heads, rows, columns = shape
        places = shared if of_circuits else heads
        total = torch.zeros(places, rows, columns, dtype=torch.float64) if matrix in wanted else None
        square = 0.0
        for head in range(heads):
            drawn = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
            if total is not None:
                square += float(drawn.norm()) ** 2
                total[head * places // heads] += drawn
        return torch.zeros(()).expand(shape) if total is None else total.div_(math.sqrt(square))

    shapes = factor_shapes(layer, layer.heads, shared)
    return draw("Q", shapes["Q"]), draw("K", shapes["K"]), draw("V", shapes["V"]), draw("O", shapes["O"])
