"""Whether a model and a sentence's maps fit into memory, and keeping small what a long sentence needs beside its maps.

An activation that is written out in Python, as GPT-2's, makes a tensor for every step, several of them at a time: of a
long sentence that is more than everything else. `sparing_memory` has it computed a piece after the other.

The GNU C library puts whatever takes less than 32 MiB side by side into one heap. Of a sentence that is nearly every
tensor, and the few that stay lie between those that are gone, whose memory is not given back: reading a sentence and
looking at a layer then take up to 1.6 times that layer's maps instead of less than one
(``tests/engine/models/test_long_reading.py``). So `sparing_memory` has each large tensor given back as soon as nobody
holds it.
Spectra are computed with the heap as it is, where memory that is used again at once costs less than new memory.

This module does not import torch, which some of it is asked before.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.checkpoints import size_bounds
from engine.values.attention import AT_ONCE
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.memory import FreeMemory, Placement, SentenceNeed, place_sentence
from engine.values.outline import LayerOutline

if TYPE_CHECKING:
    from torch import Tensor, nn

WEIGHT_BYTES = 4
"""Of one weight of a map: they are float32."""

STATES = 6
"""Tensors as large as a layer's queries held beside its maps: queries, keys, values, and what comes of them."""

BLOCKS = 4_000_000
"""Bytes of scores and weights of a block of queries held beside maps that are made block after block."""

WINDOWS = ("sliding_window", "local_attention")
"""What configurations call how many tokens a layer of a window sees."""

TOGETHER = 64
"""Queries whose weights are written together, from the first key that any of them sees to the last."""

ROW_PAGES = 4
"""Pages of memory from which on a row of one head's map gives those back that lie behind what its query sees."""


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


def free_memories() -> tuple[FreeMemory, ...]:
    """Say what is free in main memory and on each GPU of CUDA; it needs torch."""
    from engine.models.devices import free_of_gpus

    return FreeMemory("cpu", size_bounds.free_memory()), *free_of_gpus("cuda:0")


def place(model: str, need: SentenceNeed, wish: str) -> Placement:
    """Decide where a model reads sentences, by what is free now; unless that is to be the CPU it needs torch.

    Raises
    ------
    EngineError : when there is no such device as the person wishes.
    """
    cpu = FreeMemory("cpu", size_bounds.free_memory())
    chosen = cpu
    others: list[FreeMemory] = []
    if wish != "cpu":
        from engine.models.devices import choose_device, free_of_gpus

        device = choose_device(wish)
        if device.startswith("cuda"):
            chosen, *others = free_of_gpus(device, alone=wish not in ("auto", "cuda"))
        elif device != "cpu":
            chosen = FreeMemory(device, cpu.free)  # such a GPU shares the main memory
    return place_sentence(
        model, need, chosen, others, cpu,
        may_spread=wish in ("auto", "cuda"), has_accelerate=importlib.util.find_spec("accelerate") is not None,
    )  # fmt: skip


