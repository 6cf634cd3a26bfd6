"""A layer's attention maps: finding them in what its module returns, and storing them in one array.

Most modules return their probabilities as their last four-dimensional tensor. The others are listed here by their class
in transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.values import memory
from engine.values.display_text import quantity
from engine.values.errors import EngineError

SUM_SLACK = {torch.bfloat16: 0.05, torch.float16: 0.05}
"""How far a sum of probabilities may be from one by rounding, by dtype; a thousandth in wider types."""

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
"""Why a class of attention modules has no map of tokens by tokens."""


def probabilities_of(module: nn.Module, returned: Any, heads: int, tokens: int, sentences: int = 1) -> Tensor | None:
    """Find the probabilities (sentences, heads, queries, keys) in what an attention module returned.

    Modules that work in blocks pad the sentence, which has ``tokens`` keys. Gives None where nothing has this shape and
    sums to at most one.
    """
    kind = type(module).__name__
    if kind not in _CONVERSIONS:
        return returned_probabilities(returned, sentences, heads)
    parts = tuple(returned.values()) if isinstance(returned, dict) else returned
    tensors = [part for part in parts if isinstance(part, Tensor)]
    found = _CONVERSIONS[kind](tensors, tokens) if tensors else None
    return None if found is None else returned_probabilities((found,), sentences, heads)


def reason_without_map(module: nn.Module, returned: Any, heads: int, queries: int, keys: int) -> str | None:
    """Say why what an attention module returned is no map of its heads over queries and keys.

    None where it holds NaN or infinite numbers; `engine.models.loaded_model.why_no_numbers` explains these.
    """
    known = REASONS.get(type(module).__name__)
    if known is not None:
        return known
    parts = returned if isinstance(returned, (tuple, list)) else ()
    others = [part.shape for part in parts if isinstance(part, Tensor) and part.ndim == 4]
    if others and others[-1][1] != heads:
        return f"it returns probabilities of {quantity(others[-1][1], 'head')}, but its weights have {heads}"
    if others and others[-1][2:] != (queries, keys):
        return f"it attends from {others[-1][2]} to {others[-1][3]} places, and the tokens are {queries} and {keys}"
    if any(not bool(part.isfinite().all()) for part in parts if isinstance(part, Tensor)):
        return None
    return "it does not return its probabilities"


def returned_probabilities(returned: Any, sentences: int, heads: int) -> Tensor | None:
    """Pick the probabilities (sentences, heads, queries, keys) out of what an attention module returns.

    They are its last four-dimensional tensor: T5 returns its position bias, of the same shape, before them. A softmax
    over two kinds of keys is returned in two parts.
    """
    parts = list(returned.values()) if isinstance(returned, dict) else returned
    parts = parts if isinstance(parts, (tuple, list)) else ()
    if parts and all(isinstance(part, tuple) for part in parts):
        parts = parts[0]
    found = [part for part in parts if isinstance(part, Tensor) and part.ndim == 4]
    if found and found[-1].shape[:2] != (sentences, heads):
        found = [_by_head(found[-1], sentences, heads)]
    if not found or found[-1].shape[:2] != (sentences, heads):
        return None
    last = found[-1]
    slack = SUM_SLACK.get(last.dtype, 1e-3)
    if len(found) > 1 and found[-2].shape[:3] == last.shape[:3]:
        both = torch.cat([found[-2], last], -1)
        is_part = bool((last.sum(-1) < 1 - slack).all())
        if is_part and bool((both >= 0).all()) and bool(((both.sum(-1) - 1).abs() <= slack).all()):
            return both
    return last if is_distribution(last) else None


def is_distribution(weights: Tensor) -> bool:
    """Say whether weights (…, keys) can be probabilities: none is negative, and no sum is above one."""
    return bool(weights.amin() >= 0) and bool(weights.sum(-1).amax() <= 1 + SUM_SLACK.get(weights.dtype, 1e-3))


def _by_head(part: Tensor, sentences: int, heads: int) -> Tensor:
    """Convert XLNet's order of axes, or Longformer's band around each query, to (sentences, heads, queries, keys)."""
    is_band = part.shape[0] == sentences and part.shape[2] == heads and part.shape[3] % 2 == 1
    if not is_band or part.shape[2:] == (sentences, heads):
        return part.permute(2, 3, 0, 1)
    return _dense_band(part)


def _dense_band(part: Tensor) -> Tensor:
    """Place a band (sentences, queries, heads, 2 · window + 1) on the diagonal: (sentences, heads, queries, queries).

    Entry j of row i is key i + j − window (Beltagy et al. 2020, Longformer).
    """
    band = part.transpose(1, 2)  # (sentences, heads, queries, 2 · window + 1)
    queries, width = band.shape[2:]
    places = torch.arange(queries, device=band.device)[:, None] + torch.arange(width, device=band.device)
    wide = band.new_zeros(*band.shape[:2], queries, queries + width - 1)
    window = width // 2
    return wide.scatter(-1, places.expand_as(band), band)[..., window : window + queries]


def _softmax_of_scores(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """ProphetNet's cross-attention puts the queries that predict further tokens after those of the sentence."""
    scores = tensors[-1]
    return scores[:, :, :tokens].softmax(dim=-1) if scores.ndim == 4 else None


