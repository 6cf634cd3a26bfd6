"""How attention modules of transformers are called: what with, and with what function in the place of their own.

transformers hands queries, keys, values and an explicit mask to a function chosen by name (``AttentionInterface``,
https://huggingface.co/docs/transformers/attention_interface). The one registered here calls the model's own eager
function, unless a `Way` is asked for:

- To read a sentence, PyTorch's ``scaled_dot_product_attention``, which keeps no probabilities. It does so only where
  that is what the eager function computes: some rows are computed in both ways, and a cap, a sink or whatever else sets
  them apart is left to the eager function, for some queries after the other.
- For one layer's large maps its module is called alone, and the call of its eager function is captured, to be made for
  some queries after the other.

Types outside the interface are read in their eager way.

Only the call of the layer that is looked at is ever wanted again, and those of all layers would take as much memory as
a third of a layer's maps. So the states of a long sentence go into a file that has no name, and are read back from
there. The file is gone with the sentence or with the program, however that ends, and nobody else can open it.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from engine.models.attention_maps import Check, four_dimensional, is_distribution
from engine.values.heads import Head
from engine.values.progress import ProgressReporter

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

Attended = tuple[Tensor, Tensor | None]
States = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""Queries, keys, values, and the mask."""

Eager = Callable[..., Attended]
Way = Callable[[Eager, nn.Module, States, dict[str, Any]], Attended]
"""What a module attends with, given its eager function, itself, and what that function is called with."""

