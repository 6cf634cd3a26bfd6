"""What attention modules of transformers attend with, in the place of their own function.

transformers hands queries, keys, values and an explicit mask to a function chosen by name (``AttentionInterface``,
https://huggingface.co/docs/transformers/attention_interface). The one registered here, `attend`, calls the model's own
eager function, unless an `AttentionFunction` is asked for:

- To read a sentence, PyTorch's ``scaled_dot_product_attention``, which keeps no probabilities. It does so only where
  that is what the eager function computes: some rows are computed in both ways, and a cap, a sink or whatever else sets
  them apart is left to the eager function, for some queries after the other.
- For a layer's maps its module is called alone, and the call of its eager function is captured, to be made for some
  queries after the other.

Types outside the interface are read in their eager way.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

IMPLEMENTATION = "attn_tui"
"""What the function is called in transformers' tables."""

COMPARED_ROWS = 4
"""Queries whose results are computed in both ways."""

BLOCK_BYTES = 1_000_000
"""Of the scores of one block of queries: few enough to stay near the processor, and enough to keep it busy."""

FEWEST_QUERIES = 16
"""Of a block of a sentence so long that it has more scores: with fewer, most of the time goes into beginning."""

TRIED_TOKENS = 24
"""Of a sentence, with which an eager function is tried in blocks and at once."""

HONOURED = frozenset({"module", "query", "key", "value", "attention_mask", "scaling", "dropout"})
"""What an eager function can take and the kernel computes with too. A bias of the positions, made anew for every layer,
is as large as the layer's maps, so that the kernel would spare nothing."""

HALVES = (torch.bfloat16, torch.float16)

MODEL_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)
"""What models' own code raises that is called as it was not made to be called."""

Check = Callable[[], None]
"""Called between the steps of long work; it raises to give up."""

AttentionResult = tuple[Tensor, Tensor | None]
"""(sentences, queries, heads, head_dim); the probabilities (sentences, heads, queries, keys) where there are any."""

Eager = Callable[..., AttentionResult]

