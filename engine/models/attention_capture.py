"""Reading a sentence without its attention maps, and one layer's maps in blocks, through transformers' interface.

transformers hands queries, keys, values and an explicit mask to a function chosen by name (``AttentionInterface``,
https://huggingface.co/docs/transformers/attention_interface). The one registered here calls PyTorch's
``scaled_dot_product_attention``, which keeps no probabilities. It does so only where that is what the model's own eager
function computes: some rows are computed in both ways, and a cap, a sink or whatever else sets them apart is left to
the eager function, for some queries after the other. Where a layer's maps are wanted its module is called alone, and
the call of its eager function is captured, to be made for some queries after the other. Types outside the interface are
read in their eager way.
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

from engine.models.map_forms import four_dimensional

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

Check = Callable[[], None]
Attended = tuple[Tensor, Tensor | None]
States = tuple[Tensor, Tensor, Tensor, Tensor | None]
Eager = Callable[..., Attended]

_BRANCHES = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*\(?\s*[\"'](?:eager|sdpa)")
"""Where a model's code asks for an implementation by its name, so that another name would change what it does."""


class Unsuitable(Exception):
    """An attention module that does more with its probabilities than to make them and hand them on."""


class CapturedCall:
    """The call of a module's eager function: kept, with something that stands for its probabilities, and made later.

    Parameters
    ----------
    shape : heads, queries and keys that the module is expected to attend with.
    """

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape
        self._stand_in: Tensor | None = None
        self._call: tuple[Eager, nn.Module, States, dict[str, Any]] | None = None

    @property
    def mask(self) -> Tensor | None:
        """What is added to the scores, if anything; it broadcasts to (sentences, heads, queries, keys)."""
        return None if self._call is None else self._call[2][3]

    def keep(self, eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> Attended:
        """Keep what an eager function is called with, and give in place of its results what stands for them.

        Raises
        ------
        Unsuitable : when a module attends twice, or to other places than expected.
        """
        query, key, value, mask = states
        shape = heads, queries, _ = query.shape[1], query.shape[2], key.shape[2]
        if self._stand_in is not None or shape != self._shape:
            raise Unsuitable
        self._stand_in = query.new_zeros(()).expand(1, *shape)
        # Nobody looks at what the heads would write, so the eager function mixes one column of the values only.
        self._call = eager, module, (query, key, value[..., :1].contiguous(), mask), settings
        return value.new_zeros(()).expand(1, queries, heads, value.shape[-1]), self._stand_in

    def is_in(self, returned: Any) -> bool:
        """Say whether an attention module that has returned handed on what it got from `keep`.

        Queries and keys are laid together then: what lies apart would be so for every block anew, and keeps in memory
        what it lies between.
        """
        found = four_dimensional(returned)
        if self._call is None or self._stand_in is None:
            return False
        if not found or found[-1].data_ptr() != self._stand_in.data_ptr():
            return False
        eager, module, (query, key, value, mask), settings = self._call
        self._call = eager, module, (query.contiguous(), key.contiguous(), value, mask), settings
        return True

    def blocks(self, check: Check) -> Iterator[tuple[int, Tensor]]:
        """Compute the probabilities: each block's first query, and (heads, some queries, keys).

        The module has returned by then, so that of what it made on the way nothing is held but queries and keys.

        Raises
        ------
        Unsuitable : when the eager function does not return them.
        """
        assert self._call is not None, "a module attends before its maps are made"
        (eager, module, states, settings), self._call = self._call, None
        for first, _, weights in _blocks(eager, module, states, settings, check):
            if weights is None or weights.ndim != 4:
                raise Unsuitable
            yield first, weights[0]
            del weights  # before there are those of the next block


_captured: ContextVar[tuple[CapturedCall | None, Check]] = ContextVar("captured")
"""What takes the one call that is made, if anything does, and what is called between blocks."""


def kernels_can_read(model: Any) -> bool:
    """Say whether a loaded model, in eager mode, can read sentences with the function registered here."""
    if not _register() or getattr(model.config, "_attn_implementation", None) != "eager":
        return False
    if not getattr(model, "_supports_attention_backend", False) and not getattr(model, "_supports_sdpa", False):
        return False
    if not _asks_for_no_name(model):
        return False
    try:
        model.set_attn_implementation(NAME)
        taken = getattr(model.config, "_attn_implementation", None) == NAME
    except (AttributeError, KeyError, TypeError, ValueError, ImportError):
        taken = False
    _restore_eager(model)
    return taken


@contextmanager
def attending_with_kernels(model: Any, check: Check, captured: CapturedCall | None = None) -> Iterator[None]:
    """Let a model that `kernels_can_read` attend with kernels for a while, and in its eager way again afterwards.

    Parameters
    ----------
    model : of transformers.
    check : called between the blocks of what has no kernel; it may raise to give up.
    captured : takes the call of the one module that is called meanwhile; None has every module attend.
    """
    model.set_attn_implementation(NAME)
    token = _captured.set((captured, check))
    try:
        yield
    finally:
        _captured.reset(token)
        _restore_eager(model)


@cache
def _register() -> bool:
    """Enter the function, and the explicit masks of eager attention for it, into transformers' tables."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import eager_mask

        AttentionInterface.register(NAME, attend)
        AttentionMaskInterface.register(NAME, eager_mask)
    except (ImportError, AttributeError):
        return False
    return True


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


def eager_function(kind: type[nn.Module]) -> Eager | None:
    """Find the function that attention modules of a class fall back to in eager mode."""
    names = [name for name in _names(kind) if name.endswith("eager_attention_forward")]
    found = getattr(inspect.unwrap(kind.forward), "__globals__", {}).get(names[0]) if len(names) == 1 else None
    return found if callable(found) else None


def _restore_eager(model: Any) -> None:
    """Put a model back into its eager mode, also the parts of it that `set_attn_implementation` does not reach."""
    with suppress(AttributeError, KeyError, TypeError, ValueError, ImportError):
        model.set_attn_implementation("eager")
    configs: list[Any] = [module.config for module in model.modules() if hasattr(module, "config")]
    for config in configs:
        if getattr(config, "_attn_implementation", None) == NAME:
            config._attn_implementation = "eager"


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **settings: Any,
) -> Attended:
    """Compute what a model's eager function computes, without its probabilities where a kernel can.

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
        (sentences, queries, heads, head_dim), and what stands for the probabilities where the call is captured.
    """
    eager = eager_function(type(module))
    if eager is None:
        raise TypeError(f"{type(module).__name__} has no eager attention")
    states = (query, key, value, attention_mask)
    captured, check = _captured.get()
    if captured is not None:
        return captured.keep(eager, module, states, settings)
    if not module.training and _kernel_fits(eager, settings):
        try:
            attended = _kernel(*states, settings.get("scaling"))
            if _agrees(attended, eager, module, states, settings):
                return attended, None
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            pass  # what a kernel refuses, the model's own function computes
    return _in_blocks(eager, module, states, settings, check), None


def _kernel_fits(eager: Eager, settings: dict[str, Any]) -> bool:
    """Say whether the kernel knows of everything that the eager function computes with."""
    return all(settings.get(name) is None for name in set(inspect.signature(eager).parameters) - HONOURED)


def _kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None) -> Tensor:
    """Attend with PyTorch's kernel; key/value heads are repeated for the query heads of their group."""
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return attended.transpose(1, 2).contiguous()  # (sentences, queries, heads, head_dim)


def _agrees(attended: Tensor, eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> bool:
    """Compare some queries' results with those of the eager function, from the first query to the last."""
    query, key, value, mask = states
    length = query.shape[2]
    rows = torch.linspace(0, length - 1, min(COMPARED_ROWS, length), device=query.device).long()
    expected = eager(module, query[:, :, rows], key, value, _rows(mask, rows), **settings)[0]
    found = attended[:, rows]
    if expected.shape != found.shape:
        return False
    slack = 0.05 if query.dtype in (torch.bfloat16, torch.float16) else 1e-4
    return bool(((found - expected).abs().amax() <= slack * expected.abs().amax()).item())


def _rows(mask: Tensor | None, queries: slice | Tensor) -> Tensor | None:
    """Take a mask for some queries."""
    return mask if mask is None or mask.shape[2] == 1 else mask[:, :, queries]


def _in_blocks(eager: Eager, module: nn.Module, states: States, settings: dict[str, Any], check: Check) -> Tensor:
    """Compute what an eager function gives: (sentences, queries, heads, head_dim)."""
    attended: Tensor | None = None
    for first, block, weights in _blocks(eager, module, states, settings, check):
        del weights  # before there are those of the next block
        if attended is None:  # one tensor from the start: small ones kept between large ones would scatter the heap
            attended = block.new_empty(block.shape[0], states[0].shape[2], *block.shape[2:])
        attended[:, first : first + block.shape[1]] = block
    assert attended is not None  # a sentence has tokens
    return attended


def _blocks(
    eager: Eager, module: nn.Module, states: States, settings: dict[str, Any], check: Check
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Call an eager function for some queries after the other, where that changes nothing.

    Parameters
    ----------
    eager : a model's own function, as transformers' attention interface calls it.
    module, states, settings : what it is called with, for one sentence.
    check : called between blocks; it may raise to give up.

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

    def compute(some: slice) -> Attended:
        return eager(module, query[:, :, some], key, value, _rows(mask, some), **settings)

    try:
        whole, weights = compute(slice(0, count))
        pairs = [compute(some) for some in (slice(0, count // 3), slice(count // 3, count))]
        parts = [pair[1] for pair in pairs if pair[1] is not None]
        return _agree(whole, torch.cat([pair[0] for pair in pairs], 1)) and (
            weights is None or _agree(weights, torch.cat(parts, 2))
        )
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
        return False  # it knows how many queries there are


def _agree(one: Tensor, other: Tensor) -> bool:
    """Say whether two tensors are the same but for rounding."""
    slack = 0.02 if one.dtype in (torch.bfloat16, torch.float16) else 1e-5
    return one.shape == other.shape and bool((one - other).abs().amax() <= slack * one.abs().amax())
