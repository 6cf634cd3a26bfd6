"""The singular values of a head: one plot for each matrix, with a cursor that reads out values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tui.drawing.cells import runs_of
from tui.drawing.levels import Ink, Scale
from tui.drawing.numbers import brief_number
from tui.drawing.plots import (
    LINE,
    LOWEST,
    LOWEST_LINES,
    NOTHING,
    SIGNS,
    UNDER_CURSOR,
    Curve,
    Grid,
    Mark,
    Span,
    choose_grid,
    draw_plot,
    index_at,
    index_line,
    line_colours,
    read_value,
    row_of,
    span_of,
    ticks_of,
)
from tui.drawing.text import centre_text, escape_text, fit, fit_end
from tui.toolkit.keys import paging_bindings
from tui.toolkit.messages import Notice
from tui.toolkit.styled_widget import StyledWidget
from tui.widgets.scroll_area import ink_of

_CIRCUITS = ("Q", "K", "QK", "V", "O", "OV")
"""Reading order of the plots: Q and K with their circuit, then V and O with theirs."""

_AIRY = 8
"""Height from which a plot has a line of value numbers at its foot."""


class SpectraView(Widget, can_focus=True):
    """Shows up to six curves, with a cursor that moves along and between them.

    Attributes
    ----------
    is_at_distance : whether the arrow keys change the distance of QK.
    scale : of the next curves: linear from zero, or logarithmic over at most six decades.
    """

    MOST = 6
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"spectra--message"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h", "move(-1)", "Previous singular value", show=False, id="spectra.previous"),
        Binding("l", "move(1)", "Next singular value", show=False, id="spectra.next"),
        Binding("left", "arrow(-1)", "Previous singular value, or Δ one less", show=False, id="spectra.left"),
        Binding("right", "arrow(1)", "Next singular value, or Δ one more", show=False, id="spectra.right"),
        *paging_bindings("spectra", "Ten singular values", "Five singular values"),
        Binding("gg,home,ctrl+home", "edge(False)", "First singular value", show=False, id="spectra.first"),
        Binding("end,G,ctrl+end", "edge(True)", "Last singular value", show=False, id="spectra.last"),
        Binding("up,k", "select(-1)", "Matrix above", show=False, id="spectra.up"),
        Binding("down,j", "select(1)", "Matrix below", show=False, id="spectra.down"),
    ]
    DEFAULT_CSS = """
    SpectraView {
        width: 1fr;
        height: 1fr;
        layout: grid;
        & > .spectra--message { color: $text-muted; }
    }
    """

    @dataclass
    class DistanceMoved(Message):
        """The user changes the distance between query and key, by a number of tokens."""

        step: int

    class CursorMoved(Message):
        """The cursor is on another value, or its value has changed with the curves."""

    def __init__(self, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.is_at_distance = False
        self._plots = [SpectrumPlot() for _ in range(self.MOST)]
        self._curves: tuple[Curve, ...] = ()
        self._asked_for = ""  # this and the index outlive messages and heads without this matrix
        self._index = 0
        self.scale: Scale = "log"
        self._baseline = True
        self._message = ""
        self._room = Size(0, 0)
        self._grid: Grid | None = None

    def compose(self) -> ComposeResult:
        """Yield the plots."""
        yield from self._plots

    def on_mount(self) -> None:
        """Redraw when the theme changes what the terminal can show."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def show(self, curves: Sequence[Curve]) -> None:
        """Show other curves; the cursor keeps its matrix and number if they exist."""
        known = {name: place for place, name in enumerate(_CIRCUITS)}
        drawable = [curve for curve in curves if curve.values.size][: self.MOST]
        self._curves = tuple(sorted(drawable, key=lambda curve: known.get(curve.matrix, len(known))))
        if self._message:
            self._message = ""
            self.refresh()
        self._arrange()
        if self._curves:
            self.post_message(self.CursorMoved())

    def show_message(self, text: str) -> None:
        """Show a message in place of the curves."""
        self._curves = ()
        self._message = "\n".join(escape_text(line) for line in text.split("\n"))
        self._arrange()
        self.refresh()

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

    def toggle_baseline(self) -> None:
        """Show or hide the values by chance."""
        self._baseline = not self._baseline
        self._draw()

    def move_to(self, matrix: str, index: int) -> None:
        """Move to the nearest value of a matrix, by its number from one; ignore a matrix that is not shown."""
        if matrix in self.matrices:
            self._move(self.matrices.index(matrix), index - 1)

    def line_sign(self, number: int) -> tuple[str, Style]:
        """Return the sign and style of a plot's line, for a legend."""
        return SIGNS[number], self._plots[0].line_style(number)

    def readout(self, width: int = 120) -> str:
        """Describe the value under the cursor in a line of ``width`` cells."""
        if not self._curves:
            return ""
        return escape_text(read_value(self._curves[self._selected], self._at, width))

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

    def action_arrow(self, step: int) -> None:
        """Change the distance of QK where there is one; else move along the curve."""
        if self.is_at_distance:
            self.post_message(self.DistanceMoved(step))
        else:
            self.action_move(step)

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

    def render_line(self, y: int) -> Strip:
        """Paint the message, or the background of the plots."""
        width, height = self.size
        if self._curves:
            return Strip.blank(width, self.rich_style)
        style = self.get_component_rich_style("spectra--message")
        return Strip([Segment(centre_text(self._message, width, height)[y], style)], width)

    def on_resize(self) -> None:
        """Arrange the plots for the new size."""
        self._arrange()

    def on_spectrum_plot_picked(self, message: SpectrumPlot.Picked) -> None:
        """Move the cursor to the clicked value."""
        message.stop()
        for number, plot in self._shown():
            if plot is message.plot:
                self._move(number, self._index if message.index is None else message.index)

    @property
    def _at(self) -> int:
        """Index of the value under the cursor, from zero: the wanted one, or the curve's last."""
        last = len(self._curves[self._selected].values) - 1 if self._curves else 0
        return min(self._index, last)

    def _shown(self) -> list[tuple[int, SpectrumPlot]]:
        """Return the numbers of the visible curves, each with its plot."""
        places = self._grid.places(len(self._curves)) if self._grid else [self._selected] if self._curves else []
        return list(zip(places, self._plots, strict=False))

    def _arrange(self) -> None:
        """Share the pane among the curves; where not all fit, the selected one has it."""
        self._room = self.size or self._room  # a hidden view has no size; it will have the old one again
        is_drawn = all(curve.is_drawn for curve in self._curves)
        self._grid = choose_grid(len(self._curves), *self._room, LOWEST if is_drawn else LOWEST_LINES)
        grid = self._grid or Grid(1, 1)
        self.styles.grid_size_columns, self.styles.grid_size_rows = grid.columns, grid.rows
        shown = len(self._shown())
        for place, plot in enumerate(self._plots):
            plot.display = place < shown
        self._draw()

    def _draw(self) -> None:
        spans = [span_of(curve, self.scale) for curve in self._curves]
        rows = rows_of(self._room.height // (self._grid.rows if self._grid else 1))
        ticks = [ticks_of(span, rows) for span in spans]
        label_width = max((len(brief_number(tick, 3)) for each in ticks for tick in each), default=0)
        for number, plot in self._shown():
            cursor = self._at if number == self._selected else None
            plot.draw(
                self._curves[number], spans[number], ticks[number], label_width,
                baseline=self._baseline, cursor=cursor,
            )  # fmt: skip

    def _move(self, number: int, index: int) -> None:
        """Put the cursor on a value, by the numbers of curve and value from zero."""
        before = self._selected, self._at
        self._asked_for, self._index = self._curves[number].matrix, max(index, 0)
        if before == (self._selected, self._at):
            return
        if self._grid is None and before[0] != number:
            self._draw()
        for shown, plot in self._shown():
            plot.move_cursor(self._at if shown == number else None)
        self.post_message(self.CursorMoved())


class SpectrumPlot(StyledWidget, can_focus=False):
    """Paints one curve below a line of words, and the cursor while this curve is selected."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "spectra--name",
        "spectra--name-cursor",
        "spectra--label",
        "spectra--value",
        "spectra--value-plain",
        "spectra--chance",
        "spectra--cursor",
    }
    DEFAULT_CSS = """
    SpectrumPlot {
        width: 1fr;
        height: 1fr;
        & > .spectra--name { color: $text; text-style: bold; }
        & > .spectra--name-cursor { color: $success; text-style: bold reverse; }
        & > .spectra--label { color: $text-muted; }
        & > .spectra--value { color: $primary; }
        & > .spectra--value-plain { color: $text; }
        & > .spectra--chance { color: $text-muted; }
        & > .spectra--cursor { color: $success; }
    }
    """

    @dataclass
    class Picked(Message):
        """A click on this plot, and the value there, from zero; None beside the curve."""

        plot: SpectrumPlot
        index: int | None

    def __init__(self) -> None:
        super().__init__()
        self.curve: Curve | None = None
        self._span = Span(0.0, 0.0)
        self._ticks: tuple[float, ...] = ()
        self._label_width = 0
        self._baseline = True
        self._cursor: int | None = None
        self._words = ""
        self._labels: list[str] = []
        self._foot = ""
        self._drawn = NOTHING
        self._styles: dict[int, Style] = {}

    def draw(
        self,
        curve: Curve,
        span: Span,
        ticks: tuple[float, ...],
        label_width: int,
        *,
        baseline: bool,
        cursor: int | None,
    ) -> None:
        """Draw a curve.

        Parameters
        ----------
        curve, span : what to draw, over which range of values.
        ticks : numbers on the axis.
        label_width : their width, the same in all plots so that they line up.
        baseline : whether chance is drawn.
        cursor : index of the value under the cursor, from zero; None in a plot that is not selected.
        """
        self.curve, self._span, self._ticks, self._label_width = curve, span, ticks, label_width
        self._baseline, self._cursor = baseline, cursor
        self.refresh()

    def move_cursor(self, cursor: int | None) -> None:
        """Move the cursor to another value, or remove it."""
        if cursor != self._cursor:
            self._cursor = cursor
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint some lines; draw the curve once for all of them."""
        if self.curve is not None:
            self._compose_lines(self.curve, *self.size)
            self._styles = self._mark_styles()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Paint the line of words, or one row of the plot."""
        label_style, is_selected = self.get_component_rich_style("spectra--label"), self._cursor is not None
        if y == 0 and self.curve is not None:
            name = self.get_component_rich_style(f"spectra--name{'-cursor' if is_selected else ''}")
            return Strip([Segment(f" {escape_text(self.curve.matrix)} ", name), Segment(self._words, label_style)])
        if self._foot and y == len(self._drawn.marks) + 1:
            return Strip([Segment(self._foot, label_style)])
        if not 0 < y <= len(self._drawn.marks):
            return Strip.blank(self.size.width, self.rich_style)
        characters, marks, label = self._drawn.characters[y - 1], self._drawn.marks[y - 1], self._labels[y - 1]
        segments = [Segment(label, label_style if label.strip() else self._styles[Mark.BLANK])] if label else []
        segments += [Segment("".join(characters[i:j]), self._styles[int(marks[i])]) for i, j in runs_of(marks)]
        return Strip(segments)

    def on_click(self, event: events.Click) -> None:
        """Post the clicked plot and value."""
        offset = event.get_content_offset(self)
        if offset is None or self.curve is None:
            return
        column = offset.x - (len(self._labels[0]) if self._labels else 0)
        width, count = self._drawn.marks.shape[1], len(self.curve.values)
        inside = offset.y > 0 and 0 <= column < width
        self.post_message(self.Picked(self, index_at(column, count, width) if inside else None))

    @property
    def _is_coloured(self) -> bool:
        return ink_of(self.app) is Ink.COLOUR

    def _compose_lines(self, curve: Curve, width: int, height: int) -> None:
        """Prepare all lines; a plot of one row has its range in the line of words."""
        rows = rows_of(height)
        left = self._label_width + 1 if rows > 1 else 0
        across = max(width - left - 1, 0)
        self._drawn = draw_plot(curve, self._span, across, rows, baseline=self._baseline, cursor=self._cursor)
        self._foot = f"{'':{left}}{index_line(len(curve.values), across)}" if height >= _AIRY else ""
        words = escape_text(curve.summary)
        if left:
            self._labels = [f"{'':{left - 1}}│"] * rows
            for tick in self._ticks:
                self._labels[row_of(tick, self._span, rows)] = f"{brief_number(tick, 3):>{left - 1}}┤"
        else:
            self._labels = [""] * rows
            words = escape_text(f"{brief_number(self._span.foot, 3)}…{brief_number(self._span.top, 3)} ") + words
        room = max(width - cell_len(escape_text(curve.matrix)) - 4, 0)
        while cell_len(words) > room and (fewer := words.split(" "))[2:]:
            words = " ".join(fewer[:-2])  # a number goes with its name, and never in part
        self._words = " " + fit(words, room)

    def _mark_styles(self) -> dict[int, Style]:
        style, is_coloured = self.get_component_rich_style, self._is_coloured
        label = style("spectra--label")
        marks = {
            Mark.BLANK: Style(bgcolor=label.bgcolor),
            Mark.VALUE: style("spectra--value" if is_coloured else "spectra--value-plain"),
            Mark.CHANCE: style("spectra--chance"),
            Mark.CUT: label,
        }
        styles = {int(mark): each for mark, each in marks.items()}
        for number in range(len(self.curve.lines) if self.curve is not None else 0):
            styles[LINE + number] = self.line_style(number) + Style(bgcolor=label.bgcolor)
        return styles | {mark + UNDER_CURSOR: style("spectra--cursor") for mark in styles}

    def line_style(self, number: int) -> Style:
        """Return the style of a line, also used by legends."""
        if not self._is_coloured:
            return self.get_component_rich_style("spectra--value-plain")
        return Style(color=Color.from_rgb(*line_colours(self.background_colors[1].rgb)[number]))


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
