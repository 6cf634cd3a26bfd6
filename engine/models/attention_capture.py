"""Replacing the attention function of transformers' models, to read with a kernel or to compute maps in blocks.

transformers calls an attention function by name, with queries, keys, values and an explicit mask
(``AttentionInterface``, https://huggingface.co/docs/transformers/attention_interface). The function registered here,
`attend`, calls the model's own eager function by default. Two others can take its place:

- `attend_with_kernel` reads a sentence with PyTorch's ``scaled_dot_product_attention``, which keeps no probabilities.
  A few rows are compared with the eager function. Where they differ (a soft cap, a sink), the eager function computes
  all rows, in blocks of queries.
- `engine.models.reader` captures the eager call of one layer and computes its maps in blocks of queries.

Models outside the interface attend with their own code.
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
"""The name of `attend` in transformers' interface."""

BLOCK_BYTES = 1_000_000
"""Size of one block's scores: small enough for the processor's cache, large enough to keep it busy."""

FEWEST_QUERIES = 16
"""Queries of a block at least; smaller blocks spend most of their time on the calls."""

TRIED_TOKENS = 24
"""Tokens with which an eager function is tried in blocks and at once."""

KERNEL_ARGUMENTS = frozenset({"module", "query", "key", "value", "attention_mask", "scaling", "dropout"})
"""Arguments of eager functions that the kernel takes too. A position bias is not among them: it is as large as the
layer's maps, so the kernel would save nothing."""

HALVES = (torch.bfloat16, torch.float16)

MODEL_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)
"""What a model's code raises when it is called in a way that it was not written for."""

Check = Callable[[], None]
"""Called between steps of long work; it raises to stop the work."""

AttentionResult = tuple[Tensor, Tensor | None]
"""(sentences, queries, heads, head_dim), and the probabilities (sentences, heads, queries, keys) if they are kept."""

Eager = Callable[..., AttentionResult]

