"""A tokenized sentence and the attention maps it gives, as they cross to the screen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import MapName


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as the model reads it.

    Attributes
    ----------
    text : what the person typed.
    ids : token ids, special tokens included.
    tokens : the text of each token, control characters escaped, so that any of them can be shown.
    full_length : number of tokens before the sentence was shortened to the model's context.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    full_length: int

    @property
    def notice(self) -> str:
        """Say that the sentence was shortened, or nothing."""
        if self.full_length == len(self.ids):
            return ""
        return f"the model reads the first {len(self.ids)} of {self.full_length} tokens"


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """The attention maps of all heads of one layer, or their means over a stack's layers.

    Attributes
    ----------
    sentence : what was read.
    stack, layer : which layer; None is the mean over the stack's layers.
    query_tokens, key_tokens : the texts along both axes.
    weights : (heads, queries, keys) float32 probabilities; each row sums to one.
    """

    sentence: Sentence
    stack: str
    layer: int | None
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]

    def select(self, head: int | None) -> AttentionMap:
        """Take one head's map, or the mean over the heads (None)."""
        weights = self.weights.mean(axis=0, dtype=np.float64) if head is None else self.weights[head]
        name = MapName(self.stack, self.layer, head)
        return AttentionMap(name, self.query_tokens, self.key_tokens, weights.astype(np.float32))


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """One attention map: what the heatmap draws and the ``attention`` table lists.

    Attributes
    ----------
    name : of the head, or of the mean.
    query_tokens, key_tokens : the texts along both axes.
    weights : (queries, keys) float32.
    """

    name: MapName
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
