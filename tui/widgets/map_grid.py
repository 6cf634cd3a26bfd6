"""Several attention maps side by side, with one scale and one cursor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from engine.values.errors import EngineError
from tui.drawing.levels import Scale
from tui.drawing.map_layout import BOTH_SIDES, CELL_WIDTH
from tui.drawing.titles import Title
from tui.widgets.heatmap import Heatmap, MapSource
from tui.widgets.line import TitleLine

TitledMap = tuple[Title, MapSource | str]
"""A title, and a map or the reason why there is none."""


class MapCell(Vertical):
    """A title and a map below it."""

    DEFAULT_CSS = """
    MapCell { width: 1fr; height: 1fr; }
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.title_line = TitleLine("map-title")
        self.heatmap = Heatmap(name="attention map" if not number else f"attention map {number + 1}")

    def compose(self) -> ComposeResult:
        """Yield the title and the map."""
        yield self.title_line
        yield self.heatmap


class MapGrid(Container):
    """Shows maps side by side; moving and zooming in one of them does so in all."""

    DEFAULT_CSS = """
    MapGrid { width: 1fr; height: 1fr; layout: grid; grid-gutter: 0 1; }
    MapGrid .map-title { height: 1; color: $text; text-wrap: nowrap; text-overflow: ellipsis; }
    MapGrid .-inner Heatmap { scrollbar-size-vertical: 0; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._cells = [MapCell(0)]
        self._count = 1
        self._has_shared_labels = False

    def compose(self) -> ComposeResult:
        """Start with one map; `show` adds more."""
        yield from self._cells

    def show(self, maps: Sequence[TitledMap], scale: Scale | None = None, *, is_numbered: bool = False) -> None:
        """Show at least one map; on a linear scale, its end is the largest weight of any."""
        more = [MapCell(number) for number in range(len(self._cells), len(maps))]
        for each in more:
            each.heatmap.begin_as(self._cells[0].heatmap)
        self._cells += more
        self.mount(*more)
        self._count = len(maps)
        sources = [map for _, map in maps if isinstance(map, MapSource)]
        is_of_same = len({(each.map.query_tokens, each.map.key_tokens) for each in sources}) == 1
        self._has_shared_labels = len(sources) == len(maps) > 1 and is_of_same
        self._arrange()
        for cell, (title, map) in zip(self._cells, maps, strict=False):
            cell.title_line.show_title(title)
            said = map if isinstance(map, str) else cell.heatmap.show(map, scale, is_numbered=is_numbered)
            if isinstance(said, str | EngineError):
                cell.heatmap.show_message(str(said))
        plain = [each for each in self.heatmaps if each.pooled is not None and not each.pooled.is_signed]
        for heatmap in self.heatmaps:
            heatmap.scale_end = max((each.largest for each in plain), default=None)
        self._arrange()
        self.call_after_refresh(self._follow_leading)

    @property
    def heatmaps(self) -> list[Heatmap]:
        """The maps in view."""
        return [cell.heatmap for cell in self._cells[: self._count]]

    @property
    def leading(self) -> Heatmap:
        """The map with the focus, which the others follow; without one, the first."""
        return next((each for each in self.heatmaps if each.has_focus), self._cells[0].heatmap)

    def on_resize(self) -> None:
        """Arrange the maps for the new size."""
        self._arrange()

    def _arrange(self) -> None:
        """Make the maps as large as possible.

        Maps with the same tokens share labels: those at the left show the queries, those at the top the keys. Their
        cells of the grid are larger by the labels.
        """
        width, height = self.size
        columns = best_columns(self._count, width, height)
        rows = max(math.ceil(self._count / columns), 1)
        across, down = "1fr", "1fr"
        if self._has_shared_labels:
            gutter = header = 0
            for _ in range(3):  # a wider pane may have wider labels
                free = width - gutter - (columns - 1), height - header - rows
                axes = self._cells[0].heatmap.axes_for(gutter + free[0] // columns, header + free[1] // rows)
                gutter, header = axes.gutter, axes.header
            share = (width - gutter - (columns - 1)) // columns
            share -= share % axes.cell == 0  # so that the last map has as many cells beside its scrollbar
            widths = [max(share, 1)] * columns
            heights = [max((height - header) // rows, 1)] * rows
            across = " ".join(map(str, (widths[0] + gutter, *widths[1:])))
            down = " ".join(map(str, (heights[0] + header, *heights[1:])))
        self.styles.grid_size_columns, self.styles.grid_size_rows = columns, rows
        self.styles.grid_columns, self.styles.grid_rows = across, down
        for number, cell in enumerate(self._cells):
            cell.display = number < self._count
            is_shared = self._has_shared_labels and number < self._count
            is_last = (number + 1) % columns == 0 or number == self._count - 1
            cell.set_class(is_shared and not is_last, "-inner")  # one scrollbar serves all maps of a row
            cell.heatmap.label_on((number % columns == 0, number < columns) if is_shared else BOTH_SIDES)

    @on(Heatmap.CursorMoved)
    def _follow_leading(self) -> None:
        for each in self.heatmaps:
            if each is not self.leading:
                each.follow(self.leading)


def best_columns(count: int, width: int, height: int) -> int:
    """Return the number of columns that makes square maps largest; among equals, the one with the fewest rows.

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
