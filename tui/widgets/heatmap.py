"""An attention map in character cells, with labels on both axes and a cursor that reads the weights out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from engine.mathematics.pooling import pool
from engine.values.attention import AttentionMap, MapWindow, PooledMap, Pooling
from engine.values.heads import MapName
from tui.drawing.axes import CELL_WIDTH, fitting_block
from tui.drawing.legend import legend
from tui.drawing.levels import Scale
from tui.drawing.readout import of_block, of_weight
from tui.drawing.text import in_ascii
from tui.widgets.heatmap_canvas import HeatmapCanvas
from tui.widgets.rulers import Rulers

SCROLLED = 128
"""Tokens up to which a map begins with its single weights, even where they do not fit; a longer one begins whole."""

UNSEEN = (32, 32)
"""Rows and columns of cells to plan for while the widget is not on the screen."""


@dataclass(frozen=True)
class LargeMap:
    """A map whose weights are elsewhere.

    Attributes
    ----------
    name : of the map.
    query_tokens, key_tokens : the texts along both axes, as far as they are known.
    ask : called with what is to be seen of it; the answer goes to `Heatmap.receive`.
    """

    name: MapName
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    ask: Callable[[MapWindow], None]


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
        Binding(
            "full_stop,greater_than_sign",
            "zoom(True)",
            "Zoom in, to the largest weight of the cell",
            show=False,
            id="heatmap.zoom_in",
        ),
        Binding("comma,less_than_sign", "zoom(False)", "Zoom out", show=False, id="heatmap.zoom_out"),
        Binding("f", "fit", "The whole map, or single weights", show=False, id="heatmap.fit"),
        Binding("p", "pooling", "Largest weight of each cell, or mean", show=False, id="heatmap.pooling"),
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
        self._map: AttentionMap | None = None
        self._large: LargeMap | None = None
        self._asked: MapWindow | None = None
        self._cursor = (0, 0)
        self._block = 1
        self._is_fitted = False
        self._pooling: Pooling = "max"
        self._counts = (0, 0)

    def compose(self) -> ComposeResult:
        """Put the canvas over the rulers."""
        yield self._rulers
        yield self._canvas

    def show(self, map: AttentionMap | None) -> None:
        """Show another map, or nothing; the cursor stays on its cell as far as the new map has it."""
        if map is None or not map.weights.size:
            self._show_nothing("")
            return
        self._map, self._large = map, None
        self._begin(len(map.query_tokens), len(map.key_tokens))
        self._draw()

    def show_large(self, large: LargeMap) -> None:
        """Ask for what is to be seen of a map; what is on the screen stays until that comes."""
        self._map, self._large, self._asked = None, large, None
        self._begin(len(large.query_tokens), len(large.key_tokens))
        self._ask()

    def receive(self, pooled: PooledMap) -> None:
        """Show what was asked for."""
        large = self._large
        if large is None or large.name != pooled.name:
            return
        self._large = LargeMap(large.name, pooled.query_tokens, pooled.key_tokens, large.ask)
        self._begin(len(pooled.query_tokens), len(pooled.key_tokens))
        self._paint(pooled)
        self._ask()

    def show_message(self, text: str) -> None:
        """Show a sentence in place of a map."""
        self._show_nothing(text)

    def wait(self, text: str) -> None:
        """Show a sentence until what was asked for comes."""
        self._canvas.draw(None, in_ascii(text) if self._ascii else text, self.scale, (0, 0))

    def _show_nothing(self, message: str) -> None:
        """Show no map."""
        self._map = self._large = self._asked = None
        self.wait(message)

    def _begin(self, queries: int, keys: int) -> None:
        """Choose how to look at a map; one of the same size as before is looked at in the same way."""
        if (queries, keys) != self._counts:
            self._counts = (queries, keys)
            self._is_fitted = max(queries, keys) > SCROLLED
            self._block = self._fitting() if self._is_fitted else 1
            self._cursor = (min(self._cursor[0], queries - 1), min(self._cursor[1], keys - 1))
        elif self._is_fitted:
            self._block = self._fitting()

    @property
    def map(self) -> AttentionMap | None:
        """The map that is shown, where its weights are at hand."""
        return self._map

    @property
    def pooled(self) -> PooledMap | None:
        """What is painted of the map."""
        return self._canvas.map

    @property
    def cursor(self) -> tuple[int, int]:
        """The weight under the cursor: query and key, from zero; with larger cells, one of those in the cell."""
        return self._cursor

    @property
    def scale(self) -> Scale:
        """Linear, from zero to the map's largest value, or logarithmic, from 1e-4 to 1."""
        return self._canvas.scale

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        scale: Scale = "log" if self.scale == "linear" else "linear"
        self._canvas.draw(self.pooled, self._canvas.message, scale, self._canvas.cursor)

    def move_to(self, query: int, key: int) -> None:
        """Put the cursor on a weight, or on the nearest that the map has."""
        if self.pooled is None:
            return
        queries, keys = len(self.pooled.query_tokens), len(self.pooled.key_tokens)
        cursor = (min(max(query, 0), queries - 1), min(max(key, 0), keys - 1))
        if cursor != self._cursor:
            self._cursor = cursor
            self._canvas.move_cursor(self._cell)
            self._tell()

    def readout(self, width: int = 120) -> str:
        """Say in plain text what is under the cursor, or nothing when no map is shown.

        Tokens are cut and numbers left out until the line fits into ``width`` cells.
        """
        pooled = self.pooled
        if pooled is None or not pooled.holds(*self._cell):
            return ""
        block = pooled.at(*self._cell)
        say = of_weight if pooled.window.block == 1 else of_block
        return say(block, pooled.query_tokens, pooled.key_tokens, width, ascii_only=self._ascii)

    def legend(self, width: int = 80) -> Text:
        """Explain the levels in one line of at most ``width`` cells, by the weights between them."""
        canvas, pooled = self._canvas, self.pooled
        if pooled is None:
            return Text("")
        block = pooled.window.block
        sign = "x" if self._ascii else "×"
        of = f"{pooled.window.pooling} of {block}{sign}{block}" if block > 1 else ""
        return legend(self.scale, pooled.largest, canvas.ink, canvas.level_styles, width, of)

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor by cells."""
        if self.pooled is None:
            return
        block = self.pooled.window.block
        counts = (len(self.pooled.query_tokens), len(self.pooled.key_tokens))
        cells = (
            min(max(cell + step, 0), -(-count // block) - 1)
            for cell, step, count in zip(self._cell, (rows, columns), counts, strict=True)
        )
        self.move_to(*(old if cell == old // block else cell * block
                       for cell, old in zip(cells, self._cursor, strict=True)))  # fmt: skip

    def action_page(self, down: int, right: int) -> None:
        """Move the cursor by as many cells as are in view, less one."""
        queries, keys = self._canvas.window
        self.action_move(down * max(len(queries) - 1, 1), right * max(len(keys) - 1, 1))

    def action_key_edge(self, last: bool) -> None:
        """Move the cursor to the row's first or last key."""
        if self.pooled is not None:
            self.move_to(self._cursor[0], len(self.pooled.key_tokens) - 1 if last else 0)

    def action_query_edge(self, last: bool) -> None:
        """Move the cursor to the column's first or last query."""
        if self.pooled is not None:
            self.move_to(len(self.pooled.query_tokens) - 1 if last else 0, self._cursor[1])

    def action_zoom(self, is_in: bool) -> None:
        """Make cells of half or twice as many queries and keys."""
        if self.pooled is not None:
            self._look_closer(self._block // 2) if is_in else self._look_wider(self._block * 2)

    def action_fit(self) -> None:
        """Show the whole map, or where that is shown, single weights."""
        if self.pooled is not None:
            self._look_closer(1) if self._block == self._fitting() else self._look_wider(self._fitting())

    def action_pooling(self) -> None:
        """Change between the largest weight of each cell and the mean."""
        self._pooling = "mean" if self._pooling == "max" else "max"
        if self.pooled is not None:
            self._draw()

    def _look_closer(self, block: int) -> None:
        """Make cells smaller, and go to where the largest weight of the one under the cursor is."""
        if self._block > 1:
            if self.pooled is not None and self.pooled.holds(*self._cell):
                self._cursor = self.pooled.at(*self._cell).place
            self._block, self._is_fitted = max(block, 1), False
            self._draw()

    def _look_wider(self, block: int) -> None:
        """Make cells larger, until the whole map is in view."""
        fitting = self._fitting()
        if self._block < fitting:
            self._block, self._is_fitted = min(block, fitting), block >= fitting
            self._draw()

    def _fitting(self) -> int:
        """Find the smallest block with which the whole map is in view."""
        shown = self._map or self._large
        if shown is None:
            return 1
        tokens = shown.query_tokens, shown.key_tokens
        for block in (1, 2):
            rows, columns = self._cells(block)
            if block == 2 or (len(tokens[0]) <= rows and len(tokens[1]) <= columns):
                break
        return fitting_block(len(tokens[0]), len(tokens[1]), rows, columns)

    def _cells(self, block: int) -> tuple[int, int]:
        """Count the rows and columns of cells that the pane has room for."""
        shown, (width, height) = self._map or self._large, self._canvas.size
        if shown is None or not width or not height:
            return UNSEEN
        axes = self._canvas.axes_for(shown.query_tokens, shown.key_tokens, block)
        return max(height - axes.header, 1), max((width - axes.gutter) // CELL_WIDTH, 1)

    @property
    def _cell(self) -> tuple[int, int]:
        """The row and column of the cell under the cursor, in the blocks that are painted."""
        block = self.pooled.window.block if self.pooled is not None else 1
        return self._cursor[0] // block, self._cursor[1] // block

    def _draw(self) -> None:
        """Paint the map as it is to be looked at now, or ask for it."""
        if self._map is None:
            self._ask()
            return
        rows, columns = (range(-(-count // self._block)) for count in self._counts)
        self._paint(pool(self._map, MapWindow(self._block, rows, columns, self._pooling)))

    def _paint(self, pooled: PooledMap) -> None:
        """Paint a map, and say what is under the cursor."""
        block = pooled.window.block
        self._canvas.draw(pooled, "", self.scale, (self._cursor[0] // block, self._cursor[1] // block))
        self._tell()

    def _ask(self) -> None:
        """Ask for what is to be seen and has not come, and for as much around it as is in view."""
        large, pooled = self._large, self.pooled
        if large is None:
            return
        is_same = pooled is not None and pooled.window.block == self._block
        near, far = self._around(is_same, 0.5), self._around(is_same, 1.0)
        known = [self._asked] if self._asked is not None else []
        if pooled is not None and pooled.name == large.name:
            known.append(pooled.window)
        if not any(window.covers(near) for window in known):
            self._asked = far
            large.ask(far)

    def _around(self, is_same: bool, share: float) -> MapWindow:
        """Give what is in view, and some more on every side; before the blocks are painted, what is near the cursor."""
        spans = []
        for seen, cursor, count in zip(self._canvas.window, self._cursor, self._cells(self._block), strict=True):
            if not is_same:
                seen = range(cursor // self._block - count, cursor // self._block + count)
            more = int(share * count)
            spans.append(range(seen.start - more, seen.stop + more))
        return MapWindow(self._block, spans[0], spans[1], self._pooling).within(*self._counts)

    def on_heatmap_canvas_window_moved(self, message: HeatmapCanvas.WindowMoved) -> None:
        """Keep the whole map in view, or ask for what has come into view."""
        message.stop()
        if self._is_fitted and self._block != (block := self._fitting()):
            self._block = block
            self._draw()
        self._ask()

    def on_heatmap_canvas_picked(self, message: HeatmapCanvas.Picked) -> None:
        """Move the cursor to where the mouse pointed."""
        message.stop()
        block = self.pooled.window.block if self.pooled is not None else 1
        query, key = self._cursor
        self.move_to(
            query if message.query is None else message.query * block,
            key if message.key is None else message.key * block,
        )

    def _tell(self) -> None:
        """Tell whoever listens where the cursor is."""
        pooled, cell = self.pooled, self._cell
        value = float("nan")
        if pooled is not None and pooled.holds(*cell):
            value = float(pooled.values[cell[0] - pooled.window.rows.start, cell[1] - pooled.window.columns.start])
        self.post_message(self.CursorMoved(self, *self._cursor, value))
