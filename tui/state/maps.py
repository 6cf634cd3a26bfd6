"""The attention maps of sentences: which one is shown, and what is known of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.mathematics.attention import pool
from engine.values.attention import AttentionMap, AttentionMaps, MapName, MapWindow, PooledMap, Sentence
from engine.values.errors import EngineError, Superseded
from engine.values.heads import DELTA, NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from tui.drawing.titles import Part, difference_part, fact_part, map_part, off_part
from tui.drawing.token_spelling import spell_map
from tui.state.session import MOST_PINS, Averaging, Shown
from tui.state.store import Store

if TYPE_CHECKING:
    from engine.service.engine import Engine

Read = tuple[str, Off]
"""A sentence, and the heads that are off while the model reads it."""

MAPS = MOST_PINS + 2
"""Maps that are kept: those that are compared, and the next one; for 512 tokens each takes a megabyte."""

LAYERS = 3
"""Layers of a short sentence whose maps are kept; of a long one, it is the last alone."""

PARTS = 16
"""Rectangles of long maps, and layers of small maps, that are kept."""

EVERY = range(1 << 30)
"""The rows or columns of a whole map."""


@dataclass(frozen=True, slots=True)
class MapQuery:
    """One map of a sentence, or the difference ``minuend − name`` of two.

    Attributes
    ----------
    text : the sentence.
    name : of the map.
    off : the heads that are switched off.
    minuend : another map of the same run of the model; the same name stands for the map with all heads on, or if none
        is off, for the second model's. None for no difference.
    """

    text: str
    name: MapName
    off: Off = NOTHING_OFF
    minuend: MapName | None = None

    @property
    def of_layer(self) -> MapQuery:
        """The query for the mean over the layer's heads, which stands for all its maps."""
        name = replace(self.name, head=None)
        return replace(self, name=name, minuend=name if self.minuend == self.name else None)


Small = tuple[MapQuery, int]
"""All heads' maps of a layer, named by their mean, and the side of their blocks."""


class Maps:
    """The known maps of sentences, with all heads' maps of the last layers.

    Parameters
    ----------
    engine : of the open model.
    arrived : called when a sentence or a map arrives.

    Attributes
    ----------
    has_read : called when the model has read a sentence.
    whole : single maps, and differences.
    parts : rectangles of long maps, with readable tokens.
    small : a layer's maps, pooled, by the number of the head, with readable tokens.
    stores : all of them.
    """

    def __init__(self, engine: Engine, arrived: Callable[[], None]) -> None:
        self.has_read: Callable[[Sentence], None] = lambda sentence: None
        self._engine = engine
        self._arrived = arrived
        self._sentences: Store[Read, Sentence] = Store(self._read, arrived)
        self._layers: Store[MapQuery, AttentionMaps] = Store(self._ask_layer, arrived, LAYERS)
        self.whole: Store[MapQuery, AttentionMap] = Store(self._select, arrived, MAPS)
        self.parts: Store[tuple[MapQuery, MapWindow], PooledMap] = Store(self._pool_part, arrived, PARTS)
        self.small: Store[Small, Mapping[int, PooledMap]] = Store(self._pool_layer, arrived, PARTS)
        self.stores = self._sentences, self._layers, self.whole, self.parts, self.small

    @property
    def is_late(self) -> bool:
        """Whether an answer has been on its way for longer than a moment."""
        return any(store.is_late for store in self.stores)

    # --- sentences

    def sentence(self, shown: Shown) -> Sentence | EngineError | None:
        """Give the sentence as the model reads it, or an error; None while there is none or it is being read."""
        return None if shown.text is None else self._sentences.get((shown.text, shown.off_in_maps))

    def read_again(self) -> None:
        """Forget all sentences and maps, so that the model reads again."""
        for store in self.stores:
            store.forget()
        self._arrived()

    async def _read(self, key: Read) -> Sentence:
        """Have the model read a sentence."""
        text, off = key
        self._layers.forget()  # another sentence's maps may need the memory
        sentence = await asyncio.wrap_future(self._engine.read(text, "sentence", off))
        self.has_read(sentence)
        return sentence

    # --- maps

    def _ask_layer(self, query: MapQuery) -> Future[AttentionMaps]:
        """Ask for all maps of a layer; those of a long sentence take the place of another's."""
        text, name, off = query.text, query.name, query.off
        if isinstance(sentence := self._sentences.peek((text, off)), Sentence) and sentence.is_long:
            self._layers.forget()
        if name.is_rollout:
            return self._engine.rollout(text, name.stack, "maps")
        ask = self._engine.attention if query.minuend is None else self._engine.differences
        return ask(text, name.stack, name.layer, "maps", off)

    def _select(self, query: MapQuery) -> AttentionMap | Coroutine[Any, Any, AttentionMap]:
        """Take a short sentence's map out of its known layer at once, so that a key draws it with the rest."""
        maps = self._layers.peek(query.of_layer)
        is_of_layer = query.minuend in (None, query.name)
        if is_of_layer and isinstance(maps, AttentionMaps) and not maps.sentence.is_long:
            return maps.select(query.name.head)
        return self._find_map(query)

    async def _find_map(self, query: MapQuery) -> AttentionMap:
        """Take a map out of its layer's, or subtract one of another head."""
        if query.minuend is None or query.minuend == query.name:
            maps, head = await self._layers.wait_for(query.of_layer), query.name.head
            return await asyncio.to_thread(maps.select, head) if maps.sentence.is_long else maps.select(head)
        one = await self.whole.wait_for(replace(query, minuend=None))
        other = await self.whole.wait_for(replace(query, name=query.minuend, minuend=None))
        if (one.query_tokens, one.key_tokens) != (other.query_tokens, other.key_tokens):
            raise EngineError("the maps have different tokens, so there is no difference")
        return replace(one, other=other.weights)

    async def _pool_part(self, part: tuple[MapQuery, MapWindow]) -> PooledMap:
        query, window = part
        sentence = await self._sentences.wait_for((query.text, query.off))
        return spell_map(await asyncio.to_thread(pool, await self.whole.wait_for(query), window), sentence)

    async def _pool_layer(self, small: Small) -> Mapping[int, PooledMap]:
        """Pool a layer's maps; those of a long sentence come in turn."""
        query, block = small
        maps, window = await self._layers.wait_for(query), MapWindow(block, EVERY, EVERY)
        pooled = enumerate(spell_map(pool(maps.select(at), window), maps.sentence) for at in range(len(maps.weights)))
        if not maps.sentence.is_long:
            return await asyncio.to_thread(dict, pooled)
        found: dict[int, PooledMap] = {}
        for _ in maps.weights:
            if self._layers.peek(query) is not maps:
                raise Superseded("the maps of another layer take the room of these")
            number, found[number] = await asyncio.to_thread(next, pooled)
            self.small.put(small, dict(found), is_complete=False)
        return found


