"""The attention pane: the heatmap of one head, or of a mean, for the sentence."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from engine.values.attention import AttentionMap, AttentionMaps, MapName, PooledMap, Sentence
from tui.drawing.levels import Scale
from tui.drawing.spelling import map_with_parts
from tui.drawing.text import harmless
from tui.toolkit.keys import key_of
from tui.toolkit.messages import CellMoved
from tui.views.pane import Pane
from tui.widgets.heatmap import Heatmap
from tui.widgets.large_map import LargeMap
from tui.widgets.line import Line


class AttentionPane(Pane):
    """The map in character cells, with a readout under the cursor and a legend.

    Attributes
    ----------
    opened_from : the view it was opened from, the small maps or the terms of a cell, to which escape leads back; or "".
    sentence : whose map is shown; another one may have been read by now. None where no map is shown.
    """

    view = "attention"
    has_scale = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "go_back('maps')", "Back to the layer maps", id="map.back"),
        Binding("escape", "go_back('explain')", "Back to the terms of the cell", id="map.terms"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.opened_from = ""
        self.heatmap = Heatmap(name="attention map")
        self.legend_line = Line(classes="pane-legend")
        self.shown: AttentionMap | None = None
        self.shown_name: MapName | None = None
        self.sentence: Sentence | None = None
        self.title = ""
        self._message = ""

    def compose(self) -> ComposeResult:
        """Stack the title, the map, the legend and the readout."""
        yield self.title_line
        yield self.heatmap
        yield self.legend_line
        yield self.readout_line

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Have escape for itself where there is a view to go back to."""
        return action != "go_back" or parameters == (self.opened_from,)

    def step_back(self) -> bool:
        """Go back to the view that it was opened from."""
        if self.opened_from:
            back = "app.maps" if self.opened_from == "maps" else f"app.view('{self.opened_from}')"
            self.app.call_later(self.app.run_action, back)
        return bool(self.opened_from)

    async def action_go_back(self, view: str) -> None:
        """Do what escape does anywhere, which leads to that view."""
        await self.action_step_back()

    def on_mount(self) -> None:
        """Write the legend again in another theme's colours."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._refresh_lines))

    def on_resize(self) -> None:
        """Write as much in the lines as there is room for now."""
        self._refresh_lines()

    def show(self, maps: AttentionMaps, name: MapName, title: str) -> None:
        """Draw one head's map, or the mean over the heads."""
        self.shown, self.shown_name, self.sentence = maps.select(name.head), name, maps.sentence
        self._message, self.is_waiting = "", False
        self._set_title(title, maps.sentence.notice)
        self.heatmap.show(map_with_parts(self.shown, maps.sentence))
        self._refresh_lines()

    def begin_large(self, large: LargeMap) -> None:
        """Ask for what is to be seen of a long sentence's map; what is on screen stays until it comes."""
        self.shown = None
        self.heatmap.show_large(large)

    def receive(self, pooled: PooledMap, sentence: Sentence, title: str) -> None:
        """Draw what has come of a long sentence's map."""
        self.shown_name, self.sentence = pooled.name, sentence
        self._message, self.is_waiting = "", False
        self._set_title(
            title, f"{sentence.notice}{', ' if sentence.notice else ''}{key_of(self.app, 'app.text')}: as text"
        )
        self.heatmap.receive(map_with_parts(pooled, sentence))
        self._refresh_lines()

    def await_next(self) -> None:
        """Take note that another map is to come, while what is on screen stays for a moment."""
        self.is_waiting = True
        self.heatmap.expect(True)
        self.post_message(CellMoved())

    def show_message(self, title: str, message: str, *, is_waiting: bool = False) -> None:
        """Say why there is no map, or none yet."""
        self.is_waiting = is_waiting
        self.heatmap.expect(is_waiting)
        self.shown = self.shown_name = self.sentence = None
        self._set_title(title, "")
        if message == self._message:
            return
        self._message = message
        self.heatmap.show_message(message)
        self.readout_line.show("")
        self.legend_line.show("")
        self.post_message(CellMoved())

    def show_waiting(self, title: str) -> None:
        """Say that a long sentence's map is computed; it is still drawn when it comes."""
        self.is_waiting = True
        self.heatmap.expect(True)
        self.shown_name = self.sentence = None
        self._set_title(title, "")
        self.heatmap.wait("computing …")
        self.readout_line.show("")
        self.legend_line.show("")

    @property
    def message(self) -> str:
        """Why there is no map; nothing where there is one."""
        return self._message

    @property
    def cell(self) -> tuple[int, int] | None:
        """The query and key under the cursor; where a cell is a block, those of its largest weight."""
        return self.heatmap.looked_at

    @property
    def cell_name(self) -> str:
        """Name that query and key with their tokens; nothing where there is no map."""
        cell, pooled = self.cell, self.heatmap.pooled
        if cell is None or pooled is None:
            return ""
        sides = zip(("query", "key"), cell, (pooled.query_tokens, pooled.key_tokens), strict=True)
        return ", ".join(f'{side} {place} "{harmless(tokens[place])}"' for side, place, tokens in sides)

    @property
    def scale(self) -> Scale:
        """Linear or logarithmic."""
        return self.heatmap.scale

    def number(self, is_numbered: bool) -> None:
        """Write the weights into the map's cells, or not."""
        self.heatmap.number(is_numbered)

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self.heatmap.begin_on(scale)

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        self.heatmap.toggle_scale()
        self._refresh_lines()
        self.post_message(CellMoved())

    def _set_title(self, name: str, notice: str) -> None:
        """Say what is shown."""
        self.title = name
        notice = notice.removeprefix("the model reads the ")
        self.title_line.show(Text.assemble(("attention ", "bold"), name, (f"  {notice}" if notice else "", "italic")))

    def _refresh_lines(self) -> None:
        """Write the legend and what is under the cursor."""
        if self.heatmap.pooled is not None:
            around = self.parent.size.width if isinstance(self.parent, Widget) else self.app.size.width
            width = self.readout_line.size.width or around - 2  # before it is laid out for the first time
            self.legend_line.show(self.heatmap.legend(width - 2))
            self.readout_line.show(self.heatmap.readout(width))

    @on(Heatmap.CursorMoved)
    def _read_out(self) -> None:
        """Say what is under the cursor, and what a cell is."""
        self._refresh_lines()
        self.post_message(CellMoved())