class WeightCount:
    """The bytes of a model's weights that are there, of all that it has, while it is being loaded.

    A model is made without memory first, and then each weight is put in its place.

    Attributes
    ----------
    done : bytes that are there.
    """

    def __init__(self) -> None:
        self.done = self._made = 0

    @property
    def total(self) -> int:
        """Bytes of all weights; 0 until the first is in its place, for until then the model is being made."""
        return self._made if self.done else 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the weights that this thread puts into modules."""
        from torch.nn.modules.module import register_module_parameter_registration_hook

        own = threading.get_ident()

        def count(module: nn.Module, name: str, parameter: Tensor | None) -> None:
            if parameter is None or threading.get_ident() != own:
                return
            if parameter.is_meta:
                self._made += parameter.nbytes
            elif self._made:
                self.done += parameter.nbytes

        hook = register_module_parameter_registration_hook(count)
        try:
            yield
        finally:
            hook.remove()


def need_memory(
    heads: int, queries: int, keys: int, copies: int = 1, *, seen: Callable[[], float] | None = None, states: int = 0
) -> None:
    """Refuse a sentence whose maps do not fit.

    Parameters
    ----------
    heads, queries, keys : of one layer's maps.
    copies : how many of them are held at a time while they are made.
    seen : gives the share of keys that queries see, where it can be known; what a mask hides takes no memory.
    states : bytes of queries, keys and values beside the maps.

    Raises
    ------
    EngineError : when there is less memory than they need.
    """
    free = size_bounds.free_memory()
    needed = heads * queries * keys * WEIGHT_BYTES
    if free is None or copies * needed + states <= free:
        return
    if seen is not None:
        rows = queries if heads_lie_together(heads, queries, keys) else heads * queries
        needed = min(needed, int(seen() * needed) + rows * mmap.PAGESIZE // 2)  # of a row the last page is half seen
    if copies * needed + states > free:
        while_made = f", {copies} times that while they are made," if copies > 1 else ""
        raise EngineError(
            f"one layer's maps of {quantity(max(queries, keys), 'token')} need {(needed + states) / 1e9:.1f} GB"
            f"{while_made} and {free / 1e9:.1f} GB are free; type a shorter sentence; the spectra still work"
        )


def need_memory_to_read(layers: Sequence[LayerOutline], config: Any, tokens: int, copies: int, itemsize: int) -> None:
    """Refuse a sentence of which no layer's maps would fit.

    Parameters
    ----------
    layers : those that attend.
    config : of the model; where it has layers of a window, they are the ones that fit first.
    tokens : of the sentence.
    copies : of a layer's maps, that are held while they are made; where it is one, what a mask hides takes no memory.
    itemsize : bytes of a number of queries, keys and values; 0 where they are not in main memory.

    Raises
    ------
    EngineError : when there is less memory than they need.
    """
    heads = max((layer.heads for layer in layers), default=1)
    width = max((layer.heads * layer.head_dim for layer in layers), default=0)
    blocks = BLOCKS if heads * tokens**2 * WEIGHT_BYTES > BLOCKS else 0
    seen = partial(_seen_share, layers, config, tokens) if copies == 1 else None
    need_memory(heads, tokens, tokens, copies, seen=seen, states=STATES * tokens * width * itemsize + blocks)


def _seen_share(layers: Sequence[LayerOutline], config: Any, tokens: int) -> float:
    """Give the share of keys that queries see through the narrowest window, of the tokens before or on both sides."""
    window = _narrowest_window(config, tokens)
    looks_back = all(layer.stack == "decoder" for layer in layers)
    begin = np.arange(tokens) // TOGETHER * TOGETHER
    first = np.maximum(begin - window, 0)
    end = np.minimum(begin + TOGETHER + (0 if looks_back else window), tokens)
    return float((end - first).mean() / tokens)


def _narrowest_window(config: Any, tokens: int) -> int:
    """Say how many tokens before, or on both sides, the queries of those layers see that see least.

    A configuration that says it of layers in both directions counts both sides together; here each counts alone, which
    is more than they see.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    settings = text.to_dict() if hasattr(text, "to_dict") else vars(text)  # some refuse to be asked for these
    found = [settings.get(name) for name in WINDOWS] if settings.get("use_sliding_window", True) else []
    return min((each for each in found if isinstance(each, int) and each > 0), default=tokens)


def heads_lie_together(heads: int, queries: int, keys: int) -> bool:
    """Say whether the maps of a layer are laid out so that the weights of all heads for a query and a key are one run.

    Memory comes in pages. A row of a short map has few of them, and most hold something that its query sees; with all
    heads' rows in one, about half of the pages are behind what the query sees. A single head is then read in steps,
    which costs more than memory gains where the rows are long by themselves, and where maps cross whole, to be gone
    through head by head while a person waits for a key.

    Examples
    --------
    >>> [heads_lie_together(12, tokens, tokens) for tokens in (512, 1024, 2**20)]
    [False, True, False]
    """
    is_short = keys * np.dtype(np.float32).itemsize < ROW_PAGES * mmap.PAGESIZE
    return heads > 1 and is_short and queries * keys > AT_ONCE


@contextmanager
def sparing_memory(model: nn.Module) -> Iterator[None]:
    """Make little beside what is kept of a long sentence for a while."""
    with activating_in_pieces(model), large_tensors_apart():
        yield


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
    result = numbers.new_empty(numbers.shape)
    for read, written in zip(numbers.view(-1).split(PIECE), result.view(-1).split(PIECE), strict=True):
        written.copy_(activation(read))
    return result


@contextmanager
def large_tensors_apart() -> Iterator[None]:
    """Put large tensors by themselves for a while, where the C library lets one choose."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
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
