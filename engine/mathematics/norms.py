"""Norms of tensors of any size, a part at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

BLOCK = 2**16
"""Numbers that are squared at once in float64; as many as stay in a core's cache."""


def sum_of_squares(part: Tensor) -> float:
    """Add up the squares of floating-point numbers of any dtype and on any device, in float64.

    Parameters
    ----------
    part : (numbers,)
    """
    total = 0.0
    for block in part.detach().cpu().split(BLOCK):
        wide = block.double()
        total += torch.dot(wide, wide).item()
    return total


def frobenius_norm(parts: Iterable[Tensor]) -> float:
    """Give ``√Σw²`` of a tensor (Golub & Van Loan 2013, section 2.3) whose numbers come in parts, in float64.

    It is NaN where a number is NaN, and infinite where one is infinite and none NaN.

    Parameters
    ----------
    parts : each (numbers,), of floating point.

    Examples
    --------
    >>> frobenius_norm([torch.tensor([3.0]), torch.tensor([4.0])])
    5.0
    """
    return math.sqrt(sum(map(sum_of_squares, parts)))


def orthogonal_norm(before: Tensor, after: Tensor) -> float:
    """Give ``√(‖x‖² + ‖y − x‖²)``: what y's norm would be if what is added to x stood at a right angle to it.

    Directions that know nothing of each other do, in many dimensions: their cosine is 0 on average, its root mean
    square ``1/√d``.

    Parameters
    ----------
    before, after : x and y, (d,) each.

    Examples
    --------
    >>> orthogonal_norm(torch.tensor([3.0, 0.0]), torch.tensor([3.0, 4.0]))
    5.0
    """
    return frobenius_norm([before.flatten().float(), (after.double() - before.double()).flatten()])
