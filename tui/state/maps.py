"""The attention maps of sentences: which one is shown, and what is known of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.values.attention import (
    AT_ONCE,
    AttentionMap,
    AttentionMaps,
    MapLines,
    MapName,
    MapQuery,
    MapWindow,
    PooledMap,
    Sentence,
)
from engine.values.errors import EngineError, Superseded
from engine.values.heads import DELTA, Head, Off
from engine.values.outline import ModelOutline
from tui.drawing.titles import Part, difference_part, fact_part, map_part, off_part
from tui.state.session import Averaging, Shown
from tui.state.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.service.engine import Engine

Read = tuple[str, Off]
"""A sentence, and the heads that are off while the model reads it."""

Rectangle = tuple[MapQuery, MapWindow, str]
"""A rectangle of a map, and the name of the work that computes it."""

Small = tuple[MapQuery, int]
"""All heads' maps of a layer, named by their mean, and the side of their blocks."""

Cross = tuple[MapQuery, tuple[int, int]]
"""A query's row and a key's column of a map."""

LAYERS = 3
"""Layers whose maps of all heads are kept; for 512 tokens, a head's map takes a megabyte."""

PARTS = 16
"""Rectangles, crosses and layers of small maps that are kept."""

EVERY = range(1 << 30)
"""The rows or columns of a whole map."""


class Maps:
    """The known maps of sentences; the whole maps of a long sentence stay with the engine.

    Parameters
    ----------
    engine, outline : of the open model.
    arrived : called when a sentence or a map arrives.

    Attributes
    ----------
    has_read : called when the model has read a sentence.
    heads : maps of single heads, of a short sentence, and differences; the other maps of their layers are not kept.
    parts : rectangles of a long sentence's maps; newer work of the same name replaces older.
    lines : rows and columns of a long sentence's maps.
    warning : why the model cannot read a sentence, or is slow; else empty.
    stores : all of them.
    """

    def __init__(self, engine: Engine, outline: ModelOutline, arrived: Callable[[], None]) -> None:
        self.has_read: Callable[[Sentence], None] = lambda sentence: None
        self.warning = ""
        self._engine = engine
        self._outline = outline
        self._arrived = arrived
        self._selected: tuple[AttentionMaps, AttentionMap] | None = None
        self._last_small: Small | None = None
        self._sentences: Store[Read, Sentence] = Store(self._read, arrived)
        self._layers: Store[MapQuery, AttentionMaps] = Store(self._ask_layer, arrived, LAYERS)
        self.heads: Store[MapQuery, AttentionMap] = Store(lambda query: engine.whole_map(query, "compare"), arrived)
        self.parts: Store[Rectangle, PooledMap] = Store(lambda part: engine.pooled(*part), arrived, PARTS)
        self._small: Store[Small, Mapping[int, PooledMap]] = Store(self._ask_small, arrived, PARTS)
        self.lines: Store[Cross, MapLines] = Store(lambda cross: engine.map_lines(*cross, "map lines"), arrived, PARTS)
        self.stores = self._sentences, self._layers, self.heads, self.parts, self._small, self.lines

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
        sentence = await asyncio.wrap_future(self._engine.read(text, "sentence", off))
        self.has_read(sentence)
        return sentence

    # --- maps

    def whole(self, query: MapQuery) -> AttentionMap | EngineError | None:
        """Give a map of a short sentence; all maps of its layer are kept."""
        maps, head = self._layers.get(_layer_of(query)), query.name.head
        if not isinstance(maps, AttentionMaps):
            return maps
        if self._selected is None or self._selected[0] is not maps or self._selected[1].name.head != head:
            self._selected = maps, maps.select(head)  # kept, because computing a mean takes long
        return self._selected[1]

    def small(self, query: MapQuery, block: int) -> Mapping[int, PooledMap] | EngineError | None:
        """Give the maps of a layer's heads in blocks, by the number of the head; those of a long sentence come in turn.

        Parameters
        ----------
        query : for the mean over the layer's heads.
        block : queries, and keys, of a block.
        """
        self._last_small = query, block
        return self._small.get(self._last_small)

    def row(self, query: MapQuery, number: int) -> NDArray[np.float32] | None:
        """Give all weights of a query in a long sentence's map; None while they are missing or after an error."""
        lines = self.lines.get((query, (number, 0 if query.name.stack == "cross" else number)))
        return lines.row if isinstance(lines, MapLines) else None

    async def every_weight(self, query: MapQuery) -> AttentionMap:
        """Give all weights of a map, however long the sentence is; may raise an `EngineError`."""
        known = self._layers.peek(_layer_of(query))
        if isinstance(known, AttentionMaps) and query.minuend in (None, query.name):
            return known.select(query.name.head)
        return await asyncio.wrap_future(self._engine.whole_map(query))

    def _ask_layer(self, query: MapQuery) -> Future[AttentionMaps]:
        text, name, off = query.text, query.name, query.off
        if name.is_rollout:
            return self._engine.rollout(text, name.stack, "maps")
        ask = self._engine.differences if query.minuend is not None else self._engine.attention
        return ask(text, name.stack, name.layer, "maps", off)

    async def _ask_small(self, small: Small) -> Mapping[int, PooledMap]:
        """Ask for a layer's maps head by head, each pooled on the engine's thread."""
        query, block = small
        layer = Head(query.name.stack, query.name.layer or 0)
        found: dict[int, PooledMap] = {}
        for number in range(self._outline.layer(layer).heads):
            if small != self._last_small:
                raise Superseded("the cursor moved to another layer")
            asked = replace(query, name=replace(query.name, head=number))
            pooled = self._engine.pooled(asked, MapWindow(block, EVERY, EVERY), "small maps")
            found[number] = await asyncio.wrap_future(pooled)
            if len(found[number].query_tokens) * len(found[number].key_tokens) > AT_ONCE:
                self._small.put(small, dict(found), is_complete=False)
        return found


def _layer_of(query: MapQuery) -> MapQuery:
    """Give the query for the mean over the heads, which stands for all maps of a layer."""
    name = replace(query.name, head=None)
    return replace(query, name=name, minuend=name if query.minuend is not None else None)


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
