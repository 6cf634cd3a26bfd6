"""The singular values of a head: one plot for each matrix, with a cursor that reads out values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widgets import Static

from tui.drawing.levels import Scale, ValueScale
from tui.drawing.numbers import brief_number
from tui.drawing.plots import (
    LOWEST,
    LOWEST_LINES,
    SIGNS,
    Curve,
    Grid,
    choose_grid,
    draw_plot,
    index_at,
    index_line,
    read_value,
    scale_of_curve,
    ticks_of,
)
from tui.drawing.text import centre_text, escape_text, fit, fit_end
from tui.toolkit.keys import paging_bindings
from tui.toolkit.messages import Notice
from tui.widgets.plot_area import PlotArea, tick_width

_CIRCUITS = ("Q", "K", "QK", "V", "O", "OV")
"""Reading order of the plots: Q and K with their circuit, then V and O with theirs."""

_AIRY = 8
"""Height from which a plot has a line of value numbers at its foot."""


class SpectraView(PlotArea, can_focus=True):
    """Shows the curves of up to six matrices, each below a line of words, with a cursor along and between them.

    Attributes
    ----------
    has_baseline : whether the values by chance are shown.
    scale : of the next curves: linear from zero, or logarithmic over at most six decades.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"spectra--message", "spectra--name", "spectra--name-cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Previous singular value", show=False, id="spectra.previous"),
        Binding("right,l", "move(1)", "Next singular value", show=False, id="spectra.next"),
        *paging_bindings("spectra", "Ten singular values", "Five singular values"),
        Binding("gg,home,ctrl+home", "edge(False)", "First singular value", show=False, id="spectra.first"),
        Binding("end,G,ctrl+end", "edge(True)", "Last singular value", show=False, id="spectra.last"),
        Binding("up,k", "select(-1)", "Matrix above", show=False, id="spectra.up"),
        Binding("down,j", "select(1)", "Matrix below", show=False, id="spectra.down"),
    ]
    DEFAULT_CSS = """
    SpectraView {
        & > .spectra--message { color: $text-muted; }
        & > .spectra--name { color: $text; text-style: bold; }
        & > .spectra--name-cursor { color: $success; text-style: bold reverse; }
    }
    """

    has_baseline: reactive[bool] = reactive(True)

    class CursorMoved(Message):
        """The cursor is on another value, or its value has changed with the curves."""

    def __init__(self) -> None:
        super().__init__(name="spectra")
        self._curves: tuple[Curve, ...] = ()
        self._asked_for = ""  # this and the index outlive messages and heads without this matrix
        self._index = 0
        self.scale: Scale = "log"
        self._message = ""
        self._room = Size(0, 0)
        self._grid: Grid | None = None
        self._scales: list[ValueScale] = []
        self._ticks: list[tuple[float, ...]] = []
        self._label_width = 0
        self._painted: dict[int, list[Strip]] = {}

    def show(self, curves: Sequence[Curve]) -> None:
        """Show other curves; the cursor keeps its matrix and number if they exist."""
        drawable = (curve for curve in curves if curve.values.size)
        self._curves = tuple(sorted(drawable, key=lambda curve: _CIRCUITS.index(curve.matrix)))
        self._message = ""
        self._arrange()
        if self._curves:
            self.post_message(self.CursorMoved())

    def show_message(self, text: str) -> None:
        """Show a message in place of the curves."""
        self._curves = ()
        self._message = "\n".join(escape_text(line) for line in text.split("\n"))
        self._arrange()

    @property
    def matrices(self) -> tuple[str, ...]:
        """The matrices of the curves."""
        return tuple(curve.matrix for curve in self._curves)

    @property
    def _selected(self) -> int:
        """Number of the curve under the cursor, from zero."""
        return self.matrices.index(self._asked_for) if self._asked_for in self.matrices else 0

    @property
    def matrix(self) -> str:
        """The matrix under the cursor; empty without one."""
        return self._curves[self._selected].matrix if self._curves else ""

    @property
    def index(self) -> int:
        """Number of the singular value under the cursor, from one."""
        return self._at + 1

    @property
    def value(self) -> float:
        """The singular value under the cursor; NaN without one."""
        return float(self._curves[self._selected].values[self._at]) if self._curves else float("nan")

    def line_sign(self, number: int) -> tuple[str, Style]:
        """Return the sign and style of a plot's line, for a legend."""
        return SIGNS[number], self.line_style(number)

    def readout(self, width: int = 120) -> str:
        """Describe the value under the cursor in a line of ``width`` cells."""
        return read_value(self._curves[self._selected], self._at, width) if self._curves else ""

    def _has_curves(self) -> bool:
        """Return whether there are curves; tell the user if not."""
        if not self._curves:
            self.post_message(Notice("no spectra yet"))
        return bool(self._curves)

    def action_move(self, values: int) -> None:
        """Move along the curve."""
        if self._has_curves():
            self._move(self._selected, min(self._at + values, len(self._curves[self._selected].values) - 1))

    def action_page(self, pages: float) -> None:
        """Move along the curve by ten values per page."""
        self.action_move(int(10 * pages))

    def action_edge(self, last: bool) -> None:
        """Move to the first or last value."""
        if self._has_curves():
            self._move(self._selected, len(self._curves[self._selected].values) - 1 if last else 0)

    def action_select(self, places: int) -> None:
        """Move to another matrix: down a column of plots, then down the next."""
        if self._has_curves():
            walk = (self._grid or Grid(1, len(self._curves))).walk(len(self._curves))
            place = min(max(walk.index(self._selected) + places, 0), len(walk) - 1)
            self._move(walk[place], self._index)

    def on_resize(self) -> None:
        """Arrange the plots for the new size."""
        self._arrange()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked value, or beside a curve to its matrix."""
        offset = event.get_content_offset(self)
        for number, area in self._shown():
            if offset is not None and area.contains_point(offset):
                width, column = self._across(area), offset.x - area.x - self._left(area)
                is_inside = offset.y > area.y and 0 <= column < width
                count = len(self._curves[number].values)
                self._move(number, index_at(column, count, width) if is_inside else self._index)

    @property
    def _at(self) -> int:
        """Index of the value under the cursor, from zero: the wanted one, or the curve's last."""
        last = len(self._curves[self._selected].values) - 1 if self._curves else 0
        return min(self._index, last)

    def _shown(self) -> list[tuple[int, Region]]:
        """Return the numbers of the visible curves, each with its place."""
        numbers = self._grid.places(len(self._curves)) if self._grid else [self._selected] if self._curves else []
        grid, (width, height) = self._grid or Grid(1, 1), self._room
        shown = []
        for place, number in enumerate(numbers):
            row, column = divmod(place, grid.columns)
            left, right = (width * at // grid.columns for at in (column, column + 1))
            top, bottom = (height * at // grid.rows for at in (row, row + 1))
            shown.append((number, Region(left, top, right - left, bottom - top)))
        return shown

    def _arrange(self) -> None:
        """Share the pane among the curves; where not all fit, the selected one has it."""
        self._room = self.size or self._room  # a hidden view has no size; it will have the old one again
        is_drawn = all(curve.is_drawn for curve in self._curves)
        self._grid = choose_grid(len(self._curves), *self._room, LOWEST if is_drawn else LOWEST_LINES)
        # The numbers at the axes take the same width in all plots.
        self._scales = [scale_of_curve(curve, self.scale) for curve in self._curves]
        rows = rows_of(self._room.height // (self._grid.rows if self._grid else 1))
        self._ticks = [ticks_of(scale, rows) for scale in self._scales]
        self._label_width = tick_width(chain(*self._ticks))
        self.refresh()

    def _move(self, number: int, index: int) -> None:
        """Put the cursor on a value, by the numbers of curve and value from zero."""
        before = self._selected, self._at
        self._asked_for, self._index = self._curves[number].matrix, max(index, 0)
        if before != (self._selected, self._at):
            areas = (area for shown, area in self._shown() if shown in (before[0], number))
            self.refresh(*areas)
            self.post_message(self.CursorMoved())

    # --- painting

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; paint each plot once for all of them."""
        self._painted = {}
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint the message, or a line of all plots side by side."""
        width, height = self.size
        if not self._curves:
            style = self.get_component_rich_style("spectra--message")
            return Strip([Segment(centre_text(self._message, width, height)[y], style)], width)
        beside = []
        for number, area in self._shown():
            if area.y <= y < area.bottom:
                if number not in self._painted:
                    self._painted[number] = [
                        Strip(line).adjust_cell_length(area.width, self.blank_style)
                        for line in self._plot_lines(number, area)
                    ]
                beside.append(self._painted[number][y - area.y])
        return Strip.join(beside).adjust_cell_length(width, self.blank_style)

    def _plot_lines(self, number: int, area: Region) -> Iterator[Iterable[Segment]]:
        """Paint a plot: its words, the rows of its curve beside an axis, and the numbers of its values."""
        curve, scale, rows, left = self._curves[number], self._scales[number], rows_of(area.height), self._left(area)
        label = self.get_component_rich_style("plot--label")
        is_selected = number == self._selected
        name = self.get_component_rich_style("spectra--name-cursor" if is_selected else "spectra--name")
        yield Segment(f" {curve.matrix} ", name), Segment(f" {self._words(curve, scale, area)}", label)
        cursor, across = self._at if is_selected else None, self._across(area)
        plot = draw_plot(curve, scale, across, rows, baseline=self.has_baseline, cursor=cursor)
        yield from self.paint_rows(plot, scale, reversed(self._ticks[number]), left)
        yield (Segment(f"{'':{left}}{index_line(len(curve.values), across)}", label),)

    def _left(self, area: Region) -> int:
        """Return the columns of an axis: none in a plot of one row, which has its range in the line of words."""
        return self._label_width + 1 if rows_of(area.height) > 1 else 0

    def _across(self, area: Region) -> int:
        return max(area.width - self._left(area) - 1, 0)

    def _words(self, curve: Curve, scale: ValueScale, area: Region) -> str:
        span_text = "" if self._left(area) else f"{brief_number(scale.low, 3)}…{brief_number(scale.high, 3)} "
        words = span_text + curve.summary
        room = max(area.width - len(curve.matrix) - 4, 0)
        while cell_len(words) > room and (fewer := words.split(" "))[2:]:
            words = " ".join(fewer[:-2])  # a number goes with its name, and never in part
        return fit(words, room)


def rows_of(height: int) -> int:
    """Return the rows of dots in a plot of some height."""
    return max(height - (2 if height >= _AIRY else 1), 0)


MOST_LINES = 4
"""Lines of `HeadValues` at most."""

GAP = 2


@dataclass(frozen=True)
class HeadValue:
    """One head: its sign with a style, its name, and its value in words or empty."""

    sign: str
    style: Style
    name: str
    value: str


class HeadValues(Static):
    """Lists heads with their values, in columns."""

    DEFAULT_CSS = """
    HeadValues { height: 1; padding: 0 1; color: $text; text-wrap: nowrap; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self.entries: tuple[HeadValue, ...] = ()

    def show(self, entries: Sequence[HeadValue]) -> None:
        """List heads."""
        self.entries = tuple(entries)
        self.on_resize()

    def on_resize(self) -> None:
        """Arrange the heads in columns."""
        width = max(self.size.width, 10)
        values = max((6, *(cell_len(each.value) for each in self.entries)))
        names = min(max((cell_len(each.name) for each in self.entries), default=0), max(width - values - 2, 1))
        across = max(width // (names + values + 3 + GAP), 1)
        text = Text()
        for place, each in enumerate(self.entries):
            if place:
                text.append(" " * GAP if place % across else "\n")
            text.append(each.sign, each.style).append(f" {fit_end(each.name, names)} {each.value:<{values}}")
        self.styles.height = max(min(-(-len(self.entries) // across), MOST_LINES), 1)
        self.update(text, layout=False)
