"""The state in which a model reads sentences, which it has only while it does; its owner finds it as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

PIECE = 2**18
"""Numbers activated at once; a multiple of what the processor takes together, so that none is computed otherwise."""

ACTIVATIONS = "transformers.activations"
"""The module whose classes are all functions of single numbers."""


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and every part of it back afterwards."""
    states = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, state in states.items():
            part.training = state


@contextmanager
def borrowed(model: Any) -> Iterator[None]:
    """Put a model of transformers into evaluation mode and eager attention, and give it back as it was."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    chosen = {key: getattr(config, "_attn_implementation", None) for key, config in configs.items()}
    try:
        with evaluating(model):
            for part in model.modules():  # of several towers each has a choice of its own
                if getattr(getattr(part, "config", None), "_attn_implementation", "eager") not in (None, "eager"):
                    setter = getattr(part, "set_attn_implementation", None)
                    if setter is not None:
                        setter("eager")
            yield
    finally:
        for key, config in configs.items():
            if chosen[key] is not None:
                config._attn_implementation = chosen[key]


@contextmanager
def activating_in_pieces(model: nn.Module) -> Iterator[None]:
    """Let the activations of a model of transformers be computed a piece after the other for a while.

    An activation that is written out in Python, as GPT-2's, makes a tensor for every step, several of them at a time:
    of a long sentence that is more than everything else. Each number's result depends on that number alone, so it is
    the same in pieces.
    """
    changed = [
        module for module in model.modules()
        if type(module).__module__ == ACTIVATIONS and "forward" not in vars(module)
    ]  # fmt: skip
    for module in changed:
        module.forward = partial(_in_pieces, module.forward)
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _in_pieces(activation: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    if numbers.numel() <= PIECE or not numbers.is_contiguous():
        return activation(numbers)
    result = torch.empty_like(numbers)
    for read, written in zip(numbers.view(-1).split(PIECE), result.view(-1).split(PIECE), strict=True):
        written.copy_(activation(read))
    return result