def map_name(shown: Shown, outline: ModelOutline) -> MapName:
    """Name the map that is shown; of a whole layer, it is the mean over the heads."""
    selected, averaging = shown.selected, shown.averaging
    if selected is None or averaging is Averaging.ROLLOUT:
        stack = outline.stacks[0] if selected is None else selected.stack
        return MapName(stack, None, None, averaging is Averaging.ROLLOUT)
    over_layers = averaging in (Averaging.LAYERS, Averaging.BOTH)
    over_heads = selected.is_layer or averaging in (Averaging.HEADS, Averaging.BOTH)
    return MapName(selected.stack, None if over_layers else selected.layer, None if over_heads else selected.head)


def map_query(shown: Shown, name: MapName) -> MapQuery:
    """Give the query for a map of the sentence, or for the difference to its counterpart."""
    is_difference = shown.difference and not name.is_rollout
    return MapQuery(shown.text or "", name, shown.off_in_maps, name if is_difference else None)


def map_title(shown: Shown, outline: ModelOutline) -> list[Part]:
    """Name the map that is shown, and the heads that are off."""
    name, off = map_name(shown, outline), shown.off
    parts = [map_part(name, outline)]
    is_difference = shown.difference and not name.stack.endswith(DELTA) and not name.is_rollout
    if off.heads:
        all_on = fact_part("with all heads on", " · ")
        parts.append(all_on if name.is_rollout else off_part(off, outline.stacks, is_difference=is_difference))
    elif is_difference:
        parts.append(difference_part())
    return parts


def next_averaging(shown: Shown, outline: ModelOutline, *, is_long: bool) -> Averaging:
    """Give the next kind of mean with another map; a long sentence has no rollout."""
    before, averaging = map_name(shown, outline), shown.averaging
    for _ in Averaging:
        averaging = averaging.next
        wanted = map_name(replace(shown, averaging=averaging), outline)
        if wanted != before and not (wanted.is_rollout and is_long):
            break
    return averaging


def map_of(head: Head) -> MapName:
    """Name a head's map."""
    return MapName(head.stack, head.layer, head.head)
