"""Sentences, attention maps and their names, and the parts of maps that cross to the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MapName:
    """The name of one attention map: of a head, or a mean over heads, over layers, or over both.

    Attributes
    ----------
    stack : as in `Head`.
    layer : from zero; None is the mean over the stack's layers.
    head : from zero; None is the mean over the heads.
    is_rollout : whether the means over the heads are followed through the stack's layers instead of averaged.
    """

    stack: str
    layer: int | None
    head: int | None
    is_rollout: bool = False

    @property
    def layer_label(self) -> str:
        """The cell of the ``layer`` column: the number, ``mean`` or ``rollout``."""
        return self._label(self.layer)

    @property
    def head_label(self) -> str:
        """The cell of the ``head`` column: the number, ``mean`` or ``rollout``."""
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


Places = NDArray[np.int64]


@dataclass(frozen=True)
class VisibleKeys:
    """The keys that each query sees: a range of its own, and a range that every query sees.

    Attributes
    ----------
    first, last : (queries,) positions; ``last`` is before ``first`` for a query that sees nothing.
    shared : keys that every query sees, after all others, such as an encoder's keys after a decoder's own.
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
        """Whether each query has a choice and sees its key, (queries,)."""
        is_shared = (keys >= self.shared.start) & (keys < self.shared.stop)
        return self.has_choice & (((keys >= self.first) & (keys <= self.last)) | is_shared)

    def keys_of(self, query: int) -> Places:
        """List the keys that a query sees."""
        own: Places = np.arange(self.first[query], self.last[query] + 1)
        return np.concatenate([own, np.arange(self.shared.start, self.shared.stop)])

    def uniform(self, query: int, key: int) -> float:
        """Return the weight of a key if its query attends uniformly to all it sees."""
        first, last = int(self.first[query]), int(self.last[query])
        is_seen = first <= key <= last or key in self.shared
        return 1 / (max(last - first + 1, 0) + len(self.shared)) if is_seen else 0.0

    def hides(self, queries: range, keys: range) -> bool:
        """Whether none of these queries sees any of these keys."""
        if max(keys.start, self.shared.start) < min(keys.stop, self.shared.stop):
            return False
        some = slice(queries.start, queries.stop)
        first, last = np.maximum(self.first[some], keys.start), np.minimum(self.last[some], keys.stop - 1)
        return not bool((first <= last).any())


AT_ONCE = 512 * 512
"""The most weights of a map that is searched or pooled while a person waits for a key."""

QUERIES_AT_ONCE = 256
"""Queries of a map that are searched for the largest weight at once."""

TokenKind = Literal["text", "special", "added"]
"""``text``; ``special`` for a special token that was typed, or that replaces unknown text; ``added`` for one that the
tokenizer added."""