def _band_without_padding(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """With global tokens there is a second part, and no map."""
    if len(tensors) != 2 or tensors[1].ndim != 4 or tensors[1].shape[-1] % 2 == 0:
        return None
    return _dense_band(tensors[1])[..., :tokens, :tokens]


def _dense_blocks(tensors: list[Tensor], tokens: int) -> Tensor | None:
    """Place blocks (sentences, blocks, heads, block, 3 · block) on the diagonal (Guo et al. 2022, LongT5).

    A block has the keys of the block before, its own and those of the next.
    """
    blocks = tensors[-1]
    if blocks.ndim != 5 or blocks.shape[-1] != 3 * blocks.shape[-2]:
        return None
    length = blocks.shape[-2]
    rows = blocks.transpose(1, 2).flatten(2, 3)[:, :, :tokens]  # (sentences, heads, queries, 3 · block)
    queries = torch.arange(tokens, device=rows.device)[:, None]
    keys = (queries // length - 1) * length + torch.arange(3 * length, device=rows.device)  # (queries, 3 · block)
    is_token = (keys >= 0) & (keys < tokens)  # the others are padding
    dense = rows.new_zeros(*rows.shape[:2], tokens, tokens)
    return dense.scatter_add(-1, keys.clamp(0, tokens - 1).expand(rows.shape), rows * is_token)


_CONVERSIONS: Mapping[str, Callable[[list[Tensor], int], Tensor | None]] = {
    "LEDEncoderSelfAttention": _band_without_padding,
    "LongT5LocalAttention": _dense_blocks,
    "LongformerSelfAttention": _band_without_padding,
    "ProphetNetAttention": _softmax_of_scores,
    "SqueezeBertSelfAttention": _softmax_of_scores,
}


def attend_in_full(model: Any) -> None:
    """Give a model with block-sparse attention full attention, as BigBird has for short sentences.

    This replaces its attention modules.
    """
    for module in list(model.modules()):
        if hasattr(module, "set_attention_type"):
            module.set_attention_type("original_full")


def longest_in_full(model: Any) -> int | None:
    """Give the longest sentence, in tokens, to which a block-sparse BigBird attends in full; None for any length.

    The formula is that of ``BigBirdModel.forward``: global, sliding and twice the random blocks.
    """
    config = model.config
    if getattr(config, "attention_type", None) != "block_sparse" or not hasattr(config, "num_random_blocks"):
        return None
    return int((5 + 2 * config.num_random_blocks) * config.block_size)


UNCHECKED_BYTES = 2**24
"""Bytes that are taken to be free wherever a model is loaded."""


def need_memory(heads: int, queries: int, keys: int, copies: int = 1, *, states: int = 0) -> None:
    """Raise `EngineError` where ``copies`` of one layer's maps and ``states`` further bytes do not fit into memory."""
    needed = heads * queries * keys * np.dtype(np.float32).itemsize
    free = memory.free_memory() if copies * needed + states > UNCHECKED_BYTES else None
    if free is not None and copies * needed + states > free:
        while_made = f", {copies} times that while they are made," if copies > 1 else ""
        raise EngineError(
            f"one layer's maps of {quantity(max(queries, keys), 'token')} need {(needed + states) / 1e9:.1f} GB"
            f"{while_made} and {free / 1e9:.1f} GB are free; type a shorter sentence; the spectra still work"
        )
