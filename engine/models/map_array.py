"""A layer's maps, filled in block after block of queries, without a second copy of them in memory."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.models.memory import TOGETHER, heads_lie_together, need_memory
from engine.values.errors import EngineError
from engine.values.heads import Head

HIDING = -9999.0
"""What a mask adds at most to the score of a key that is hidden."""


class MapArray:
    """One float32 array (heads, queries, keys), into which a layer's blocks go; those of further layers are added.

    What a mask hides, half of the weights where queries look back only, is zero and is never written: it takes no
    memory.

    Parameters
    ----------
    buffer : an array that nobody looks at any more, to be used again where it has the right shape.
    report : called with how many of how many queries of a layer are there; None reports nothing.
    """

    def __init__(
        self, buffer: NDArray[np.float32] | None = None, report: Callable[[int, int], None] | None = None
    ) -> None:
        self._array, self._report = buffer, report
        self._is_zero = False  # what has not been written since
        self._layers: list[Head] = []

    def begin(self, layer: Head, shape: tuple[int, int, int], mask: Tensor | None = None) -> None:
        """Begin with a layer, or once more with the one that was begun last.

        Parameters
        ----------
        layer : whose maps come.
        shape : heads, queries, keys.
        mask : what will be added to the scores, if it is known; what it hides takes no memory.

        Raises
        ------
        EngineError : when there is no room for it, it has another shape than the layers before, or some of it has been
            added to them already.
        """
        self._is_zero = False
        if self._layers[-1:] == [layer]:
            self._layers.pop()
            if self._layers:
                raise EngineError(
                    "some layers' maps cannot be had in parts, so there is no mean over layers; try again"
                )
        if self._array is None or self._array.shape != shape:
            if self._layers:
                raise EngineError("the layers' maps differ in their shape, so there is no mean over layers")
            self._array = None  # before there is another one
            try:
                need_memory(*shape)
            except EngineError:
                if mask is None:
                    raise
                need_memory(*shape, seen=seen_through(mask, *shape[1:]))
            self._array, self._is_zero = maps_of_zeros(shape), True
        self._layers.append(layer)

    def put(self, first: int, block: Tensor) -> None:
        """Take in a block (heads, some queries, keys) that begins with the query ``first``.

        Of queries that are written together it writes the keys from the first that any of them looks at to the last.
        """
        assert self._array is not None, "a layer begins before its blocks come"
        places = torch.from_numpy(self._array)[:, first : first + block.shape[1]]
        for some, place in zip(block.split(TOGETHER, 1), places.split(TOGETHER, 1), strict=True):
            seen = _seen_keys(some)
            if len(self._layers) > 1:
                place[..., seen] += some[..., seen].to(place)
                continue
            if not self._is_zero:
                for hidden in (place[..., : seen.start], place[..., seen.stop :]):
                    if bool(hidden.any()):  # it is read, which takes no memory where it was never written
                        hidden.zero_()
            place[..., seen].copy_(some[..., seen])
        if self._report is not None:
            self._report(first + block.shape[1], self._array.shape[1])

    def mean(self) -> NDArray[np.float32]:
        """Give the mean over the layers that were put in: (heads, queries, keys)."""
        assert self._array is not None, "nothing was put in"
        if len(self._layers) > 1:
            for some in torch.from_numpy(self._array).split(TOGETHER, 1):
                some[..., _seen_keys(some)] /= len(self._layers)
        return self._array


def seen_through(mask: Tensor, queries: int, keys: int) -> float:
    """Give the share of keys that a mask, which broadcasts to (sentences, heads, queries, keys), lets queries see.

    Of queries that are written together it counts the keys from the first that any of them sees to the last.
    """
    seen = 0
    for start in range(0, queries, TOGETHER):
        some = mask if mask.shape[-2] == 1 else mask[..., start : start + TOGETHER, :]
        is_seen = some if some.dtype == torch.bool else some > HIDING
        found = is_seen.expand(*is_seen.shape[:-1], keys).flatten(0, -2).any(0).nonzero()
        if len(found):
            seen += min(TOGETHER, queries - start) * (int(found[-1]) + 1 - int(found[0]))
    return seen / (queries * keys)


def _seen_keys(weights: Tensor) -> slice:
    """Find the keys from the first to the last that gets any of some weights (heads, some queries, keys)."""
    seen = weights.amax((0, 1)).nonzero()  # none is below zero, and NaN is not zero
    return slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 0)


def maps_of_zeros(shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Make room for a layer's maps (heads, queries, keys): zeros, laid out so that what a mask hides takes little.

    The operating system fills them with memory page by page, where they are written; what is read before takes none.
    NumPy's own arrays ask for pages of two mebibytes, of which a row of a map would take all for the half that its mask
    lets it use.

    Examples
    --------
    >>> maps_of_zeros((3, 1000, 1000)).strides
    (4, 12000, 12)
    """
    heads, queries, keys = shape
    numbers = math.prod(shape)
    size = max(1, numbers * np.dtype(np.float32).itemsize)
    if sys.platform == "win32":
        pages = mmap.mmap(-1, size)
    else:  # pages of a mapping that may be shared would be filled by reading them
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # of Linux, where pages may be large unasked
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    zeros = np.frombuffer(pages, np.float32, numbers)
    if heads_lie_together(*shape):
        return zeros.reshape(queries, keys, heads).transpose(2, 0, 1)
    return zeros.reshape(shape)