class Spelling(NamedTuple):
    """The kind of a token, and if it is only some bytes of a character, the text that it is a part of.

    Attributes
    ----------
    kind : text, special or added.
    whole : the text that it and its neighbours make together; empty for a whole token.
    part : which part of that it is, from 1; 0 for a whole token.
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
    tokens : the text of each token, control characters escaped.
    full_length : number of tokens before the sentence was shortened to the model's context.
    spellings : of each token; empty if unknown.
    limit : the most tokens that the model reads; None for no limit.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    full_length: int
    spellings: tuple[Spelling, ...] = ()
    limit: int | None = None

    def spellings_along(self, tokens: tuple[str, ...]) -> tuple[Spelling, ...]:
        """Return the spellings of the tokens along an axis of a map.

        An axis is the sentence, what a decoder reads of it after its start token, or one after the other.
        """
        own = self.spellings or (Spelling("text"),) * len(self.ids)
        begin = own if tokens[: len(own)] == self.tokens else (Spelling("added"), *own)[: len(own)]
        return (*begin, *own)[: len(tokens)]

    @property
    def has_parts(self) -> bool:
        """Whether a token is only some bytes of a character."""
        return any(each.part for each in self.spellings)

    @property
    def is_long(self) -> bool:
        """Whether only the parts of its maps in view are drawn, each pooled on another thread."""
        return len(self.ids) ** 2 > AT_ONCE

    @property
    def notice(self) -> str:
        """A sentence that says so if it was shortened, else empty."""
        if self.full_length == len(self.ids):
            return ""
        return f"the model reads the first {len(self.ids)} of {self.full_length} tokens"


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """The attention maps of all heads of one layer, or their means over a stack's layers.

    Attributes
    ----------
    sentence : what was read.
    stack, layer : the layer; None is the mean over the stack's layers.
    query_tokens, key_tokens : the texts along both axes.
    weights : (heads, queries, keys) float32 probabilities; each row sums to one, less what goes to a sink.
    is_rollout : whether it is the stack's rollout, stored as one head.
    other : the weights of a second model, if two are compared.
    visible : the keys that the layer's mask, or of a mean that of any layer, lets each query see; None if unknown.
    chance : (queries, keys) a rollout of uniform attention.
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

    def __repr__(self) -> str:
        heads, queries, keys = self.weights.shape
        layer = "" if self.layer is None else f" L{self.layer}"
        return f"attention maps of {self.stack}{layer}: {heads} heads × {queries} queries × {keys} keys"

    def select(self, head: int | None) -> AttentionMap:
        """Copy one head's map, or compute the mean over the heads (None)."""

        def of_head(maps: NDArray[np.float32]) -> NDArray[np.float32]:
            mean_or_own: NDArray[np.float32] = maps.mean(0, np.float64) if head is None else maps[head]
            return mean_or_own.astype(np.float32)

        name = MapName(self.stack, self.layer, head, self.is_rollout)
        tokens = self.query_tokens, self.key_tokens
        other = None if self.other is None else of_head(self.other)
        return AttentionMap(name, *tokens, of_head(self.weights), other, self.visible, self.chance)


@dataclass(frozen=True, slots=True)
class MapAxes:
    """The name of an attention map, or of a part of one, and its axes.

    Attributes
    ----------
    name : of the head, or of the mean.
    query_tokens, key_tokens : the texts along both axes of the whole map.
    """

    name: MapName
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]

    @property
    def is_of_one_text(self) -> bool:
        """Whether queries and keys are the same tokens; in cross-attention they are not, even if they are equal."""
        return self.name.stack != "cross" and self.query_tokens == self.key_tokens


@dataclass(frozen=True)
class AttentionMap(MapAxes):
    """One attention map: what the heatmap draws and the ``attention`` table lists.

    Attributes
    ----------
    weights : (queries, keys) float32.
    other : the weights of a second model, if two are compared; then ``other − weights`` is drawn.
    visible : the keys that the mask lets each query see; None if unknown.
    chance : (queries, keys) chance for a rollout.
    """

    weights: NDArray[np.float32]
    other: NDArray[np.float32] | None = None
    visible: VisibleKeys | None = None
    chance: NDArray[np.float32] | None = None

    @property
    def is_signed(self) -> bool:
        """Whether it is a difference."""
        return self.other is not None

    def part(self, queries: int | slice, keys: int | slice) -> NDArray[np.float32]:
        """Return a row, a column or a rectangle of the weights, or of the difference."""
        if self.other is None:
            return self.weights[queries, keys]
        with np.errstate(invalid="ignore"):  # of infinities that cancel
            difference: NDArray[np.float32] = self.other[queries, keys] - self.weights[queries, keys]
        return difference

    @cached_property
    def largest(self) -> float:
        """The largest finite weight, or the largest size of a difference; at least 0."""
        largest = 0.0
        for first in range(0, len(self.weights), QUERIES_AT_ONCE):
            values = self.part(slice(first, first + QUERIES_AT_ONCE), slice(None))
            if self.is_signed:
                values = np.abs(values)
            highest = float(values.max(initial=0.0))
            if not np.isfinite(highest):
                highest = float(values.max(where=np.isfinite(values), initial=0.0))
            largest = max(largest, highest)
        return largest

    def chance_of(self, query: int) -> Sequence[float] | None:
        """Return a query's uniform attention to the keys it sees; of a rollout, that through uniform layers.

        It is None if unknown, such as for a mean over layers that see different keys.
        """
        if self.chance is not None:
            chance: list[float] = self.chance[query].tolist()
            return chance
        if self.visible is None or self.name.layer is None:
            return None
        return [self.visible.uniform(query, key) for key in range(len(self.key_tokens))]


