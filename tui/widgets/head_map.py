"""All heads of a model as cells, layers by heads: one measure at a glance; and its extremes and histogram."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from engine.values.heads import Head, head_text
from engine.values.outline import LayerOutline
from tui.drawing.cells import merged_cells
from tui.drawing.levels import ABSENT, NOT_FINITE, Ink, ValueScale, glyphs_of
from tui.drawing.measure_map import HeadGrid, MeasureMap, lay_out_heads
from tui.drawing.numbers import brief_number, fit_number
from tui.drawing.plots import bars
from tui.drawing.text import first_fitting
from tui.toolkit.keys import paging_bindings
from tui.widgets.scroll_area import CellGrid, StyledWidget

_UNDEFINED, _OUTSIDE = 252, 251
"""Stand for a level: where the measure is undefined, and where the layer has no such head."""

EXTREMES = 10
"""The fewest heads in a list below a map, of the largest values and of the smallest."""

_VALUE_WIDTH = 10
"""Columns of a value in a list of heads, with the blanks around it."""


class HeadMap(CellGrid):
    """Shows one measure of all heads, with a cursor for keys and mouse.

    Attributes
    ----------
    shown : the measure's values; None while nothing is known.
    scale : turns them into levels; None while no value is finite.
    stacks : of the model, in the order of its layers.
    list_width : columns that a list of its heads with values needs.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Previous layer", show=False, id="overview.up"),
        Binding("down,j", "move(1, 0)", "Next layer", show=False, id="overview.down"),
        Binding("left,h", "move(0, -1)", "Previous head", show=False, id="overview.left"),
        Binding("right,l", "move(0, 1)", "Next head", show=False, id="overview.right"),
        *paging_bindings("overview", "A page of layers"),
        Binding("home", "edge(False)", "First head of the layer", show=False, id="overview.first_head"),
        Binding("end", "edge(True)", "Last head of the layer", show=False, id="overview.last_head"),
        Binding("gg,ctrl+home", "row_edge(False)", "First layer", show=False, id="overview.first"),
        Binding("G,ctrl+end", "row_edge(True)", "Last layer", show=False, id="overview.last"),
        Binding("enter", "choose", "Go into the head", show=False, id="overview.choose"),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"overview--absent"}
    DEFAULT_CSS = """
    HeadMap > .overview--absent { color: $text-disabled; }
    """

    class LaidOut(Message):
        """The size of the cells or the number of lines has changed."""

    def __init__(self) -> None:
        super().__init__(name="overview")
        self.rows: tuple[LayerOutline, ...] = ()
        self.stacks: tuple[str, ...] = ()
        self.list_width = _VALUE_WIDTH
        self.grid = HeadGrid()
        self.shown: MeasureMap | None = None
        self.scale: ValueScale | None = None
        self._levels: NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)
        self._room: Size | None = None

    @property
    def level_styles(self) -> tuple[Style, ...]:
        """The style of each level: a background, or one style for all glyphs."""
        return self.styles_of_scale(is_signed=self._is_signed)

    @property
    def glyphs(self) -> tuple[str, ...]:
        """The characters of each level's cell."""
        return glyphs_of(self.ink, self.cell[0], self._is_signed)

    @property
    def _is_signed(self) -> bool:
        return self.scale is not None and self.scale.is_signed

    @property
    def head(self) -> Head | None:
        """The head under the cursor."""
        if not self.rows:
            return None
        row, column = self.cursor
        return Head(self.rows[row].stack, self.rows[row].layer, column)

    @property
    def value(self) -> float | None:
        """The value of the head under the cursor; None without one."""
        cell = None if self.shown is None or self.head is None else self.shown.cell(self.head)
        return None if cell is None or isinstance(cell, str) else float(cell)

    def open(self, layers: tuple[LayerOutline, ...]) -> None:
        """Show the heads of a model, with no values yet."""
        self.rows, self.grid, self.cursor, self.shown, self.scale = layers, HeadGrid(), (0, 0), None, None
        self.stacks = tuple(dict.fromkeys(layer.stack for layer in layers))
        last_heads = (Head(layer.stack, layer.layer, layer.heads - 1) for layer in layers)
        self.list_width = max(len(head_text(each, self.stacks)) for each in last_heads) + _VALUE_WIDTH
        self.lay_out_cells()

    def allow(self, room: Size) -> None:
        """Set the room for the map."""
        self._room = room
        self.lay_out_cells()

    def cell_area(self, room: Size) -> int:
        """Return the characters per head in a room; 0 where not all heads would be in view."""
        if not self.rows or room.width < 1 or room.height < 2:
            return 0
        grid = self._grid_in(room)
        return grid.width * grid.height if grid.fits(room.width, room.height - 1) else 0

    def show(self, shown: MeasureMap, scale: ValueScale | None) -> None:
        """Draw a measure; repaint only if it has changed."""
        before = self.shown, self.scale
        self.shown, self.scale = shown, scale
        self.lay_out_cells()
        if before != (shown, scale):
            self.refresh()

    def place_of(self, head: Head) -> tuple[int, int]:
        """Return the row and column of a head; for a whole layer the cursor's column."""
        row = next(row for row, layer in enumerate(self.rows) if layer.name == head.whole_layer)
        return row, self.cursor[1] if head.is_layer else head.head

    @property
    def extent(self) -> tuple[int, int]:
        """Number of layers, and of heads in the widest."""
        return len(self.rows), self.grid.columns

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show, or no room yet."""
        return self.shown is None or not self.grid.lines

    def nearest(self, row: int, column: int) -> tuple[int, int]:
        """Return the head nearest to a place."""
        row = max(0, min(row, len(self.rows) - 1))
        return row, max(0, min(column, self.rows[row].heads - 1))

    def row_on(self, line: int) -> int | None:
        """Return the layer on a line; None on a stack's heading."""
        return self.grid.lines[line].row

    def lines_of_row(self, row: int) -> range:
        """Return the lines of a layer, with the heading of its stack."""
        first = self.grid.top(row)
        has_heading = first > 0 and self.row_on(first - 1) is None
        return range(first - has_heading, first + self.grid.height)

    def lay_out_cells(self) -> None:
        """Choose the size of the cells; repaint only if that has changed."""
        room = self._room or self.size
        if not self.rows or not room.width:
            return
        grid = self._grid_in(room)
        if len(grid.lines) > room.height - 1:  # a scrollbar takes a column
            grid = self._grid_in(Size(room.width - 1, room.height))
        is_other = grid != self.grid
        self.grid = grid
        self.name_width, self.cell = grid.gutter, (grid.width, grid.height)
        self.virtual_size = Size(grid.gutter + grid.columns * grid.width, 1 + len(grid.lines))
        if is_other:
            self.refresh()
            self.call_after_refresh(self.reveal)  # a new size can be scrolled only once it is laid out
            self.post_message(self.LaidOut())

    def _grid_in(self, room: Size) -> HeadGrid:
        is_narrow_told = self.ink is Ink.COLOUR or not self._is_signed
        return lay_out_heads(self.rows, room.width, room.height - 1, is_narrow_told=is_narrow_told)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; compute the levels once for all of them."""
        if self.shown is not None and self.grid.lines:
            self._levels = self._levels_of(self.shown)
        return super().render_lines(crop)

    def _levels_of(self, shown: MeasureMap) -> NDArray[np.uint8]:
        """Compute the levels of all cells, (layers, heads of the widest layer)."""
        kinds = np.array([ABSENT if cell is None else _UNDEFINED if cell == "" else 0 for cell in shown.cells])
        known = ABSENT if self.scale is None else self.scale.levels(shown.values, self.ink, len(self.glyphs))
        heads = np.array([layer.heads for layer in self.rows])
        levels = np.full(self.extent, _OUTSIDE, dtype=np.uint8)
        levels[np.arange(self.grid.columns) < heads[:, None]] = np.where(kinds > 0, kinds, known)
        return levels

    def row_name(self, line: int) -> str:
        """Return the name of a layer, on its first line, or of a stack."""
        return self.grid.lines[line].text

    def heading(self) -> tuple[str, range]:
        """Return the numbers of heads."""
        return self.grid.header(self.cursor[1])

    def paint_cells(self, line: int) -> Iterable[Segment]:
        """Paint the cells of a layer; nothing beside a heading."""
        row, style, width = self.row_on(line), self.get_component_rich_style, self.cell[0]
        if row is None:
            return ()
        others = {
            ABSENT: (f"{'∙':^{width}}", style("overview--absent")),
            _UNDEFINED: (f"{'×':^{width}}", style("overview--absent")),
            NOT_FINITE: (f"{'∞':^{width}}", style("area--cell")),
            _OUTSIDE: (" " * width, style("area--label")),
        }
        cursor = (self.cursor[1], style("area--cursor")) if row == self.cursor[0] else None
        return merged_cells(self._levels[row], self.glyphs, self.level_styles, others, cursor=cursor)


class ExtremeHeads(StyledWidget, can_focus=False):
    """Lists the heads with the largest and the smallest values of a map; a click moves the map's cursor."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"extremes--head", "extremes--cursor", "extremes--label"}
    DEFAULT_CSS = """
    ExtremeHeads {
        width: 100%; height: 1fr; padding: 0 1;
        & > .extremes--head { color: $text; }
        & > .extremes--cursor { color: $success; text-style: bold; }
        & > .extremes--label { color: $text-muted; }
    }
    """

    def __init__(self, head_map: HeadMap) -> None:
        super().__init__()
        self._head_map = head_map
        self._label_of: Callable[[Head], Sequence[str]] = lambda _: ()
        self._numbers: Mapping[Head, str] = {}
        self._lists: list[list[Head | str]] = [[]]
        """Headings and heads of the lists side by side: two, or one with both below each other."""

    def follow(self, label_of: Callable[[Head], Sequence[str]]) -> None:
        """Show what the map shows now.

        Parameters
        ----------
        label_of : gives the labels of a head, in full and shorter.
        """
        self._label_of = label_of
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; choose the heads and format their values once for all of them."""
        shown, height = self._head_map.shown, self.size.height
        largest, smallest = ((), ()) if shown is None else shown.extremes(height)
        if not largest:
            self._lists = [[]]
        elif self.size.width >= 2 * self._head_map.list_width:
            self._lists = [["largest", *largest], ["smallest", *smallest]]
        else:
            least = (height - 3) // 2  # two headings and a line between the lists
            self._lists = [["largest", *largest[:least], "", "smallest", *smallest[:least]]]
        heads = [*largest, *smallest]
        names = [head_text(each, self._head_map.stacks) for each in heads]
        cells = [None if shown is None else shown.cell(each) for each in heads]
        values = [fit_number(cell, 7) if isinstance(cell, int | float) else "" for cell in cells]
        longest = [max(map(len, texts), default=0) for texts in (names, values)]
        texts = (f"{name:<{longest[0]}} {value:>{longest[1]}} " for name, value in zip(names, values, strict=True))
        self._numbers = dict(zip(heads, texts, strict=True))
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint a line of each list."""
        plain = self.get_component_rich_style("extremes--label")
        width = self.size.width // len(self._lists)
        entries = (entries[y] if y < len(entries) else "" for entries in self._lists)
        cells = [each for entry in entries for each in self._cells(entry, width, plain)]
        return Strip(cells).adjust_cell_length(self.size.width, Style(bgcolor=plain.bgcolor))

    def _cells(self, entry: Head | str, width: int, plain: Style) -> Iterator[Segment]:
        if isinstance(entry, str):
            yield Segment(f"{entry:{width}}", plain)
            return
        is_here = entry == self._head_map.head
        style = self.get_component_rich_style("extremes--cursor" if is_here else "extremes--head")
        number = self._numbers[entry]
        label = first_fitting(max(width - len(number) - 1, 1), *self._label_of(entry), "")
        yield Segment(number, style)
        yield Segment(f"{label:{max(width - len(number), 0)}}", plain)

    def on_click(self, event: events.Click) -> None:
        """Put the map's cursor on the clicked head."""
        offset = event.get_content_offset(self)
        if offset is not None:
            width = self.size.width // len(self._lists)
            entries = self._lists[min(offset.x // width, len(self._lists) - 1)]
            if offset.y < len(entries) and isinstance(entry := entries[offset.y], Head):
                self._head_map.go(*self._head_map.place_of(entry))


_WIDEST_BAR = 4
"""Columns per bar at most."""

_DIGITS = 3
"""Digits of the numbers at both ends."""


class Histogram(StyledWidget, can_focus=False):
    """Bars that count the heads of a map by value; the scale below explains the map's colours."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"histogram--bar", "histogram--cursor", "histogram--label"}
    DEFAULT_CSS = """
    Histogram {
        width: 100%; height: 4; padding: 0 1;
        & > .histogram--bar { color: $text-primary; }
        & > .histogram--cursor { color: $success; text-style: bold; }
        & > .histogram--label { color: $text-muted; }
    }
    """

    def __init__(self, head_map: HeadMap) -> None:
        super().__init__()
        self._head_map = head_map
        self._lines: list[Strip] = []

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; draw the bars once for all of them."""
        shown, scale = self._head_map.shown, self._head_map.scale
        self._lines = [] if shown is None or scale is None else self._paint(shown, scale)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return a line of bars, or the scale below them."""
        blank = Style(bgcolor=self.get_component_rich_style("histogram--label").bgcolor)
        line = self._lines[y] if y < len(self._lines) else Strip([])
        return line.adjust_cell_length(self.size.width, blank)

    def _paint(self, shown: MeasureMap, scale: ValueScale) -> list[Strip]:
        rows, ink, value = self.size.height - 1, self._head_map.ink, self._head_map.value
        signs, styles = self._head_map.glyphs, self._head_map.level_styles
        low, high = brief_number(scale.low, _DIGITS), brief_number(scale.high, _DIGITS)
        room = self.size.width - len(low) - len(high) - 2
        if rows < 1 or room < 1:
            return []
        bins = scale.bins(room, len(shown.finite))
        width = min(room // bins, _WIDEST_BAR)
        counts = np.bincount(scale.bin_of(shown.finite, bins), minlength=bins).astype(np.float64)
        columns = np.repeat(np.arange(bins), width)
        bar, label = (self.get_component_rich_style(f"histogram--{part}") for part in ("bar", "label"))
        lines = [Strip([Segment(f"{'':{len(low)}} {row}", bar)]) for row in bars(counts[columns], rows)]
        under = -1
        if value is not None and np.isfinite(value):
            under = int(scale.bin_of(np.array([value]), bins)[0])
        spaced = np.geomspace if scale.scale == "log" else np.linspace
        steps = spaced(scale.low, scale.high, 2 * len(columns) + 1)[1::2]  # the middle of each column
        cells = [Segment(low + " ", label)]
        for place, level in zip(columns.tolist(), scale.levels(steps, ink, len(signs)).tolist(), strict=True):
            if place == under:
                cells.append(Segment("▴", self.get_component_rich_style("histogram--cursor")))
            else:
                cells.append(Segment(signs[level][-1], styles[level if len(styles) > 1 else 0]))
        return [*lines, Strip(Segment.simplify([*cells, Segment(f" {high}", label)]))]
