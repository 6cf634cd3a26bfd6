"""What a model's attention modules really read and wrote, watched while it runs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.outline import AttentionModule
from engine.models.rules import OTHER_TOWERS
from engine.values.errors import EngineError
from engine.values.heads import Head


@dataclass
class Observation:
    """One attention module's numbers for a batch of sentences.

    Attributes
    ----------
    module : the module itself, whose norms can be called.
    reads : by matrix, what its projection (the first step of two) read, (sentences, tokens, width).
    mixed : what the output projection read, (sentences, tokens, heads · value_head_dim).
    written : what the output projection wrote, (sentences, tokens, d_model).
    probabilities : (sentences, heads, queries, keys), or None where the module does not return them.
    positions_are_held : whether all positions were zero, or the model has no rotations.
    """

    module: nn.Module
    reads: dict[str, Tensor] = field(default_factory=dict)
    mixed: Tensor | None = None
    written: Tensor | None = None
    probabilities: Tensor | None = None
    positions_are_held: bool = True


def find_module(modules: Mapping[str, nn.Module], path: str) -> nn.Module | None:
    """Find a checkpoint's module in a loaded model, whose names may begin in another way.

    It is the one whose name has the most in common with the path at its end, from the layer's number on at least.
    """
    if path in modules:
        return modules[path]
    parts = path.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    least = len(parts) - numbers[0] + 1 if numbers else 2
    shared: dict[str, int] = {}
    for name in modules:
        others = name.split(".")
        if OTHER_TOWERS.isdisjoint(others):
            pairs = zip(reversed(parts), reversed(others), strict=False)
            shared[name] = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    most = max(shared.values(), default=0)
    found = [name for name, count in shared.items() if count == most >= min(least, len(parts))]
    return modules[found[0]] if len(found) == 1 else None


def returned_probabilities(returned: Any, sentences: int, heads: int) -> Tensor | None:
    """Pick the probabilities (sentences, heads, queries, keys) out of what an attention module returns.

    They are its last four-dimensional tensor: T5 returns its position bias, of the same shape, before them.
    """
    parts = returned if isinstance(returned, (tuple, list)) else ()
    found = [part for part in parts if isinstance(part, Tensor) and part.ndim == 4]
    if not found or found[-1].shape[:2] != (sentences, heads):
        return None
    slack = 0.05 if found[-1].dtype in (torch.bfloat16, torch.float16) else 1e-3
    is_distribution = bool((found[-1] >= 0).all()) and bool((found[-1].sum(-1) <= 1 + slack).all())
    return found[-1] if is_distribution else None


def observe(
    model: Any, modules: Mapping[Head, AttentionModule], ids: Tensor, breathe: Callable[[], None]
) -> dict[Head, Observation]:
    """Run a model on sentences of equal length, with all positions held at zero where it takes positions.

    Rotations are then equal and cancel in q · k, so that the scores follow from the weights alone.

    Parameters
    ----------
    model : of transformers, with eager attention.
    modules : the attention modules by layer.
    ids : (sentences, tokens)
    breathe : called before every attention module; it may raise to give up.

    Raises
    ------
    EngineError : when a module is not in the model, or the model does not run.
    """
    named = dict(model.named_modules())
    seen: dict[Head, Observation] = {}
    inputs = _inputs(model, ids)
    held = "position_ids" in inputs or not any("Rotary" in type(module).__name__ for module in model.modules())
    with ExitStack() as stack, torch.inference_mode():
        for head, module in modules.items():
            found = find_module(named, module.outline.module)
            if found is None:
                raise EngineError(f"the loaded model has no module {module.outline.module}")
            seen[head] = Observation(found, positions_are_held=held)
            stack.enter_context(_watching(named, module, seen[head], breathe))
        try:
            model(**inputs)
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise EngineError(f"the model does not run: {str(error).partition(chr(10))[0]}") from error
    return seen


def _inputs(model: Any, ids: Tensor) -> dict[str, Any]:
    """Make a model's arguments: an explicit mask, no cache, and positions that are all zero."""
    taken = inspect.signature(model.forward).parameters
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids.flip(1)
    inputs |= {name: torch.zeros_like(ids) for name in ("position_ids", "decoder_position_ids") if name in taken}
    for name, value in (("use_cache", False), ("output_attentions", True)):
        if name in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values()):
            inputs[name] = value
    return inputs


@contextmanager
def _watching(
    named: Mapping[str, nn.Module], module: AttentionModule, seen: Observation, breathe: Callable[[], None]
) -> Iterator[None]:
    """Keep what one attention module and its projections read and write; a module that runs again is kept once."""
    hooks = []

    def keep_read(matrix: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def keep(projection: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            seen.reads.setdefault(matrix, args[0].detach())
            if matrix == "O" and seen.written is None:
                seen.mixed, seen.written = args[0].detach(), result.detach()

        return keep

    def keep_returned(attention: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if seen.probabilities is None and "Q" in seen.reads:
            seen.probabilities = returned_probabilities(result, len(seen.reads["Q"]), module.outline.heads)

    def pause(attention: nn.Module, args: tuple[Any, ...]) -> None:
        breathe()

    hooks.append(seen.module.register_forward_hook(keep_returned))
    hooks.append(seen.module.register_forward_pre_hook(pause))
    for matrix in "QKVO":
        first = module.latents[matrix].down if matrix in module.latents else module.weights[matrix]
        projection = find_module(named, first.removesuffix(".weight"))
        if projection is None:
            raise EngineError(f"the loaded model has no module {first.removesuffix('.weight')}")
        hooks.append(projection.register_forward_hook(keep_read(matrix)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
