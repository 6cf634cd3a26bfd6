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
    logits, weights : (heads, queries, keys) scores and probabilities, before and after the softmax.
    """

    calls: tuple[ModuleCall, ...]
    logits: Tensor
    weights: Tensor


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
        if func is FUSED:
            return self._fused(*args, **kwargs)
        if func not in SOFTMAXES:
            return self.other(func, args, kwargs)
        logits = args[0] if args else kwargs["input"]
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        weights = func(*args, **kwargs)
        if not isinstance(dim, int) or logits.ndim < 3 or dim % logits.ndim != logits.ndim - 1:
            return weights
        return self._keep(logits, weights)

    def other(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function that is no attention."""
        return func(*args, **kwargs)

    def hand_on(self, weights: Tensor) -> Tensor:
        """Give the probabilities, (..., queries, keys), that go on from an attention."""
        return weights

    def _keep(self, logits: Tensor, weights: Tensor) -> Tensor:
        """Keep one attention."""
        flat = (each.reshape(-1, *each.shape[-2:]) for each in (logits, weights.detach()))
        self.seen.append(WatchedAttention(tuple(self._running), *flat))
        return self.hand_on(weights)

    def _fused(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Compute PyTorch's own attention, which does not give its probabilities away, by its definition."""
        if enable_gqa:
            group = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(group, -3), value.repeat_interleave(group, -3)
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None:
            is_choice = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if is_choice else scores + attn_mask
        return self._keep(scores, scores.softmax(-1)) @ value

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
