"""The layer maps: small maps of all heads of a layer."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from textual import on

from engine.analysis.attention import attention_table
from engine.values.attention import MapName, PooledBlock, PooledMap
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.table import AnyTable
from tui.drawing.facts import brief_notice
from tui.drawing.levels import Scale
from tui.drawing.readout import weight_readout
from tui.drawing.titles import Part, fact_part, layer_part, off_part
from tui.state.maps import MapQuery
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.views.pane import SentencePane
from tui.widgets.line import Line
from tui.widgets.small_maps import SmallMaps


class HeadsPane(SentencePane):
    """Small maps on one scale; the cursor is on the selected head, whose map a large terminal shows beside them."""

    view = "maps"
    table_name: ClassVar[str] = "attention"
    is_beside_map = True
    is_of_sentence = True
    uses = ("selected", "text", "waiting_text", "off", "pins", "map_scale")
    asks = ("maps",)

    def __init__(self) -> None:
        self.maps = SmallMaps()
        self.legend_line = Line(classes="pane-legend")
        super().__init__(self.maps, self.legend_line)
        self.add_class("-table")
        self.of_layer: Head | None = None
        self._count = 0
        self._title: Sequence[Part] = ()

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the maps of the selected layer's heads that have come so far."""
        selected, outline = shown.selected, stores.outline
        if selected is None:
            self.show_message((), "choose a layer or a head in the tree")
            return
        layer, heads = selected.whole_layer, outline.layer(selected).head_names()
        names = tuple(heads)
        self._count = len(names)
        title = [layer_part(layer.layer, layer.stack if len(outline.stacks) > 1 else "")]
        if shown.off.heads:
            title.append(off_part(shown.off, outline.stacks))
        sentence = self.sentence_of(shown, stores, title)
        self.maps.select(None if selected.is_layer else selected.head)
        if sentence is None or not self.maps.size:
            return
        query = MapQuery(shown.text or "", MapName(layer.stack, layer.layer, None), shown.off_in_maps)
        tiles = self.maps.lay_out(len(names), len(sentence.ids), len(sentence.ids))
        found = stores.maps.small.get((query, tiles.block))
        if isinstance(found, Mapping):  # whose queries and keys can be other tokens than the sentence's
            tiles = self.maps.lay_out(len(names), len(found[0].query_tokens), len(found[0].key_tokens))
            found = stores.maps.small.get((query, tiles.block))
        if not isinstance(found, Mapping):
            self.show_missing(title, found, is_late=stores.maps.is_late)
            return
        notice = brief_notice(sentence.notice)
        labels = (stores.short_label(head) for head in names)  # maps may be as narrow as the tree
        written = [
            f"H{head.head}{'*' if head in shown.pins else ''}{f' {label}' if label else ''}"
            for head, label in zip(names, labels, strict=True)
        ]
        self.maps.show(tiles, written, found, shown.map_scale)
        self.of_layer = layer
        self.show_drawn([*title, fact_part(notice)])
        self._read_out()

    def drawing_key(self, shown: Shown, stores: Stores) -> Hashable:
        """Add the size of the maps."""
        return super().drawing_key(shown, stores), self.maps.size

    def replace_by(self, message: str) -> None:
        """Show why there are no maps, or none yet; while they are computed, the cursor can move between the heads."""
        self.of_layer = None
        self.maps.show_message(message, self._count if self.is_waiting else 0)

    @property
    def scale(self) -> Scale:
        """How weights become colours."""
        return self.maps.scale

    def show_title(self, title: Sequence[Part], state: Sequence[str] = ()) -> None:
        """Name the layer, and where not all maps are in view, the number of the one under the cursor."""
        self._title = title
        at, count = self.maps.position, quantity(self._count, "head")
        counted = [fact_part(f"{at} of {count}" if at else count, " · ")] if title else []
        super().show_title([*title[:1], *counted, *title[1:]], state)

    def _read_out(self) -> None:
        if self.of_layer is None:
            return
        self.show_title(self._title)
        self.legend_line.show(self.maps.legend(self.legend_line.size.width - 2))
        pooled, number = self.maps.pooled, self.maps.cursor
        if pooled is None or not pooled.values.size:
            self.readout_line.show("")
            return
        start, room = f"H{number} ", self.readout_line.size.width
        words = weight_readout(_last_largest(pooled), pooled.query_tokens, pooled.key_tokens, room - len(start))
        self.readout_line.show(start + words)

    @on(SmallMaps.Picked)
    def _pick(self, event: SmallMaps.Picked) -> None:
        selected = self.session.shown.selected
        self._read_out()
        if selected is not None:
            self.session.change(selected=Head(selected.stack, selected.layer, event.number))

    @on(SmallMaps.Entered)
    def _open_map(self) -> None:
        self.app.call_later(self.app.run_action, "views.open_map('maps')")

    def table_subject(self) -> str:
        """Name the layer."""
        selected = self.session.shown.selected
        return f"{selected and selected.whole_layer}-heads"

    async def whole_table(self) -> AnyTable:
        """Give every weight of the maps."""
        layer, shown = self.of_layer, self.session.shown
        if layer is None or len(self.maps.maps) < self._count:
            raise EngineError("some layer maps are still missing; nothing was written")
        asked = self.known.engine.attention(shown.text or "", layer.stack, layer.layer, off=shown.off_in_maps)
        maps = await asyncio.wrap_future(asked)
        return attention_table(maps.select(number) for number in range(len(maps.weights)))


def _last_largest(pooled: PooledMap) -> PooledBlock:
    """Return the block with the largest weight of the last query, or of the last row of blocks."""
    window, key = pooled.window, int(np.nan_to_num(pooled.values[-1]).argmax())
    return pooled.at(window.rows.stop - 1, window.columns.start + key)
