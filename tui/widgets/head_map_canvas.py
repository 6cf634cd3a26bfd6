"""The part of the overview that paints: the names of layers, the numbers of heads, and a cell for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from engine.values.heads import Head
from engine.values.outline import LayerOutline
from tui.drawing.cells import CURSOR, halved_cells, merged_cells
from tui.drawing.head_grid import HeadGrid, Line, fewest_lines, lay_out_heads
from tui.drawing.levels import ABSENT, NOT_FINITE, Ink
from tui.drawing.measure_map import MeasureMap, MeasureScale, glyphs_of
from tui.widgets.scrolled import Scrolled

_UNDEFINED, _OUTSIDE = 252, 251
"""Stand in place of a level where nothing is defined, and where a layer has no such head."""

_CURSORS = {1: "◆", 2: "[]", 4: "[  ]"}
"""What stands under the cursor, by the width of a cell."""


class HeadMapCanvas(Scrolled, can_focus=False):
    """Paints a measure of all heads by lines; knows on which head its cursor is, but not which keys move it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "overview--label", "overview--label-cursor", "overview--cell", "overview--absent", "overview--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    HeadMapCanvas {
        width: 100%; height: 1fr; scrollbar-size: 1 1;
        & > .overview--label { color: $text-muted; }
        & > .overview--label-cursor { color: $success; text-style: bold reverse; }
        & > .overview--cell { color: $text; }
        & > .overview--absent { color: $text-disabled; }
        & > .overview--cursor { color: $success; text-style: bold reverse; }
    }
    """

    class LaidOut(Message):
        """The cells have another size, or the map another number of lines."""

    def __init__(self) -> None:
        super().__init__(name="overview")
        self.rows: tuple[LayerOutline, ...] = ()
        self.grid: HeadGrid | None = None
        self._map: MeasureMap | None = None
        self._scale: MeasureScale | None = None
        self._levels: NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        self.cursor = (0, 0)
        self._laid_out_for: object = None
        self._most_lines = 0

    @property
    def level_styles(self) -> tuple[Style, ...]:
        """The style of each level by its background, or the one that all glyphs have."""
        styles = self.styles_of_levels("overview--cell", is_signed=self._is_signed)
        return styles if self._is_signed or len(styles) == 1 else styles[1:]

    @property
    def glyphs(self) -> tuple[str, ...]:
        """What is written in a cell of each level."""
        return glyphs_of(self.ink, 2 if self.grid is None else self.grid.width, self._is_signed)

    @property
    def _is_signed(self) -> bool:
        """Whether the measure has a sign."""
        return self._scale is not None and self._scale.is_signed

    @property
    def head(self) -> Head | None:
        """The head under the cursor."""
        if not self.rows:
            return None
        row, column = self.cursor
        return Head(self.rows[row].stack, self.rows[row].layer, column)

    @property
    def lines(self) -> int:
        """How many lines the whole map takes, with the heads' numbers."""
        return 1 + (0 if self.grid is None else len(self.grid.lines))

    def open(self, layers: tuple[LayerOutline, ...]) -> None:
        """Show a model's heads, of which nothing is known yet."""
        self.rows, self.cursor, self._map, self._scale = layers, (0, 0), None, None
        self._levels = np.zeros((0, 0), dtype=np.uint8)
        self._lay_out()

    def allow(self, lines: int) -> None:
        """Say how many lines it may have at the most; only where each layer has none of its own two share one."""
        self._most_lines = lines
        self._lay_out()

    def show(self, shown: MeasureMap, scale: MeasureScale | None) -> None:
        """Draw a measure; only rows of which a cell looks otherwise than before are painted."""
        was_signed, width = self._is_signed, self.grid and self.grid.width
        self._map, self._scale = shown, scale
        self._lay_out()
        before, self._levels = self._levels, self._levels_of(shown, scale)
        grid = self.grid
        if grid is None:
            return
        if before.shape != self._levels.shape or was_signed != self._is_signed or width != grid.width:
            self.refresh()
            return
        top = self.scroll_offset.y
        for row in np.flatnonzero((before != self._levels).any(axis=1)).tolist():
            self.refresh(Region(0, 1 + grid.top(row) - top, self.size.width, grid.height))

    def move_to(self, head: Head) -> None:
        """Put the cursor on a head; for a whole layer it stays in its column."""
        row = next(row for row, layer in enumerate(self.rows) if layer.name == head.whole_layer)
        self.put(row, self.cursor[1] if head.is_layer else head.head)

    def put(self, row: int, column: int) -> None:
        """Put the cursor on a cell, scroll until it is in view, and paint nothing but what shows it."""
        grid = self.grid
        row = max(0, min(row, len(self.rows) - 1))
        column = max(0, min(column, self.rows[row].heads - 1))
        old, self.cursor = self.cursor, (row, column)
        if grid is None or old == self.cursor:
            return
        top, left = self.scroll_offset.y, self.scroll_offset.x
        for each_row, each_column in (old, self.cursor):
            y = 1 + grid.top(each_row) - top
            self.refresh(Region(grid.gutter + each_column * grid.width - left, y, grid.width, grid.height))
            if old[0] != row:
                self.refresh(Region(0, y, grid.gutter, 1))
        if old[1] != column:
            self.refresh(Region(0, 0, self.size.width, 1))
        self._reveal()

    def _reveal(self) -> None:
        """Scroll as little as brings the cursor into view, once there is one: a map that is not seen has no room."""
        grid = self.grid
        if grid is None or not self.size:
            return
        width, height = self.scrollable_content_region.size
        top, left = self.scroll_offset.y, self.scroll_offset.x
        line, start = grid.top(self.cursor[0]), self.cursor[1] * grid.width
        if line and not grid.lines[line - 1].rows:
            line -= 1  # with the heading of its stack
        last = grid.top(self.cursor[0]) + grid.height
        new_top = min(max(top, last - (height - 1)), line)
        new_left = min(max(left, start + grid.width - (width - grid.gutter)), start)
        if (new_top, new_left) != (top, left):
            self.scroll_to(new_left, new_top, animate=False, immediate=True)

    def _lay_out(self) -> None:
        """Choose the size of the cells, unless it is for the same pane and the same ink as before."""
        lines = 1 + fewest_lines(self.rows)
        is_halved = self.has_half_blocks and lines > max(self.size.height, self._most_lines)
        wanted = (self.rows, self.size, self.ink, self._is_signed, is_halved)
        if wanted == self._laid_out_for or not self.rows or not self.size.width:
            return
        self._laid_out_for = wanted
        is_narrow_told = self.ink is Ink.COLOUR or not self._is_signed
        width, height = self.size.width, self.size.height - 1
        grid = lay_out_heads(self.rows, width, height, is_narrow_told=is_narrow_told, is_halved=is_halved)
        if len(grid.lines) > height:  # a scrollbar takes a column
            grid = lay_out_heads(self.rows, width - 1, height, is_narrow_told=is_narrow_told, is_halved=is_halved)
        is_other = grid != self.grid
        self.grid = grid
        self.virtual_size = Size(grid.gutter + grid.columns * grid.width, 1 + len(grid.lines))
        if is_other:
            self.refresh()
            self.call_after_refresh(self._reveal)  # another size can be scrolled only once it is laid out
            self.post_message(self.LaidOut())

    def _levels_of(self, shown: MeasureMap, scale: MeasureScale | None) -> NDArray[np.uint8]:
        """Compute the levels of all cells, (layers, heads of the widest)."""
        if self.grid is None:
            return np.zeros((0, 0), dtype=np.uint8)
        found = np.full(len(shown.cells), ABSENT, dtype=np.uint8)
        if scale is not None:
            found = scale.levels(shown.values, self.ink, len(self.glyphs))
        kinds = np.array(
            [ABSENT if cell is None else _UNDEFINED if cell == "" else 0 for cell in shown.cells], np.uint8
        )
        flat = np.where(kinds > 0, kinds, found)
        levels = np.full((len(self.rows), self.grid.columns), _OUTSIDE, dtype=np.uint8)
        start = 0
        for row, layer in enumerate(self.rows):
            levels[row, : layer.heads] = flat[start : start + layer.heads]
            start += layer.heads
        return levels

    def render_line(self, y: int) -> Strip:
        """Paint the numbers of heads, or a line of a layer's cells."""
        width, grid = self.size.width, self.grid
        plain = self.get_component_rich_style("overview--label")
        blank = Style(bgcolor=plain.bgcolor)
        if grid is None or not self._levels.size:
            return Strip.blank(width, blank)
        left = self.scroll_offset.x
        if y == 0:
            return self._header(grid, left, plain).adjust_cell_length(width, blank)
        place = y - 1 + self.scroll_offset.y
        if place >= len(grid.lines):
            return Strip.blank(width, blank)
        line = grid.lines[place]
        if not line.rows:
            return Strip([Segment(line.text, plain)]).adjust_cell_length(width, blank)
        is_here = self.cursor[0] in line.rows
        text = str(self.rows[self.cursor[0]].name) if is_here and grid.is_halved else line.text
        name = Segment(text, self.get_component_rich_style("overview--label-cursor") if is_here else plain)
        gap = Segment(" " * (grid.gutter - len(text)), blank)
        cells = Strip(self._cells(line, grid)).crop(left, left + width - grid.gutter)
        return Strip([name, gap, *cells]).adjust_cell_length(width, blank)

    def _cells(self, line: Line, grid: HeadGrid) -> Iterator[Segment]:
        """Paint the cells of a line's layer, or of two that share it."""
        first, *second = (self._levels_with_cursor(row) for row in line.rows)
        others = self._others(grid.width)
        if not grid.is_halved:
            yield from merged_cells(first, self.glyphs, self.level_styles, others)
            return
        (below,) = second or [np.full_like(first, _OUTSIDE)]
        colours: dict[int, Color | None] = {level: style.bgcolor for level, style in enumerate(self.level_styles)}
        colours |= {kind: others[kind][1].color for kind in (CURSOR, NOT_FINITE)}
        yield from halved_cells(first, below, colours, others, len(others[CURSOR][0]))

    def _levels_with_cursor(self, row: int) -> NDArray[np.uint8]:
        """Give the levels of a layer's cells, the cursor in place of one if it is there."""
        levels: NDArray[np.uint8] = self._levels[row]
        if row == self.cursor[0]:
            levels = levels.copy()
            levels[self.cursor[1]] = CURSOR
        return levels

    def _header(self, grid: HeadGrid, left: int, plain: Style) -> Strip:
        """Paint the numbers of heads, that of the cursor's column set off."""
        text, marked = grid.header(self.cursor[1])
        segments = [
            Segment(text[: marked.start], plain),
            Segment(text[marked.start : marked.stop], self.get_component_rich_style("overview--label-cursor")),
            Segment(text[marked.stop :], plain),
        ]
        return Strip([Segment(" " * grid.gutter, plain), *Strip(segments).crop(left, left + self.size.width)])

    def _others(self, width: int) -> Mapping[int, tuple[str, Style]]:
        """Give what is written where there is no level: nothing known, nothing defined, endless, no head."""
        style = self.get_component_rich_style
        unknown, undefined, endless = "∙×∞"
        before = " " * (width - 1)
        return {
            CURSOR: (_CURSORS[width], style("overview--cursor")),
            ABSENT: (before + unknown, style("overview--absent")),
            _UNDEFINED: (before + undefined, style("overview--absent")),
            NOT_FINITE: (before + endless, style("overview--cell")),
            _OUTSIDE: (" " * width, style("overview--label")),
        }

    def notify_style_update(self) -> None:
        """Sort the values into as many levels as the new theme has."""
        super().notify_style_update()
        if self._map is not None and self.is_attached:
            self._lay_out()  # signs take no half lines
            self._levels = self._levels_of(self._map, self._scale)

    def on_resize(self) -> None:
        """Choose cells for the new size, and keep the cursor in view."""
        self._lay_out()
        if self._map is not None:
            self._levels = self._levels_of(self._map, self._scale)
        self._reveal()
