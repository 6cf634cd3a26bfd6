"""The attention maps of sentences: which one is looked at, and what is known of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
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
from engine.values.memory import FROM_DISK, MemoryReport, size
from engine.values.outline import ModelOutline
from engine.values.progress import PHASES, Progress
from tui.drawing.facts import short_name
from tui.drawing.progress import progress_sentence, progress_text
from tui.drawing.titles import COMPUTING, Part, difference_part, fact_part, map_part, off_part
from tui.state.session import Averaging, Shown
from tui.state.store import Store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.service.engine import Engine

Read = tuple[str, Off]
"""A sentence, and the heads that are switched off while it is read."""

Rectangle = tuple[MapQuery, str, MapWindow]
"""A rectangle of a map, and the name of the work that computes it."""

Small = tuple[MapQuery, int]
"""All heads' maps of a layer, named by the mean over them, in blocks."""

Cross = tuple[MapQuery, tuple[int, int]]
"""A query's row and a key's column of a map."""

LAYERS = 3
"""Layers of which all heads' maps are remembered; one of a sentence of 512 tokens takes a megabyte a head."""

PARTS = 16
"""Parts of long sentences' maps that are remembered, rows and columns of them, and layers of small maps."""

EVERY = range(1 << 30)
"""Blocks of a whole map: what lies beyond it is left out."""


