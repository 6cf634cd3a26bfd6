"""Sentences, the names of attention maps, the maps, and what of them crosses to the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import NOTHING_OFF, Off


@dataclass(frozen=True, slots=True)
class MapName:
    """The name of one attention map: of a head, or a mean over heads, over layers, or over both.

    Attributes
    ----------
    stack : as in `Head`.
    layer : from zero; None is the mean over the stack's layers.
    head : from zero; None is the mean over the heads.
    is_rollout : whether the means over the heads are followed through the stack's layers, and not averaged over them.
    """

    stack: str
    layer: int | None
    head: int | None
    is_rollout: bool = False

    @property
    def layer_label(self) -> str:
        """What the ``layer`` column of a table says: the number, or ``mean``, or ``rollout``."""
        return self._label(self.layer)

    @property
    def head_label(self) -> str:
        """What the ``head`` column of a table says: the number, or ``mean``, or ``rollout``."""
        return self._label(self.head)

    def _label(self, number: int | None) -> str:
        return "rollout" if self.is_rollout else "mean" if number is None else str(number)

    def __str__(self) -> str:
        """Name the map in words."""
        if self.is_rollout:
            return "rollout"
        if self.layer is None:
            return "mean over layers and heads" if self.head is None else f"H{self.head}, mean over layers"
        return f"L{self.layer}, mean over heads" if self.head is None else f"L{self.layer}H{self.head}"


@dataclass(frozen=True, slots=True)
class MapQuery:
    """One map of a sentence, or the difference of two: the minuend, less which is the map that is named.

    Attributes
    ----------
    text : the sentence.
    name : of the map.
    off : the heads that are switched off.
    minuend : another map of the same reading, or the same one, which stands for that of another reading: with no heads
        off, where any are, or else of the second model. None for no difference.
    """

    text: str
    name: MapName
    off: Off = NOTHING_OFF
    minuend: MapName | None = None


Places = NDArray[np.int64]


@dataclass(frozen=True)
class VisibleKeys:
    """The keys that each query sees: all from its first to its last, and some that every query sees.

    Attributes
    ----------
    first, last : (queries,) positions; a query that sees nothing has its last before its first.
    shared : those that every query sees, behind all others, as an encoder's keys behind a decoder's own.
    """

    first: Places
    last: Places
    shared: range = range(0)

    @property
    def count(self) -> Places:
        """How many keys each query sees, (queries,)."""
        count: Places = np.maximum(self.last - self.first + 1, 0) + len(self.shared)
        return count

    @property
    def has_choice(self) -> NDArray[np.bool_]:
        """Whether a query sees more than one key, (queries,)."""
        return self.count > 1

    def holds(self, keys: Places) -> NDArray[np.bool_]:
        """Say of each query whether it has a choice and sees a key, (queries,)."""
        is_shared = (keys >= self.shared.start) & (keys < self.shared.stop)
        return self.has_choice & (((keys >= self.first) & (keys <= self.last)) | is_shared)

    def keys_of(self, query: int) -> Places:
        """List the keys that a query sees."""
        own: Places = np.arange(self.first[query], self.last[query] + 1)
        return np.concatenate([own, np.arange(self.shared.start, self.shared.stop)])

    def uniform(self, query: int, key: int) -> float:
        """Give what a key gets of a query that looks at all it sees alike."""
        first, last = int(self.first[query]), int(self.last[query])
        is_seen = first <= key <= last or key in self.shared
        return 1 / (max(last - first + 1, 0) + len(self.shared)) if is_seen else 0.0

    def hides(self, queries: range, keys: range) -> bool:
        """Say whether none of some queries sees any of some keys."""
        if max(keys.start, self.shared.start) < min(keys.stop, self.shared.stop):
            return False
        some = slice(queries.start, queries.stop)
        first, last = np.maximum(self.first[some], keys.start), np.minimum(self.last[some], keys.stop - 1)
        return not bool((first <= last).any())


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
    spellings : what each token stands for; empty where nobody knows.
    limit : the most tokens that the model reads; None where nothing limits them.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    full_length: int
    spellings: tuple[Spelling, ...] = ()
    limit: int | None = None

    def spellings_along(self, tokens: tuple[str, ...]) -> tuple[Spelling, ...]:
        """Say of the tokens along an axis of a map what each stands for, and which text it is a part of.

        An axis is the sentence itself, or what a decoder reads of it after its start token, or both, one behind the
        other.
        """
        own = self.spellings or (Spelling("text"),) * len(self.ids)
        begin = own if tokens[: len(own)] == self.tokens else (Spelling("added"), *own)[: len(own)]
        return (*begin, *own)[: len(tokens)]

    @property
    def has_parts(self) -> bool:
        """Whether a token is but some bytes of a character."""
        return any(each.part for each in self.spellings)

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
    visible: VisibleKeys | None = None
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
    visible: VisibleKeys | None = None
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
    visible: VisibleKeys | None = None
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


def is_of_one_text(name: MapName, query_tokens: tuple[str, ...], key_tokens: tuple[str, ...]) -> bool:
    """Say whether queries and keys are the same tokens; across stacks they are not, even where they are equal."""
    return name.stack != "cross" and query_tokens == key_tokens


@dataclass(frozen=True, slots=True)
class MapLines:
    """One row and one column of an attention map.

    Attributes
    ----------
    name : of the map.
    query, key : whose row, and whose column.
    query_tokens, key_tokens : the texts along both axes of the map.
    row : (keys,) float32 weights with which the query looks at each key.
    column : (queries,) float32 weights with which each query looks at the key.
    largest : the largest weight of the whole map that is finite, by which its levels are told apart.
    is_signed : whether these are differences of two maps, and ``largest`` the largest in size.
    """

    name: MapName
    query: int
    key: int
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    row: NDArray[np.float32]
    column: NDArray[np.float32]
    largest: float
    is_signed: bool = False

    @classmethod
    def of(cls, attention: AttentionMap, query: int, key: int, largest: float | None = None) -> MapLines:
        """Take copies of a row and a column of a map, or of what its other one is different in."""
        weights, other = attention.weights, attention.other
        row, column = weights[query].copy(), weights[:, key].copy()
        if other is not None:
            row, column = other[query] - row, other[:, key] - column
        if largest is None:
            values = weights if other is None else np.abs(other - weights)
            largest = float(np.max(values, where=np.isfinite(values), initial=0.0))
        return cls(attention.name, query, key, attention.query_tokens, attention.key_tokens, row, column, largest,
                   other is not None)  # fmt: skip

    @property
    def is_of_one_text(self) -> bool:
        """Whether queries and keys are the same tokens of one stack."""
        return is_of_one_text(self.name, self.query_tokens, self.key_tokens)