_BRANCHES = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*\(?\s*[\"'](?:eager|sdpa)")
"""Where a model's code asks for an implementation by its name, so that another name would change what it does."""


@dataclass(frozen=True, eq=False)
class EagerCall:
    """The call of a module's eager function.

    Attributes
    ----------
    query : (sentences, heads, queries, head_dim)
    key, value : (sentences, key_value_heads, keys, head_dim)
    mask : explicit, added to the scores; it broadcasts to (sentences, heads, queries, keys).
    settings : what else the module hands on, such as ``scaling``, a soft cap, or sinks.
    """

    eager: Eager
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    settings: dict[str, Any]

    def of(self, queries: slice | Tensor) -> AttentionResult:
        """Compute it for some queries."""
        mask = self.mask if self.mask is None or self.mask.shape[2] == 1 else self.mask[:, :, queries]
        return self.eager(self.module, self.query[:, :, queries], self.key, self.value, mask, **self.settings)

    def blocks(self, check: Check) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """Compute it for some queries after the other, where that changes nothing.

        Yields
        ------
        first, attended, weights : the first of the queries, and what is computed for them.
        """
        _, heads, queries, _ = self.query.shape
        size = max(BLOCK_BYTES // (heads * self.key.shape[2] * self.query.element_size()), FEWEST_QUERIES)
        if size < queries and not self._goes_by_queries():
            size = queries
        for first in range(0, queries, size):
            check()
            yield first, *self.of(slice(first, first + size))

    def _goes_by_queries(self) -> bool:
        """Say whether each query's row is computed without the others, tried on the first tokens."""
        count = min(TRIED_TOKENS, self.query.shape[2], self.key.shape[2])
        mask = self.mask if self.mask is None else self.mask[:, :, :count, :count]
        query, key, value = (each[:, :, :count] for each in (self.query, self.key, self.value))
        tried = EagerCall(self.eager, self.module, query, key, value, mask, self.settings)
        slack = 0.02 if self.query.dtype in HALVES else 1e-5
        try:
            (whole, weights), *pairs = (
                tried.of(some) for some in (slice(0, count), slice(0, count // 3), slice(count // 3, count))
            )
            together = [(torch.cat([pair[0] for pair in pairs], 1), whole)]
            if weights is not None:
                together.append((torch.cat([pair[1] for pair in pairs if pair[1] is not None], 2), weights))
            return all(torch.allclose(one, other, 0, slack * float(other.abs().amax())) for one, other in together)
        except MODEL_ERRORS:
            return False  # it knows how many queries there are


AttentionFunction = Callable[[EagerCall], AttentionResult]
"""What a module attends with in the place of its eager function."""


def attend_eagerly(call: EagerCall) -> AttentionResult:
    """Attend with the eager function at once: an `AttentionFunction`."""
    return call.eager(call.module, call.query, call.key, call.value, call.mask, **call.settings)


ATTENTION: ContextVar[AttentionFunction] = ContextVar("attention", default=attend_eagerly)
"""What models that `register_attention` has changed attend with."""


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> AttentionResult:
    """Attend in the way that is asked for, as transformers' attention interface calls it."""
    kind: Any = type(module)
    names, name = _eager_place(kind)
    if name not in names:
        raise TypeError(f"{type(module).__name__} has no eager attention")
    call = EagerCall(names[name], module, query, key, value, attention_mask, settings)
    return ATTENTION.get()(call)


@cache
def _eager_place(kind: Any) -> tuple[dict[str, Any], str]:
    """Give the names that a module's forward pass knows, and which is the eager function's; nothing where none is."""
    own = [name for name in _names(kind) if name.endswith("eager_attention_forward")]
    known = getattr(inspect.unwrap(kind.forward), "__globals__", {})
    return (known, own[0]) if len(own) == 1 and own[0] in known else ({}, "")


def _names(kind: Any) -> tuple[str, ...]:
    """List the names that a module's forward pass uses."""
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    return code.co_names if code is not None else ()


def register_attention(model: Any) -> bool:
    """Let a loaded model in eager mode attend with `attend`; where it cannot, it stays as it is, and that is said."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask  # not of the public interface: without it there is no mask

    AttentionInterface.register(IMPLEMENTATION, attend)
    AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)
    if getattr(model.config, "_attn_implementation", None) not in ("eager", IMPLEMENTATION):
        return False
    if not getattr(model, "_supports_attention_backend", False) and not getattr(model, "_supports_sdpa", False):
        return False
    if not _asks_for_no_name(model):
        return False
    with suppress(AttributeError, KeyError, TypeError, ValueError, ImportError):
        model.set_attn_implementation(IMPLEMENTATION)
        if model.config._attn_implementation == IMPLEMENTATION:
            return True
    for module in model.modules():  # also parts that `set_attn_implementation` does not reach
        if getattr(getattr(module, "config", None), "_attn_implementation", None) == IMPLEMENTATION:
            module.config._attn_implementation = "eager"
    return False


def _asks_for_no_name(model: Any) -> bool:
    """Say whether a model's code leaves the choice to the interface, and falls back to a function known by its name.

    GPT-2 asks whether it is eager, and then only for the sake of ``reorder_and_upcast_attn``.
    """
    kinds: set[Any] = {type(module) for module in model.modules()}
    if any("get_interface" in _names(kind) and not _eager_place(kind)[1] for kind in kinds):
        return False
    for name in {kind.__module__ for kind in kinds if "Attention" in kind.__name__}:
        try:
            source = inspect.getsource(sys.modules[name])
        except (KeyError, OSError, TypeError):
            return False
        if _BRANCHES.search(source) and (
            "reorder_and_upcast_attn" not in source or getattr(model.config, "reorder_and_upcast_attn", True)
        ):
            return False
    return True


def attend_with_kernel(check: Check, call: EagerCall) -> AttentionResult:
    """Attend with PyTorch's kernel where it computes what an eager function does, else with that in blocks.

    Some queries' results are compared, from the first to the last. ``check`` is called between blocks; with it bound
    this is an `AttentionFunction`.
    """
    query, key, value = call.query, call.key, call.value
    unknown = inspect.signature(call.eager).parameters.keys() - HONOURED
    if not call.module.training and all(call.settings.get(name) is None for name in unknown):
        with suppress(*MODEL_ERRORS):  # what a kernel refuses, the model's own function computes
            group = query.shape[1] // key.shape[1]
            if group > 1:
                key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
            attended = nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask=call.mask, scale=call.settings.get("scaling")
            )
            attended = attended.transpose(1, 2).contiguous()  # (sentences, queries, heads, head_dim)
            rows = torch.linspace(0, query.shape[2] - 1, min(COMPARED_ROWS, query.shape[2]), device=query.device).long()
            expected = call.of(rows)[0]
            slack = 0.05 if query.dtype in HALVES else 1e-4  # of the largest number
            if torch.allclose(attended[:, rows], expected, 0, slack * float(expected.abs().amax())):
                return attended, None
    whole: Tensor | None = None
    for first, block, weights in call.blocks(check):
        del weights  # before there are those of the next block
        if whole is None:
            whole = block.new_empty(block.shape[0], query.shape[2], *block.shape[2:])
        whole[:, first : first + block.shape[1]] = block
    assert whole is not None  # a sentence has tokens
    return whole, None
