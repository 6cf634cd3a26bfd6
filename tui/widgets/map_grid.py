"""Several attention maps side by side, on one scale and with one cursor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message

from engine.values.attention import AttentionMap, PooledMap
from tui.drawing.axes import CELL_WIDTH
from tui.drawing.levels import Scale
from tui.widgets.heatmap import Heatmap
from tui.widgets.large_map import LargeMap
from tui.widgets.line import TitleLine


@dataclass(frozen=True, eq=False)
class Titled:
    """One of the maps.

    Attributes
    ----------
    title : what stands above it.
    map : its weights, or where they are to be asked for, or why there are none.
    """

    title: Text
    map: AttentionMap | LargeMap | str


class MapCell(Vertical):
    """A map below its title."""

    DEFAULT_CSS = """
    MapCell { width: 1fr; height: 1fr; }
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.title_line = TitleLine("map-title")
        self.heatmap = Heatmap(name="attention map" if not number else f"attention map {number + 1}")
        self.shown: Titled | None = None

    def compose(self) -> ComposeResult:
        """Stack the title and the map."""
        yield self.title_line
        yield self.heatmap


class MapGrid(Container):
    """Shows maps beside each other; moving and zooming in one of them does so in all."""

    DEFAULT_CSS = """
    MapGrid { width: 1fr; height: 1fr; layout: grid; grid-gutter: 0 1; }
    MapGrid .map-title { height: 1; color: $text; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    class Moved(Message):
        """Something else is under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._cells = [MapCell(0)]
        self._count = 1
        self._is_numbered = False

    def compose(self) -> ComposeResult:
        """Begin with one cell; more are made when there are more maps."""
        yield from self._cells

    def show(self, maps: Sequence[Titled]) -> None:
        """Show maps; the linear scale of all goes to the largest weight of any."""
        more = [MapCell(number) for number in range(len(self._cells), len(maps))]
        for each in more:
            each.heatmap.number(self._is_numbered)
            each.heatmap.begin_as(self._cells[0].heatmap)
        self._cells += more
        self.mount(*more)
        self._count = len(maps)
        self._arrange()
        plain = [each.map for each in maps if isinstance(each.map, AttentionMap) and each.map.other is None]
        top = max((float(each.weights.max(initial=0.0)) for each in plain), default=None)
        for cell, titled in zip(self._cells, maps, strict=False):
            cell.title_line.show(titled.title)
            self._fill(cell, titled, top)
            cell.shown = titled

    def _fill(self, cell: MapCell, titled: Titled, top: float | None) -> None:
        """Show one of the maps, or why it is not there; one that is shown already stays as it is."""
        if cell.shown is not None and cell.shown.map is titled.map:
            cell.heatmap.share_scale(top if isinstance(titled.map, AttentionMap) else self._top_of_large)
            return
        if isinstance(titled.map, str):
            cell.heatmap.show_message(titled.map)
        elif isinstance(titled.map, LargeMap):
            cell.heatmap.show_large(titled.map)
        else:
            cell.heatmap.share_scale(top)
            cell.heatmap.show(titled.map)

    def receive(self, number: int, pooled: PooledMap) -> None:
        """Show what was asked for of a long sentence's map."""
        self._cells[number].heatmap.receive(pooled)
        for each in self.heatmaps:
            each.share_scale(self._top_of_large)
        self.post_message(self.Moved())

    def show_error(self, number: int, message: str) -> None:
        """Say why one of the maps is not there."""
        self._cells[number].heatmap.show_message(message)

    @property
    def _top_of_large(self) -> float:
        """The largest weight of the maps whose weights are elsewhere, as far as it is known."""
        return max((each.largest for each in self.heatmaps), default=0.0)

    @property
    def heatmaps(self) -> list[Heatmap]:
        """The maps that are shown."""
        return [cell.heatmap for cell in self._cells[: self._count]]

    @property
    def leading(self) -> Heatmap:
        """The map with the focus, which the others follow, or else the first."""
        return next((each for each in self.heatmaps if each.has_focus), self._cells[0].heatmap)

    def number(self, is_numbered: bool) -> None:
        """Write the weights into the cells of all maps, those to come too, or not."""
        self._is_numbered = is_numbered
        for each in self._cells:
            each.heatmap.number(is_numbered)

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self._cells[0].heatmap.begin_on(scale)

    def toggle_scale(self) -> None:
        """Change the scale of all maps."""
        for each in self.heatmaps:
            each.toggle_scale()

    def on_resize(self) -> None:
        """Choose the rows and columns for the new size."""
        self._arrange()

    def _arrange(self) -> None:
        """Share the room so that the maps are as large as they can be."""
        width, height = self.size
        columns = best_columns(self._count, width, height)
        self.styles.grid_size_columns, self.styles.grid_size_rows = columns, max(math.ceil(self._count / columns), 1)
        for number, cell in enumerate(self._cells):
            cell.display = number < self._count

    @on(Heatmap.CursorMoved)
    def _follow(self, event: Heatmap.CursorMoved) -> None:
        """Let the others go where the map with the focus has gone."""
        event.stop()
        if event.heatmap.has_focus:
            for each in self.heatmaps:
                if each is not event.heatmap:
                    each.follow(event.heatmap)
        self.post_message(self.Moved())


def best_columns(count: int, width: int, height: int) -> int:
    """Choose in how many columns square maps become largest; of equal ones the fewest rows.

    Examples
    --------
    >>> best_columns(2, 58, 16), best_columns(4, 58, 16), best_columns(2, 40, 50), best_columns(8, 132, 44)
    (2, 3, 1, 4)
    """
    sides = {
        columns: min(width // columns // CELL_WIDTH, height // math.ceil(count / columns))
        for columns in range(max(count, 1), 0, -1)
    }
    return max(sides, key=lambda columns: sides[columns])
