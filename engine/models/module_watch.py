"""Seeing attention computed in any PyTorch module: its probabilities, and what its projections read and write.

While a module computes, calls of PyTorch's functions pass through a function mode
(``torch.overrides.TorchFunctionMode``), which keeps the probabilities of every softmax over scores and of every fused
attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from engine.models.devices import CheckedLookups
from engine.models.proof import Observation
from engine.values.errors import EngineError

SOFTMAXES = frozenset({functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
"""What turns scores into probabilities, as it can be called."""

FUSED, MULTI_HEAD = functional.scaled_dot_product_attention, functional.multi_head_attention_forward
"""PyTorch's own attention, without projections and with them."""

LENGTH = 11
"""Tokens of an example; few sizes of models are equal to it."""


@dataclass(frozen=True)
class ModuleCall:
    """A module, and what it was called with."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def again(self) -> Any:
        """Call the module once more, without a cache, which holds this very sentence."""
        return self.module(*map(_afresh, self.args), **{name: _afresh(value) for name, value in self.kwargs.items()})


def _afresh(value: Any) -> Any:
    return None if type(value).__name__.endswith("Cache") else value


@dataclass(frozen=True)
class WatchedAttention:
    """One computation of attention, of the first sentence where there are several.

    Attributes
    ----------
    calls : of the modules that were running, the innermost last.
    weights : (heads, queries, keys) probabilities.
    """

    calls: tuple[ModuleCall, ...]
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
        if func is MULTI_HEAD:
            self._keep(func(*args, **{**kwargs, "need_weights": True, "average_attn_weights": False})[1])
        result = func(*args, **kwargs)
        if func in SOFTMAXES and result.ndim > 2:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if isinstance(dim, int) and dim % result.ndim == result.ndim - 1:
                self._keep(result)
        self.look(func, args, result)
        return result

    def look(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Look at a function that has been called."""

    def _keep(self, weights: Any) -> None:
        first = weights[0] if weights.ndim > 3 else weights
        self.seen.append(WatchedAttention(tuple(self._running), first.detach().flatten(0, -3)))

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
        weights = scores.softmax(-1)
        self._keep(weights)
        return weights @ value

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
            with torch.no_grad(), self:
                yield self
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for hook in hooks:
                hook.remove()

    @property
    def weights(self) -> Tensor:
        """The probabilities of all heads that were seen, (heads, queries, keys).

        Raises
        ------
        EngineError : when they are of several kinds.
        """
        if len({each.weights.shape[1:] for each in self.seen}) != 1:
            raise EngineError("it computes attention of several kinds in one call; attn-tui follows one")
        return torch.cat([each.weights for each in self.seen])


