"""What is painted of an attention map: single weights or blocks of them, all of it or what is in view."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.widget import Widget

from engine.mathematics.pooling import pool
from engine.values.attention import AttentionMap, PooledMap
from tui.drawing.axes import fitting_block
from tui.drawing.cells import cell_width
from tui.drawing.legend import legend
from tui.drawing.levels import Ink, Scale, usual_scale
from tui.widgets.heatmap_canvas import HeatmapCanvas
from tui.widgets.large_map import LargeMap
from tui.widgets.lens import Lens
from tui.widgets.rulers import Rulers

UNSEEN = (32, 32)
"""Rows and columns of cells to plan for while the widget is not on the screen."""


class PaintedMap(Widget):
    """Shows one attention map, or asks for what is to be seen of a large one; knows of no keys.

    Attributes
    ----------
    largest : the map's own largest weight, wherever its scale ends.
    """

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._rulers = Rulers()
        self._canvas = HeatmapCanvas(self._rulers)
        self._map: AttentionMap | None = None
        self._large: LargeMap | None = None
        self._lens = Lens()
        self._chosen_scale: Scale | None = None
        self._top: float | None = None
        self.largest = 0.0

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
        self._map, self._large = None, large
        large.begin()
        self._begin(len(large.query_tokens), len(large.key_tokens))
        self._ask()

    def receive(self, pooled: PooledMap) -> None:
        """Show what was asked for."""
        if self._large is None or not self._large.learn(pooled):
            return
        self._begin(len(pooled.query_tokens), len(pooled.key_tokens))
        self._paint(pooled)
        self._ask()

    def share_scale(self, top: float | None) -> None:
        """Let the linear scale end at another value than at this map's own largest, so that maps can be compared."""
        if top != self._top:
            self._top = top
            if self.pooled is not None and not self.pooled.is_signed:
                self._paint(self.pooled)

    def show_message(self, text: str) -> None:
        """Show a sentence in place of a map."""
        self._show_nothing(text)

    def wait(self, text: str) -> None:
        """Show a sentence until what was asked for comes."""
        self._canvas.draw(None, text, self.scale, (0, 0))

    def _show_nothing(self, message: str) -> None:
        """Show no map."""
        self._map = self._large = None
        self.wait(message)

    def _begin(self, queries: int, keys: int) -> None:
        """Choose how to look at a map; one of the same size as before is looked at in the same way."""
        if self._lens.is_new(queries, keys):
            self._lens.open(self._fitting())
        elif self._lens.is_fitted:
            self._lens.fit_again(self._fitting())
        self._note_room()

    def _note_room(self) -> None:
        """Take note of another map, or of other room for it."""

    @property
    def map(self) -> AttentionMap | None:
        """The map that is shown, where its weights are at hand."""
        return self._map

    @property
    def pooled(self) -> PooledMap | None:
        """What is painted of the map."""
        return self._canvas.map

    @property
    def ink(self) -> Ink:
        """What tells the levels apart."""
        return self._canvas.ink

    @property
    def level_styles(self) -> tuple[Style, ...]:
        """The style of each level."""
        return self._canvas.level_styles

    @property
    def scale(self) -> Scale:
        """Linear, from zero to the map's largest value, or logarithmic, from 1e-4 to 1, as one of many tokens."""
        shown = self._map or self._large
        return self._chosen_scale or usual_scale(0 if shown is None else len(shown.key_tokens))

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self._chosen_scale = scale

    def begin_as(self, other: PaintedMap) -> None:
        """Look at the map that is shown first as at another one, if it is of the same size."""
        self._chosen_scale, self._lens = other._chosen_scale, copy(other._lens)

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        self._chosen_scale = "log" if self.scale == "linear" else "linear"
        self._canvas.draw(self.pooled, self._canvas.message, self._chosen_scale, self._canvas.cursor)

    @property
    def is_numbered(self) -> bool:
        """Whether the cells hold their weights as numbers."""
        return self._canvas.is_numbered

    def number(self, is_numbered: bool) -> None:
        """Write the weights into the cells, which become wider, or draw them by their levels alone."""
        if is_numbered == self.is_numbered:
            return
        self._canvas.is_numbered = is_numbered
        if self._lens.is_fitted and self._lens.fit_again(self._fitting()):
            self._draw()
        elif self.pooled is not None:
            self._canvas.draw(self.pooled, "", self.scale, self._cell)
            self._ask()
        self._note_room()

    def legend(self, width: int = 80) -> Text:
        """Explain the levels in one line of at most ``width`` cells, by the weights between them."""
        canvas, pooled = self._canvas, self.pooled
        if pooled is None:
            return Text("")
        block = pooled.window.block
        sign = "×"
        of = f"{pooled.window.pooling} of {block}{sign}{block}" if block > 1 else ""
        if self.is_numbered and canvas.ink is not Ink.COLOUR:
            what = "differences" if pooled.is_signed else "weights"
            return Text(f"{of} {what} as numbers".lstrip(), no_wrap=True)
        return legend(canvas.levels_of_map, canvas.level_styles, width, of)

    def _fitting(self) -> int:
        """Find the smallest block with which the whole map is in view."""
        queries, keys = self._lens.counts
        rows, columns = self._cells(1)  # single weights are labelled in another way than blocks
        if queries <= rows and keys <= columns:
            return 1
        return max(fitting_block(queries, keys, *self._cells(2)), 2)

    @property
    def is_single(self) -> bool:
        """Whether all of the map is in view, in single weights."""
        return self._lens.block == 1 and self._fitting() == 1

    def _cells(self, block: int) -> tuple[int, int]:
        """Count the rows and columns of cells that the pane has room for."""
        shown, (width, height) = self._map or self._large, self._canvas.size
        if shown is None or not width or not height:
            return UNSEEN
        queries, keys = self._lens.counts
        cell = cell_width(is_numbered=self.is_numbered, is_signed=shown.is_signed)
        if block == 1 and (queries > height or keys * cell > width):
            return 0, 0  # there is no need to lay out hundreds of labels to see that
        axes = self._canvas.axes_for(shown.query_tokens, shown.key_tokens, block, cell)
        return max(height - axes.header, 1), max((width - axes.gutter) // axes.cell, 1)

    @property
    def _cell(self) -> tuple[int, int]:
        """The row and column of the cell under the cursor, in the blocks that are painted."""
        return self._lens.cell(self.pooled.window.block if self.pooled is not None else 1)

    def _draw(self) -> None:
        """Paint the map as it is to be looked at now, or ask for it."""
        if self._map is None:
            self._ask()
        else:
            self._paint(pool(self._map, self._lens.whole))
        self._note_room()

    def _paint(self, pooled: PooledMap) -> None:
        """Paint a map, and say what is under the cursor."""
        if pooled is not self.pooled:
            self.largest = pooled.largest
        if self._top is not None and not pooled.is_signed:
            pooled = replace(pooled, largest=self._top)
        self._canvas.draw(pooled, "", self.scale, self._lens.cell(pooled.window.block))
        self._tell()

    def _ask(self) -> None:
        """Ask for what is to be seen and has not come, and for as much around it as is in view."""
        pooled, lens = self.pooled, self._lens
        if self._large is None:
            return
        seen = self._canvas.window if pooled is not None and pooled.window.block == lens.block else None
        cells = self._cells(max(lens.block, 2))
        self._large.want(lens.around(seen, cells, 0.5), lens.around(seen, cells, 1.0))

    def on_heatmap_canvas_window_moved(self, message: HeatmapCanvas.WindowMoved) -> None:
        """Keep the whole map in view, or ask for what has come into view."""
        message.stop()
        if self._lens.is_fitted and self._lens.fit_again(self._fitting()):
            self._draw()
        self._note_room()
        self._ask()

    def _tell(self) -> None:
        """Tell whoever listens where the cursor is, and what it is on."""
        raise NotImplementedError
