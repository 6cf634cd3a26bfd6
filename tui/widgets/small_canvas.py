"""Small maps of many heads on one scale, as they are painted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region, Size
from textual.strip import Strip

from engine.values.attention import PooledMap
from tui.drawing.cells import halved_cells
from tui.drawing.legend import legend
from tui.drawing.levels import NOT_FINITE, Ink, Levels, Scale, usual_scale
from tui.drawing.text import centred, fit
from tui.drawing.tiles import GAP, Tiles, lay_out_tiles
from tui.toolkit.messages import RoomChanged
from tui.widgets.scrolled import Scrolled


class SmallCanvas(Scrolled, can_focus=False):
    """Paints small maps; knows which head its cursor is on, but not what moves it.

    Attributes
    ----------
    cursor : the number of that head, from zero; None where it is on none.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"small--name", "small--name-cursor", "small--cell", "small--message"}

    def __init__(self) -> None:
        super().__init__(name="small maps")
        self._tiles = Tiles(0, 1, 0, 0, 1, 1)
        self._names: tuple[str, ...] = ()
        self._maps: Mapping[int, PooledMap] = {}
        self._levels: dict[int, NDArray[np.uint8]] = {}
        self._sorted_for: Ink | None = None
        self._message = ""
        self.cursor: int | None = None
        self._chosen_scale: Scale | None = None
        self._usual_scale: Scale = "linear"

    @property
    def scale(self) -> Scale:
        """Linear or logarithmic: the one that a person chose, else the one that large maps of as many tokens have."""
        return self._chosen_scale or self._usual_scale

    def lay_out(self, count: int, queries: int, keys: int) -> Tiles:
        """Choose how so many maps of a size share this pane."""
        return lay_out_tiles(count, queries, keys, *self.size, self._rows_per_line)

    def show(self, tiles: Tiles, names: Sequence[str], maps: Mapping[int, PooledMap]) -> None:
        """Show maps by the number of the head, all in blocks of the size that the tiles are for; others may follow."""
        before, old = (self._tiles, self._names, self.scale, self._message), self._levels
        self._tiles, self._names, self._maps, self._message = tiles, tuple(names), dict(maps), ""
        self._usual_scale = usual_scale(max((len(each.key_tokens) for each in maps.values()), default=0))
        is_same = before == (self._tiles, self._names, self.scale, self._message)
        self._measure()
        self._sort()
        if not is_same:
            self.refresh()
            self.call_after_refresh(self._reveal)  # how far it can be scrolled is known then
        elif changed := [n for n, levels in self._levels.items() if not np.array_equal(levels, old.get(n, ()))]:
            self.refresh(*(self._on_screen(number) for number in changed))

    def show_message(self, message: str, count: int = 0) -> None:
        """Show a sentence in place of maps; between so many heads the cursor can be moved all the same."""
        self._tiles = replace(self._tiles, count=count)
        if message != self._message:
            self._message = message
            self._maps, self._levels = {}, {}
            self.virtual_size = Size(0, 0)
            self.refresh()

    def rename(self, names: Sequence[str]) -> None:
        """Write other names over the maps."""
        before, self._names = self._names, tuple(names)
        for number, (old, new) in enumerate(zip(before, self._names, strict=False)):
            if old != new:
                self.refresh(self._on_screen(number, only_name=True))

    @property
    def largest(self) -> float:
        """The upper end of the linear scale: the largest weight of all maps."""
        return max((each.largest for each in self._maps.values()), default=0.0)

    @property
    def has_maps(self) -> bool:
        """Whether maps are shown, and not a sentence in their place."""
        return bool(self._maps)

    @property
    def is_blank(self) -> bool:
        """Whether neither maps nor a sentence have come."""
        return not self._maps and not self._message

    @property
    def position(self) -> int | None:
        """Which map the cursor is on, counted from 1, where not all are in view at once."""
        is_scrolled = self.has_maps and self.virtual_size.height > self.size.height
        return self.cursor + 1 if is_scrolled and self.cursor is not None else None

    @property
    def pooled(self) -> PooledMap | None:
        """The map under the cursor."""
        return None if self.cursor is None else self._maps.get(self.cursor)

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self._chosen_scale = scale

    def toggle_scale(self) -> None:
        """Change between the linear scale, to the largest weight of all maps, and the logarithmic one."""
        self._chosen_scale = "log" if self.scale == "linear" else "linear"
        self._sort()
        self.refresh()

    def legend(self, width: int) -> Text:
        """Explain the levels in a line."""
        block, sign = self._tiles.block, "×"
        pooled = f"max of {block}{sign}{block}" if block > 1 else ""
        return legend(self._scaled, self.styles_of_levels("small--cell"), width, pooled)

    def notify_style_update(self) -> None:
        """Sort the weights into as many levels as the new theme has, and have maps pooled for its lines."""
        super().notify_style_update()
        if self.is_attached:
            self._sort()
            self.post_message(RoomChanged())

    def on_resize(self) -> None:
        """Have maps pooled for the new size."""
        self._measure()
        self.post_message(RoomChanged())

    def _reveal(self) -> None:
        """Scroll until the map under the cursor is in view."""
        if self.cursor is not None and self.cursor < self._tiles.count and self._maps:
            top = self._tiles.line_of(self.cursor, self.scroll_offset.y, self.size.height)
            self.scroll_to(y=top, animate=False, immediate=True)

    def _measure(self) -> None:
        """Say how much there is to scroll."""
        if self._maps:
            width = self._tiles.columns * self._tiles.pitch[0] - GAP
            self.virtual_size = Size(width, self._tiles.scrolled_height(self.size.height))

    @property
    def _rows_per_line(self) -> int:
        """Two where the halves of a character can have colours of their own, which takes one that is not ASCII."""
        return 2 if self.has_half_blocks else 1

    @property
    def _scaled(self) -> Levels:
        """How weights become cells."""
        return Levels(self.scale, self.largest, self.ink)

    def _sort(self) -> None:
        """Sort all weights into levels, as large as they are drawn: (rows, columns) of each map."""
        self._sorted_for = self.ink
        zoom, levels = self._tiles.zoom, self._scaled
        self._levels = {
            number: levels.of(each.values).repeat(zoom, axis=0).repeat(zoom, axis=1)
            for number, each in self._maps.items()
        }

    def _painted(self, levels: NDArray[np.uint8] | None, line: int, blank: Style) -> Iterator[Segment]:
        """Paint one line of a map, of a row of it or of two; blank where the map has not come.

        Where no colour tells levels apart, one level's sign stands for both halves of a cell.
        """
        per_line, width = self._tiles.rows_per_line, self._tiles.width
        if levels is None or line * per_line >= len(levels):
            yield Segment(" " * width, blank)
            return
        below, plain = (line + 1) * per_line - 1, self.get_component_rich_style("small--cell")
        upper = levels[line * per_line, :width]
        lower = levels[below, :width] if below < len(levels) else np.zeros_like(upper)
        larger = np.maximum(upper, lower)
        is_sign = (larger == NOT_FINITE) | (self.ink is not Ink.COLOUR)
        upper, lower = (np.where(is_sign, larger, half) for half in (upper, lower))
        styles = self.styles_of_levels("small--cell")
        colours = {level: style.bgcolor for level, style in enumerate(styles)} if len(styles) > 1 else {}
        signs = {NOT_FINITE: ("?", plain)} | {level: (cell[-1], plain) for level, cell in enumerate(self.ink.cells)}
        yield from halved_cells(upper, lower, colours, signs)
        yield Segment(" " * (width - len(upper)), blank)

    def _on_screen(self, number: int, only_name: bool = False) -> Region:
        """Find the region of a tile, or of the name above its map."""
        (x, y), (width, height) = self._tiles.origin(number), self._tiles.pitch
        return Region(x, y - self.scroll_offset.y, width, 1 if only_name else height)

    def render_line(self, y: int) -> Strip:
        """Paint a line: of names, of maps, or of the message."""
        width, height = self.size
        blank = Style(bgcolor=self.get_component_rich_style("small--name").bgcolor)
        if self._message or not self._names:
            text = centred(self._message, width, height)[y]
            return Strip([Segment(text, self.get_component_rich_style("small--message"))], width)
        row, inner = divmod(y + self.scroll_offset.y, self._tiles.pitch[1])
        if inner == 0 and 0 < y == height - 1:  # names without anything of their maps
            return Strip.blank(width, blank)
        segments: list[Segment] = []
        if self._sorted_for is not self.ink:  # Textual paints a new theme before it tells of it
            self._sort()
        for number in range(row * self._tiles.columns, min((row + 1) * self._tiles.columns, self._tiles.count)):
            painted = self._painted(self._levels.get(number), inner - 1, blank) if inner else self._label(number)
            segments += painted
            segments.append(Segment(" " * GAP, blank))
        return Strip(Segment.simplify(segments)).adjust_cell_length(width, blank)

    def _label(self, number: int) -> Iterator[Segment]:
        """Write the name over a map."""
        style = self.get_component_rich_style(f"small--name{'-cursor' if number == self.cursor else ''}")
        yield Segment(fit(self._names[number], self._tiles.width), style)
