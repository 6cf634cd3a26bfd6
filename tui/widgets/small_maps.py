"""Small maps of many heads on one scale, with a cursor on one head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from engine.values.attention import PooledMap
from tui.drawing.cells import halved_cells
from tui.drawing.levels import NOT_FINITE, Ink, Levels, Scale, default_scale, legend, scale_top
from tui.drawing.map_layout import GAP, Tiles, lay_out_tiles
from tui.drawing.text import fit
from tui.toolkit.keys import lines_of, paging_bindings
from tui.toolkit.messages import Notice
from tui.widgets.scroll_area import ItemArea, least_scroll


class SmallMaps(ItemArea):
    """Shows a small map of each head.

    Attributes
    ----------
    cursor : number of the head under it, from zero; None without one.
    maps : the maps that are drawn, by the number of the head.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,right", "step(1, 0)", "Next head", show=False, id="heads.next"),
        Binding("h,left", "step(-1, 0)", "Previous head", show=False, id="heads.previous"),
        Binding("j,down", "step(0, 1)", "Head below", show=False, id="heads.down"),
        Binding("k,up", "step(0, -1)", "Head above", show=False, id="heads.up"),
        *paging_bindings("heads"),
        Binding("gg,home,ctrl+home", "edge(False)", "First head", show=False, id="heads.first"),
        Binding("G,end,ctrl+end", "edge(True)", "Last head", show=False, id="heads.last"),
        Binding("enter", "views.open_map('maps')", "Enlarge the head's map", show=False, id="heads.open"),
    ]
    foot_keys: ClassVar[dict[str, str]] = {"heads.open": "Large map"}

    @dataclass
    class Picked(Message):
        """The user moved to a head."""

        number: int

    def __init__(self) -> None:
        super().__init__(name="small maps")
        self.maps: Mapping[int, PooledMap] = {}
        self._tiles = Tiles(0, 1, 0, 0, 1, 1, 1)
        self._names: Sequence[str] = ()
        self._levels: dict[int, NDArray[np.uint8]] = {}
        self._chosen_scale: Scale | None = None
        self._picked: int | None = None

    # --- what is shown

    def lay_out(self, count: int, queries: int, keys: int) -> Tiles:
        """Arrange maps of a size in this pane; a line shows two rows of them where half a cell can be coloured."""
        return lay_out_tiles(count, queries, keys, *self.size, 2 if self.has_half_blocks else 1)

    def show(
        self, tiles: Tiles, names: Sequence[str], maps: Mapping[int, PooledMap], scale: Scale | None = None
    ) -> None:
        """Show maps by the number of the head, in blocks of the size that the tiles are for; others may follow."""
        is_same = self.maps is maps and (self._tiles, self._chosen_scale) == (tiles, scale)
        self._tiles, self._names, self.maps, self.message, self._chosen_scale = tiles, names, maps, "", scale
        self._measure()
        self.refresh()
        if not is_same:
            self.call_after_refresh(self.reveal)  # only then is the scrolling range known

    def show_message(self, message: str, count: int = 0) -> None:
        """Show a message in place of ``count`` maps; the cursor can still move between the heads."""
        self._tiles = replace(self._tiles, count=count)
        if message != self.message:
            self.message = message
            self.maps = {}
            self.virtual_size = Size(0, 0)
            self.refresh()

    def select(self, number: int | None) -> None:
        """Put the cursor on a head, unless the user has moved on since."""
        if self._picked is None or number is None or number == self._picked:
            self._picked = None
            self._move(number)

    @property
    def scale(self) -> Scale:
        """How weights become colours."""
        return self._chosen_scale or default_scale(
            max((len(each.key_tokens) for each in self.maps.values()), default=0)
        )

    @property
    def largest(self) -> float:
        """Upper end of a scale that is not logarithmic: the largest weight of all maps."""
        return max((scale_top(self.scale, each) for each in self.maps.values()), default=0.0)

    @property
    def position(self) -> int | None:
        """Number of the map under the cursor, from 1, where not all maps are in view; else None."""
        is_scrolled = self.maps and self.virtual_size.height > self.size.height
        return self.cursor + 1 if is_scrolled and self.cursor is not None else None

    @property
    def pooled(self) -> PooledMap | None:
        """The map under the cursor."""
        return None if self.cursor is None else self.maps.get(self.cursor)

    def legend(self, width: int) -> Text:
        """Explain the levels in a line."""
        block = self._tiles.block
        pooled = f"max of {block}×{block}" if block > 1 else ""
        return legend(Levels(self.scale, self.largest, self.ink), self.styles_of_levels(), width, pooled)

    # --- keys and the mouse

    def action_step(self, columns: int, rows: int) -> None:
        """Move by tiles, past the end of a row into the next; without a cursor, to the first head."""
        self.go(0 if self.cursor is None else self.cursor + columns + rows * self._tiles.columns)

    def action_page(self, pages: float) -> None:
        """Move by the rows of maps in view, as far as there are any."""
        rows = lines_of(pages, max(self.size.height // max(self._tiles.pitch[1], 1), 1))
        here = self.cursor or 0
        while rows and not 0 <= here + rows * self._tiles.columns < self._tiles.count:
            rows -= 1 if rows > 0 else -1
        self.action_step(0, rows)

    def action_edge(self, last: bool) -> None:
        """Move to the first or last head."""
        self.go(self._tiles.count - 1 if last else 0)

    def go(self, number: int) -> None:
        """Move to a head if it exists, and post that; tell the user where there are no heads."""
        if not self._tiles.count:
            self.post_message(Notice("no maps yet"))
        elif number != self.cursor and 0 <= number < self._tiles.count:
            self._picked = number
            self._move(number)
            self.post_message(self.Picked(number))

    def _move(self, number: int | None) -> None:
        before, self.cursor = self.cursor, number
        if before == number:
            return
        for each in (before, number):
            if each is not None and each < self._tiles.count:
                (x, y), width = self._tiles.origin(each), self._tiles.pitch[0]
                self.refresh(Region(x, y - self.scroll_offset.y, width, 1))
        self.reveal()

    def item_at(self, x: int, y: int) -> int | None:
        """Return the head whose map is at a column and a line."""
        return self._tiles.tile_at(x, y) if self.maps else None

    def on_resize(self) -> None:
        """Scroll in the new size; the pane around it has the maps pooled for that."""
        self._measure()

    # --- painting

    def reveal(self) -> None:
        """Scroll the map under the cursor into view; a row of maps with its names comes first."""
        if self.cursor is not None and self.cursor < self._tiles.count and self.maps:
            (_, line), (_, pitch) = self._tiles.origin(self.cursor), self._tiles.pitch
            top = -(-self.scroll_offset.y // pitch) * pitch
            self.scroll_at_once(0, least_scroll(top, self._whole_rows, range(line, line + pitch)))

    @property
    def _whole_rows(self) -> int:
        """Lines of the rows of maps that are whole in view."""
        pitch = self._tiles.pitch[1]
        return max(self.size.height // pitch, 1) * pitch

    def _measure(self) -> None:
        """Set the size of what can be scrolled."""
        if self.maps:
            (across, down), height = self._tiles.pitch, self.size.height
            lines = self._tiles.rows * down
            # The last row can be the lowest one that is whole in view.
            height = lines if lines <= height else max(lines, lines - self._whole_rows + height)
            self.virtual_size = Size(self._tiles.columns * across - GAP, height)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; compute the levels once for all of them."""
        self._levels = {}
        return super().render_lines(crop)

    def _levels_of(self, number: int) -> NDArray[np.uint8] | None:
        """Compute a map's levels in the size in which they are drawn, (rows, columns); None before it has come."""
        if number not in self._levels and number in self.maps:
            levels = Levels(self.scale, self.largest, self.ink).of(self.maps[number].values)
            self._levels[number] = levels.repeat(self._tiles.zoom_down, axis=0).repeat(self._tiles.zoom, axis=1)
        return self._levels.get(number)

    def render_line(self, y: int) -> Strip:
        """Paint a line of names, of maps, or of the message."""
        width, height = self.size
        blank = Style(bgcolor=self.get_component_rich_style("area--label").bgcolor)
        if self.message or not self._names:
            return self.message_line(y, self.get_component_rich_style("area--label"))
        row, inner = divmod(y + self.scroll_offset.y, self._tiles.pitch[1])
        if inner == 0 and 0 < y == height - 1:  # names whose maps are out of view
            return Strip.blank(width, blank)
        segments: list[Segment] = []
        for number in range(row * self._tiles.columns, min((row + 1) * self._tiles.columns, self._tiles.count)):
            if inner:
                segments += self._cells(number, inner - 1, blank)
            else:
                style = self.get_component_rich_style(f"area--label{'-cursor' if number == self.cursor else ''}")
                segments.append(Segment(fit(self._names[number], self._tiles.width), style))
            segments.append(Segment(" " * GAP, blank))
        return Strip(Segment.simplify(segments)).adjust_cell_length(width, blank)

    def _cells(self, number: int, line: int, blank: Style) -> Iterator[Segment]:
        """Paint one line of a map: one of its rows, or two; blank before the map has come.

        Without colours, one sign stands for both halves of a cell: that of the higher level.
        """
        levels, per_line, width = self._levels_of(number), self._tiles.rows_per_line, self._tiles.width
        if levels is None or line * per_line >= len(levels):
            yield Segment(" " * width, blank)
            return
        below, plain = (line + 1) * per_line - 1, self.get_component_rich_style("area--cell")
        upper = levels[line * per_line, :width]
        lower = levels[below, :width] if below < len(levels) else np.zeros_like(upper)
        larger = np.maximum(upper, lower)
        is_sign = (larger == NOT_FINITE) | (self.ink is not Ink.COLOUR)
        upper, lower = (np.where(is_sign, larger, half) for half in (upper, lower))
        styles = self.styles_of_levels()
        colours = {level: style.bgcolor for level, style in enumerate(styles)} if len(styles) > 1 else {}
        signs = {NOT_FINITE: ("?", plain)} | {level: (cell[-1], plain) for level, cell in enumerate(self.ink.cells)}
        yield from halved_cells(upper, lower, colours, signs)
        yield Segment(" " * (width - len(upper)), blank)
