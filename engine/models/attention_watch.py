"""Seeing attention computed in any PyTorch module: every softmax over scores, and every fused attention.

Nothing is asked of a module's names. While it computes, calls of PyTorch's functions pass through a function mode
(``torch.overrides.TorchFunctionMode``), which keeps the probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SOFTMAXES = frozenset({functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
"""What turns scores into probabilities, as it can be called."""

FUSED = functional.scaled_dot_product_attention


@dataclass(frozen=True)
class ModuleCall:
    """A module that is running, and what it was called with."""

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
class WatchedAttention:
    """One computation of attention, of one sentence; heads are sentences times heads where there are several.

    Attributes
    ----------
    calls : of the modules that were running, the innermost last.
    weights : (heads, queries, keys) probabilities.
    logits : what the softmax was taken of, in the same shape, where a softmax was called.
    fused : the query, key and value that a fused attention was called with, (heads or key/value heads, tokens, width)
        each; none where a softmax was called.
    """

    calls: tuple[ModuleCall, ...]
    weights: Tensor
    logits: Tensor | None = None
    fused: tuple[Tensor, ...] = ()


class AttentionWatch(TorchFunctionMode):
    """Keeps every attention that is computed while it is entered, in ``seen``."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[WatchedAttention] = []
        self._running: list[ModuleCall] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in SOFTMAXES:
            return self._softmax(func, args, kwargs)
        return self._fused(args, kwargs) if func is FUSED else self.other(func, args, kwargs)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that is no attention."""
        return func(*args, **kwargs)

    def handed_on(self, computed: Tensor, is_weights: bool) -> Tensor:
        """Give what goes on from an attention, (..., queries, keys or width): probabilities or what they mixed."""
        return computed

    def _softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Keep a softmax along the last dimension of something that has heads, queries and keys."""
        result = func(*args, **kwargs)
        logits = args[0] if args else kwargs["input"]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(dim, int) or logits.ndim < 3 or dim % logits.ndim != logits.ndim - 1:
            return result
        weights = result.flatten(0, -3).detach()
        self.seen.append(WatchedAttention(tuple(self._running), weights, logits.flatten(0, -3)))
        return self.handed_on(result, is_weights=True)

    def _fused(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Keep a call of PyTorch's own attention, which does not give its probabilities away."""
        call = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)) | kwargs
        result = FUSED(*args, **kwargs)
        sides = call["query"], call["key"], call["value"]
        weights = _fused_weights(
            *sides[:2], call.get("attn_mask"), is_causal=bool(call.get("is_causal")), scale=call.get("scale")
        )
        flat = tuple(each.flatten(0, -3) if each.ndim > 2 else each[None] for each in sides)
        self.seen.append(WatchedAttention(tuple(self._running), weights.detach(), None, flat))
        return self.handed_on(result, is_weights=False)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[Self]:
        """Watch a model, and know which of its modules is computing."""

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._running.append(ModuleCall(module, args, kwargs))

        def leave(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            self._running.pop()

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


def _fused_weights(query: Tensor, key: Tensor, mask: Tensor | None, *, is_causal: bool, scale: float | None) -> Tensor:
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
    weights : (heads, queries, keys)
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