class Maps:
    """What is known of the maps of sentences; the maps of a long one stay with the engine.

    Parameters
    ----------
    engine : who reads.
    outline : of the model.
    arrived : called when more is known.

    Attributes
    ----------
    has_read : called when a sentence has been read.
    warning : what keeps the model from reading a sentence, or makes it slow.
    computing : what stands in the place of a map that is computed.
    """

    def __init__(self, engine: Engine, outline: ModelOutline, arrived: Callable[[], None]) -> None:
        self.has_read: Callable[[Sentence], None] = lambda sentence: None
        self.warning = ""
        self.computing = COMPUTING
        self._engine = engine
        self._outline = outline
        self._arrived = arrived
        self._is_loaded = False
        self._progress: Progress | None = None
        self._foreseen = ""
        self._selected: tuple[AttentionMaps, AttentionMap] | None = None
        self._last_part: Rectangle | None = None
        self._last_small: Small | None = None
        self._sentences: Store[Read, Sentence] = Store(self._read, arrived)
        self._layers: Store[MapQuery, AttentionMaps] = Store(self._ask_layer, arrived, LAYERS)
        self._heads: Store[MapQuery, AttentionMap] = Store(self._ask_head, arrived)
        self._parts: Store[Rectangle, PooledMap] = Store(self._ask_part, arrived, PARTS)
        self._small: Store[Small, Mapping[int, PooledMap]] = Store(self._ask_small, arrived, PARTS)
        self._lines: Store[Cross, MapLines] = Store(self._ask_lines, arrived, PARTS)
        self._stores = self._sentences, self._layers, self._heads, self._parts, self._small, self._lines

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked of the engine."""
        return all(store.is_idle for store in self._stores)

    def close(self) -> None:
        """Wait for nothing any more."""
        for store in self._stores:
            store.close()

    # --- sentences

    def sentence(self, shown: Shown) -> Sentence | EngineError | None:
        """Give the sentence that is shown as the model reads it, or why it does not; None while it is read."""
        return None if shown.text is None else self._sentences.get((shown.text, shown.off_in_maps))

    def read_again(self) -> None:
        """Have sentences read again."""
        for store in self._stores:
            store.forget()
        self._arrived()

    def is_read_late(self, shown: Shown) -> bool:
        """Say whether the sentence has been read for longer than a moment."""
        return shown.text is not None and self._sentences.is_late((shown.text, shown.off_in_maps))

    async def _read(self, key: Read) -> Sentence:
        """Have the model read a sentence; before the first one, learn whether there is room for the model."""
        text, off = key
        self._progress = None
        foreseeing = None if self._is_loaded else asyncio.ensure_future(self._foresee())
        try:
            sentence = await asyncio.wrap_future(self._engine.read(text, "sentence", off))
        finally:
            if foreseeing is not None:
                foreseeing.cancel()
        self._is_loaded = True
        self.has_read(sentence)
        return sentence

    async def _foresee(self) -> None:
        """Learn before the model is begun that it does not fit, or not into main memory."""
        with suppress(EngineError):  # what keeps a model from being measured is said by what needs it
            self.foresee(await asyncio.wrap_future(self._engine.memory()))

    def foresee(self, memory: MemoryReport) -> None:
        """Note what the model takes of memory, and what is free."""
        placement, need, free = memory.placement, memory.need, memory.free
        self._foreseen = "" if placement is None else placement.refusal
        if placement is None and need is not None and free is not None and need.total > FROM_DISK * free:
            self._foreseen = (
                f"{short_name(self._outline)} needs {size(need.total)} to read a sentence ({need.dtype}), "
                f"{size(free)} are free in main memory; looking for room on a GPU …"
            )
        self._arrived()

    def advance(self, progress: Progress) -> None:
        """Note how far loading the model, reading the sentence or computing a map is."""
        is_own = progress.activity in PHASES and not progress.finished
        self._progress, self._foreseen = progress if is_own else None, ""
        self.computing = COMPUTING if progress.finished else f"{progress.activity}: {progress_sentence(progress)} …"
        self._arrived()

    @property
    def reading(self) -> str:
        """What the sentence waits for: the first one for the whole model, which may be large."""
        name, progress = short_name(self._outline), self._progress
        if progress is not None and progress.unit == "layers":
            return f"{name} is reading the sentence: {progress_sentence(progress)} …"
        if self._is_loaded:
            return f"{name} is reading the sentence …"
        if self._foreseen:
            return self._foreseen
        if progress is None:
            return f"{name} is getting ready to read the sentence …"
        if progress.unit == "seconds":
            return f"{progress_text(progress)}; then {name} loads and reads the sentence …"
        return f"{name} is loading: {progress_sentence(progress)}; then it reads the sentence …"

    # --- maps

    def whole(self, query: MapQuery) -> AttentionMap | EngineError | None:
        """Give a map of a short sentence, of which all of its layer is remembered."""
        maps, head = self._layers.get(_layer_of(query)), query.name.head
        if not isinstance(maps, AttentionMaps):
            return maps
        if self._selected is None or self._selected[0] is not maps or self._selected[1].name.head != head:
            self._selected = maps, maps.select(head)  # a mean takes its time
        return self._selected[1]

    def of_head(self, query: MapQuery) -> AttentionMap | EngineError | None:
        """Give one head's map of a short sentence, of which the others of its layer are let go of."""
        return self._heads.get(query)

    def part(self, query: MapQuery, work: str, window: MapWindow) -> PooledMap | EngineError | None:
        """Give a rectangle of a long sentence's map; newer work of the same name replaces older."""
        self._last_part = query, work, window
        return self._parts.get(self._last_part)

    def is_late(self, query: MapQuery) -> bool:
        """Say whether a map, or the part that was asked for last, has been computed for longer than a moment."""
        part = self._last_part
        is_part_late = part is not None and part[0] == query and self._parts.is_late(part)
        return is_part_late or self._layers.is_late(_layer_of(query)) or self._heads.is_late(query)

    def small(self, query: MapQuery, block: int) -> Mapping[int, PooledMap] | EngineError | None:
        """Give the whole maps of a layer's heads in blocks, by the number of the head; of a long sentence, some first.

        Parameters
        ----------
        query : of the mean over the layer's heads.
        block : queries, and keys, of a block.
        """
        self._last_small = query, block
        return self._small.get(self._last_small)

    def is_small_late(self, query: MapQuery, block: int) -> bool:
        """Say whether they have been computed for longer than a moment."""
        return self._small.is_late((query, block))

    def lines(self, query: MapQuery, place: tuple[int, int]) -> MapLines | EngineError | None:
        """Give a query's row and a key's column of a long sentence's map."""
        return self._lines.get((query, place))

    def row(self, query: MapQuery, number: int) -> NDArray[np.float32] | None:
        """Give all weights of a query of a long sentence's map; None while they are to come, or cannot be had."""
        lines = self.lines(query, (number, 0 if query.name.stack == "cross" else number))
        return lines.row if isinstance(lines, MapLines) else None

    async def every_weight(self, query: MapQuery) -> AttentionMap:
        """Give all weights of a map, however long the sentence is.

        Raises
        ------
        EngineError : when they cannot be had.
        """
        known = self._layers.peek(_layer_of(query))
        if isinstance(known, AttentionMaps) and query.minuend in (None, query.name):
            return known.select(query.name.head)
        return await asyncio.wrap_future(self._engine.whole_map(query))

    async def every_map(self, query: MapQuery) -> AttentionMaps:
        """Give all weights of a layer's maps.

        Raises
        ------
        EngineError : when they cannot be had.
        """
        name = query.name
        return await asyncio.wrap_future(self._engine.attention(query.text, name.stack, name.layer, off=query.off))

    def _ask_layer(self, query: MapQuery) -> Future[AttentionMaps]:
        """Ask for a layer's maps, or the means over the layers, or for the rollout."""
        text, name, off = query.text, query.name, query.off
        if name.is_rollout:
            return self._engine.rollout(text, name.stack, "maps")
        ask = self._engine.differences if query.minuend is not None else self._engine.attention
        return ask(text, name.stack, name.layer, "maps", off)

    async def _ask_head(self, query: MapQuery) -> AttentionMap:
        """Ask for a layer's maps, and copy one out of them."""
        name = query.name
        asked = self._engine.attention(query.text, name.stack, name.layer, "compare", query.off)
        map = (await asyncio.wrap_future(asked)).select(name.head)
        return replace(map, weights=map.weights.copy())

    def _ask_part(self, part: Rectangle) -> Future[PooledMap]:
        """Ask for a rectangle."""
        query, work, window = part
        return self._engine.pooled(query, window, work)

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

    def _ask_lines(self, cross: Cross) -> Future[MapLines]:
        """Ask for a row and a column."""
        return self._engine.map_lines(*cross, "map lines")


