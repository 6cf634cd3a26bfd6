"""An attention map in character cells, with labels on both axes and a cursor that reads the weights out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from engine.values.attention import PooledMap
from tui.drawing.readout import of_block, of_difference, of_weight
from tui.toolkit.messages import Numbered, Told
from tui.widgets.heatmap_canvas import HeatmapCanvas
from tui.widgets.kept_moves import MovesAhead
from tui.widgets.paging import lines_of, paging
from tui.widgets.painted_map import PaintedMap

SINGLE = "each cell is a single weight"
"""Why there is nothing to zoom into, nor to choose from."""


class Heatmap(PaintedMap, can_focus=True):
    """Shows one attention map and moves a cursor over it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Previous query", show=False, id="heatmap.up"),
        Binding("down,j", "move(1, 0)", "Next query", show=False, id="heatmap.down"),
        Binding("left,h", "move(0, -1)", "Previous key", show=False, id="heatmap.left"),
        Binding("right,l", "move(0, 1)", "Next key", show=False, id="heatmap.right"),
        *paging("heatmap", "A page of queries"),
        Binding("ctrl+left", "key_page(-1)", "A page of keys left", show=False, id="heatmap.page_left"),
        Binding("ctrl+right", "key_page(1)", "A page of keys right", show=False, id="heatmap.page_right"),
        Binding("home", "key_edge(False)", "First key", show=False, id="heatmap.first_key"),
        Binding("end", "key_edge(True)", "Last key", show=False, id="heatmap.last_key"),
        Binding("gg,ctrl+home", "query_edge(False)", "First query", show=False, id="heatmap.first_query"),
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
        Binding("number_sign", "numbers", "Weights as numbers, or as colours alone", show=False, id="heatmap.numbers"),
        Binding("p", "pooling", "Largest weight of each cell, or mean", show=False, id="heatmap.pooling"),
    ]
    DEFAULT_CLASSES = "-single"
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

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._ahead = MovesAhead()

    def follow(self, other: Heatmap) -> None:
        """Look at the same weight as in another map, in cells of the same size."""
        if self.pooled is not None and self._lens.look_as(other._lens):
            self._draw()
        self.move_to(*other.cursor)

    @property
    def cursor(self) -> tuple[int, int]:
        """The weight under the cursor: query and key, from zero; with larger cells, one of those in the cell."""
        return self._lens.cursor

    @property
    def looked_at(self) -> tuple[int, int] | None:
        """The weight that the readout names: the one under the cursor, or the largest of its cell."""
        pooled = self.pooled
        if pooled is None or not pooled.holds(*self._cell):
            return None
        return pooled.at(*self._cell).place if pooled.window.block > 1 else self.cursor

    def move_to(self, query: int, key: int) -> None:
        """Put the cursor on a weight, or on the nearest that the map has."""
        if self.pooled is not None and self._lens.move_to(query, key):
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
        tokens, drawn = (pooled.query_tokens, pooled.key_tokens), pooled.window.pooling
        if pooled.window.block > 1:
            return of_block(block, *tokens, width, drawn=drawn)
        return (of_difference if pooled.is_signed else of_weight)(block, *tokens, width)

    def expect(self, is_expected: bool) -> None:
        """Keep moves until there is a map to make them on, or keep none: there will not be one."""
        self._ahead.expect(is_expected)

    def _paint(self, pooled: PooledMap) -> None:
        """Paint a map, and make the moves on it that waited for it."""
        super()._paint(pooled)
        self._ahead.make()

    def _once_there(self, move: Callable[[], None]) -> None:
        """Move on the map, or on the one that is expected."""
        if self.pooled is not None:
            move()
        else:
            self._ahead.add(move)

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor by cells."""
        self._once_there(partial(self._step, rows, columns))

    def _step(self, rows: int, columns: int) -> None:
        """Move the cursor by cells of the map that is there."""
        if self.pooled is not None:
            self.move_to(*self._lens.step(rows, columns, self.pooled.window.block))

    def action_page(self, pages: float) -> None:
        """Move the cursor by as many queries as are in view, less one."""
        self._once_there(lambda: self._step(lines_of(pages, len(self._canvas.window[0]) - 1), 0))

    def action_key_page(self, pages: float) -> None:
        """Move the cursor by as many keys as are in view, less one."""
        self._once_there(lambda: self._step(0, lines_of(pages, len(self._canvas.window[1]) - 1)))

    def action_key_edge(self, last: bool) -> None:
        """Move the cursor to the row's first or last key."""
        self._once_there(lambda: self.move_to(self.cursor[0], self._lens.counts[1] - 1 if last else 0))

    def action_query_edge(self, last: bool) -> None:
        """Move the cursor to the column's first or last query."""
        self._once_there(lambda: self.move_to(self._lens.counts[0] - 1 if last else 0, self.cursor[1]))

    def action_zoom(self, is_in: bool) -> None:
        """Make cells of half or twice as many queries and keys; say where that cannot be."""
        block = self._lens.block
        if is_in and block == 1:
            self._tell_why(SINGLE)
        elif not is_in and block >= self._fitting():
            self._tell_why("the whole map is in view")
        else:
            self._look_closer(block // 2) if is_in else self._look_wider(block * 2)

    def action_fit(self) -> None:
        """Show the whole map, or where that is shown, single weights."""
        fitting = self._fitting()
        if self.is_single:
            self._tell_why(f"the whole map is in view, and {SINGLE}")
        else:
            self._look_closer(1) if self._lens.block == fitting else self._look_wider(fitting)

    def action_pooling(self) -> None:
        """Change between the largest weight of each cell and the mean; say where a cell is one weight."""
        if self._lens.block == 1:
            self._tell_why(SINGLE)
            return
        self._lens.pooling = "mean" if self._lens.pooling == "max" else "max"
        if self.pooled is not None:
            self._draw()

    def action_numbers(self) -> None:
        """Write the weights into the cells, or draw them by their colours alone, and have other maps do the same."""
        self.number(not self.is_numbered)
        self.post_message(Numbered(self.is_numbered))

    def number(self, is_numbered: bool) -> None:
        """Write the weights into the cells, or not, and say again what is under the cursor."""
        if is_numbered != self.is_numbered:
            super().number(is_numbered)
            if self.pooled is not None:
                self._tell()

    def _tell_why(self, said: str) -> None:
        """Say why a key does nothing, where there is a map for it."""
        if self.pooled is not None:
            self.post_message(Told(said))

    def _note_room(self) -> None:
        """Have the line of keys begin with what can be done: zoom in, out, or neither."""
        if not self._canvas.size:
            return  # out of sight nothing is known of the room; there will most likely be as much as before
        before, is_near = self.classes, self._lens.block == 1
        for name, holds in (("-single", self.is_single), ("-near", is_near and not self.is_single)):
            self.set_class(holds, name, update=False)  # nothing looks otherwise
        if self.classes != before:
            self.refresh_bindings()

    def _look_closer(self, block: int) -> None:
        """Make cells smaller, and go to where the largest weight of the one under the cursor is."""
        pooled = self.pooled
        if pooled is not None:
            place = pooled.at(*self._cell).place if pooled.holds(*self._cell) else None
            if self._lens.closer(block, place):
                self._draw()

    def _look_wider(self, block: int) -> None:
        """Make cells larger, until the whole map is in view."""
        if self.pooled is not None and self._lens.wider(block, self._fitting()):
            self._draw()

    def on_heatmap_canvas_picked(self, message: HeatmapCanvas.Picked) -> None:
        """Move the cursor to where the mouse pointed."""
        message.stop()
        block = self.pooled.window.block if self.pooled is not None else 1
        query, key = self.cursor
        self.move_to(
            query if message.query is None else message.query * block,
            key if message.key is None else message.key * block,
        )

    @property
    def value(self) -> float:
        """What stands for the cell under the cursor; not a number where that has not come."""
        pooled, cell = self.pooled, self._cell
        if pooled is None or not pooled.holds(*cell):
            return float("nan")
        return float(pooled.values[cell[0] - pooled.window.rows.start, cell[1] - pooled.window.columns.start])

    @property
    def is_masked(self) -> bool:
        """Whether the mask hides all keys of the cell under the cursor from all its queries."""
        pooled, cell = self.pooled, self._cell
        return pooled is not None and pooled.holds(*cell) and pooled.at(*cell).is_masked

    def _tell(self) -> None:
        """Tell whoever listens where the cursor is."""
        self.post_message(self.CursorMoved(self, *self.cursor, self.value))
