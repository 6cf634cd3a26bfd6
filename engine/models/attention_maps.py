"""A layer's attention maps: found among what its module returns, and laid into one array.

Most modules return their probabilities as their last four-dimensional tensor. Others are known by the name of their
class in transformers, where what is said of them here can be read.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.models.memory import TOGETHER, heads_lie_together, need_memory
from engine.values.attention import AT_ONCE
from engine.values.display_text import quantity
from engine.values.errors import EngineError

SLACK = {torch.bfloat16: 0.05, torch.float16: 0.05}
"""How far rounding may bring a sum of probabilities from one, by dtype; a thousandth in wider types."""

REASONS: Mapping[str, str] = {
    "BigBirdBlockSparseAttention": "it attends in sparse blocks, some of them random",
    "CpmAntAttention": "it attends to prompt tokens of its own too, which are no tokens of the sentence",
    "FunnelRelMultiheadAttention": "its queries are pools of several tokens",
    "LSHSelfAttention": "it attends within buckets of similar tokens, found by hashing",
    "LocalSelfAttention": "it attends in chunks of a longer sentence",
    "LongT5TransientGlobalAttention": "it attends to summaries of blocks too, which are no tokens",
    "LongformerSelfAttention": "some of its tokens attend globally, with other weights than the rest",
    "MraSelfAttention": "it approximates its attention at several resolutions and never has the probabilities",
    "NystromformerSelfAttention": "it approximates its attention through landmarks and never has the probabilities",
    "PegasusXGlobalLocalAttention": "it attends to global states of its own too, which are no tokens",
    "PerceiverSelfAttention": "its queries are latents, which are no tokens",
    "YosoSelfAttention": "it estimates its attention by hashing and never has the probabilities",
}
"""Why there is no map of tokens by tokens, by attention class."""


def probabilities_of(module: nn.Module, returned: Any, heads: int, tokens: int, sentences: int = 1) -> Tensor | None:
    """Find the probabilities in what an attention module returned.

    Parameters
    ----------
    module : the attention module.
    returned : all that it returned.
    heads : how many it has.
    tokens : of a sentence; modules that work in blocks pad it.
    sentences : how many it read.

    Returns
    -------
    Tensor or None
        (sentences, heads, queries, keys), or None where there is nothing of that shape that sums to at most one.
    """
    kind = type(module).__name__
    if kind not in _CONVERSIONS:
        return returned_probabilities(returned, sentences, heads)
    parts = tuple(returned.values()) if isinstance(returned, dict) else returned
    tensors = [part for part in parts if isinstance(part, Tensor)]
    found = _CONVERSIONS[kind](tensors, tokens) if tensors else None
    return None if found is None else returned_probabilities((found,), sentences, heads)


def reason_without_map(module: nn.Module, returned: Any, heads: int, pairs: tuple[int, int]) -> str | None:
    """Say in a few words why what an attention module returned is no map of its heads over (queries, keys) tokens.

    None where it holds NaN or infinite numbers, which is for `engine.models.loaded_model` to say.
    """
    known = REASONS.get(type(module).__name__)
    if known is not None:
        return known
    parts = returned if isinstance(returned, (tuple, list)) else ()
    others = [part.shape for part in parts if isinstance(part, Tensor) and part.ndim == 4]
    if others and others[-1][1] != heads:
        return f"it returns probabilities of {quantity(others[-1][1], 'head')}, and its weights are cut into {heads}"
    if others and others[-1][2:] != pairs:
        return (
            f"it attends from {others[-1][2]} to {others[-1][3]} places, and the tokens are {pairs[0]} and {pairs[1]}"
        )
    if any(not bool(part.isfinite().all()) for part in parts if isinstance(part, Tensor)):
        return None
    return "it does not return its probabilities"


def returned_probabilities(returned: Any, sentences: int, heads: int) -> Tensor | None:
    """Pick the probabilities (sentences, heads, queries, keys) out of what an attention module returns.

    They are its last four-dimensional tensor: T5 returns its position bias, of the same shape, before them. Where a
    softmax goes over two kinds of keys, each has its part of it.
    """
    found = four_dimensional(returned)
    if found and found[-1].shape[:2] != (sentences, heads):
        found = [_by_head(found[-1], sentences, heads)]
    if not found or found[-1].shape[:2] != (sentences, heads):
        return None
    last = found[-1]
    slack = SLACK.get(last.dtype, 1e-3)
    if len(found) > 1 and found[-2].shape[:3] == last.shape[:3]:
        both = torch.cat([found[-2], last], -1)
        is_part = bool((last.sum(-1) < 1 - slack).all())
        if is_part and bool((both >= 0).all()) and bool(((both.sum(-1) - 1).abs() <= slack).all()):
            return both
    return last if is_distribution(last) else None


def is_distribution(weights: Tensor) -> bool:
    """Say whether weights (…, keys) can be probabilities: none below zero, and no sum above one."""
    return bool(weights.amin() >= 0) and bool(weights.sum(-1).amax() <= 1 + SLACK.get(weights.dtype, 1e-3))


def four_dimensional(returned: Any) -> list[Tensor]:
    """List the four-dimensional tensors that a module returns; of a tuple of tuples, those of the first."""
    parts = list(returned.values()) if isinstance(returned, dict) else returned
    parts = parts if isinstance(parts, (tuple, list)) else ()
    if parts and all(isinstance(part, tuple) for part in parts):
        parts = parts[0]
    return [part for part in parts if isinstance(part, Tensor) and part.ndim == 4]


def _by_head(part: Tensor, sentences: int, heads: int) -> Tensor:
    """Bring other orders into (sentences, heads, queries, keys): XLNet's, and Longformer's band around each query."""
    is_band = part.shape[0] == sentences and part.shape[2] == heads and part.shape[3] % 2 == 1
    if not is_band or part.shape[2:] == (sentences, heads):
        return part.permute(2, 3, 0, 1)
    return _dense_band(part)


def _dense_band(part: Tensor) -> Tensor:
    """Lay a band out on the diagonal (Beltagy et al. 2020, Longformer): entry j of row i is key i + j − window.

    Parameters
    ----------
    part : (sentences, queries, heads, 2 · window + 1); in the middle of its last axis is what a query gives itself.

    Returns
    -------
    weights : (sentences, heads, queries, queries)
    """
    band = part.transpose(1, 2)  # (sentences, heads, queries, 2 · window + 1)
    queries, width = band.shape[2:]
    places = torch.arange(queries, device=band.device)[:, None] + torch.arange(width, device=band.device)
    wide = band.new_zeros(*band.shape[:2], queries, queries + width - 1)
    window = width // 2
    return wide.scatter(-1, places.expand_as(band), band)[..., window : window + queries]


def _softmax_of_scores(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """Take the softmax of the masked scores that a module returns in place of its probabilities.

    ProphetNet's cross-attention has the queries of the sentence first, then those that predict further tokens.
    """
    scores = tensors[-1]
    return scores[:, :, :tokens].softmax(dim=-1) if scores.ndim == 4 else None


def _band_without_padding(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """Lay a band out, without what the module has padded; with global tokens there is a second part, and no map."""
    if len(tensors) != 2 or tensors[1].ndim != 4 or tensors[1].shape[-1] % 2 == 0:
        return None
    return _dense_band(tensors[1])[..., :tokens, :tokens]


def _dense_blocks(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """Lay blocks out in place, each with the keys of the block before, its own and the next (Guo et al. 2022, LongT5).

    They are (sentences, blocks, heads, block, 3 · block).
    """
    blocks = tensors[-1]
    if blocks.ndim != 5 or blocks.shape[-1] != 3 * blocks.shape[-2]:
        return None
    length = blocks.shape[-2]
    rows = blocks.transpose(1, 2).flatten(2, 3)[:, :, :tokens]  # (sentences, heads, queries, 3 · block)
    queries = torch.arange(tokens, device=rows.device)[:, None]
    keys = (queries // length - 1) * length + torch.arange(3 * length, device=rows.device)  # (queries, 3 · block)
    is_token = (keys >= 0) & (keys < tokens)  # others are padding
    dense = rows.new_zeros(*rows.shape[:2], tokens, tokens)
    return dense.scatter_add(-1, keys.clamp(0, tokens - 1).expand(rows.shape), rows * is_token)


_CONVERSIONS: Mapping[str, Callable[[list[Tensor], int], Tensor | None]] = {
    "LEDEncoderAttention": _band_without_padding,
    "LEDEncoderSelfAttention": _band_without_padding,
    "LongT5LocalAttention": _dense_blocks,
    "LongformerSelfAttention": _band_without_padding,
    "ProphetNetAttention": _softmax_of_scores,
    "SqueezeBertSelfAttention": _softmax_of_scores,
}


def attend_in_full(model: Any) -> None:
    """Let every token of a model with block-sparse attention see all others, as BigBird does for short sentences.

    It replaces attention modules, so that those found before are no longer the model's.
    """
    for module in list(model.modules()):
        if hasattr(module, "set_attention_type"):
            module.set_attention_type("original_full")


def longest_in_full(model: Any) -> int | None:
    """Say up to how many tokens BigBird attends in full though it is made for sparse blocks; None is without limit.

    The number is that of ``BigBirdModel.forward``: global, sliding and random blocks, and as many random ones to spare.
    """
    config = model.config
    if getattr(config, "attention_type", None) != "block_sparse" or not hasattr(config, "num_random_blocks"):
        return None
    return int((5 + 2 * config.num_random_blocks) * config.block_size)


Check = Callable[[], None]
"""Called between the steps of long work; it raises to give up."""


# The array


HIDING = -9999.0
"""What a mask adds at most to the score of a key that is hidden."""


class MapArray:
    """One float32 array (heads, queries, keys), into which a layer's blocks go, or the mean over several layers'.

    What a mask hides, half of the weights where queries look back only, is zero and is never written: it takes no
    memory. There is never a second copy of the maps.

    Parameters
    ----------
    buffer : an array that nobody looks at any more, to be used again where it has the right shape.
    layers : of how many layers this is the mean.
    report : called with how many of how many queries of a layer are there; None reports nothing.

    Attributes
    ----------
    weights : the array, once a layer has begun.
    """

    weights: NDArray[np.float32]

    def __init__(
        self,
        buffer: NDArray[np.float32] | None = None,
        layers: int = 1,
        report: Callable[[int, int], None] | None = None,
    ) -> None:
        self._buffer, self._layers, self._report = buffer, layers, report
        self._begun = 0
        self._is_zero = False  # what has not been written since

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
        self._begun += 1
        if self._begun > 1:
            if self.weights.shape != shape:
                raise EngineError("the layers' maps differ in their shape, so there is no mean over layers")
        elif self._buffer is not None and self._buffer.shape == shape:
            self.weights = self._buffer
        else:
            need_memory(*shape, seen=None if mask is None else partial(seen_through, mask, *shape[1:]))
            is_small = shape[1] * shape[2] <= AT_ONCE
            self.weights = np.zeros(shape, np.float32) if is_small else pages_of_zeros(shape)
            self._is_zero = True

    def put(self, first: int, block: Tensor) -> None:
        """Take in a block (heads, some queries, keys) that begins with the query ``first``.

        Of queries that are written together it writes the keys from the first that any of them looks at to the last.
        """
        places = torch.from_numpy(self.weights)[:, first : first + block.shape[1]]
        for some, place in zip(block.split(TOGETHER, 1), places.split(TOGETHER, 1), strict=True):
            looked_at = some.amax((0, 1)).nonzero()  # none is below zero, and NaN is not zero
            seen = slice(int(looked_at[0]), int(looked_at[-1]) + 1) if len(looked_at) else slice(0, 0)
            part = some[..., seen] if self._layers == 1 else some[..., seen].to(place) / self._layers
            if self._begun > 1:
                place[..., seen] += part
                continue
            if not self._is_zero:
                for hidden in (place[..., : seen.start], place[..., seen.stop :]):
                    if bool(hidden.any()):  # it is read, which takes no memory where it was never written
                        hidden.zero_()
            place[..., seen].copy_(part)
        if self._report is not None:
            self._report(first + block.shape[1], self.weights.shape[1])


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


def pages_of_zeros(shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Make room for large maps (heads, queries, keys): zeros, laid out so that what a mask hides takes little.

    The operating system fills them with memory page by page, where they are written; what is read before takes none.
    NumPy's own arrays ask for pages of two mebibytes, of which a row of a map would take all for the half that its mask
    lets it use.

    Examples
    --------
    >>> pages_of_zeros((3, 1000, 1000)).strides
    (4, 12000, 12)
    """
    heads, queries, keys = shape
    numbers = math.prod(shape)
    size = numbers * np.dtype(np.float32).itemsize
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
