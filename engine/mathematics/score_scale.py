"""With which scale products of queries and keys become the scores that probabilities are of."""

from __future__ import annotations

from torch import Tensor


def fitted_scale(products: Tensor, logarithms: Tensor, counted: Tensor) -> float:
    """Find the scale with which products differ along a row as logarithms of probabilities do, by least squares.

    Parameters
    ----------
    products, logarithms : (..., queries, keys)
    counted : of the same shape, which of them tell something; what is the same along a row of these says nothing.

    Examples
    --------
    >>> import torch
    >>> products = torch.tensor([[1.0, 3.0, 5.0, 9.0]])
    >>> fitted_scale(products, 0.5 * products - 7.0, products < 9)
    0.5
    """
    count = counted.sum(-1, keepdim=True).clamp_min(1)
    rise, run = (
        (each - each.where(counted, 0.0).sum(-1, keepdim=True) / count).where(counted, 0.0)
        for each in (logarithms, products)
    )
    return float((rise * run).sum() / run.square().sum().clamp_min(1e-30))
