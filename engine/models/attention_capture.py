"""Attention of a model of transformers in another way than its own: without maps, or one layer's maps in blocks.

transformers hands queries, keys, values and an explicit mask to a function chosen by name (``AttentionInterface``,
https://huggingface.co/docs/transformers/attention_interface). The one registered here calls the model's own eager
function, unless something else is asked for within `attending`:

- To read a sentence, PyTorch's ``scaled_dot_product_attention``, which keeps no probabilities. It does so only where
  that is what the eager function computes: some rows are computed in both ways, and a cap, a sink or whatever else sets
  them apart is left to the eager function, for some queries after the other.
- For one layer's maps its module is called alone, and the call of its eager function is captured, to be made for some
  queries after the other.

Types outside the interface are read in their eager way.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.map_forms import four_dimensional, is_distribution

NAME = "attn_tui"
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

FAILURES = (RuntimeError, ValueError, TypeError, IndexError, AttributeError)
"""What models' own code raises that is called as it was not made to be called."""

Check = Callable[[], None]
Attended = tuple[Tensor, Tensor | None]
States = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""Queries, keys, values, and the mask."""

Eager = Callable[..., Attended]
Way = Callable[[Eager, nn.Module, States, dict[str, Any]], Attended]
"""What a module attends with, given its eager function, itself, and what that function is called with."""

_BRANCHES = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*\(?\s*[\"'](?:eager|sdpa)")
"""Where a model's code asks for an implementation by its name, so that another name would change what it does."""

_way: ContextVar[Way | None] = ContextVar("way", default=None)


class Unsuitable(Exception):
    """An attention module that does more with its probabilities than to make them and hand them on."""


@contextmanager
def attending(way: Way | None) -> Iterator[None]:
    """Let models that `take_over_attention` has changed attend in a way for a while; None is their eager one."""
    token = _way.set(way)
    try:
        yield
    finally:
        _way.reset(token)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **settings: Any,
) -> Attended:
    """Attend in the way that is asked for, as transformers' attention interface calls it.

    Parameters
    ----------
    module : the attention module that is running.
    query : (sentences, heads, queries, head_dim)
    key, value : (sentences, key_value_heads, keys, head_dim)
    attention_mask : explicit, added to the scores; it broadcasts to (sentences, heads, queries, keys).
    settings : what else the module hands on, such as ``scaling``, a soft cap, or sinks.

    Returns
    -------
    tuple
        (sentences, queries, heads, head_dim), and the probabilities, or what stands for them, where there are any.
    """
    eager, way = eager_function(type(module)), _way.get()
    if eager is None:
        raise TypeError(f"{type(module).__name__} has no eager attention")
    if way is None:
        return eager(module, query, key, value, attention_mask, **settings)
    return way(eager, module, (query, key, value, attention_mask), settings)


def take_over_attention(model: Any) -> bool:
    """Let a loaded model in eager mode attend with `attend`; where it cannot, it stays as it is, and that is said."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask  # not of the public interface: without it there is no mask

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, eager_mask)
    if getattr(model.config, "_attn_implementation", None) not in ("eager", NAME):
        return False
    if not getattr(model, "_supports_attention_backend", False) and not getattr(model, "_supports_sdpa", False):
        return False
    if not _asks_for_no_name(model):
        return False
    with suppress(AttributeError, KeyError, TypeError, ValueError, ImportError):
        model.set_attn_implementation(NAME)
        if model.config._attn_implementation == NAME:
            return True
    for module in model.modules():  # also parts that `set_attn_implementation` does not reach
        if getattr(getattr(module, "config", None), "_attn_implementation", None) == NAME:
            module.config._attn_implementation = "eager"
    return False


def _asks_for_no_name(model: Any) -> bool:
    """Say whether a model's code leaves the choice to the interface, and falls back to a function known by its name.

    GPT-2 asks whether it is eager, and then only for the sake of ``reorder_and_upcast_attn``.
    """
    kinds = {type(module) for module in model.modules()}
    if any("get_interface" in _names(kind) and eager_function(kind) is None for kind in kinds):
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


def _names(kind: type[nn.Module]) -> tuple[str, ...]:
    """List the names that a module's forward pass uses."""
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    return code.co_names if code is not None else ()


def eager_function(kind: Any) -> Eager | None:
    """Find the function that attention modules of a class fall back to in eager mode."""
    names, name = _eager_place(kind)
    return names.get(name)


@cache
def _eager_place(kind: type[Any]) -> tuple[dict[str, Any], str]:
    """Give the names that a module's forward pass knows, and which is the eager function's; nothing where none is."""
    own = [name for name in _names(kind) if name.endswith("eager_attention_forward")]
    return (getattr(inspect.unwrap(kind.forward), "__globals__", {}), own[0]) if len(own) == 1 else ({}, "")


def attend_without_maps(
    check: Check, eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]
) -> Attended:
    """Attend with PyTorch's kernel where it computes what an eager function does, else with that in blocks.

    ``check`` is called between blocks and may raise to give up; with it bound to `functools.partial` this is a `Way`.
    """
    unknown = set(inspect.signature(eager).parameters) - HONOURED
    if not module.training and all(settings.get(name) is None for name in unknown):
        with suppress(*FAILURES):  # what a kernel refuses, the model's own function computes
            attended = _kernel(*states, settings.get("scaling"))
            if _computes_the_same(attended, eager, module, states, settings):
                return attended, None
    whole: Tensor | None = None
    for first, block, weights in _blocks(eager, module, states, settings, check):
        del weights  # before there are those of the next block
        if whole is None:  # one tensor from the start: small ones kept between large ones would scatter the heap
            whole = block.new_empty(block.shape[0], states[0].shape[2], *block.shape[2:])
        whole[:, first : first + block.shape[1]] = block
    assert whole is not None  # a sentence has tokens
    return whole, None


