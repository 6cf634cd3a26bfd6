"""A tokenized sentence and the attention maps it gives, as they cross to the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import MapName
from engine.values.visible import Visible

Pooling = Literal["max", "mean"]
"""Which weight stands for a block of them."""

AT_ONCE = 512 * 512
"""Weights of a map up to which it crosses whole, and is gone through while a person waits for a key."""

_QUERIES = 32
"""Whose weights are averaged at a time."""

TokenKind = Literal["text", "special", "added"]
"""What a token stands for: text; a special token that was typed, or that stands for text nobody knows; or a special
token that nobody typed."""


class Spelling(NamedTuple):
    """What a token stands for, and of which text it is a part.

    Attributes
    ----------
    kind : what it stands for.
    whole : where it is but some bytes of a character, the text that it and its neighbours make together.
    part : which part of that it is, from 1; 0 for a token that is whole.
    """

    kind: TokenKind
    whole: str = ""
    part: int = 0


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as the model reads it.

    Attributes
    ----------
    text : what the person typed.
    ids : token ids, special tokens included.
    tokens : the text of each token, control characters escaped, so that any of them can be shown.
    full_length : number of tokens before the sentence was shortened to the model's context.
    kinds : what each token stands for; empty where nobody knows.
    wholes : for a token that is but some bytes of its characters, the text that it and its neighbours make together;
        nothing for the others. Empty where no token is such.
    parts : for such a token which part of that text it is, from 1, and 0 for the others. As empty as ``wholes``.
    limit : the most tokens that the model reads; None where nothing limits them.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    full_length: int
    kinds: tuple[TokenKind, ...] = ()
    wholes: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()
    limit: int | None = None

    def spelled_along(self, tokens: tuple[str, ...]) -> tuple[Spelling, ...]:
        """Say of the tokens along an axis of a map what each stands for, and which text it is a part of.

        An axis is the sentence itself, or what a decoder reads of it after its start token, or both, one behind the
        other.
        """
        unknown: TokenKind = "text"
        count = len(self.ids)
        each = (self.kinds or (unknown,) * count, self.wholes or ("",) * count, self.parts or (0,) * count)
        own = tuple(Spelling(*spelling) for spelling in zip(*each, strict=True))
        start = Spelling("added")
        begin = own if tokens[: len(own)] == self.tokens else (start, *own)[: len(own)]
        return (*begin, *own)[: len(tokens)]

    @property
    def is_long(self) -> bool:
        """Whether its maps stay with the engine, which hands out what is in view."""
        return len(self.ids) ** 2 > AT_ONCE

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
    weights : (heads, queries, keys) float32 probabilities; each row sums to one, less what goes to a sink.
    is_rollout : whether it is the stack's rollout instead, in the place of one head.
    other : the same of a second model, where two are compared.
    visible : the keys that the layer's mask lets each query see; of a mean, that of any layer. None where it has none.
    chance : (queries, keys) what a rollout is when every query looks at all keys it sees alike.
    """

    sentence: Sentence
    stack: str
    layer: int | None
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    is_rollout: bool = False
    other: NDArray[np.float32] | None = None
    visible: Visible | None = None
    chance: NDArray[np.float32] | None = None

    def select(self, head: int | None) -> AttentionMap:
        """Take one head's map, or the mean over the heads (None), a few queries after the other."""
        name = MapName(self.stack, self.layer, head, self.is_rollout)
        weights, other = (
            None if maps is None else _mean_over_heads(maps) if head is None else maps[head]
            for maps in (self.weights, self.other)
        )
        assert weights is not None  # only the other model's may be missing
        return AttentionMap(name, self.query_tokens, self.key_tokens, weights, other, self.visible, self.chance)


