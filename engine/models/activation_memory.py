"""Keeping small what a model makes of a long sentence beside what is kept of it.

An activation that is written out in Python, as GPT-2's, makes a tensor for every step, several of them at a time: of a
long sentence that is more than everything else. `activating_in_pieces` computes it a piece after the other.

The GNU C library puts whatever takes less than 32 MiB side by side into one heap. Of a sentence that is nearly every
tensor, and the few that stay lie between those that are gone, whose memory is not given back: reading a sentence and
looking at a layer then take up to 1.6 times that layer's maps instead of less than one
(``tests/engine/models/test_long_reading.py``). So `large_tensors_apart` has each large tensor given back as soon as
nobody holds it.
Spectra are computed with the heap as it is, where memory that is used again at once costs less than new memory.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.values.attention import AT_ONCE

PIECE = 2**18
"""Numbers activated at once; a multiple of what the processor takes together, so that none is computed otherwise."""

ACTIVATIONS = "transformers.activations"
"""The module whose classes are all functions of single numbers."""

APART = 2**20
"""Bytes from which a tensor is put by itself."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What ``mallopt`` calls the free bytes at the heap's end from which they are given back, and those for `APART`."""

HEAP_MOST = 2**25
"""The most that the library itself ever puts into the heap, which it comes to by and by."""


@contextmanager
def activating_in_pieces(model: nn.Module) -> Iterator[None]:
    """Let the activations of a model of transformers be computed a piece after the other for a while.

    Each number's result depends on that number alone, so it is the same in pieces.
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


@contextmanager
def large_tensors_apart(tokens: int) -> Iterator[None]:
    """Put large tensors by themselves for a while, where a sentence is long and the C library lets one choose."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" and tokens**2 > AT_ONCE else None
    if not hasattr(library, "malloc_trim"):  # another system's, or another C library
        yield
        return
    library.malloc_trim(0)  # what lies free in the heap, and is now not used again
    library.mallopt(MMAP_THRESHOLD, APART)
    try:
        yield
    finally:
        library.mallopt(MMAP_THRESHOLD, HEAP_MOST)
        library.mallopt(TRIM_THRESHOLD, 2 * HEAP_MOST)
