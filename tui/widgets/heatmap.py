"""An attention map in character cells, with labels on both axes and a cursor that reads the weights out."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from engine.values.attention import AttentionMap
from tui.drawing.legend import legend
from tui.drawing.levels import Scale
from tui.drawing.text import fit, harmless, in_ascii
from tui.widgets.heatmap_canvas import HeatmapCanvas
from tui.widgets.rulers import Rulers


class Heatmap(Widget, can_focus=True):
    """Shows one attention map and moves a cursor over it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Previous query", show=False, id="heatmap.up"),
        Binding("down,j", "move(1, 0)", "Next query", show=False, id="heatmap.down"),
        Binding("left,h", "move(0, -1)", "Previous key", show=False, id="heatmap.left"),
        Binding("right,l", "move(0, 1)", "Next key", show=False, id="heatmap.right"),
        Binding("pageup", "page(-1, 0)", "A page of queries up", show=False, id="heatmap.page_up"),
        Binding("pagedown", "page(1, 0)", "A page of queries down", show=False, id="heatmap.page_down"),
        Binding("ctrl+left,H", "page(0, -1)", "A page of keys left", show=False, id="heatmap.page_left"),
        Binding("ctrl+right,L", "page(0, 1)", "A page of keys right", show=False, id="heatmap.page_right"),
        Binding("home", "key_edge(False)", "First key", show=False, id="heatmap.first_key"),
        Binding("end", "key_edge(True)", "Last key", show=False, id="heatmap.last_key"),
        Binding("ctrl+home,g", "query_edge(False)", "First query", show=False, id="heatmap.first_query"),
        Binding("ctrl+end,G", "query_edge(True)", "Last query", show=False, id="heatmap.last_query"),
    ]
    DEFAULT_CSS = """
    Heatmap {
        width: 1fr;
        height: 1fr;
        layers: under over;
        & > Rulers { layer: under; }
        & > HeatmapCanvas { layer: over; }
    }
    """

    class CursorMoved(Message):
        """The cursor is on another cell, or its cell has another weight because another map is shown.

        Attributes
        ----------
        heatmap : whose cursor it is.
        query, key : the cell, from zero.
        weight : of the cell.
        """

        def __init__(self, heatmap: Heatmap, query: int, key: int, weight: float) -> None:
            self.heatmap = heatmap
            self.query = query
            self.key = key
            self.weight = weight
            super().__init__()

        @property
        def control(self) -> Heatmap:
            """The heatmap, for `textual.on` with a selector."""
            return self.heatmap

    def __init__(
        self, *, ascii: bool = False, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._ascii = ascii
        self._rulers = Rulers()
        self._canvas = HeatmapCanvas(self._rulers, ascii_only=ascii)

    def compose(self) -> ComposeResult:
        """Put the canvas over the rulers."""
        yield self._rulers
        yield self._canvas

    def show(self, map: AttentionMap | None) -> None:
        """Show another map, or nothing; the cursor stays on its cell as far as the new map has it."""
        if map is None or not map.weights.size:
            self._canvas.draw(None, self._canvas.message, self.scale, self.cursor)
            return
        queries, keys = map.weights.shape
        query, key = self.cursor
        self._canvas.draw(map, "", self.scale, (min(query, queries - 1), min(key, keys - 1)))
        self._tell()

    def show_message(self, text: str) -> None:
        """Show a sentence in place of a map."""
        self._canvas.draw(None, self._plain(text), self.scale, self.cursor)

    @property
    def map(self) -> AttentionMap | None:
        """The map that is shown."""
        return self._canvas.map

    @property
    def cursor(self) -> tuple[int, int]:
        """The cell under the cursor: query and key, from zero."""
        return self._canvas.cursor

    @property
    def scale(self) -> Scale:
        """Linear, from zero to the map's largest weight, or logarithmic, from 1e-4 to 1."""
        return self._canvas.scale

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        scale: Scale = "log" if self.scale == "linear" else "linear"
        self._canvas.draw(self.map, self._canvas.message, scale, self.cursor)

    def move_to(self, query: int, key: int) -> None:
        """Put the cursor on a cell, or on the nearest that the map has."""
        if self.map is None:
            return
        queries, keys = self.map.weights.shape
        cursor = (min(max(query, 0), queries - 1), min(max(key, 0), keys - 1))
        if cursor != self.cursor:
            self._canvas.move_cursor(cursor)
            self._tell()

    def readout(self, width: int = 120) -> str:
        """Say in plain text what is under the cursor, or nothing when no map is shown.

        The tokens are cut until the line fits into ``width`` cells, but not to less than four.
        """
        if self.map is None:
            return ""
        query, key = self.cursor
        weight = self._weight()
        number = f"{weight:.1e}" if 0 < weight < 5e-5 else f"{weight:.4f}"
        arrow = "->" if self._ascii else "→"
        asked, read = self._plain(self.map.query_tokens[query]), self._plain(self.map.key_tokens[key])
        room = width - len(f'query {query} "" {arrow} key {key} ""  {number}')
        longest = max(room - min(cell_len(asked), cell_len(read)), room // 2, 4)
        asked, read = (fit(token, min(cell_len(token), longest), ascii_only=self._ascii) for token in (asked, read))
        return f'query {query} "{asked}" {arrow} key {key} "{read}"  {number}'

    def legend(self, width: int = 80) -> Text:
        """Explain the levels in one line of at most ``width`` cells, by the weights between them."""
        canvas = self._canvas
        return legend(self.scale, canvas.largest, canvas.ink, canvas.level_styles, width)

    def action_move(self, queries: int, keys: int) -> None:
        """Move the cursor by cells."""
        query, key = self.cursor
        self.move_to(query + queries, key + keys)

    def action_page(self, down: int, right: int) -> None:
        """Move the cursor by as many cells as are in view, less one."""
        queries, keys = self._canvas.window
        self.action_move(down * max(len(queries) - 1, 1), right * max(len(keys) - 1, 1))

    def action_key_edge(self, last: bool) -> None:
        """Move the cursor to the row's first or last key."""
        if self.map is not None:
            self.move_to(self.cursor[0], self.map.weights.shape[1] - 1 if last else 0)

    def action_query_edge(self, last: bool) -> None:
        """Move the cursor to the column's first or last query."""
        if self.map is not None:
            self.move_to(self.map.weights.shape[0] - 1 if last else 0, self.cursor[1])

    def on_heatmap_canvas_picked(self, message: HeatmapCanvas.Picked) -> None:
        """Move the cursor to where the mouse pointed."""
        message.stop()
        query, key = self.cursor
        self.move_to(query if message.query is None else message.query, key if message.key is None else message.key)

    def _weight(self) -> float:
        """Look up the weight under the cursor."""
        return float("nan") if self.map is None else float(self.map.weights[self.cursor])

    def _tell(self) -> None:
        """Tell whoever listens where the cursor is."""
        self.post_message(self.CursorMoved(self, *self.cursor, self._weight()))

    def _plain(self, token: str) -> str:
        """Make a token fit for the readout, its spaces kept."""
        return in_ascii(harmless(token)) if self._ascii else harmless(token)
