"""All heads of the selected layer as small maps: which are known, and what is asked of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from engine.analysis.attention import attention_table, block_table
from engine.service.engine import Engine
from engine.values.attention import AT_ONCE, MapName, MapQuery, MapWindow, PooledMap
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head, Off
from engine.values.outline import ModelOutline
from engine.values.table import AnyTable
from tui.drawing.spelling import map_with_parts
from tui.drawing.tiles import Tiles
from tui.state.session import Shown
from tui.toolkit.tasks import Run, patiently
from tui.views.layer_maps_view import HeadsPane
from tui.waiting import no_sentence

EVERY = range(1 << 30)
"""Blocks of a whole map: what lies beyond it is left out."""

Drawn = tuple[Head, str, Off, Tiles]
"""A layer, a sentence, the heads that are switched off, and how the maps share the pane."""


class HeadsOfLayer:
    """The maps of one layer's heads, pooled by the engine to what the pane has room for.

    Parameters
    ----------
    engine : who reads.
    outline : of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    name_of : gives what is written over a head's map.
    """

    def __init__(
        self,
        engine: Engine,
        outline: ModelOutline,
        run: Run,
        name_of: Callable[[Head], str],
    ) -> None:
        self._engine = engine
        self._outline = outline
        self._run = run
        self._name_of = name_of
        self._shown: Drawn | None = None
        self._maps: dict[int, PooledMap] = {}
        self._selected: Head | None = None

    def draw(self, pane: HeadsPane, shown: Shown) -> None:
        """Draw the maps of the selected layer's heads, or ask for them, or say why there are none."""
        selected, text, off = shown.selected, shown.text, shown.off_in_maps
        self._selected = selected
        if selected is None:
            pane.show_message("", "choose a layer or a head in the tree")
            return
        title = self._title(selected, off)
        if text is None:
            message, is_waiting = no_sentence(pane.app, self._outline, shown)
            pane.show_message(title, message, is_waiting=is_waiting)
            return
        layer = selected.whole_layer
        if self._is_drawn(pane, layer, text, off):
            pane.maps.rename(self._names(layer))
            pane.select(selected)
            return
        self._run(partial(self._fetch, pane, layer, title, text, off), "heads")

    def _is_drawn(self, pane: HeadsPane, layer: Head, text: str, off: Off) -> bool:
        """Say whether the pane shows the maps of a layer already, in the detail that it has room for."""
        if self._shown is None or self._shown[:3] != (layer, text, off) or not pane.maps.has_maps:
            return False
        return pane.maps.lay_out(self._outline.layer(layer).heads, *_size(self._maps[0])) == self._shown[3]

    def _title(self, selected: Head, off: Off) -> str:
        """Say of which layer the maps are."""
        stack = f"{selected.stack} " if len(self._outline.stacks) > 1 else ""
        without = f" · with {off}" if off.heads else ""
        count = quantity(self._outline.layer(selected).heads, "head")
        return f"{stack}layer {selected.layer} · {count}{without}"

    def _names(self, layer: Head) -> list[str]:
        """List what is written over the maps."""
        return [self._name_of(head) for head in self._outline.layer(layer).head_names()]

    async def _fetch(self, pane: HeadsPane, layer: Head, title: str, text: str, off: Off) -> None:
        """Learn the maps head by head, each pooled on the engine's thread; of a long sentence draw each as it comes."""
        names = self._names(layer)

        def waiting() -> None:
            if not maps:
                pane.show_waiting(layer, title, len(names))
                pane.select(self._selected)

        maps: dict[int, PooledMap] = {}
        if pane.maps.is_blank:
            waiting()
        sentence = await patiently(self._engine.read(text, "heads", off), waiting)
        if isinstance(sentence, EngineError):
            pane.show_message(title, str(sentence))
            return
        notice = sentence.notice.removeprefix("the model reads the ")
        tiles = pane.maps.lay_out(len(names), len(sentence.ids), len(sentence.ids))
        for number in range(len(names)):
            pooled = await self._pooled(layer, number, tiles, text, off, waiting)
            if isinstance(pooled, PooledMap) and not number:
                fitting = pane.maps.lay_out(len(names), *_size(pooled))
                if fitting != tiles:  # other tokens are along the sides than those of the sentence itself
                    tiles, pooled = fitting, await self._pooled(layer, number, fitting, text, off, waiting)
            if isinstance(pooled, EngineError):
                pane.show_message(title, str(pooled))
                return
            if self._selected is None or self._selected.whole_layer != layer:
                return  # a person has gone back to the layer that is drawn
            maps[number] = pooled
            if sentence.is_long or number + 1 == len(names):
                self._shown, self._maps = (layer, text, off, tiles), maps
                shown = {head: map_with_parts(each, sentence) for head, each in maps.items()}
                titled = f"{title}  {notice}".rstrip()
                pane.show(layer, titled, tiles, names, shown)
                pane.select(self._selected)

    async def _pooled(
        self, layer: Head, number: int, tiles: Tiles, text: str, off: Off, waiting: Callable[[], None]
    ) -> PooledMap | EngineError:
        """Ask for one head's whole map in the tiles' blocks."""
        name, window = MapName(layer.stack, layer.layer, number), MapWindow(tiles.block, EVERY, EVERY)
        return await patiently(self._engine.pooled(MapQuery(text, name, off), window, "heads"), waiting)

    async def table(self) -> AnyTable:
        """Give every weight of the maps that are drawn; of a long sentence's the blocks that are drawn.

        Raises
        ------
        EngineError : when nothing is drawn yet.
        """
        if self._shown is None or len(self._maps) < self._outline.layer(self._shown[0]).heads:
            raise EngineError("the heads view does not show all its maps yet; nothing was written")
        layer, text, off, _ = self._shown
        queries, keys = _size(self._maps[0])
        if queries * keys > AT_ONCE:
            return block_table(list(self._maps.values()))
        maps = await asyncio.wrap_future(self._engine.attention(text, layer.stack, layer.layer, off=off))
        return attention_table(maps.select(number) for number in range(len(maps.weights)))


def _size(pooled: PooledMap) -> tuple[int, int]:
    """Count the queries and the keys of a whole map."""
    return len(pooled.query_tokens), len(pooled.key_tokens)
