"""Functions of single numbers, computed a piece after the other, so that what they make on the way is small.

An activation that is written out in Python, as GPT-2's, makes a tensor for every step, several of them at a time: of a
long sentence that is more than everything else. Each number's result depends on that number alone, so it is the same in
pieces, which stay near the processor besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

PIECE = 2**18
"""Numbers computed at once; a multiple of what the processor takes together, so that none is computed otherwise."""

ACTIVATIONS = "transformers.activations"
"""The module whose classes are all functions of single numbers."""


@contextmanager
def activating_in_pieces(model: nn.Module) -> Iterator[None]:
    """Let the activations of a model of transformers be computed in pieces for a while."""
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
    """Compute a function of single numbers piece after piece."""
    if numbers.numel() <= PIECE or not numbers.is_contiguous():
        return activation(numbers)
    result = torch.empty_like(numbers)
    for read, written in zip(numbers.view(-1).split(PIECE), result.view(-1).split(PIECE), strict=True):
        written.copy_(activation(read))
    return result
