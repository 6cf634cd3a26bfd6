"""The pane with all heads of a layer as small maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult

from engine.values.attention import PooledBlock, PooledMap
from engine.values.heads import Head
from tui.drawing.levels import Scale
from tui.drawing.readout import of_weight
from tui.drawing.tiles import Tiles
from tui.toolkit.messages import HeadPicked
from tui.views.pane import Pane
from tui.widgets.line import Line
from tui.widgets.small_maps import SmallMaps


class HeadsPane(Pane):
    """Small maps on one scale; the head under the cursor is the selected one, which a large terminal shows beside."""

    view = "maps"
    has_scale = True
    is_beside_map = True
    is_of_sentence = True

    def __init__(self) -> None:
        super().__init__()
        self.add_class("-table")
        self.maps = SmallMaps()
        self.legend_line = Line(classes="pane-legend")
        self.of_layer: Head | None = None
        self._title = ""

    def compose(self) -> ComposeResult:
        """Stack the title, the maps, the legend and the readout."""
        yield self.title_line
        yield self.maps
        yield self.legend_line
        yield self.readout_line

    def show(
        self,
        layer: Head,
        title: str,
        tiles: Tiles,
        names: Sequence[str],
        maps: Mapping[int, PooledMap],
    ) -> None:
        """Draw the maps of a layer that have come so far, of a long sentence perhaps."""
        self.of_layer, self.is_waiting = layer, False
        self._set_title(title)
        self.maps.show(tiles, names, maps)
        self._read_out()

    def show_waiting(self, layer: Head, title: str, heads: int) -> None:
        """Say that the maps of a layer's heads are to come."""
        self.show_message(title, "computing …", heads, is_waiting=True)
        self.of_layer = layer

    def show_message(self, title: str, message: str, heads: int = 0, *, is_waiting: bool = False) -> None:
        """Say why there are no maps, of how many heads."""
        self.of_layer, self.is_waiting = None, is_waiting
        self._set_title(title)
        self.maps.show_message(message, heads)
        self.maps.expect(is_waiting)
        self.legend_line.show("")
        self.readout_line.show("")

    def select(self, head: Head | None) -> None:
        """Put the cursor on the selected head."""
        self.maps.select(None if head is None or head.is_layer else head.head)
        self._read_out()

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self.maps.begin_on(scale)

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        self.maps.toggle_scale()
        self._read_out()

    def _set_title(self, title: str) -> None:
        """Say what is shown, and which of the maps the cursor is on where not all are in view."""
        self._title, at = title, self.maps.position
        layer, dot, rest = title.partition(" · ")
        self.title_line.show(Text.assemble(("maps ", "bold"), f"{layer}{dot}{f'{at} of ' * bool(at)}{rest}"))

    def _read_out(self) -> None:
        """Explain the levels, and name the largest weight of the map under the cursor."""
        if self.of_layer is None or not self.maps.has_maps:
            return
        self._set_title(self._title)
        self.legend_line.show(self.maps.legend(self.legend_line.size.width - 2))
        pooled, number = self.maps.pooled, self.maps.cursor
        if pooled is None or not pooled.values.size:
            self.readout_line.show("")
            return
        start, block = f"H{number} max ", _largest(pooled)
        room = self.readout_line.size.width - len(start)
        words = of_weight(block, pooled.query_tokens, pooled.key_tokens, room)
        self.readout_line.show(start + words)

    @property
    def named(self) -> tuple[Head, PooledBlock] | None:
        """The head under the cursor, and the block of its map that has the weight which the readout names."""
        pooled, number = self.maps.pooled, self.maps.cursor
        if self.of_layer is None or number is None or pooled is None or not pooled.values.size:
            return None
        return Head(self.of_layer.stack, self.of_layer.layer, number), _largest(pooled)

    @on(SmallMaps.Picked)
    def _pick(self, event: SmallMaps.Picked) -> None:
        """Have the head selected that a person went to."""
        self._read_out()
        if self.of_layer is not None:
            self.post_message(HeadPicked(Head(self.of_layer.stack, self.of_layer.layer, event.number)))

    @on(SmallMaps.Opened)
    def _open(self) -> None:
        """Show the head's map in large."""
        self.app.call_later(self.app.run_action, "app.open_map('maps')")


def _largest(pooled: PooledMap) -> PooledBlock:
    """Give the block of a map that has its largest weight."""
    at = np.unravel_index(int(np.nan_to_num(pooled.maxima).argmax()), pooled.maxima.shape)
    return pooled.at(pooled.window.rows.start + int(at[0]), pooled.window.columns.start + int(at[1]))
