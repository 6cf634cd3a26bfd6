"""The ways in which PyTorch code multiplies by a matrix, each seen as ``y = x Wᵀ + b``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

PRODUCTS = frozenset({torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm})
"""Functions that multiply by a matrix from the right."""

ADDITIONS = frozenset({torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__})
"""Functions that add, perhaps a bias."""


@dataclass(frozen=True)
class Product:
    """One product.

    Attributes
    ----------
    weight : (out, in)
    bias : (out,), or None.
    read : (..., in)
    order : of the result's axes, those of the weight's rows last; empty where they are so already.
    """

    weight: Tensor
    bias: Tensor | None
    read: Tensor
    order: tuple[int, ...] = ()


def summed_product(equation: object, read: Tensor, weight: Tensor) -> Product | None:
    """See ``torch.einsum`` as a product, with the axes of the weight that are summed away as its inputs.

    Examples
    --------
    >>> summed_product("btd,hdk->bthk", torch.ones(1, 5, 8), torch.ones(2, 8, 4)).weight.shape
    torch.Size([8, 8])
    """
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    sources, _, target = equation.replace(" ", "").partition("->")
    left, _, right = sources.partition(",")
    inputs = [axis for axis in right if axis in left and axis not in target]
    outputs = [axis for axis in right if axis in target and axis not in left]
    tokens = [axis for axis in left if axis in target and axis not in right]
    if sorted(inputs + outputs) != sorted(right) or sorted(inputs + tokens) != sorted(left) or not inputs:
        return None
    matrix = weight.permute([right.index(axis) for axis in (*outputs, *inputs)]).flatten(0, len(outputs) - 1)
    rows = read.permute([left.index(axis) for axis in (*tokens, *inputs)]).flatten(len(tokens))
    return Product(matrix.flatten(1), None, rows, tuple(target.index(axis) for axis in (*tokens, *outputs)))
