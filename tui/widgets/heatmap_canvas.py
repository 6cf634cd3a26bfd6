"""The part of the heatmap that paints: labels along two edges, cells between them, scrolled together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from engine.values.attention import AT_ONCE, PooledMap
from tui.drawing.axes import Axes, lay_out, lay_out_blocks
from tui.drawing.cells import CURSOR, cell_width, figures_in, in_cell, merged_cells
from tui.drawing.levels import ABSENT, NOT_FINITE, Levels, Scale
from tui.drawing.ramps import legible
from tui.drawing.text import centred
from tui.widgets.repaint import repaint
from tui.widgets.rulers import Rulers
from tui.widgets.scrolled import Scrolled


class HeatmapCanvas(Scrolled, can_focus=False):
    """Paints one attention map by lines; knows on which block its cursor is, but not which keys move it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heatmap--label",
        "heatmap--label-cursor",
        "heatmap--cell",
        "heatmap--cursor",
        "heatmap--message",
    }
    DEFAULT_CSS = """
    HeatmapCanvas {
        width: 100%;
        height: 100%;
        scrollbar-size: 1 1;
        & > .heatmap--label { color: $text-muted; }
        & > .heatmap--label-cursor { color: $success; text-style: bold reverse; }
        & > .heatmap--cell { color: $text; }
        & > .heatmap--cursor { color: $success; text-style: bold reverse; }
        & > .heatmap--message { color: $text-muted; }
    }
    """

    class Picked(Message):
        """The mouse chose a cell, or by its label a row or a column; None leaves that part of the cursor alone."""

        def __init__(self, query: int | None, key: int | None) -> None:
            self.query = query
            self.key = key
            super().__init__()

    class WindowMoved(Message):
        """Other blocks are in view: it was scrolled, or has another size."""

    def __init__(self, rulers: Rulers) -> None:
        super().__init__()
        self.map: PooledMap | None = None
        self.message = ""
        self.scale: Scale = "linear"
        self.cursor = (0, 0)
        self.is_numbered = False
        self._rulers = rulers
        self._axes = lay_out((), (), 0, 0)
        self._laid_out_for: object = None
        self._known_axes: tuple[object, Axes] = (None, self._axes)
        self._styles_now: tuple[Style, ...] = ()
        self._size_now, self._window_now, self._levels_now = self.size, self.window, np.zeros((0, 0), dtype=np.uint8)

    @property
    def level_styles(self) -> tuple[Style, ...]:
        """The style of each level by its background, or the one that all glyphs have."""
        return self.styles_of_levels("heatmap--cell", is_signed=self._is_signed)

    @property
    def _is_signed(self) -> bool:
        """Whether the map is of differences."""
        return self.map is not None and self.map.is_signed

    @property
    def cell(self) -> int:
        """Columns per cell of the map that is painted."""
        return cell_width(is_numbered=self.is_numbered, is_signed=self._is_signed)

    @property
    def window(self) -> tuple[range, range]:
        """The rows and the columns of blocks in view."""
        if self.map is None:
            return range(0), range(0)
        queries, keys = len(self._axes.rows), len(self._axes.columns)
        width, height = self.scrollable_content_region.size
        top, left = self.scroll_offset.y, -(-self.scroll_offset.x // self._axes.cell)
        return (
            range(top, min(queries, top + height - self._axes.header)),
            range(left, min(keys, left + (width - self._axes.gutter) // self._axes.cell)),
        )

    def draw(self, attention: PooledMap | None, message: str, scale: Scale, cursor: tuple[int, int]) -> None:
        """Draw something else; where the labels stay the same, only the cells that change are painted."""
        axes, levels, old_cursor, was_signed = self._axes, self._levels_in_view(), self.cursor, self._is_signed
        self.map, self.message, self.scale, self.cursor = attention, message, scale, cursor
        self._lay_out()
        new_levels = self._levels_in_view()
        is_other = axes is not self._axes or new_levels.shape != levels.shape or was_signed != self._is_signed
        if is_other or self.is_numbered or not levels.size or old_cursor != cursor:  # a number tells more than a level
            repaint(self)
            self.reveal_cursor()
            if axes is not self._axes:
                self.call_after_refresh(self.reveal_cursor)  # another size can be scrolled only once it is laid out
            return
        for row, changed in enumerate(new_levels != levels):
            (columns,) = changed.nonzero()
            if columns.size:
                first, last = int(columns[0]), int(columns[-1])
                x = self._axes.gutter + first * self._axes.cell
                repaint(self, Region(x, self._axes.header + row, (last - first + 1) * self._axes.cell, 1))

    def move_cursor(self, cursor: tuple[int, int]) -> None:
        """Put the cursor on another cell, scroll until it is in view, and paint nothing but what shows it."""
        old, self.cursor = self.cursor, cursor
        regions = list(self._regions_of_cursor(old, cursor))
        if regions or old != cursor:
            repaint(self, *regions)  # all, where none is in view: what is hidden comes back as it was painted last
        self.reveal_cursor()

    def reveal_cursor(self) -> None:
        """Scroll as little as brings the cursor into view."""
        queries, keys = self.window
        if not queries or not keys:
            return
        query, key = self.cursor
        top = min(max(queries.start, query - len(queries) + 1), query)
        left = min(max(keys.start, key - len(keys) + 1), key)
        if (top, left) != (queries.start, keys.start):
            self.scroll_to(left * self._axes.cell, top, animate=False, immediate=True)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; what all of them need is found once."""
        if self.map is not None and self._laid_out_for != self._layout_wanted:
            self._lay_out_axes()  # it is painted before it is told its new size
        self._styles_now, self._window_now, self._size_now = self.level_styles, self.window, self.size
        if self.is_numbered:
            faint = self.get_component_rich_style("heatmap--label")
            grounds = [each.bgcolor for each in self._styles_now]
            if len(grounds) > 1:
                styles = zip(legible(self._styles_now, None), grounds, strict=True)
                self._styles_now = tuple(faint if ground == faint.bgcolor else style for style, ground in styles)
        self._levels_now = self._levels(*self._window_now)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint one line: of the header, of a query's cells, or blank."""
        width, height = self._size_now
        if self.map is None:
            message = centred(self.message, width, height)[y]
            style = self.get_component_rich_style("heatmap--message")
            return Strip([Segment(message, style if message.strip() else Style(bgcolor=style.bgcolor))], width)
        queries, keys = self._window_now
        if y < self._axes.header:
            return Strip(self._header_line(y, keys))
        plain = self.get_component_rich_style("heatmap--label")
        blank = Style(bgcolor=plain.bgcolor)
        row = queries.start + y - self._axes.header
        if row not in queries:
            return Strip.blank(width, blank)
        label = [Segment(self._axes.rows[row], plain)]
        if row == self.cursor[0]:
            marked = Segment(self._axes.rows[row][:-1], self.get_component_rich_style("heatmap--label-cursor"))
            label = [marked, Segment(" ", plain)]
        return Strip([*label, *self._cells(row, keys)]).adjust_cell_length(width, blank)

    def on_click(self, event: events.Click) -> None:
        """Report the cell or the label that was clicked."""
        offset = event.get_content_offset(self)
        if offset is None or self.map is None:
            return
        queries, keys = self.window
        query = queries.start + offset.y - self._axes.header
        key = keys.start + (offset.x - self._axes.gutter) // self._axes.cell
        in_rows, in_columns = offset.y >= self._axes.header, offset.x >= self._axes.gutter
        if (in_rows and query not in queries) or (in_columns and key not in keys) or not (in_rows or in_columns):
            return
        self.post_message(self.Picked(query if in_rows else None, key if in_columns else None))

    def on_resize(self) -> None:
        """Lay the labels out for the new size, and keep the cursor in view."""
        self._lay_out()
        self.reveal_cursor()
        self.post_message(self.WindowMoved())

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Tell that other columns are in view."""
        super().watch_scroll_x(old_value, new_value)
        self.post_message(self.WindowMoved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell that other rows are in view."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.WindowMoved())

    @property
    def _layout_wanted(self) -> object:
        """What the labels are laid out for: the tokens, the blocks, the pane and the width of cells."""
        shown = self.map
        return (shown.query_tokens, shown.key_tokens, shown.window.block, self.size, self.cell) if shown else None

    def _lay_out(self) -> None:
        """Lay out the labels and all that is scrolled, unless it is for the same tokens and the same pane as before."""
        if self._layout_wanted == self._laid_out_for:
            return
        self._laid_out_for = self._layout_wanted
        queries, keys = self._lay_out_axes()
        size = Size(self._axes.gutter + self._axes.cell * keys, self._axes.header + queries)
        self.virtual_size = size if self.map else Size(0, 0)
        self._rulers.span(self._axes.gutter, self.virtual_size.width)

    def _lay_out_axes(self) -> tuple[int, int]:
        """Lay out the labels; give the numbers of rows and columns."""
        if self.map is None:
            self._axes = lay_out((), (), *self.size, self.cell)
        else:
            self._axes = self.axes_for(self.map.query_tokens, self.map.key_tokens, self.map.window.block, self.cell)
        return len(self._axes.rows), len(self._axes.columns)

    def axes_for(self, query_tokens: Sequence[str], key_tokens: Sequence[str], block: int, cell: int) -> Axes:
        """Lay out the labels of some blocks in this pane; those of single weights are kept until others are wanted."""
        if block == 1 and len(query_tokens) * len(key_tokens) <= AT_ONCE:
            wanted = (tuple(query_tokens), tuple(key_tokens), self.size, cell)
            if self._known_axes[0] != wanted:
                self._known_axes = (wanted, lay_out(*wanted[:2], *self.size, cell))
            return self._known_axes[1]
        return lay_out_blocks(query_tokens, key_tokens, block, *self.size, cell)

    def _levels_in_view(self) -> NDArray[np.uint8]:
        """Compute the levels of the cells in view, (rows, columns)."""
        if not self.is_mounted:
            return np.zeros((0, 0), dtype=np.uint8)
        return self._levels(*self.window)

    def _levels(self, rows: range, columns: range) -> NDArray[np.uint8]:
        """Compute the levels of some cells, (rows, columns), `ABSENT` where the map has not come yet."""
        if self.map is None:
            return np.full((len(rows), len(columns)), ABSENT, dtype=np.uint8)
        return self.levels_of_map.in_view(self.map, rows, columns)

    @property
    def levels_of_map(self) -> Levels:
        """How the map's values become cells."""
        return Levels(self.scale, self.map.largest if self.map else 0.0, self.ink, self._is_signed)

    def _header_line(self, y: int, keys: range) -> list[Segment]:
        """Paint one line of the column labels, that of the cursor's column set off."""
        axes, cursor = self._axes, self.cursor[1]
        plain = self.get_component_rich_style("heatmap--label")
        characters = [axes.columns[key][y] for key in keys]
        before = axes.corner if y == axes.header - 1 else " " * axes.gutter
        if cursor not in keys or y < axes.header - axes.marks[cursor]:
            return [Segment(before + "".join(characters), plain)]
        at = cursor - keys.start
        return [
            Segment(before + "".join(characters[:at]), plain),
            Segment(characters[at], self.get_component_rich_style("heatmap--label-cursor")),
            Segment("".join(characters[at + 1 :]), plain),
        ]

    def _cells(self, query: int, keys: range) -> Iterator[Segment]:
        """Paint one row of cells, equal neighbours as one segment."""
        if self.map is None or not keys:
            return
        width = self._axes.cell
        levels = self._levels_now[query - self._window_now[0].start].copy()
        figures = figures_in(self.map, query, keys) if self.is_numbered else []
        style = self.get_component_rich_style
        at_cursor = "[]"
        if query == self.cursor[0] and self.cursor[1] in keys:
            levels[self.cursor[1] - keys.start] = CURSOR
            at_cursor = figures[self.cursor[1] - keys.start] if figures else at_cursor
        others = {
            CURSOR: (at_cursor if at_cursor.strip() else at_cursor.replace("  ", "[]", 1), style("heatmap--cursor")),
            NOT_FINITE: (in_cell("?", width) if figures else "??", style("heatmap--cell")),
            ABSENT: (" " * width, style("heatmap--label")),
        }
        yield from merged_cells(levels, self.levels_of_map.cells, self._styles_now, others, figures)

    def _regions_of_cursor(self, old: tuple[int, int], new: tuple[int, int]) -> Iterator[Region]:
        """Find what shows the cursor in view, of the old one and the new one: its cell and the labels that change."""
        axes = self._axes
        queries, keys = self.window
        for query, key in (old, new):
            x, y = axes.gutter + (key - keys.start) * axes.cell, axes.header + query - queries.start
            if query in queries and key in keys:
                yield Region(x, y, axes.cell, 1)
            if query in queries and old[0] != new[0]:
                # Without the blank at its end, unless a combining mark is there, which a cut would lose.
                yield Region(0, y, axes.gutter - (cell_len(axes.rows[query][-2:]) > 1), 1)
            if key in keys and old[1] != new[1]:
                height = axes.marks[key]
                yield Region(x, axes.header - height, axes.cell, height)
