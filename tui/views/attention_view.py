"""The attention view: the map of one head, of a mean, or of the rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from textual import on
from textual.binding import Binding, BindingType

from engine.analysis.attention import map_table
from engine.mathematics.attention import spread, visible_keys
from engine.values.attention import AttentionMap, MapName, PooledMap, Sentence
from engine.values.heads import DELTA, Head, no_attention
from engine.values.table import AnyTable
from tui.drawing.facts import brief_notice
from tui.drawing.levels import Scale
from tui.drawing.titles import FACT, WORDS, Part, cell_part, fact_part
from tui.drawing.token_spelling import spell_map
from tui.state.maps import MapQuery, Maps, map_name, map_query, map_title, next_averaging
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.toolkit.keys import SENTENCE, key_of, shared_key
from tui.toolkit.messages import DrawingWanted, Notice
from tui.views.pane import SentencePane
from tui.widgets.heatmap import Heatmap, MapSource
from tui.widgets.line import Line


def map_source(maps: Maps, query: MapQuery, map: AttentionMap, sentence: Sentence) -> MapSource:
    """Give a map to draw; of a long sentence, it is pooled part by part."""
    if sentence.is_long:
        return MapSource(query, map, lambda window: maps.parts.get((query, window)))
    return MapSource(query, spell_map(map, sentence))


class AttentionPane(SentencePane):
    """The map in character cells, with a legend and a readout of the cell under the cursor.

    Attributes
    ----------
    opened_from : the view that escape leads back to, the layer maps or the terms of a cell; empty for none.
    """

    view = "attention"
    uses = ("selected", "averaging", "text", "waiting_text", "off", "difference", "map_scale", "is_numbered")
    asks = ("maps",)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "step_back", "Back to the layer maps, or to the terms of the cell", id="map.back"),
        shared_key("averaging", "a", "averaging", "Head, means, rollout", SENTENCE),
    ]

    def __init__(self) -> None:
        self.heatmap = Heatmap(name="attention map")
        self.legend_line = Line(classes="pane-legend")
        super().__init__(self.heatmap, self.legend_line)
        self.opened_from = ""

    @property
    def foot_keys(self) -> Mapping[str, str]:
        """The zoom, in the direction that changes something, and what else the map can show."""
        zoom = {"in": {"heatmap.zoom_in": "Zoom"}, "out": {"heatmap.zoom_out": "Zoom out"}}
        return {
            **zoom.get(self.heatmap.zooms, {}),
            "heatmap.largest": "Largest",
            "app.averaging": "Mean",
            "app.explain": "Explain",
            "map.back": "Small maps" if self.opened_from == "maps" else "Terms",
        }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer escape only where there is a view to go back to."""
        return action != "step_back" or bool(self.opened_from)

    def step_back(self) -> bool:
        """Go back to the view that it was opened from."""
        if self.opened_from:
            self.app.call_later(self.app.run_action, f"views.view('{self.opened_from}')")
        return bool(self.opened_from)

    def action_averaging(self) -> None:
        """Show the head's map or the next mean; where no map is in view, say which."""
        shown, attention = self.session.shown, key_of(self, "app.attention")
        if shown.view == "compare":
            self.post_message(Notice(f"compare shows single heads; {attention} shows means"))
        elif self.stores is not None:
            sentence = self.stores.maps.sentence(shown)
            is_long = isinstance(sentence, Sentence) and sentence.is_long
            averaging = next_averaging(shown, self.stores.outline, is_long=is_long)
            self.session.change(averaging=averaging)
            if not (self.display or shown.view == "text"):
                self.post_message(Notice(f"{averaging.value}: {attention} shows the map"))

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the map of the sentence; of a long one, the part in view."""
        title, name = map_title(shown, stores.outline), map_name(shown, stores.outline)
        if (sentence := self.sentence_of(shown, stores, title)) is None:
            return
        if name.stack.endswith(DELTA):
            self.show_message(title, no_attention(name.stack))
            return
        query = map_query(shown, name)
        map = stores.maps.whole.get(query)
        if not isinstance(map, AttentionMap):
            self.show_missing(title, map, is_late=stores.maps.is_late)
            return
        source = map_source(stores.maps, query, map, sentence)
        answer = self.heatmap.show(source, shown.map_scale, is_numbered=shown.is_numbered)
        if not isinstance(answer, PooledMap) and (answer is not None or self.heatmap.key != query):
            self.show_missing(title, answer, is_late=stores.maps.is_late)
            return
        head = Head(name.stack, name.layer or 0, name.head or 0)
        if name.layer is not None and name.head is not None and head in stores.labels:
            label, clearness = stores.labels[head]
            score = f"{label} {clearness:.2f}"
            title.insert(1, Part(f"{score} on random tokens", " · ", ((WORDS, score), (FACT, ""))))
        if source.is_whole and (entropy := _entropy_of(map)) is not None:
            title.append(fact_part(f"entropy {entropy:.2f}", " · "))
        title.append(fact_part({"sink": "linear beyond the first key"}.get(self.scale, self.scale)))
        as_text = () if source.is_whole else (f"{key_of(self.app, 'app.text')}: as text",)
        notice = ", ".join(filter(None, (brief_notice(sentence.notice), *as_text)))
        self.show_drawn([*title, fact_part(notice, style="italic")])
        self._refresh_lines()

    def replace_by(self, message: str) -> None:
        """Show why there is no map, or none yet."""
        self.heatmap.show_message(message)

    @property
    def shown_query(self) -> MapQuery | None:
        """The map that is on screen."""
        key = self.heatmap.key
        return key if isinstance(key, MapQuery) else None

    @property
    def shown_name(self) -> MapName | None:
        """The name of the map on screen."""
        return None if self.shown_query is None else self.shown_query.name

    @property
    def table_name(self) -> str:
        """The rollout has a table of its own."""
        return "rollout" if self.shown_name is not None and self.shown_name.is_rollout else self.view

    def table_subject(self) -> str:
        """Name the map on screen."""
        if (name := self.shown_name) is None:
            raise self.nothing_drawn
        return "" if name.is_rollout else f"L{name.layer_label}H{name.head_label}"

    async def whole_map(self) -> AttentionMap:
        """Give all weights of the map on screen; `EngineError` when there is none, or it cannot be computed again."""
        if self.shown_query is None:
            raise self.nothing_drawn
        return await self.known.maps.whole.wait_for(self.shown_query)

    async def whole_table(self) -> AnyTable:
        """Give a row for every weight."""
        return map_table(await self.whole_map())

    @property
    def cell(self) -> tuple[int, int] | None:
        """The query and key under the cursor; in a block, those of its largest weight."""
        return self.heatmap.looked_at

    @property
    def cell_name(self) -> Part | None:
        """The query and key under the cursor with their tokens, for a title; None where there is no map."""
        cell, pooled = self.cell, self.heatmap.pooled
        if cell is None or pooled is None:
            return None
        return cell_part(cell, pooled.query_tokens[cell[0]], pooled.key_tokens[cell[1]])

    @property
    def scale(self) -> Scale:
        """How weights become colours."""
        return self.heatmap.scale

    def _refresh_lines(self) -> None:
        if self.heatmap.pooled is not None:
            width = self.readout_line.size.width or self.room
            self.legend_line.show(self.heatmap.legend(width - 2))
            self.readout_line.show(self.heatmap.readout(width))

    @on(Heatmap.CursorMoved)
    def _read_out(self) -> None:
        self._refresh_lines()
        if not self.session.change(cell=self.heatmap.cursor):
            self.post_message(DrawingWanted())


def _entropy_of(map: AttentionMap) -> float | None:
    """Give the mean entropy of a map's queries in nats; None for a difference, the rollout, or undefined rows."""
    if map.is_signed or map.name.is_rollout:
        return None
    weights = map.weights[None]
    entropy = float(spread(weights, map.visible or visible_keys(weights))["entropy"][0])
    return entropy if np.isfinite(entropy) else None