def _layer_of(query: MapQuery) -> MapQuery:
    """Name all maps of a layer by the mean over its heads."""
    name = replace(query.name, head=None)
    return replace(query, name=name, minuend=name if query.minuend is not None else None)


def map_name(shown: Shown, outline: ModelOutline) -> MapName:
    """Name the map that is shown; a whole layer has no head of its own, so its heads are averaged."""
    selected, averaging = shown.selected, shown.averaging
    if selected is None or averaging is Averaging.ROLLOUT:
        stack = outline.stacks[0] if selected is None else selected.stack
        return MapName(stack, None, None, averaging is Averaging.ROLLOUT)
    is_mean = selected.is_layer or averaging in (Averaging.HEADS, Averaging.BOTH)
    return MapName(
        selected.stack, None if averaging.over_layers else selected.layer, None if is_mean else selected.head
    )


def map_query(shown: Shown, name: MapName) -> MapQuery:
    """Name a map of the sentence as it is looked at: by itself, or subtracted from its counterpart."""
    is_difference = shown.difference and not name.is_rollout
    return MapQuery(shown.text or "", name, shown.off_in_maps, name if is_difference else None)


def map_title(shown: Shown, outline: ModelOutline) -> list[Part]:
    """Say which map is shown, and with which heads off."""
    name, off = map_name(shown, outline), shown.off
    parts = [map_part(name, outline)]
    is_difference = shown.difference and not name.stack.endswith(DELTA) and not name.is_rollout
    if off.heads:
        all_on = fact_part("with all heads on", " · ")
        parts.append(all_on if name.is_rollout else off_part(off, is_difference=is_difference))
    elif is_difference:
        parts.append(difference_part())
    return parts


def next_averaging(shown: Shown, outline: ModelOutline, *, is_long: bool) -> Averaging:
    """Give the next kind of mean that shows another map; a long sentence has no rollout."""
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
