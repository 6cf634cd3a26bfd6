"""What an attention module does on the way to its scores, watched while it is called: products, norms, projections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.models.attending import SOFTMAXES

MULTIPLYING = frozenset(
    {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.baddbmm, Tensor.baddbmm}
)
"""Functions with which models multiply queries with keys."""

ADDED_TO = frozenset({torch.baddbmm, Tensor.baddbmm})
"""Those of them that take first what the product is added to."""

SAME = 1e-3
"""Of what a norm writes, how much its own ε lets change when all that it reads is moved by as much."""


@dataclass
class Noted:
    """What one call of an attention module made.

    Attributes
    ----------
    query, key : (heads, queries, r) and (heads, keys, r), as they met.
    scores, weights : (heads, queries, keys) before and after the softmax.
    products : how many products of queries and keys there were.
    """

    query: Tensor | None = None
    key: Tensor | None = None
    scores: Tensor | None = None
    weights: Tensor | None = None
    products: int = 0


class ScoreWatch(TorchFunctionMode):
    """Notes the product of queries and keys, and the softmax after it.

    Parameters
    ----------
    shape : heads, queries, keys.
    is_zero : whether queries are made zero before they meet keys.
    """

    def __init__(self, shape: tuple[int, int, int], is_zero: bool = False) -> None:
        super().__init__()
        self.noted = Noted()
        self._shape = shape
        self._is_zero = is_zero

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MULTIPLYING and self.noted.scores is None:
            return self._multiply(func, args, kwargs)
        result = func(*args, **kwargs)
        if func in SOFTMAXES and self.noted.query is not None and self.noted.scores is None:
            scores = args[0] if args else kwargs["input"]
            heads, queries, keys = self._shape
            if scores.shape[-2] == queries and scores.shape[-1] >= keys and scores.shape[:-2].numel() == heads:
                self.noted.scores, self.noted.weights = scores.flatten(0, -3), result.flatten(0, -3)
        return result

    def _multiply(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note queries and keys if it is these that are multiplied."""
        names = ("batch1", "batch2") if func in ADDED_TO else ("input", "other", "mat2")
        given = [*args, *(kwargs[name] for name in names if name in kwargs)]
        first = 1 if func in ADDED_TO else 0
        query, key = given[first], given[first + 1]
        heads, queries, keys = self._shape
        is_of_heads = query.ndim > 2 and query.shape[:-2].numel() == heads and query.ndim == key.ndim
        if not is_of_heads or (query.shape[-2], key.shape[-1]) != (queries, keys):
            return func(*args, **kwargs)
        self.noted.products += 1
        every_key = key.expand(*query.shape[:-2], *key.shape[-2:])  # where all heads share one
        self.noted.query, self.noted.key = query.flatten(0, -3), every_key.flatten(0, -3).mT
        if not self._is_zero:
            return func(*args, **kwargs)
        zero = {id(query): torch.zeros_like(query)}
        return func(*(zero.get(id(each), each) for each in args),
                    **{name: zero.get(id(each), each) for name, each in kwargs.items()})  # fmt: skip


@dataclass
class Held:
    """The sizes of norms and what the projections read and wrote, of one call in float64.

    Attributes
    ----------
    read, written : by projection's module.
    sizes : by norm's module and the number of its call, what it multiplied by, number by number, and whether it takes
        the mean off first.
    share : what the projections' inputs are multiplied by.
    calls : by norm's module, how often it was called.
    """

    read: dict[nn.Module, Tensor] = field(default_factory=dict)
    written: dict[nn.Module, Tensor] = field(default_factory=dict)
    sizes: dict[tuple[nn.Module, int], tuple[Tensor, bool]] = field(default_factory=dict)
    share: float = 1.0
    calls: dict[nn.Module, int] = field(default_factory=dict)

    def read_share(self, projection: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Give a projection a share of what it reads."""
        return (args[0] * self.share, *args[1:])

    def cut(self, projection: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        """Begin the gradients anew at what a projection wrote."""
        written = result[0] if isinstance(result, tuple) else result
        leaf = written.detach().clone().requires_grad_()
        self.read[projection], self.written[projection] = args[0].detach(), leaf
        passed_on = leaf.clone()  # which may be changed in place
        return (passed_on, *result[1:]) if isinstance(result, tuple) else passed_on

    def hold(self, norm: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        """Let a norm be the affine function that it is once its size is known."""
        rows = args[0]
        if len(args) != 1 or not isinstance(result, Tensor) or result.shape != rows.shape:
            return result
        compute: Any = type(norm).forward
        self.calls[norm] = self.calls.get(norm, 0) + 1
        call = norm, self.calls[norm]  # queries and keys may share a norm
        with torch.no_grad():
            rest = compute(norm, torch.zeros_like(rows))
            if call not in self.sizes:
                moved = compute(norm, rows + rows.abs().amax())
                is_centred = bool((moved - result).abs().amax() <= SAME * (result - rest).abs().amax())
                plain = _centred(rows, is_centred)
                self.sizes[call] = torch.where(plain == 0, 0.0, (result - rest) / plain), is_centred
        sizes, is_centred = self.sizes[call]
        return _centred(rows, is_centred) * sizes + rest


def _centred(rows: Tensor, is_centred: bool) -> Tensor:
    """Take the mean off rows, where a norm does."""
    return rows - rows.mean(-1, keepdim=True) if is_centred else rows
