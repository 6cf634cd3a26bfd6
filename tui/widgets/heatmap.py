"""An attention map in character cells, with labels on both axes and a cursor that reads out weights."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from engine.mathematics.attention import pool
from engine.values.attention import AttentionMap, MapWindow, PooledBlock, PooledMap
from engine.values.errors import EngineError
from tui.drawing.cells import CURSOR, cell_width, halved_cells, merged_cells, pad_cell, weights_in_row
from tui.drawing.levels import ABSENT, NOT_FINITE, Ink, Levels, Scale, default_scale, legend, scale_top
from tui.drawing.map_layout import ACROSS, BOTH_SIDES, Axes, Sides, axes_of, fitting_block
from tui.drawing.ramps import legible_styles
from tui.drawing.readout import block_readout, weight_readout
from tui.toolkit.keys import command_binding, lines_of, paging_bindings
from tui.toolkit.messages import Notice, NumbersToggled
from tui.widgets.scroll_area import ScrollArea, least_scroll

SCROLLED = 128
"""Tokens up to which a map opens with one cell per weight, even if it has to scroll; a longer map opens whole."""

Counts = tuple[int, int]
"""Numbers of queries and keys, or of rows and columns of cells."""


@dataclass(frozen=True, slots=True)
class Viewport:
    """What part of a map is looked at, and in cells of what size.

    Attributes
    ----------
    cursor : query and key, from zero; with larger cells, those of one weight in the cell.
    is_moved : whether the user has moved the cursor; until then it is on the last query's largest weight.
    block : queries, and keys, per cell.
    is_fitted : whether the user wants the whole map in view, also in a pane of another size; None before a choice.
    """

    counts: Counts = (0, 0)
    cursor: tuple[int, int] = (0, 0)
    is_moved: bool = False
    block: int = 1
    is_fitted: bool | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the whole map is in view; before a choice that depends on its length."""
        return max(self.counts) > SCROLLED if self.is_fitted is None else self.is_fitted

    def on_map(self, counts: Counts, fitting: int) -> Viewport:
        """Look at another map: as before if it has the same size, otherwise from its beginning.

        Parameters
        ----------
        fitting : the smallest block that brings the whole map into view.
        """
        is_same = counts == self.counts
        is_fitted = self.is_fitted if is_same else None
        viewport = replace(self, counts=counts, is_fitted=is_fitted, is_moved=self.is_moved and is_same)
        block = fitting if viewport.is_whole else 1 if is_fitted is None else self.block
        return replace(viewport, block=block).with_cursor(*self.cursor)

    def with_cursor(self, query: int, key: int) -> Viewport:
        """Put the cursor on the nearest weight of the map."""
        queries, keys = self.counts
        return replace(self, cursor=(max(min(query, queries - 1), 0), max(min(key, keys - 1), 0)))

    def step(self, rows: int, columns: int, block: int) -> Viewport:
        """Move by cells, to the first query and key of the new cell; at an edge the cursor stays."""
        query, key = (
            old if (cell := min(max(old // block + step, 0), (count - 1) // block)) == old // block else cell * block
            for old, step, count in zip(self.cursor, (rows, columns), self.counts, strict=True)
        )
        return self.with_cursor(query, key)

    def cell(self, block: int) -> tuple[int, int]:
        """Return the row and column of the cell under the cursor, for blocks of some size."""
        return self.cursor[0] // block, self.cursor[1] // block

    @property
    def whole_window(self) -> MapWindow:
        """A window on the whole map."""
        rows, columns = (range(-(-count // self.block)) for count in self.counts)
        return MapWindow(self.block, rows, columns)

    def window_around(self, first: Counts | None, cells: Counts) -> MapWindow:
        """Return a window on what is in view and at least half a pane on every side of it.

        It is the same while the view moves by less than a pane.

        Parameters
        ----------
        first : the first row and column in view; None where cells have another size now: those before the cursor.
        cells : rows and columns that the pane has room for.
        """
        begin = first or [at - count // 2 for at, count in zip(self.cell(self.block), cells, strict=True)]
        panes = [(round(at / count), count) for at, count in zip(begin, cells, strict=True)]
        rows, columns = (range((pane - 1) * count, (pane + 2) * count) for pane, count in panes)
        return MapWindow(self.block, rows, columns).within(*self.counts)


UNSEEN = (32, 32)
"""Rows and columns of cells to plan for while the widget has no size."""

SINGLE = "each cell is a single weight"
"""Message where zooming in does nothing."""

Weights = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class MapSource:
    """A map in memory, and how its parts are pooled as they come into view.

    Attributes
    ----------
    key : identifies the map.
    later : pools a part on another thread; returns it, or the error instead, or None until it is there. None for a map
        that is small enough to pool all of it at once.
    """

    key: Hashable
    map: AttentionMap
    later: Callable[[MapWindow], PooledMap | EngineError | None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether any part comes at once."""
        return self.later is None

    def window(self, window: MapWindow) -> PooledMap | EngineError | None:
        """Return a part, or the error instead; None while it is being pooled."""
        return pool(self.map, window) if self.later is None else self.later(window)

    def row(self, query: int) -> Weights:
        """Return all weights of a query."""
        return self.map.part(query, slice(None))


class Heatmap(ScrollArea, can_focus=True):
    """Shows one attention map, with a cursor.

    Attributes
    ----------
    key : identifies the map on screen; None without one.
    pooled : the painted part.
    scale : logarithmic, from 1e-4 to 1, or another one from zero to the map's largest value.
    is_numbered : whether cells hold their weights as numbers.
    zooms : how zooming would begin: ``in`` or ``out``; empty where all single weights are in view.
    searched : the text that the keys for the next and previous match look for.
    scale_end : where a linear scale ends, so that maps can be compared; None for the map's own largest value.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Previous query", show=False, id="heatmap.up"),
        Binding("down,j", "move(1, 0)", "Next query", show=False, id="heatmap.down"),
        Binding("left,h", "move(0, -1)", "Previous key", show=False, id="heatmap.left"),
        Binding("right,l", "move(0, 1)", "Next key", show=False, id="heatmap.right"),
        *paging_bindings("heatmap", "A page of queries"),
        Binding("ctrl+left", "key_page(-1)", "A page left", show=False, id="heatmap.page_left"),
        Binding("ctrl+right", "key_page(1)", "A page right", show=False, id="heatmap.page_right"),
        Binding("home", "key_edge(False)", "First key", show=False, id="heatmap.first_key"),
        Binding("end", "key_edge(True)", "Last key", show=False, id="heatmap.last_key"),
        Binding("gg,ctrl+home", "query_edge(False)", "First query", show=False, id="heatmap.first_query"),
        Binding("ctrl+end,G", "query_edge(True)", "Last query", show=False, id="heatmap.last_query"),
        Binding("enter", "largest", "Go to the row's largest weight", show=False, id="heatmap.largest"),
        Binding("n", "find(1)", "Next match", show=False, id="heatmap.next_found"),
        Binding("N", "find(-1)", "Previous match", show=False, id="heatmap.previous_found"),
        Binding("greater_than_sign", "zoom(True)", "Zoom in", show=False, id="heatmap.zoom_in"),
        Binding("less_than_sign", "zoom(False)", "Zoom out", show=False, id="heatmap.zoom_out"),
        command_binding("heatmap.fit", "fit", "The whole map, or single weights"),
        command_binding("heatmap.numbers", "numbers", "Weights as numbers, or as colours alone"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"heatmap--label-other"}
    DEFAULT_CSS = """
    Heatmap > .heatmap--label-other { color: $text-primary; }
    """

    scale_end: reactive[float | None] = reactive[float | None](None)

    class CursorMoved(Message):
        """The cursor is on another cell, or its cell has another weight because the map has changed."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.pooled: PooledMap | None = None
        self.is_numbered = False
        self.zooms: Literal["", "in", "out"] = ""
        self.searched = ""
        self._source: MapSource | None = None
        self.key: Hashable = None
        self._viewport = Viewport()
        self._sides: Sides = BOTH_SIDES
        self._chosen_scale: Scale | None = None
        self._axes = axes_of((), (), 1, 0, 0)
        self._styles_now: tuple[Style, ...] = ()
        self._levels_now: NDArray[np.uint8] = np.zeros((0, 0), dtype=np.uint8)

    # --- what is shown

    def show(
        self, source: MapSource, scale: Scale | None = None, *, is_numbered: bool = False
    ) -> PooledMap | EngineError | None:
        """Show what is in view of a map; return it, or the error instead, or None while it is being computed.

        Until then the previous map stays. The cursor stays on its weight if the map has it.

        Parameters
        ----------
        scale : None for the default of its number of keys.
        """
        looks = self.scale, self.is_numbered
        self._source, self._chosen_scale, self.is_numbered = source, scale, is_numbered
        before, answer = self.pooled, self._fetch()
        if self.pooled is before and looks != (self.scale, is_numbered):
            self._paint()
        return answer

    def show_message(self, text: str) -> None:
        """Show a message in place of a map."""
        if self.pooled is not None or text != self.message:
            self.pooled = self._source = self.key = None
            self.message = text
            self._paint()

    def begin_as(self, other: Heatmap) -> None:
        """Start with another map's viewport, which applies if the first map shown has the same size."""
        self._viewport = other._viewport

    def follow(self, other: Heatmap) -> None:
        """Look at the same weight as another map, in cells of the same size, and with the same cells in view."""
        viewport = replace(other._viewport, counts=self._viewport.counts).with_cursor(*other.cursor)
        if self.pooled is not None and viewport != self._viewport:
            self._change_viewport(viewport)
        self.scroll_at_once(other.scroll_offset.x, other.scroll_offset.y)
        self.reveal()

    @property
    def scale(self) -> Scale:
        """How weights become colours."""
        keys = len(self._source.map.key_tokens) if self._source is not None else 0
        return self._chosen_scale or default_scale(keys)

    @property
    def cursor(self) -> tuple[int, int]:
        """Query and key of the weight under the cursor, from zero; with larger cells, of one weight in the cell."""
        return self._viewport.cursor

    @property
    def looked_at(self) -> tuple[int, int] | None:
        """Query and key of the weight in the readout: the one under the cursor, or the largest of its cell."""
        return None if self._block is None else self._block.place

    @property
    def value(self) -> float:
        """The weight that the cell under the cursor shows; NaN while it is being computed."""
        return float("nan") if self._block is None else self._block.largest

    @property
    def is_masked(self) -> bool:
        """Whether the mask hides all of the cell under the cursor."""
        block = self._block
        return block is not None and block.is_masked

    def readout(self, width: int = 120) -> str:
        """Describe the cell under the cursor in a line of at most ``width`` cells; empty without a map."""
        pooled, block = self.pooled, self._block
        if pooled is None or block is None:
            return ""
        tokens = pooled.query_tokens, pooled.key_tokens
        if pooled.window.block > 1:
            return block_readout(block, *tokens, width)
        source, row = self._source, None
        if source is not None and source.is_whole and not pooled.is_signed:
            row = source.row(block.place[0])
        return weight_readout(block, *tokens, width, row)

    def legend(self, width: int = 80) -> Text:
        """Explain the levels in one line of at most ``width`` cells."""
        pooled = self.pooled
        if pooled is None:
            return Text("")
        block = pooled.window.block
        of = f"max of {block}×{block}" if block > 1 else ""
        if self.is_numbered and self.ink is not Ink.COLOUR:
            return Text(f"{of} {'differences' if pooled.is_signed else 'weights'} as numbers".lstrip(), no_wrap=True)
        return legend(self._levels, self._styles, width, of)

    # --- fetching

    def _fetch(self) -> PooledMap | EngineError | None:
        """Fetch what is in view, and of a long map a margin around it; paint it once it is there."""
        source = self._source
        if source is None:
            return None
        painted = self.pooled if source.key == self.key else None
        viewport = self._viewport_on(self._viewport, painted or source.map)
        window = viewport.whole_window
        if not source.is_whole:
            is_in_view = painted is not None and painted.window.block == viewport.block
            first = (self.window[0].start, self.window[1].start) if is_in_view else None
            window = viewport.window_around(first, self._room(source.map, max(viewport.block, 2)))
        answer = painted if painted is not None and painted.window == window else source.window(window)
        if isinstance(answer, PooledMap) and answer is not painted:
            self._show_part(source, viewport, answer)
        elif painted is not None:
            self._viewport = viewport
        return answer

    def _show_part(self, source: MapSource, viewport: Viewport, part: PooledMap) -> None:
        """Paint a part, and ask for what is in view but not in it."""
        self.pooled, self.key, self.message = part, source.key, ""
        self._viewport = self._viewport_on(viewport, part)
        if not self._viewport.is_moved and (place := _last_query_largest(part)) is not None:
            self._viewport = self._viewport.with_cursor(*place)
        self._paint()
        self.post_message(self.CursorMoved())
        if not source.is_whole:
            self._fetch()

    def _viewport_on(self, viewport: Viewport, map: AttentionMap | PooledMap) -> Viewport:
        return viewport.on_map((len(map.query_tokens), len(map.key_tokens)), self._find_block(map))

    def _find_block(self, map: AttentionMap | PooledMap) -> int:
        """Find the smallest block that brings the whole map into view."""
        if self._fits_singly(map):
            return 1
        queries, keys = len(map.query_tokens), len(map.key_tokens)
        if self._can_halve:
            return fitting_block(queries, keys, *self._room(map, 2, is_halved=True))
        return max(fitting_block(queries, keys, *self._room(map, 2)), 2)

    def _fits_singly(self, map: AttentionMap | PooledMap) -> bool:
        rows, columns = self._room(map, 1)
        return len(map.query_tokens) <= rows and len(map.key_tokens) <= columns

    @property
    def _whole_block(self) -> int:
        """The smallest block with which the whole map that is painted is in view."""
        return 1 if self.pooled is None else self._find_block(self.pooled)

    @property
    def _is_single(self) -> bool:
        """Whether all of the map that is painted is in view, in single weights of a line each, or of several."""
        return self.pooled is None or self._fits_singly(self.pooled)

    @property
    def _can_halve(self) -> bool:
        """Whether a cell can be half a character: that takes colours, and leaves no room for numbers."""
        return bool(self.size) and not self.is_numbered and self.has_half_blocks

    @property
    def _is_halved(self) -> bool:
        return self._viewport.is_whole and self._can_halve and not self._is_single

    @property
    def _can_zoom_in(self) -> bool:
        return self._is_halved or self._viewport.block > 1

    def _room(self, map: AttentionMap | PooledMap, block: int, *, is_halved: bool = False) -> Counts:
        (width, height), cell = self.size, cell_width(is_numbered=self.is_numbered, is_signed=map.is_signed)
        if not width or not height:
            return UNSEEN
        tokens = map.query_tokens, map.key_tokens
        if block == 1 and (len(tokens[0]) > height or len(tokens[1]) * cell > width):
            return 0, 0  # without laying out hundreds of labels
        return axes_of(*tokens, block, width, height, 1 if is_halved else cell, self._sides).room(width, height)

    @property
    def _block_size(self) -> int:
        return 1 if self.pooled is None else self.pooled.window.block

    @property
    def _cell(self) -> tuple[int, int]:
        return self._viewport.cell(self._block_size)

    @property
    def _block(self) -> PooledBlock | None:
        """The block under the cursor; None while it is being computed."""
        pooled, cell = self.pooled, self._cell
        return pooled.at(*cell) if pooled is not None and pooled.holds(*cell) else None

    # --- keys and the mouse

    def move_to(self, query: int, key: int) -> None:
        """Put the cursor on the nearest weight of the map."""
        self._change_viewport(replace(self._viewport.with_cursor(query, key), is_moved=True))

    def _change_viewport(self, viewport: Viewport) -> None:
        before, self._viewport = self._viewport, viewport
        if self.pooled is None or viewport == before:
            return
        if (viewport.block, viewport.is_whole) != (before.block, before.is_whole):
            self._fetch()
            if viewport.block == before.block:
                self._paint()  # the same part in cells of another size
        else:
            self._repaint_cursor(before)
        self.post_message(self.CursorMoved())

    def _has_map(self) -> bool:
        """Return whether there is a map; tell the user if not."""
        if self.pooled is None:
            self.post_message(Notice("no map yet"))
        return self.pooled is not None

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor by cells."""
        if self._has_map():
            self.move_to(*self._viewport.step(rows, columns, self._block_size).cursor)

    def action_page(self, pages: float) -> None:
        """Move the cursor by the queries in view, less one."""
        self.action_move(lines_of(pages, len(self.window[0]) - 1), 0)

    def action_key_page(self, pages: float) -> None:
        """Move the cursor by the keys in view, less one."""
        self.action_move(0, lines_of(pages, len(self.window[1]) - 1))

    def action_key_edge(self, last: bool) -> None:
        """Move the cursor to the first or last key."""
        if self._has_map():
            self.move_to(self.cursor[0], self._viewport.counts[1] if last else 0)

    def action_query_edge(self, last: bool) -> None:
        """Move the cursor to the first or last query."""
        if self._has_map():
            self.move_to(self._viewport.counts[0] if last else 0, self.cursor[1])

    def action_largest(self) -> None:
        """Move to the key with the query's largest weight."""
        if self._has_map() and (place := self.looked_at) is not None:
            self.go_to_token(place[0])

    def go_to_token(self, query: int) -> None:
        """Move to a query's largest weight."""
        if self._source is not None:
            place = query, _largest(self._source.row(query))
            if place == self.looked_at:
                self.post_message(Notice("this is the row's largest weight"))
            self.move_to(*place)

    def found(self, text: str) -> tuple[int, ...]:
        """Return the queries at whose token a text begins, ignoring case; it may go on in the tokens after it."""
        tokens = [] if self.pooled is None else [each.lower().removeprefix("##") for each in self.pooled.query_tokens]
        word = re.escape(text.strip().lower())
        ends = list(accumulate(map(len, tokens)))
        begins = (match.start() for match in re.finditer(f"(?={word})", "".join(tokens))) if word else ()
        return tuple(dict.fromkeys(bisect_right(ends, begin) for begin in begins))

    def action_find(self, step: int) -> None:
        """Move to the next or previous match, around the ends, and show its number."""
        if not self._has_map():
            return
        found = self.found(self.searched)
        if not found:
            self.post_message(Notice(f"no token has {self.searched}" if self.searched else "no token was searched yet"))
            return
        after = sum(each <= self.cursor[0] if step > 0 else each < self.cursor[0] for each in found)
        place = (after if step > 0 else after - 1) % len(found)
        self.go_to_token(found[place])
        self.post_message(Notice(f"/{self.searched}  {place + 1} of {len(found)}"))

    def action_zoom(self, is_in: bool) -> None:
        """Halve or double the queries and keys per cell."""
        viewport = self._viewport
        if not self._has_map():
            return
        if is_in and not self._can_zoom_in:
            self.post_message(Notice(SINGLE))
        elif not is_in and (viewport.is_whole or self._is_single):
            self.post_message(Notice("the whole map is in view"))
        elif is_in:
            self._zoom(viewport.block if self._is_halved else viewport.block // 2)
        else:
            is_all = viewport.block * 2 >= self._whole_block + self._can_halve
            self._zoom(None if is_all else viewport.block * 2)

    def action_fit(self) -> None:
        """Show the whole map, or if it is whole already, single weights."""
        if not self._has_map():
            return
        if self._is_single:
            self.post_message(Notice(f"the whole map is in view; {SINGLE}"))
        else:
            self._zoom(1 if self._viewport.is_whole else None)

    def _zoom(self, block: int | None) -> None:
        """Change the block size, None for the whole map; smaller cells go to the largest weight of the old one."""
        viewport = replace(self._viewport, block=block or self._whole_block, is_fitted=block is None)
        place = self.looked_at if viewport.block < self._viewport.block else None
        self._change_viewport(viewport if place is None else viewport.with_cursor(*place))

    def action_numbers(self) -> None:
        """Switch between numbers and colours, in all maps."""
        self.post_message(NumbersToggled(not self.is_numbered))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked cell; a click on a label moves it to that row or column alone."""
        offset, pooled, axes = event.get_content_offset(self), self.pooled, self._axes
        if offset is None or pooled is None:
            return
        queries, keys = self.window
        row = queries.start + axes.row_at(offset.y - axes.header)
        column = keys.start + (offset.x - axes.gutter) // axes.cell
        in_rows, in_columns = offset.y >= axes.header, offset.x >= axes.gutter
        if (not in_rows or row in queries) and (not in_columns or column in keys) and (in_rows or in_columns):
            query, key, block = *self.cursor, pooled.window.block
            self.move_to(row * block if in_rows else query, column * block if in_columns else key)

    def on_resize(self) -> None:
        """Keep the whole map, or the cursor, in view, and fetch what now has room."""
        before = self.pooled
        self._fetch()
        if self.pooled is before:
            self._paint()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Fetch what has come into view."""
        super().watch_scroll_x(old_value, new_value)
        self._fetch()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fetch what has come into view."""
        super().watch_scroll_y(old_value, new_value)
        self._fetch()

    # --- painting

    @property
    def window(self) -> tuple[range, range]:
        """The rows and columns of cells in view."""
        if self.pooled is None:
            return range(0), range(0)
        axes = self._axes
        width, height = self.scrollable_content_region.size
        top, left = axes.row_at(self.scroll_offset.y), -(-self.scroll_offset.x // axes.cell)
        return (
            range(top, min(axes.rows, top + axes.row_at(height - axes.header))),
            range(left, min(axes.columns, left + (width - axes.gutter) // axes.cell)),
        )

    @property
    def largest(self) -> float:
        """Upper end of a scale that is not logarithmic."""
        return 0.0 if self.pooled is None else scale_top(self.scale, self.pooled)

    @property
    def _levels(self) -> Levels:
        is_signed = self.pooled is not None and self.pooled.is_signed
        end = self.largest if self.scale_end is None or is_signed else self.scale_end
        return Levels(self.scale, end, self.ink, is_signed)

    @property
    def _styles(self) -> tuple[Style, ...]:
        return self.styles_of_levels(is_signed=self._levels.is_signed)

    def axes_for(self, width: int, height: int, sides: Sides = BOTH_SIDES) -> Axes:
        """Return the axes in a pane of some size; without a map, those of the last one."""
        pooled = self.pooled
        if pooled is None:
            return self._axes
        cell = 1 if self._is_halved else cell_width(is_numbered=self.is_numbered, is_signed=pooled.is_signed)
        return axes_of(pooled.query_tokens, pooled.key_tokens, pooled.window.block, width, height, cell, sides)

    def label_on(self, sides: Sides) -> None:
        """Leave out the labels of a side that a neighbouring map shows."""
        if sides != self._sides:
            self._sides = sides
            self._fetch()
            self._paint()

    def _paint(self) -> None:
        self._axes = self.axes_for(*self.size, self._sides)
        before = self.virtual_size
        self.virtual_size = Size(*self._axes.size) if self.pooled is not None else Size(0, 0)
        self.refresh()
        self.reveal()
        if self.virtual_size != before:
            self.call_after_refresh(self.reveal)  # a new size can be scrolled only once it is laid out
        if self.size:  # else it is hidden, and will most likely have the old size again
            zooms, self.zooms = self.zooms, "" if self._is_single else "in" if self._can_zoom_in else "out"
            if self.zooms != zooms:
                self.refresh_bindings()

    def _repaint_cursor(self, before: Viewport) -> None:
        self.reveal()
        axes, block, (width, height) = self._axes, self._block_size, self.size
        lines = {axes.line_of(viewport.cell(block)[0]) - self.scroll_offset.y for viewport in (before, self._viewport)}
        rows = (Region(0, axes.header + line, width, axes.lines) for line in lines if 0 <= line < height - axes.header)
        self.refresh(Region(0, 0, width, axes.header), *rows)

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into view."""
        queries, keys = self.window
        if not queries or not keys:
            return
        row, column = self._cell
        top = least_scroll(queries.start, len(queries), range(row, row + 1))
        left = least_scroll(keys.start, len(keys), range(column, column + 1))
        if (top, left) != (queries.start, keys.start):
            self.scroll_at_once(left * self._axes.cell, self._axes.line_of(top))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; compute what all of them need once."""
        self._axes = self.axes_for(*self.size, self._sides)  # Textual paints before it posts the new size
        if self.pooled is not None:
            self._levels_now, self._styles_now = self._levels.in_view(self.pooled, *self.window), self._styles
            if self.is_numbered and len(self._styles_now) > 1:
                faint = self.get_component_rich_style("area--label")
                styles = legible_styles(self._styles_now, None)
                self._styles_now = tuple(faint if each.bgcolor == faint.bgcolor else each for each in styles)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint a line of the header, a line of a query's cells, or a blank."""
        plain = self.get_component_rich_style("area--label")
        if self.pooled is None:
            return self.message_line(y, plain)
        (queries, keys), axes = self.window, self._axes
        line, segments = y - axes.header, list[Segment]()
        row = queries.start + axes.row_at(line)
        if line < 0:
            segments = self._header_line(y, keys)
        elif row in queries and axes.is_halved:
            named = self._cell[0] if self._cell[0] // 2 == row // 2 else row
            segments = [*self._label(named, plain), *self._halves(row, queries, keys)]
        elif row in queries:
            is_middle = line % axes.lines == (axes.lines - 1) // 2
            label = self._label(row, plain) if is_middle else [Segment(" " * axes.gutter, plain)]
            has_figures = self.is_numbered and is_middle
            segments = [*label, *self._cells(self.pooled, row, queries, keys, has_figures=has_figures)]
        return Strip(segments).adjust_cell_length(self.size.width, Style(bgcolor=plain.bgcolor))

    def _label(self, row: int, plain: Style) -> list[Segment]:
        text = self._axes.row(row)
        if row != self._cell[0] or not text:  # beside a map that shows the labels
            return [Segment(text, plain)]
        return [Segment(text[:-1], self.get_component_rich_style("area--label-cursor")), Segment(" ", plain)]

    def _header_line(self, y: int, keys: range) -> list[Segment]:
        axes, style = self._axes, self.get_component_rich_style
        plain = style("area--label")
        every_other = style("heatmap--label-other") if 1 < axes.cell < ACROSS else plain
        segments = [Segment(axes.corner if y == axes.header - 1 else " " * axes.gutter, plain)]
        segments += [Segment(axes.column(key)[y], every_other if key % 2 else plain) for key in keys]
        if (cursor := self._cell[1]) in keys and y >= axes.label_top(cursor):
            set_off = style("area--label-cursor")
            segments[1 + cursor - keys.start] = Segment(axes.column(cursor)[y], set_off)
        return list(Segment.simplify(segments))

    def _cells(
        self, pooled: PooledMap, row: int, queries: range, keys: range, *, has_figures: bool
    ) -> Iterator[Segment]:
        width, cursor = self._axes.cell, self._cell
        levels, style = self._levels_now[row - queries.start], self.get_component_rich_style
        figures = weights_in_row(pooled, row, keys, width) if has_figures else []
        blank = " " * width
        glyphs = [blank if self.is_numbered else (each * width)[:width] for each in self._levels.cells]
        others = {
            NOT_FINITE: (pad_cell("?", width) if self.is_numbered else "?" * width, style("area--cell")),
            ABSENT: (blank, style("area--label")),
        }
        at = cursor[1] - keys.start if row == cursor[0] and cursor[1] in keys else None
        marked = None if at is None else (at, style("area--cursor"))
        yield from merged_cells(levels, glyphs, self._styles_now, others, figures, marked)

    def _halves(self, row: int, queries: range, keys: range) -> Iterator[Segment]:
        cursor, style = self._cell, self.get_component_rich_style
        levels = self._levels_now[row - queries.start : row - queries.start + 2].copy()
        if cursor[0] - row in (0, 1) and cursor[1] in keys:
            levels[cursor[0] - row, cursor[1] - keys.start] = CURSOR
        lower = levels[1] if len(levels) > 1 else np.full_like(levels[0], ABSENT)
        colours: dict[int, Color | None] = {level: each.bgcolor for level, each in enumerate(self._styles_now)}
        colours |= {CURSOR: style("area--cursor").color, ABSENT: style("area--label").bgcolor}
        others = {NOT_FINITE: ("?", style("area--cell"))}
        yield from halved_cells(levels[0], lower, colours, others)


def _last_query_largest(pooled: PooledMap) -> tuple[int, int] | None:
    """Return the largest weight of the last query, or row of blocks; None while not all of it is there."""
    queries, keys = (-(-len(each) // pooled.window.block) for each in (pooled.query_tokens, pooled.key_tokens))
    if not pooled.holds(queries - 1, 0) or len(pooled.window.columns) < keys:
        return None
    query, key = pooled.places[-1, _largest(pooled.values[-1])].tolist()
    return query, key


def _largest(values: Weights) -> int:
    """Return the index of the finite value of largest size."""
    return int(np.where(np.isfinite(values), np.abs(values), 0).argmax())