_BRANCHES = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*\(?\s*[\"'](?:eager|sdpa)")
"""Where a model's code asks for an implementation by its name, so that another name would change what it does."""

WAY: ContextVar[Way | None] = ContextVar("way", default=None)
"""What models that `take_over_attention` has changed attend with; None is their eager way."""


class Unsuitable(Exception):
    """An attention module that does more with its probabilities than to make them and hand them on."""


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
    eager, way = eager_function(type(module)), WAY.get()
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

    Some queries' results are compared, from the first to the last. ``check`` is called between blocks; with it bound
    this is a `Way`.
    """
    query, key, value, mask = states
    unknown = inspect.signature(eager).parameters.keys() - HONOURED
    if not module.training and all(settings.get(name) is None for name in unknown):
        with suppress(*FAILURES):  # what a kernel refuses, the model's own function computes
            group = query.shape[1] // key.shape[1]
            every_key, every_value = (
                each.repeat_interleave(group, dim=1) if group > 1 else each for each in (key, value)
            )
            attended = nn.functional.scaled_dot_product_attention(
                query, every_key, every_value, attn_mask=mask, scale=settings.get("scaling")
            )
            attended = attended.transpose(1, 2).contiguous()  # (sentences, queries, heads, head_dim)
            rows = torch.linspace(0, query.shape[2] - 1, min(COMPARED_ROWS, query.shape[2]), device=query.device).long()
            expected = eager(module, query[:, :, rows], key, value, _rows(mask, rows), **settings)[0]
            if _agree(attended[:, rows], expected, 0.05 if query.dtype in HALVES else 1e-4):
                return attended, None
    whole: Tensor | None = None
    for first, block, weights in _blocks(eager, module, states, settings, check):
        del weights  # before there are those of the next block
        if whole is None:  # one tensor from the start: small ones kept between large ones would scatter the heap
            whole = block.new_empty(block.shape[0], query.shape[2], *block.shape[2:])
        whole[:, first : first + block.shape[1]] = block
    assert whole is not None  # a sentence has tokens
    return whole, None


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
    size = queries_at_once(query.shape[1], key.shape[2], query.element_size())
    if size < queries and not _goes_by_queries(eager, module, states, settings):
        size = queries
    for first in range(0, queries, size):
        check()
        some = slice(first, first + size)
        yield first, *eager(module, query[:, :, some], key, value, _rows(mask, some), **settings)


def queries_at_once(heads: int, keys: int, itemsize: int) -> int:
    """Say how many queries a block has."""
    return max(BLOCK_BYTES // (heads * keys * itemsize), FEWEST_QUERIES)


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


# What modules are called with


Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call."""

STATES_NDIM = 3
"""Dimensions of states (sentences, tokens, width). What has more is a mask, which all layers share in memory."""

LARGE = 2**20
"""Bytes from which states are written beside memory."""

LEFT_FREE = 2**30
"""Bytes of a disk that are left to others."""


@dataclass(frozen=True)
class _Written:
    """Where a tensor is in a file, and what it is."""

    place: int
    shape: torch.Size
    dtype: torch.dtype
    nbytes: int


class AttentionCalls:
    """The arguments of every attention module's call, by layer.

    Parameters
    ----------
    folder : where large states are written, as long as something can be; None keeps all in memory.

    Attributes
    ----------
    by_layer : the arguments, or where they are written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.by_layer: dict[Head, Call] = {}
        self._folder = folder
        self._file: Any = None

    def keep(self, layer: Head, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the arguments of a layer's call."""
        call = args, kwargs
        self.by_layer[layer] = call if self._folder is None else _changed(call, self._write)

    def of(self, layer: Head) -> Call:
        """Give the arguments of a layer's call.

        Raises
        ------
        OSError : when they cannot be read back.
        """
        call = self.by_layer[layer]
        return call if self._file is None else _changed(call, self._read)

    def _write(self, value: Any) -> Any:
        """Write what are large states; they are kept themselves where the disk is full or cannot be written to."""
        if self._folder is None or not _is_large_state(value):
            return value
        try:
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # until nobody wants it
                weakref.finalize(self, self._file.close)
            if shutil.disk_usage(self._folder).free < LEFT_FREE + value.nbytes:
                raise OSError("the disk is nearly full")
            place = self._file.seek(0, os.SEEK_END)
            value.detach().view(-1).view(torch.uint8).numpy().tofile(self._file)
        except OSError:
            self._folder = None
            return value
        return _Written(place, value.shape, value.dtype, value.nbytes)

    def _read(self, value: Any) -> Any:
        """Read back what was written."""
        if not isinstance(value, _Written):
            return value
        self._file.seek(value.place)
        numbers = np.fromfile(self._file, np.uint8, value.nbytes)
        if len(numbers) < value.nbytes:
            raise OSError("the file has become shorter")
        return torch.from_numpy(numbers).view(value.dtype).view(value.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, in memory and on disk, each memory once."""
        sizes: dict[Any, int] = {}
        for value in tree_leaves(list(self.by_layer.values())):
            if isinstance(value, Tensor):
                sizes[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            elif isinstance(value, _Written):
                sizes[value] = value.nbytes
        return sum(sizes.values())


def _changed(call: Call, change: Callable[[Any], Any]) -> Call:
    """Change the arguments of a call; what is the same object twice among them stays so."""
    args, kwargs = call
    changed: dict[int, Any] = {}
    for value in (*args, *kwargs.values()):
        if id(value) not in changed:
            changed[id(value)] = change(value)
    return tuple([changed[id(value)] for value in args]), {name: changed[id(kwargs[name])] for name in kwargs}


def _is_large_state(value: Any) -> bool:
    """Say whether something is a tensor in main memory of which every layer has its own."""
    return (
        type(value) is Tensor
        and value.ndim == STATES_NDIM
        and value.nbytes >= LARGE
        and value.device.type == "cpu"
        and value.is_contiguous()
    )


class _AllCalled(Exception):
    """Every attention module has been called: what the model does from there on, nobody looks at."""


@contextmanager
def keeping_calls(
    modules: Mapping[Head, nn.Module], calls: AttentionCalls, check: Check, report: ProgressReporter
) -> Iterator[None]:
    """Keep the arguments of every attention module's call while the model runs, and end the run at the last of them.

    What follows is the last layer's mixing and, in a model that has one, the logits of all tokens, which are by far the
    largest of all that a sentence makes.

    Parameters
    ----------
    modules : the attention modules by layer; layers may share one, which is called for one after the other.
    calls : where they are kept, by layer.
    check : called before every module; it may raise to give up.
    report : told before every module how many have been called, of all.
    """
    waiting: dict[nn.Module, list[Head]] = {}
    for name, module in modules.items():
        waiting.setdefault(module, []).append(name)

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        report(len(calls.by_layer), len(modules))
        check()
        if waiting[module]:
            calls.keep(waiting[module].pop(0), args, kwargs)
        if len(calls.by_layer) == len(modules):
            raise _AllCalled

    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in waiting]
    try:
        yield
    except _AllCalled as end:
        # In some versions of Python the frame that throws it in here holds it, and it, by its traceback, that frame:
        # with them the states of the last block would stay until the collector comes.
        end.__traceback__ = None
    finally:
        for hook in hooks:
            hook.remove()