class ProjectionWatch(AttentionWatch):
    """Keeps what products with some parameters read and write, too.

    Parameters
    ----------
    parameters : by matrix those that a projection is made of; and as ``bias`` the output projection's bias, if any.
    """

    def __init__(self, parameters: Mapping[str, Sequence[Tensor]]) -> None:
        super().__init__()
        self._stored = {
            matrix: {each.untyped_storage().data_ptr() for each in several} for matrix, several in parameters.items()
        }
        self._bias = next(iter(parameters.get("bias", ())), torch.zeros(()))
        self._reads: dict[str, Tensor] = {}
        self._written: Tensor | None = None

    def look(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Keep what stands before a parameter in a call, as in ``linear(x, W)``, ``x @ W`` and ``addmm(b, x, W)``."""
        stored = [each.untyped_storage().data_ptr() if isinstance(each, Tensor) else 0 for each in args]
        if func is MULTI_HEAD:  # whose arguments have the tokens first, and one sentence has no axis for it
            reads = [each if each.ndim == 2 else each[:, 0] for each in (*args[:3], result[0])]
            self._reads, self._written = dict(zip("QKV", reads[:3], strict=True)), reads[3]
        elif isinstance(result, Tensor):
            pairs = [(args[place - 1], each) for place, each in enumerate(stored) if place and each]
            for matrix, own in self._stored.items():
                read = next((read for read, each in pairs if each in own and isinstance(read, Tensor)), None)
                if read is not None and matrix not in self._reads and matrix != "bias":
                    self._reads[matrix] = _by_token(read)
                    if matrix == "O":
                        is_apart = self._stored.get("bias", set()).isdisjoint(stored)
                        self._written = _by_token(result + self._bias if is_apart else result)

    def observation(self, module: nn.Module) -> Observation:
        """Give what was seen of a module in the form in which it is proven."""
        weights = self.weights
        counts = dict(zip("QKV", (weights.shape[1], weights.shape[2], weights.shape[2]), strict=True))
        reads = {matrix: self._reads[matrix][None, :count] for matrix, count in counts.items() if matrix in self._reads}
        written = None if self._written is None else self._written[None, : weights.shape[1]]
        return Observation(
            module, module, reads=reads, written=written if len(reads) == len(counts) else None,
            probabilities=weights[None], positions_are_held=False,
        )  # fmt: skip


def _by_token(x: Tensor) -> Tensor:
    """Lay out the numbers of tokens, whose heads may have an axis of their own, as (tokens of all sentences, width)."""
    together = x.flatten(2) if x.ndim > 3 else x
    return together.detach().reshape(-1, together.shape[-1])


@dataclass(frozen=True)
class Example:
    """Arguments of a module, for one sentence."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> Example | None:
        """Take one argument, a tuple of them, or a dictionary of named ones; None stands for nothing."""
        if given is None or isinstance(given, dict):
            return None if given is None else cls((), given)
        return cls(given if isinstance(given, tuple) else (given,))

    @property
    def reads_tokens(self) -> bool:
        """Whether a sentence of token ids can be put into it."""
        return any(_is_ids(each) for each in (*self.args, *self.kwargs.values()))

    def with_ids(self, ids: tuple[int, ...]) -> Example:
        """Put a sentence's token ids in the place of all there are."""

        def put(value: Any) -> Any:
            return torch.tensor([ids], device=value.device) if _is_ids(value) else value

        return Example(tuple(map(put, self.args)), {name: put(value) for name, value in self.kwargs.items()})


def _is_ids(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32) and value.ndim == 2


def watch_call(module: nn.Module, given: Example | None) -> tuple[Example, list[WatchedAttention]]:
    """Call a module until a call goes through and attention is seen in it.

    Raises
    ------
    EngineError : when no call goes through, or none computes attention that can be seen.
    """
    failure, has_run = "nothing to call it with was found", False
    for example in [given] if given is not None else _examples(module):
        try:
            with CheckedLookups(), AttentionWatch().watching(module) as watch:
                module(*example.args, **example.kwargs)
        except Exception as error:  # whatever a person's own code raises
            failure = " ".join(str(error).split())[:200] or type(error).__name__
            continue
        if watch.seen:
            return example, watch.seen
        has_run = True
    name = type(module).__name__
    if has_run:
        raise EngineError(f"{name} computes no softmax attention that attn-tui can see: no softmax over scores")
    raise EngineError(f"{name} cannot be called by itself ({failure}); give example=, what to call it with")


def _examples(module: nn.Module) -> Iterator[Example]:
    """Make up arguments: token ids for what looks words up, else vectors of the widths that its parts read."""
    generator = torch.Generator().manual_seed(0)
    parts = list(module.modules())
    like = next(module.parameters(), torch.zeros(1))
    has_tokens_first = any(isinstance(each, nn.MultiheadAttention) and not each.batch_first for each in parts)

    def vectors(width: int) -> Tensor:
        x = torch.randn(1, LENGTH, width, generator=generator).to(like)
        return x.transpose(0, 1) if has_tokens_first else x

    if isinstance(module, nn.MultiheadAttention):
        by_width = {width: vectors(width) for width in (module.embed_dim, module.kdim, module.vdim)}
        yield Example(tuple(by_width[width] for width in (module.embed_dim, module.kdim, module.vdim)))
    taken = inspect.signature(module.forward).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = max(1, sum(each.default is each.empty and each.kind in positional for each in taken))
    for table in dict.fromkeys(each.num_embeddings for each in parts if isinstance(each, nn.Embedding)):
        yield Example((torch.randint(table, (1, LENGTH), generator=generator).to(like.device),) * required)
    for width in dict.fromkeys(width for each in module.parameters() for width in reversed(each.shape)):
        yield Example((vectors(width),) * required)