@dataclass(frozen=True, slots=True)
class MapWindow:
    """The rectangle of an attention map that is on screen, in blocks of queries × keys.

    Attributes
    ----------
    block : queries and keys of a block; blocks at the end may have fewer.
    rows, columns : the numbers of the blocks, from zero; they may exceed the map.
    """

    block: int
    rows: range
    columns: range

    def within(self, queries: int, keys: int) -> MapWindow:
        """Clip it to a map."""
        rows, columns = (
            range(max(wanted.start, 0), min(wanted.stop, -(-count // self.block)))
            for wanted, count in ((self.rows, queries), (self.columns, keys))
        )
        return MapWindow(self.block, rows, columns)


@dataclass(frozen=True, slots=True)
class PooledMap(MapAxes):
    """A rectangle of an attention map, pooled to blocks of queries × keys; blocks of one are the weights themselves.

    Attributes
    ----------
    window : which blocks these are.
    values, means : (rows, columns) largest weight and mean of each block; not finite if one of its weights is not.
    places : (rows, columns, 2) query and key of each block's largest weight.
    largest : the largest finite value of the whole map.
    pairs : (rows, columns, 2) the weights at ``places`` in two models, if the map is a difference, the second minus the
        first. Then ``values`` and ``largest`` are the differences of largest size.
    visible : the keys that the mask lets each query of the whole map see; None if unknown.
    chances : (rows, columns) chance at ``places``, if the map is a rollout.
    """

    window: MapWindow
    values: NDArray[np.float32]
    means: NDArray[np.float32]
    places: NDArray[np.int32]
    largest: float
    pairs: NDArray[np.float32] | None = None
    visible: VisibleKeys | None = None
    chances: NDArray[np.float32] | None = None

    @property
    def is_signed(self) -> bool:
        """Whether it is a difference."""
        return self.pairs is not None

    def holds(self, row: int, column: int) -> bool:
        """Whether a block is in this rectangle."""
        return row in self.window.rows and column in self.window.columns

    def at(self, row: int, column: int) -> PooledBlock:
        """Return the block at a row and column of the whole map."""
        block, inside = self.window.block, (row - self.window.rows.start, column - self.window.columns.start)
        queries, keys = (
            range(number * block, min((number + 1) * block, len(tokens)))
            for number, tokens in ((row, self.query_tokens), (column, self.key_tokens))
        )
        query, key = (int(place) for place in self.places[inside])
        pair = None if self.pairs is None else (float(self.pairs[inside][0]), float(self.pairs[inside][1]))
        largest = float(self.values[inside])
        is_zero = not largest and not any(pair or ())  # a weight that is not zero is shown, whatever the mask
        chance = None if self.chances is None else float(self.chances[inside])
        is_hidden = chance == 0 if self.visible is None else self.visible.hides(queries, keys)
        is_masked = is_zero and is_hidden
        if chance is None and pair is None and self.visible is not None and self.name.layer is not None:
            chance = self.visible.uniform(query, key)
        return PooledBlock(queries, keys, largest, (query, key), float(self.means[inside]), pair, is_masked, chance)


@dataclass(frozen=True, slots=True)
class PooledBlock:
    """One block of a pooled map.

    Attributes
    ----------
    queries, keys : positions of its weights.
    largest : its largest weight.
    place : query and key of the largest.
    mean : its mean weight.
    pair : the two models' weights at that place, if it is of a difference.
    is_masked : whether the mask hides all its keys from all its queries.
    chance : chance at that place; None if unknown, and for a difference.
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
