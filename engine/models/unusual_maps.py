"""Attention modules that do not simply return their probabilities: what they return instead, and why some have no map.

Each is known by the name of its class in transformers, where what is said of it here can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from engine.models.returned import dense_band, returned_probabilities
from engine.values.display_text import counted

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


def probabilities(module: nn.Module, returned: Any, heads: int, tokens: int) -> Tensor | None:
    """Find the probabilities in what an attention module returned for one sentence.

    Parameters
    ----------
    module : the attention module.
    returned : all that it returned.
    heads : how many it has.
    tokens : of the sentence; modules that work in blocks pad it.

    Returns
    -------
    Tensor or None
        (1, heads, queries, keys), or None where there is nothing of that shape that sums to at most one.
    """
    kind = type(module).__name__
    if kind not in _CONVERSIONS:
        return returned_probabilities(returned, 1, heads)
    parts = tuple(returned.values()) if isinstance(returned, dict) else returned
    tensors = [part for part in parts if isinstance(part, Tensor)]
    found = _CONVERSIONS[kind](tensors, tokens) if tensors else None
    return None if found is None else returned_probabilities((found,), 1, heads)


def reason_without_map(module: nn.Module, returned: Any, heads: int, pairs: tuple[int, int]) -> str | None:
    """Say in a few words why what an attention module returned is no map of its heads over (queries, keys) tokens.

    None where it holds NaN or infinite numbers, which is for `engine.models.broken` to say.
    """
    known = REASONS.get(type(module).__name__)
    if known is not None:
        return known
    parts = returned if isinstance(returned, (tuple, list)) else ()
    others = [part.shape for part in parts if isinstance(part, Tensor) and part.ndim == 4]
    if others and others[-1][1] != heads:
        return f"it returns probabilities of {counted(others[-1][1], 'head')}, and its weights are cut into {heads}"
    if others and others[-1][2:] != pairs:
        return (
            f"it attends from {others[-1][2]} to {others[-1][3]} places, and the tokens are {pairs[0]} and {pairs[1]}"
        )
    if any(not bool(part.isfinite().all()) for part in parts if isinstance(part, Tensor)):
        return None
    return "it does not return its probabilities"


def _softmax_of_scores(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """Take the softmax of the masked scores that a module returns in place of its probabilities.

    ProphetNet's cross-attention has the queries of the sentence first, then those that predict further tokens.
    """
    scores = tensors[-1]
    return scores[:, :, :tokens].softmax(dim=-1) if scores.ndim == 4 else None


def _dense_band(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """Lay a band out, without what the module has padded; with global tokens there is a second part, and no map."""
    if len(tensors) != 2 or tensors[1].ndim != 4 or tensors[1].shape[-1] % 2 == 0:
        return None
    return dense_band(tensors[1])[..., :tokens, :tokens]


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
    return _scatter(rows, keys, tokens)


def _scatter(weights: Tensor, keys: Tensor, tokens: int) -> Tensor:
    """Put each query's weights (sentences, heads, queries, some) at its keys (queries, some); others are padding."""
    inside = (keys >= 0) & (keys < tokens)
    dense = weights.new_zeros(*weights.shape[:2], tokens, tokens)
    places = keys.clamp(0, tokens - 1).expand(weights.shape)
    return dense.scatter_add(-1, places, weights * inside)


_CONVERSIONS: Mapping[str, Callable[[list[Tensor], int], Tensor | None]] = {
    "LEDEncoderAttention": _dense_band,
    "LEDEncoderSelfAttention": _dense_band,
    "LongT5LocalAttention": _dense_blocks,
    "LongformerSelfAttention": _dense_band,
    "ProphetNetAttention": _softmax_of_scores,
    "SqueezeBertSelfAttention": _softmax_of_scores,
}


def longest_in_full(model: Any) -> int | None:
    """Say up to how many tokens BigBird attends in full though it is made for sparse blocks; None is without limit.

    The number is that of ``BigBirdModel.forward``: global, sliding and random blocks, and as many random ones to spare.
    """
    config = model.config
    if getattr(config, "attention_type", None) != "block_sparse" or not hasattr(config, "num_random_blocks"):
        return None
    return int((5 + 2 * config.num_random_blocks) * config.block_size)