def _kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Attend with PyTorch's kernel; key/value heads are repeated for the query heads of their group."""
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return attended.transpose(1, 2).contiguous()  # (sentences, queries, heads, head_dim)


def _computes_the_same(
    attended: Tensor, eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]
) -> bool:
    """Compare some queries' results with those of the eager function, from the first query to the last."""
    query, key, value, mask = states
    length = query.shape[2]
    rows = torch.linspace(0, length - 1, min(COMPARED_ROWS, length), device=query.device).long()
    expected = eager(module, query[:, :, rows], key, value, _rows(mask, rows), **settings)[0]
    return _agree(attended[:, rows], expected, 0.05 if query.dtype in HALVES else 1e-4)


def _agree(one: Tensor, other: Tensor, slack: float) -> bool:
    """Say whether two tensors are the same but for rounding, which is so much of the largest number at most."""
    return one.shape == other.shape and bool((one - other).abs().amax() <= slack * other.abs().amax())


def _rows(mask: Tensor | None, queries: slice | Tensor) -> Tensor | None:
    """Take a mask for some queries."""
    return mask if mask is None or mask.shape[2] == 1 else mask[:, :, queries]


def _blocks(
    eager: Eager, module: nn.Module, states: States, settings: dict[str, Any], check: Check
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Call an eager function for some queries after the other, where that changes nothing.

    Yields
    ------
    first, attended, weights : the first of the queries, (sentences, some queries, heads, head_dim), and (sentences,
        heads, some queries, keys) or None.
    """
    query, key, value, mask = states
    queries = query.shape[2]
    size = max(BLOCK_BYTES // (query.shape[1] * key.shape[2] * query.element_size()), FEWEST_QUERIES)
    if size < queries and not _goes_by_queries(eager, module, states, settings):
        size = queries
    for first in range(0, queries, size):
        check()
        some = slice(first, first + size)
        yield first, *eager(module, query[:, :, some], key, value, _rows(mask, some), **settings)


def _goes_by_queries(eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> bool:
    """Say whether an eager function computes each query's row without the others, tried on the first tokens."""
    query, key, value, mask = states
    count = min(TRIED_TOKENS, query.shape[2], key.shape[2])
    if mask is not None:
        mask = mask[..., :count] if mask.shape[2] == 1 else mask[:, :, :count, :count]
    key, value = key[:, :, :count], value[:, :, :count]
    slack = 0.02 if query.dtype in HALVES else 1e-5
    try:
        (whole, weights), *pairs = (
            eager(module, query[:, :, some], key, value, _rows(mask, some), **settings)
            for some in (slice(0, count), slice(0, count // 3), slice(count // 3, count))
        )
        parts = [pair[1] for pair in pairs if pair[1] is not None]
        return _agree(torch.cat([pair[0] for pair in pairs], 1), whole, slack) and (
            weights is None or _agree(torch.cat(parts, 2), weights, slack)
        )
    except FAILURES:
        return False  # it knows how many queries there are


class CapturedCall:
    """The call of one module's eager function: kept, with something that stands for its probabilities, and made later.

    Parameters
    ----------
    shape : heads, queries and keys that the module is expected to attend with.

    Attributes
    ----------
    mask : what is added to the scores, if anything; it broadcasts to (sentences, heads, queries, keys).
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        self._stand_in: Tensor | None = None
        self._call: tuple[Eager, nn.Module, States, dict[str, Any]] | None = None
        self.mask: Tensor | None = None

    def keep(self, eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> Attended:
        """Keep what an eager function is called with, and give in place of its results what stands for them: a `Way`.

        Raises
        ------
        Unsuitable : when a module attends twice, or to other places than expected.
        """
        query, key, value, self.mask = states
        shape = heads, queries, _ = query.shape[1], query.shape[2], key.shape[2]
        if self._stand_in is not None or shape != self._shape:
            raise Unsuitable
        self._stand_in = query.new_zeros(()).expand(1, *shape)
        # Nobody looks at what the heads would write, so the eager function mixes one column of the values only.
        self._call = eager, module, (query, key, value[..., :1].contiguous(), self.mask), settings
        return value.new_zeros(()).expand(1, queries, heads, value.shape[-1]), self._stand_in

    def expect_in(self, returned: Any) -> None:
        """Check that an attention module that has returned handed on what it got from `keep`.

        Raises
        ------
        Unsuitable : when it did not.
        """
        found = four_dimensional(returned)
        if self._stand_in is None or not found or found[-1].data_ptr() != self._stand_in.data_ptr():
            raise Unsuitable

    def blocks(self, check: Check) -> Iterator[tuple[int, Tensor]]:
        """Compute the probabilities: each block's first query, and (heads, some queries, keys).

        The module has returned by then, so that of what it made on the way nothing is held but queries and keys.

        Raises
        ------
        Unsuitable : when the eager function does not return them.
        """
        assert self._call is not None, "a module attends before its maps are made"
        (eager, module, (query, key, value, mask), settings), self._call = self._call, None
        # What lies apart would be laid together for every block anew, and keeps in memory what it lies between.
        query, key = query.contiguous(), key.contiguous()
        for first, _, weights in _blocks(eager, module, (query, key, value, mask), settings, check):
            if weights is None or weights.ndim != 4 or not is_distribution(weights[0]):
                raise Unsuitable
            yield first, weights[0]
            del weights  # before there are those of the next block