_BRANCHES = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*\(?\s*[\"'](?:eager|sdpa)")
"""Code that branches on the name of the implementation, so that another name would change what the model does."""


@dataclass(frozen=True, eq=False)
class EagerCall:
    """The arguments of one call of a module's eager function.

    Attributes
    ----------
    query : (sentences, heads, queries, head_dim)
    key, value : (sentences, key_value_heads, keys, head_dim)
    mask : explicit, added to the scores; it broadcasts to (sentences, heads, queries, keys).
    settings : further arguments, such as ``scaling``, a soft cap or sinks.
    """

    eager: Eager
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    settings: dict[str, Any]

    def attend(self, queries: slice | Tensor = slice(None)) -> AttentionResult:
        """Attend from some queries, by default all, with the eager function."""
        mask = self.mask if self.mask is None or self.mask.shape[2] == 1 else self.mask[:, :, queries]
        return self.eager(self.module, self.query[:, :, queries], self.key, self.value, mask, **self.settings)

    def blocks(self, check: Check) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """Attend in blocks of queries, or at once where rows depend on each other.

        Yields
        ------
        first, attended, weights : the block's first query, and the result for the block.
        """
        _, heads, queries, _ = self.query.shape
        size = max(BLOCK_BYTES // (heads * self.key.shape[2] * self.query.element_size()), FEWEST_QUERIES)
        if size < queries and not self._has_independent_rows():
            size = queries
        for first in range(0, queries, size):
            check()
            yield first, *self.attend(slice(first, first + size))

    def _has_independent_rows(self) -> bool:
        count = min(TRIED_TOKENS, self.query.shape[2], self.key.shape[2])
        mask = self.mask if self.mask is None else self.mask[:, :, :count, :count]
        query, key, value = (each[:, :, :count] for each in (self.query, self.key, self.value))
        tried = EagerCall(self.eager, self.module, query, key, value, mask, self.settings)
        slack = 0.02 if self.query.dtype in HALVES else 1e-5
        try:
            (whole, weights), *pairs = (
                tried.attend(some) for some in (slice(0, count), slice(0, count // 3), slice(count // 3, count))
            )
            together = [(torch.cat([pair[0] for pair in pairs], 1), whole)]
            if weights is not None:
                together.append((torch.cat([pair[1] for pair in pairs if pair[1] is not None], 2), weights))
            return all(torch.allclose(one, other, 0, slack * float(other.abs().amax())) for one, other in together)
        except MODEL_ERRORS:
            return False  # it expects all queries


AttentionFunction = Callable[[EagerCall], AttentionResult]
"""Attends in place of a module's eager function."""


ATTENTION: ContextVar[AttentionFunction] = ContextVar("attention", default=EagerCall.attend)
"""The attention function that `attend` calls."""


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> AttentionResult:
    """Attend with `ATTENTION`; transformers' attention interface calls this."""
    kind: Any = type(module)
    names, name = _eager_function(kind)
    if name not in names:
        raise TypeError(f"{type(module).__name__} has no eager attention")
    return ATTENTION.get()(EagerCall(names[name], module, query, key, value, attention_mask, settings))


@cache
def _eager_function(kind: Any) -> tuple[dict[str, Any], str]:
    """Find the globals of a module's forward pass, and the name of the eager function in them; empty without one."""
    own = [name for name in _names_in_forward(kind) if name.endswith("eager_attention_forward")]
    known = getattr(inspect.unwrap(kind.forward), "__globals__", {})
    return (known, own[0]) if len(own) == 1 and own[0] in known else ({}, "")


def _names_in_forward(kind: Any) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    return code.co_names if code is not None else ()


def register_attention(model: Any) -> bool:
    """Let a loaded model in eager mode attend with `attend`; give False, and change nothing, where it cannot."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask  # no public name; without a mask function there is no causal mask

    AttentionInterface.register(IMPLEMENTATION, attend)
    AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)
    if getattr(model.config, "_attn_implementation", None) not in ("eager", IMPLEMENTATION):
        return False
    if not getattr(model, "_supports_attention_backend", False) and not getattr(model, "_supports_sdpa", False):
        return False
    if not _is_independent_of_name(model):
        return False
    with suppress(AttributeError, KeyError, TypeError, ValueError, ImportError):
        model.set_attn_implementation(IMPLEMENTATION)
        if model.config._attn_implementation == IMPLEMENTATION:
            return True
    for module in model.modules():  # some parts keep the name
        if getattr(getattr(module, "config", None), "_attn_implementation", None) == IMPLEMENTATION:
            module.config._attn_implementation = "eager"
    return False


def _is_independent_of_name(model: Any) -> bool:
    """Say whether a model's code computes the same under any name of an implementation.

    GPT-2's code asks for the name, but only with ``reorder_and_upcast_attn``.
    """
    kinds: set[Any] = {type(module) for module in model.modules()}
    if any("get_interface" in _names_in_forward(kind) and not _eager_function(kind)[1] for kind in kinds):
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
    """Attend with PyTorch's kernel where it agrees with the eager function, else with that function in blocks.

    With ``check`` bound this is an `AttentionFunction`.
    """
    query, key, value = call.query, call.key, call.value
    unknown = inspect.signature(call.eager).parameters.keys() - KERNEL_ARGUMENTS
    if not call.module.training and all(call.settings.get(name) is None for name in unknown):
        with suppress(*MODEL_ERRORS):  # the kernel refuses these arguments
            group = query.shape[1] // key.shape[1]
            if group > 1:
                key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
            attended = nn.functional.scaled_dot_product_attention(
                query, key, value, attn_mask=call.mask, scale=call.settings.get("scaling")
            )
            attended = attended.transpose(1, 2).contiguous()  # (sentences, queries, heads, head_dim)
            few = min(4, query.shape[2])  # tell whether both functions are the same
            rows = torch.linspace(0, query.shape[2] - 1, few, device=query.device).long()
            expected = call.attend(rows)[0]
            slack = 0.05 if query.dtype in HALVES else 1e-4  # of the largest number
            if torch.allclose(attended[:, rows], expected, 0, slack * float(expected.abs().amax())):
                return attended, None
    whole: Tensor | None = None
    for first, block, weights in call.blocks(check):
        del weights  # before the next block makes its own
        if whole is None:
            whole = block.new_empty(block.shape[0], query.shape[2], *block.shape[2:])
        whole[:, first : first + block.shape[1]] = block
    assert whole is not None  # a sentence has tokens
    return whole, None
