"""Seeing attention being computed in any PyTorch module: every softmax over scores, and every fused attention.

Nothing is asked of a module's names. While it computes, calls of PyTorch's functions pass through a function mode
(``torch.overrides.TorchFunctionMode``), which notes the probabilities, and the projections on the way to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SOFTMAXES = frozenset({functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
"""What turns scores into probabilities, as it can be called."""

ATTENTION = functional.scaled_dot_product_attention


@dataclass(frozen=True)
class Call:
    """One call of a module that is running: the module, and what it was called with."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def again(self) -> Any:
        """Call the module once more, without a cache, which holds this very sentence."""
        return self.module(*map(_afresh, self.args), **{name: _afresh(value) for name, value in self.kwargs.items()})


def _afresh(value: Any) -> Any:
    """Take an argument as it can be used again: no cache, and tensors that a gradient can go through."""
    if isinstance(value, Tensor):
        return value.clone() if value.is_inference() else value
    if type(value) in (tuple, list):
        return type(value)(map(_afresh, value))
    return None if type(value).__name__.endswith("Cache") else value


@dataclass
class Attention:
    """One computation of attention.

    Attributes
    ----------
    calls : of the modules that were running, the innermost last.
    weights : (heads, queries, keys) probabilities; sentences times heads where there are several sentences.
    logits : what the softmax was taken of, in the same shape, where a softmax was called.
    query, key, value : what a fused attention was called with, (heads or key/value heads, tokens, width) each.
    """

    calls: tuple[Call, ...]
    weights: Tensor
    logits: Tensor | None = None
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None


class Attending(TorchFunctionMode):
    """Notes attention while it is entered.

    Parameters
    ----------
    scale_heads : what heads' contributions are multiplied by, given how many have been seen before and how many there
        are now; None leaves them as they are.
    """

    def __init__(self, scale_heads: Callable[[int, int], Tensor] | None = None) -> None:
        super().__init__()
        self.seen: list[Attention] = []
        self.running: list[Call] = []
        self._scale_heads = scale_heads

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a function of PyTorch, and note what it computed where that is attention."""
        kwargs = kwargs or {}
        if func in SOFTMAXES:
            return self._softmax(func, args, kwargs)
        if func is ATTENTION:
            return self._fused(args, kwargs)
        return self.other(func, args, kwargs)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that is no attention."""
        return func(*args, **kwargs)

    def after(self, mixed: Tensor) -> Tensor:
        """Hand on what a fused attention computed."""
        return mixed

    def weighted(self, weights: Tensor) -> Tensor:
        """Hand on the probabilities that a softmax computed."""
        return weights

    def _softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note a softmax along the last dimension of something that has heads, queries and keys."""
        result = func(*args, **kwargs)
        logits = args[0] if args else kwargs["input"]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(dim, int) or logits.ndim < 3 or dim % logits.ndim != logits.ndim - 1:
            return result
        self.seen.append(Attention(tuple(self.running), result.flatten(0, -3).detach(), logits.flatten(0, -3)))
        return self.weighted(self._scaled(result))

    def _fused(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note a call of PyTorch's own attention, which does not give its probabilities away."""
        call = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | kwargs
        result = ATTENTION(*args, **kwargs)
        query, key, value = call["query"], call["key"], call["value"]
        weights = fused_weights(
            query, key, call.get("attn_mask"), is_causal=bool(call.get("is_causal")), scale=call.get("scale")
        )
        flat = [each.flatten(0, -3) if each.ndim > 2 else each[None] for each in (query, key, value)]
        self.seen.append(Attention(tuple(self.running), weights.detach(), None, *flat))
        return self.after(self._scaled(result))

    def _scaled(self, by_head: Tensor) -> Tensor:
        """Multiply what each head gives, (..., queries, keys or width), by its own number."""
        if self._scale_heads is None:
            return by_head
        heads = math.prod(by_head.shape[:-2])
        before = sum(len(each.weights) for each in self.seen) - heads
        return by_head * self._scale_heads(before, heads).to(by_head).reshape(*by_head.shape[:-2], 1, 1)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[Attending]:
        """Watch a model, and know which of its modules is computing."""

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.running.append(Call(module, args, kwargs))

        def leave(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            self.running.pop()

        hooks = []
        for module in model.modules():
            hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(leave, always_call=True))
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it computes whole layers in one function
        try:
            with self:
                yield self
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for hook in hooks:
                hook.remove()


def fused_weights(query: Tensor, key: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None) -> Tensor:
    """Compute the probabilities of ``torch.nn.functional.scaled_dot_product_attention`` by its definition.

    Parameters
    ----------
    query : (..., heads, queries, width)
    key : (..., heads or key/value heads, keys, width)
    mask : what broadcasts to (..., heads, queries, keys): added, or false where a key is not seen; None for neither.
    is_causal : whether a query sees no key that comes after it.
    scale : of the products; ``1 / √width`` unless given.

    Returns
    -------
    weights : (heads, queries, keys); sentences times heads where there are several sentences.
    """
    if query.ndim > 2 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights: Tensor = scores.softmax(-1).flatten(0, -3) if scores.ndim > 2 else scores.softmax(-1)[None]
    return weights
