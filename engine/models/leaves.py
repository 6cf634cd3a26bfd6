"""The projections of a module that is being watched: each noted, and its output made a leaf of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.models.attending import Attending
from engine.models.products import ADDITIONS, PRODUCTS, Product, summed_product


@dataclass
class Projection:
    """One product with a parameter.

    Attributes
    ----------
    weight : (out, in), a view of the parameter.
    bias : (out,), or None.
    read : (tokens, in), what was projected, still in the graph.
    written : what came out; a leaf of the graph.
    order : of the axes of what came out, tokens first and then those that the weight's rows are laid out in.
    bias_is_apart : whether the bias is added afterwards, so that it is not part of what came out.
    """

    weight: Tensor
    bias: Tensor | None
    read: Tensor
    written: Tensor
    order: tuple[int, ...]
    bias_is_apart: bool = False

    def by_token(self, written: Tensor) -> Tensor:
        """Lay out what came out, or its gradient, as (tokens, out)."""
        return written.permute(self.order).reshape(-1, len(self.weight))


class Tracing(Attending):
    """Notes attention together with the projections before and after it."""

    def __init__(self, parameters: set[int], scale_heads: Callable[[int, int], Tensor] | None = None) -> None:
        super().__init__(scale_heads)
        self._parameters = parameters
        self.projections: list[Projection] = []
        self.first: int | None = None

    def weighted(self, weights: Tensor) -> Tensor:
        """Cut the probabilities off the graph, so that what comes after depends on values alone."""
        self._begin()
        return weights.detach()

    def after(self, mixed: Tensor) -> Tensor:
        """Keep what heads have mixed in the graph."""
        self._begin()
        return mixed

    def _begin(self) -> None:
        """Note how many projections came before the first attention."""
        if self.first is None:
            self.first = len(self.projections)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; where it is a product with a parameter, note it and make its result a leaf."""
        result = func(*args, **kwargs)
        if not isinstance(result, Tensor):
            return result
        if func in ADDITIONS and len(args) == 2:
            self._note_bias(args[0], args[1])
            self._note_bias(args[1], args[0])
            return result
        product = self._product(func, args, kwargs)
        if product is None:
            return result
        leaf = result.detach().clone().requires_grad_()
        weight, read = product.weight, product.read
        order = product.order or tuple(range(result.ndim))
        self.projections.append(Projection(weight, product.bias, read.reshape(-1, weight.shape[1]), leaf, order))
        return leaf

    def _note_bias(self, written: Any, bias: Any) -> None:
        """Take a parameter that is added to a projection for its bias."""
        if isinstance(bias, Tensor) and bias.untyped_storage().data_ptr() in self._parameters:
            for projection in self.projections:
                if projection.written is written and bias.numel() == len(projection.weight):
                    projection.bias, projection.bias_is_apart = bias.reshape(-1), True

    def _product(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Product | None:
        """Say what is multiplied; None where it is no product with one of the module's parameters."""
        if func is functional.linear:
            bound = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
            own = self._is_own(bound["weight"], 2)
            return Product(bound["weight"], bound.get("bias"), bound["input"]) if own else None
        if func is torch.addmm and len(args) == 3 and self._is_own(args[2], 2):
            return Product(args[2].T, args[0], args[1])
        if func in PRODUCTS and len(args) == 2 and self._is_own(args[1], 2):
            return Product(args[1].T, None, args[0])
        if func is torch.einsum and len(args) == 3 and self._is_own(args[2], 3):
            return summed_product(args[0], args[1], args[2])
        return None

    def _is_own(self, weight: Any, most: int) -> bool:
        """Say whether something is one of the module's own parameters, or a view of one, of two to ``most`` axes."""
        if not isinstance(weight, Tensor) or not 2 <= weight.ndim <= most:
            return False
        return weight.untyped_storage().data_ptr() in self._parameters
