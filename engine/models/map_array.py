"""A layer's maps, filled in block after block of queries, without a second copy of them in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.models.map_forms import is_distribution
from engine.models.memory import TOGETHER, maps_of_zeros, need_memory
from engine.values.errors import EngineError

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

    Attributes
    ----------
    is_valid : whether all blocks of the layer that was begun last can be probabilities.
    """

    def __init__(
        self, buffer: NDArray[np.float32] | None = None, report: Callable[[int, int], None] | None = None
    ) -> None:
        self._array, self._report = buffer, report
        self._is_zero = False  # what has not been written since
        self._layers = 0
        self.is_valid = True

    def begin(self, shape: tuple[int, int, int], mask: Tensor | None = None) -> None:
        """Begin with a layer.

        Parameters
        ----------
        shape : heads, queries, keys.
        mask : what will be added to the scores, if it is known; what it hides takes no memory.

        Raises
        ------
        EngineError : when there is no room for it, or it has another shape than the layers before.
        """
        self._is_zero, self.is_valid = False, True
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
        self._layers += 1

    def put(self, first: int, block: Tensor) -> None:
        """Take in a block (heads, some queries, keys) that begins with the query ``first``."""
        assert self._array is not None, "a layer begins before its blocks come"
        self.is_valid = self.is_valid and is_distribution(block)
        array = torch.from_numpy(self._array)
        for number, part in enumerate(block.split(TOGETHER, 1)):
            start = first + number * TOGETHER
            self._put(part, array[:, start : start + part.shape[1]])
        if self._report is not None:
            self._report(first + block.shape[1], array.shape[1])

    def _put(self, block: Tensor, place: Tensor) -> None:
        """Write some queries' weights, or add them, from the first key that any of them gives some to to the last."""
        seen = _seen_keys(block)
        if self._layers > 1:
            place[..., seen] += block[..., seen].to(place)
        else:
            if not self._is_zero:
                for hidden in (place[..., : seen.start], place[..., seen.stop :]):
                    if bool(hidden.any()):  # it is read, which takes no memory where it was never written
                        hidden.zero_()
            place[..., seen].copy_(block[..., seen])

    def undo(self) -> None:
        """Forget the layer that was begun last.

        Raises
        ------
        EngineError : when it has been added to others.
        """
        self._layers -= 1
        if self._layers:
            raise EngineError("some layers' maps cannot be had in parts, so there is no mean over layers; try again")

    def mean(self) -> NDArray[np.float32]:
        """Give the mean over the layers that were put in: (heads, queries, keys)."""
        assert self._array is not None, "nothing was put in"
        if self._layers > 1:
            for some in torch.from_numpy(self._array).split(TOGETHER, 1):
                some[..., _seen_keys(some)] /= self._layers
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