def _mean_over_heads(maps: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average maps (heads, queries, keys) over the heads, a few queries after the other: (queries, keys)."""
    mean = np.empty(maps.shape[1:], dtype=np.float32)
    for first in range(0, len(mean), _QUERIES):
        some = slice(first, first + _QUERIES)
        total = np.zeros(mean[some].shape)
        for head in maps[:, some]:  # however the heads lie in memory
            total += head
        mean[some] = total / len(maps)
    return mean


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """One attention map: what the heatmap draws and the ``attention`` table lists.

    Attributes
    ----------
    name : of the head, or of the mean.
    query_tokens, key_tokens : the texts along both axes.
    weights : (queries, keys) float32.
    other : the same of a second model, where two are compared: what is drawn then is ``other − weights``.
    visible : the keys that the mask lets each query see; None where that is not known.
    chance : (queries, keys) what chance gives for a rollout.
    """

    name: MapName
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    other: NDArray[np.float32] | None = None
    visible: Visible | None = None
    chance: NDArray[np.float32] | None = None

    @property
    def is_signed(self) -> bool:
        """Whether it is of differences."""
        return self.other is not None

    def chance_of(self, query: int) -> Sequence[float] | None:
        """Give what chance gives each key of a query; None where that is not known, as of layers that see unlike keys.

        It is uniform attention to the keys that the query sees, of a rollout through layers that look so.
        """
        if self.chance is not None:
            chance: list[float] = self.chance[query].tolist()
            return chance
        if self.visible is None or self.name.layer is None:
            return None
        return [self.visible.uniform(query, key) for key in range(len(self.key_tokens))]


@dataclass(frozen=True, slots=True)
class MapWindow:
    """A rectangle of an attention map in blocks of queries × keys: what a screen wants to see of it.

    Attributes
    ----------
    block : queries, and keys, of a block; those at the end may have fewer.
    rows, columns : the numbers of the blocks, from zero; what lies beyond the map is left out.
    pooling : which weight stands for a block.
    """

    block: int
    rows: range
    columns: range
    pooling: Pooling = "max"

    def within(self, queries: int, keys: int) -> MapWindow:
        """Leave out what lies beyond a map."""
        rows, columns = (
            range(max(wanted.start, 0), min(wanted.stop, -(-count // self.block)))
            for wanted, count in ((self.rows, queries), (self.columns, keys))
        )
        return MapWindow(self.block, rows, columns, self.pooling)

    def covers(self, other: MapWindow) -> bool:
        """Say whether all of another window is in this one."""
        return (self.block, self.pooling) == (other.block, other.pooling) and all(
            not wanted or (mine.start <= wanted.start and wanted.stop <= mine.stop)
            for mine, wanted in ((self.rows, other.rows), (self.columns, other.columns))
        )


@dataclass(frozen=True, slots=True)
class PooledMap:
    """A rectangle of an attention map, pooled to blocks of queries × keys; with blocks of one, the weights themselves.

    Attributes
    ----------
    name : of the map.
    query_tokens, key_tokens : the texts along both axes of the whole map.
    window : which blocks these are.
    maxima, means : (rows, columns) of each block's weights; not finite where one of the weights is not.
    places : (rows, columns, 2) query and key of each block's largest weight.
    largest : the largest of all values of the whole map, pooled as the window says, that are finite.
    pairs : (rows, columns, 2) the weights at ``places`` in two models, where the map is of differences, the second less
        the first. Then ``maxima`` are the differences that are largest in size, and so is ``largest``.
    visible : the keys that the mask lets each query of the whole map see; None where that is not known.
    chances : (rows, columns) what chance gives at ``places``, where the map is a rollout.
    """

    name: MapName
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    window: MapWindow
    maxima: NDArray[np.float32]
    means: NDArray[np.float32]
    places: NDArray[np.int32]
    largest: float
    pairs: NDArray[np.float32] | None = None
    visible: Visible | None = None
    chances: NDArray[np.float32] | None = None

    @property
    def is_signed(self) -> bool:
        """Whether it is of differences."""
        return self.pairs is not None

    @property
    def values(self) -> NDArray[np.float32]:
        """What stands for each block, (rows, columns)."""
        return self.maxima if self.window.pooling == "max" else self.means

    def holds(self, row: int, column: int) -> bool:
        """Say whether a block is in this rectangle."""
        return row in self.window.rows and column in self.window.columns

    def at(self, row: int, column: int) -> PooledBlock:
        """Give one of its blocks by its row and column in the whole map."""
        block, inside = self.window.block, (row - self.window.rows.start, column - self.window.columns.start)
        queries, keys = (
            range(number * block, min((number + 1) * block, len(tokens)))
            for number, tokens in ((row, self.query_tokens), (column, self.key_tokens))
        )
        query, key = (int(place) for place in self.places[inside])
        pair = None if self.pairs is None else (float(self.pairs[inside][0]), float(self.pairs[inside][1]))
        largest = float(self.maxima[inside])
        is_zero = not largest and not any(pair or ())  # what the mask was not seen to hide is a number all the same
        chance = None if self.chances is None else float(self.chances[inside])
        is_hidden = chance == 0 if self.visible is None else self.visible.hides(queries, keys)
        is_masked = is_zero and is_hidden
        if chance is None and pair is None and self.visible is not None and self.name.layer is not None:
            chance = self.visible.uniform(query, key)  # layers that a mean is over may see unlike keys
        return PooledBlock(queries, keys, largest, (query, key), float(self.means[inside]), pair, is_masked, chance)


@dataclass(frozen=True, slots=True)
class PooledBlock:
    """One block of a pooled map.

    Attributes
    ----------
    queries, keys : whose weights it holds.
    largest : of its weights.
    place : query and key of the largest.
    mean : of its weights.
    pair : the two models' weights at that place, where these are differences.
    is_masked : whether the mask hides all its keys from all its queries.
    chance : of the weight at that place; None where it is not known, and of differences.
    """

    queries: range
    keys: range
    largest: float
    place: tuple[int, int]
    mean: float
    pair: tuple[float, float] | None = None
    is_masked: bool = False
    chance: float | None = None

    @property
    def total(self) -> float:
        """The sum of its weights."""
        return self.mean * len(self.queries) * len(self.keys)
