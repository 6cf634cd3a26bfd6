"""A layer's maps from blocks of queries, without a second copy of them in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.models.returned import four_dimensional, is_distribution
from engine.models.room import TOGETHER, Seen, need_room
from engine.models.waiting import at_hand, bring_back
from engine.models.zeros import maps_without_memory
from engine.values.errors import EngineError

BLOCK_BYTES = 1_000_000
"""Of the scores of one block of queries: few enough to stay near the processor, and enough to keep it busy."""

FEWEST_QUERIES = 16
"""Of a block of a sentence so long that it has more scores: with fewer, most of the time goes into beginning."""

HIDING = -9999.0
"""What a mask adds at most to the score of a key that is hidden."""

TRIED_TOKENS = 24
"""Of a sentence, with which an eager function is tried in blocks and at once."""

Attended = tuple[Tensor, Tensor | None]
States = tuple[Tensor, Tensor, Tensor, Tensor | None]
Eager = Callable[..., Attended]


class Unsuitable(Exception):
    """An attention module that does more with its probabilities than to make them and hand them on."""


def nothing_told(done: int, total: int) -> None:
    """Tell nobody how far a layer is."""


class Gathering:
    """One float32 array (heads, queries, keys), into which the blocks of a layer go; those of further layers are added.

    What a mask hides, half of the weights where queries look back only, is zero and is never written: it takes no
    memory.

    Parameters
    ----------
    buffer : an array that nobody looks at any more, to be used again where it has the right shape.
    told : called with how many of how many queries of a layer are there.
    """

    def __init__(
        self, buffer: NDArray[np.float32] | None = None, told: Callable[[int, int], None] = nothing_told
    ) -> None:
        self._array, self._told = buffer, told
        self._is_zero = False  # what has not been written since
        self._layers = 0
        self._stand_in: Tensor | None = None
        self._expected: tuple[int, int, int] | None = None
        self._attended: tuple[Eager, nn.Module, States, dict[str, Any]] | None = None
        self._is_valid = True
        self._has_begun = False  # the layer that was said to come next

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
        self._is_zero = False
        if self._array is None or self._array.shape != shape:
            if self._layers:
                raise EngineError("the layers' maps differ in their shape, so there is no mean over layers")
            self._array = None  # before there is another one
            try:
                need_room(*shape)
            except EngineError:
                if mask is None:
                    raise
                need_room(*shape, seen=seen_through(mask, *shape[1:]))
            self._array, self._is_zero = maps_without_memory(shape), True
        self._layers += 1
        self._has_begun = True

    def put(self, first: int, block: Tensor) -> None:
        """Take in a block (heads, some queries, keys) that begins with the query ``first``."""
        assert self._array is not None, "a layer begins before its blocks come"
        self._is_valid = self._is_valid and is_distribution(block)
        array = torch.from_numpy(self._array)
        for number, part in enumerate(block.split(TOGETHER, 1)):
            start = first + number * TOGETHER
            self._put(start, part, array[:, start : start + part.shape[1]])
        self._told(first + block.shape[1], array.shape[1])

    def _put(self, first: int, block: Tensor, place: Tensor) -> None:
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

    def expect(self, shape: tuple[int, int, int]) -> None:
        """Say what `attend` is to be called for next."""
        self._expected, self._stand_in, self._attended = shape, None, None
        self._is_valid, self._has_begun = True, False

    def attend(self, eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> Attended:
        """Keep what an eager function is called with, and give in place of its results what stands for them.

        Raises
        ------
        Unsuitable : when a module attends twice, or to other places than expected.
        """
        query, key, value, mask = states
        shape = heads, queries, _ = query.shape[1], query.shape[2], key.shape[2]
        if self._stand_in is not None or shape != self._expected:
            raise Unsuitable
        self._stand_in = query.new_zeros(()).expand(1, *shape)
        # Nobody looks at what the heads would write, so the eager function mixes one column of the values only.
        self._attended = eager, module, (query, key, value[..., :1].contiguous(), mask), settings
        return value.new_zeros(()).expand(1, queries, heads, value.shape[-1]), self._stand_in

    def was_handed_on(self, returned: Any) -> bool:
        """Say whether an attention module that has returned handed on what it got from `attend`.

        Queries and keys are laid together then: what lies apart would be so for every block anew, and keeps in memory
        what it lies between.
        """
        found = four_dimensional(returned)
        if self._stand_in is None or not found or found[-1].data_ptr() != self._stand_in.data_ptr():
            self._attended = None
            return False
        assert self._attended is not None  # since there is what stands in for its results
        eager, module, (query, key, value, mask), settings = self._attended
        self._attended = eager, module, (query.contiguous(), key.contiguous(), value, mask), settings
        return True

    def make(self, breathe: Callable[[], None]) -> bool:
        """Compute the probabilities that `attend` was called for, and say whether all of them can be such.

        The module has returned by then, so that of what it made on the way nothing is held but queries and keys.

        Raises
        ------
        Unsuitable : when they cannot be had.
        """
        assert self._attended is not None, "a module attends before its maps are made"
        assert self._expected is not None
        (eager, module, states, settings), self._attended = self._attended, None
        self.begin(self._expected, states[3])
        with at_hand(module):
            in_blocks(eager, module, states, settings, breathe, self.put)
        return self._is_valid

    def undo(self) -> None:
        """Forget the layer that was begun.

        Raises
        ------
        EngineError : when it has been added to others.
        """
        if self._has_begun:
            self._layers -= 1
            if self._layers:
                raise EngineError(
                    "some layers' maps cannot be had in parts, so there is no mean over layers; try again"
                )

    def mean(self) -> NDArray[np.float32]:
        """Give the mean over the layers that were gathered."""
        assert self._array is not None, "nothing was gathered"
        if self._layers > 1:
            for some in torch.from_numpy(self._array).split(TOGETHER, 1):
                some[..., _seen_keys(some)] /= self._layers
        return self._array


def seen_through(mask: Tensor, queries: int, keys: int) -> Seen:
    """Find what a mask, which broadcasts to (sentences, heads, queries, keys), lets queries see."""
    first, end = np.zeros(queries, np.int64), np.zeros(queries, np.int64)
    for start in range(0, queries, TOGETHER):
        some = mask if mask.shape[-2] == 1 else mask[..., start : start + TOGETHER, :]
        is_seen = some if some.dtype == torch.bool else some > HIDING
        found = is_seen.expand(*is_seen.shape[:-1], keys).flatten(0, -2).any(0).nonzero()
        if len(found):
            first[start : start + TOGETHER], end[start : start + TOGETHER] = int(found[0]), int(found[-1]) + 1
    return Seen(first, end)


def _seen_keys(weights: Tensor) -> slice:
    """Find the keys from the first to the last that gets any of some weights (heads, some queries, keys)."""
    seen = weights.amax((0, 1)).nonzero()  # none is below zero, and NaN is not zero
    return slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 0)


def in_blocks(
    eager: Eager,
    module: nn.Module,
    states: States,
    settings: dict[str, Any],
    breathe: Callable[[], None],
    take: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """Compute an eager function for some queries after the other, where that changes nothing.

    Parameters
    ----------
    eager : a model's own function, as transformers' attention interface calls it.
    module, states, settings : what it is called with, for one sentence.
    breathe : called between blocks; it may raise to give up.
    take : gets each block's first query and its probabilities (heads, some queries, keys).

    Returns
    -------
    attended : (sentences, queries, heads, head_dim)

    Raises
    ------
    Unsuitable : when the function does not return its probabilities, and they are to be taken.
    """
    query, key, value, mask = states
    queries = query.shape[2]
    size = max(BLOCK_BYTES // (query.shape[1] * key.shape[2] * query.element_size()), FEWEST_QUERIES)
    if size < queries and not _goes_by_queries(eager, module, states, settings):
        size = queries
    attended: Tensor | None = None
    for first in range(0, queries, size):
        breathe()
        bring_back(module)
        some = slice(first, first + size)
        part = mask if mask is None or mask.shape[2] == 1 else mask[:, :, some]
        block, weights = eager(module, query[:, :, some], key, value, part, **settings)
        if attended is None:  # one tensor from the start: small ones kept between large ones would scatter the heap
            attended = block.new_empty(block.shape[0], queries, *block.shape[2:])
        attended[:, some] = block
        if take is not None:
            if weights is None or weights.ndim != 4:
                raise Unsuitable
            take(first, weights[0])
        del weights  # before there are those of the next block
    assert attended is not None  # a sentence has tokens
    return attended


def _goes_by_queries(eager: Eager, module: nn.Module, states: States, settings: dict[str, Any]) -> bool:
    """Say whether an eager function computes each query's row without the others, tried on the first tokens."""
    query, key, value, mask = states
    count = min(TRIED_TOKENS, query.shape[2], key.shape[2])
    if mask is not None:
        mask = mask[..., :count] if mask.shape[2] == 1 else mask[:, :, :count, :count]
    key, value = key[:, :, :count], value[:, :, :count]

    def compute(some: slice) -> Attended:
        part = mask if mask is None or mask.shape[2] == 1 else mask[:, :, some]
        return eager(module, query[:, :, some], key, value, part, **settings)

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
