"""Reading a sentence without its attention maps, and one layer's maps in blocks, through transformers' interface.

transformers hands queries, keys, values and an explicit mask to a function chosen by name (``AttentionInterface``,
https://huggingface.co/docs/transformers/attention_interface). The one registered here calls PyTorch's
``scaled_dot_product_attention``, which keeps no probabilities. It does so only where that is what the model's own eager
function computes: some rows are computed in both ways, and a cap, a sink or whatever else sets them apart is left to
the eager function, for some queries after the other. Where a layer's maps are wanted it is the eager function whose
probabilities are gathered. Types outside the interface are read in their eager way.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.gathering import Attended, Eager, Gathering, States, in_blocks

NAME = "attn_tui"
"""What the function is called in transformers' tables."""

COMPARED_ROWS = 4
"""Queries whose results are computed in both ways."""

HONOURED = frozenset({"module", "query", "key", "value", "attention_mask", "scaling", "dropout"})
"""What an eager function can take and the kernel computes with too. A bias of the positions, made anew for every layer,
is as large as the layer's maps, so that the kernel would spare nothing."""


@dataclass(frozen=True)
class _Purpose:
    """What the function is called for: who gathers its probabilities, if anybody, and what to call between blocks."""

    gathering: Gathering | None
    breathe: Callable[[], None]


_purpose: ContextVar[_Purpose] = ContextVar("purpose")

_BRANCHES = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*\(?\s*[\"'](?:eager|sdpa)")
"""Where a model's code asks for an implementation by its name, so that another name would change what it does."""


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
        taken = _is_reading(model)
    except (AttributeError, KeyError, TypeError, ValueError, ImportError):
        taken = False
    _restore_eager(model)
    return bool(taken)


@contextmanager
def reading_with_kernels(model: Any, breathe: Callable[[], None], gathering: Gathering | None = None) -> Iterator[None]:
    """Let a model that `kernels_can_read` attend with kernels for a while, and in its eager way again afterwards.

    Parameters
    ----------
    model : of transformers.
    breathe : called between the blocks of what has no kernel; it may raise to give up.
    gathering : takes the probabilities of the one module that is called meanwhile; None keeps none.
    """
    was_reading = _is_reading(model)  # a more urgent sentence, in between
    model.set_attn_implementation(NAME)
    token = _purpose.set(_Purpose(gathering, breathe))
    try:
        yield
    finally:
        _purpose.reset(token)
        if not was_reading:
            _restore_eager(model)


@contextmanager
def reading_eagerly(model: Any) -> Iterator[None]:
    """Let a model attend in its eager way, also in between while kernels read something less urgent."""
    was_reading = _is_reading(model)
    if was_reading:
        _restore_eager(model)
    try:
        yield
    finally:
        if was_reading:
            model.set_attn_implementation(NAME)


def _is_reading(model: Any) -> bool:
    """Say whether a model attends with the function registered here."""
    return getattr(model.config, "_attn_implementation", None) == NAME


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
        (sentences, queries, heads, head_dim), and what stands for the probabilities where they are gathered.
    """
    eager = eager_function(type(module))
    if eager is None:
        raise TypeError(f"{type(module).__name__} has no eager attention")
    states = (query, key, value, attention_mask)
    purpose = _purpose.get()
    if purpose.gathering is not None:
        return purpose.gathering.attend(eager, module, states, settings)
    if _kernel_fits(eager, module, states, settings):
        try:
            attended = _kernel(*states, settings.get("scaling"))
            if _agrees(attended, eager, module, states, settings):
                return attended, None
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            pass  # what a kernel refuses, the model's own function computes
    return in_blocks(eager, module, states, settings, purpose.breathe), None


def _kernel_fits(eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> bool:
    """Say whether the kernel knows of everything that the eager function computes with."""
    query, key, _, mask = states
    others = set(inspect.signature(eager).parameters) - HONOURED
    if module.training or any(settings.get(name) is not None for name in others):
        return False
    tensors = [each for each in states if each is not None]
    if any(each.ndim != 4 or each.dtype != query.dtype for each in tensors) or query.shape[1] % key.shape[1]:
        return False
    return mask is None or (mask.shape[2] in (1, query.shape[2]) and mask.shape[3] == key.shape[2])


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
    some = mask if mask is None or mask.shape[2] == 1 else mask[:, :, rows]
    expected = eager(module, query[:, :, rows], key, value, some, **settings)[0]
    found = attended[:, rows]
    if expected.shape != found.shape:
        return False
    slack = 0.05 if query.dtype in (torch.bfloat16, torch.float16) else 1e-4
    return bool(((found - expected).abs().amax() <= slack * expected.abs().amax()).item())
