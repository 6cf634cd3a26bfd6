"""The singular values of a head: one plot for each matrix, and a cursor that reads the values out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.drawing.curves import Curve, read_value, span_of
from tui.drawing.grid import LOWEST, LOWEST_LINES, Grid, choose_grid
from tui.drawing.levels import Scale
from tui.drawing.text import centred, harmless
from tui.toolkit.messages import DistanceChanged
from tui.widgets.kept_moves import MovesAhead
from tui.widgets.paging import paging
from tui.widgets.spectrum_block import SpectrumBlock, axis_labels

_CIRCUITS = ("Q", "K", "QK", "V", "O", "OV")
"""Reading order of the plots: what forms the QK circuit and the circuit, then the same for OV."""


class SpectraView(Widget, can_focus=True):
    """Shows up to six curves and moves a cursor along them and between them."""

    MOST = 6
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"spectra--message"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h", "move(-1)", "Previous singular value", show=False, id="spectra.previous"),
        Binding("l", "move(1)", "Next singular value", show=False, id="spectra.next"),
        Binding("left", "arrow(-1)", "Previous singular value, or Δ one less", show=False, id="spectra.left"),
        Binding("right", "arrow(1)", "Next singular value, or Δ one more", show=False, id="spectra.right"),
        *paging("spectra", "Ten singular values", "Five singular values"),
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

    class CursorMoved(Message):
        """The cursor is on another value, or its value is another because other curves are shown.

        Attributes
        ----------
        spectra : whose cursor it is.
        matrix : which curve it is on.
        index : of the value, from one.
        value : the value.
        """

        def __init__(self, spectra: SpectraView, matrix: str, index: int, value: float) -> None:
            self.spectra = spectra
            self.matrix = matrix
            self.index = index
            self.value = value
            super().__init__()

        @property
        def control(self) -> SpectraView:
            """The view, for `textual.on` with a selector."""
            return self.spectra

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.is_at_distance = False
        self._blocks = [SpectrumBlock() for _ in range(self.MOST)]
        self._curves: tuple[Curve, ...] = ()
        self._selected = 0
        self._asked_for = ""  # outlives messages and heads without this matrix, and so does the index
        self._index = 0
        self._scale: Scale = "log"
        self._baseline = True
        self._message = ""
        self._room = Size(0, 0)
        self._grid: Grid | None = None
        self._ahead = MovesAhead()

    def compose(self) -> ComposeResult:
        """Put the blocks into the grid."""
        yield from self._blocks

    def on_mount(self) -> None:
        """Draw again when a theme changes what the terminal can carry; Textual itself sees to the colours."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def show(self, curves: Sequence[Curve]) -> None:
        """Show other curves; the cursor stays on the same matrix and the same number as far as they are there."""
        known = {name: place for place, name in enumerate(_CIRCUITS)}
        drawable = [curve for curve in curves if curve.values.size][: self.MOST]
        self._curves = tuple(sorted(drawable, key=lambda curve: known.get(curve.matrix, len(known))))
        names = [curve.matrix for curve in self._curves]
        self._selected = names.index(self._asked_for) if self._asked_for in names else 0
        self._message = ""
        self._arrange()
        if self._curves:
            self._tell()
            self._ahead.make()

    def show_message(self, text: str, *, is_waiting: bool = False) -> None:
        """Show a sentence in place of the curves; where these are still to come, moves wait for them."""
        self._curves = ()
        self._ahead.expect(is_waiting)
        self._message = "\n".join(harmless(line) for line in text.split("\n"))
        self._arrange()
        self.refresh()

    @property
    def matrices(self) -> tuple[str, ...]:
        """The matrices whose curves are shown."""
        return tuple(curve.matrix for curve in self._curves)

    @property
    def matrix(self) -> str:
        """The matrix under the cursor, or nothing when nothing is shown."""
        return self._curves[self._selected].matrix if self._curves else ""

    @property
    def index(self) -> int:
        """The number of the singular value under the cursor, from one."""
        return self._at + 1

    @property
    def value(self) -> float:
        """The singular value under the cursor; NaN when nothing is shown."""
        return float(self._curves[self._selected].values[self._at]) if self._curves else float("nan")

    @property
    def scale(self) -> Scale:
        """Linear, from zero to the largest value, or logarithmic, over at most six decades."""
        return self._scale

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self._scale = scale

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        self._scale = "log" if self._scale == "linear" else "linear"
        self._draw()

    def toggle_baseline(self) -> None:
        """Draw what chance would give, or leave it out."""
        self._baseline = not self._baseline
        self._draw()

    def move_to(self, matrix: str, index: int) -> None:
        """Put the cursor on a value by its number, from one, or the nearest; ignore a matrix that is not shown."""
        names = [curve.matrix for curve in self._curves]
        if matrix in names:
            self._move(names.index(matrix), index - 1)

    def line_sign(self, number: int) -> tuple[str, Style]:
        """Give the sign of a plot's line and its style, to explain which is whose."""
        return self._blocks[0].sign(number), self._blocks[0].line_style(number)

    def readout(self, width: int = 120) -> str:
        """Say in plain text what is under the cursor, in fewer words where ``width`` is small."""
        if not self._curves:
            return ""
        return harmless(read_value(self._curves[self._selected], self._at, width))

    def _once_there(self, move: Callable[[], None]) -> None:
        """Move on the curves, or on those that are expected."""
        if self._curves:
            move()
        else:
            self._ahead.add(move)

    def action_move(self, values: int) -> None:
        """Move the cursor along the curve."""
        self._once_there(partial(self._step, values))

    def _step(self, values: int) -> None:
        """Move the cursor along the curve, up to its last value."""
        self._move(self._selected, min(self._at + values, len(self._curves[self._selected].values) - 1))

    def action_page(self, pages: float) -> None:
        """Move the cursor along the curve by ten values, or by five."""
        self.action_move(int(10 * pages))

    def action_arrow(self, step: int) -> None:
        """Change the distance where QK is shown at one; else move the cursor along the curve."""
        if self.is_at_distance:
            self.post_message(DistanceChanged(step))
        else:
            self.action_move(step)

    def action_edge(self, last: bool) -> None:
        """Move the cursor to the first or the last value."""
        self._once_there(
            lambda: self._move(self._selected, len(self._curves[self._selected].values) - 1 if last else 0)
        )

    def action_select(self, places: int) -> None:
        """Move the cursor to another matrix: down a column of plots, then down the next."""
        self._once_there(partial(self._step_between, places))

    def _step_between(self, places: int) -> None:
        """Move the cursor to another matrix, up to the last."""
        walk = (self._grid or Grid(1, len(self._curves))).walk(len(self._curves))
        place = min(max(walk.index(self._selected) + places, 0), len(walk) - 1)
        self._move(walk[place], self._index)

    def render_line(self, y: int) -> Strip:
        """Paint the message, or what is behind the blocks."""
        width, height = self.size
        if self._curves:
            return Strip.blank(width, self.rich_style)
        style = self.get_component_rich_style("spectra--message")
        return Strip([Segment(centred(self._message, width, height)[y], style)], width)

    def on_resize(self) -> None:
        """Choose the grid for the new size."""
        self._arrange()

    def on_spectrum_block_picked(self, message: SpectrumBlock.Picked) -> None:
        """Move the cursor to where the mouse pointed."""
        message.stop()
        for number, block in self._shown():
            if block is message.block:
                self._move(number, self._index if message.index is None else message.index)

    @property
    def _at(self) -> int:
        """The index under the cursor, from zero: the one asked for, or the last that the curve has."""
        last = len(self._curves[self._selected].values) - 1 if self._curves else 0
        return min(self._index, last)

    def _shown(self) -> list[tuple[int, SpectrumBlock]]:
        """List the numbers of the curves that are shown, each with its block."""
        places = self._grid.places(len(self._curves)) if self._grid else [self._selected] if self._curves else []
        return list(zip(places, self._blocks, strict=False))

    def _arrange(self) -> None:
        """Share the pane between the curves; where it is too small for all, the selected one has it."""
        self._room = self.size or self._room  # while it is hidden it has none, and will be shown in the old one
        has_bars = all(curve.has_bars for curve in self._curves)
        self._grid = choose_grid(len(self._curves), *self._room, LOWEST if has_bars else LOWEST_LINES)
        grid = self._grid or Grid(1, 1)
        self.styles.grid_size_columns, self.styles.grid_size_rows = grid.columns, grid.rows
        shown = len(self._shown())
        for place, block in enumerate(self._blocks):
            block.display = place < shown
        self._draw()

    def _draw(self) -> None:
        """Draw every curve that is shown."""
        spans = [span_of(curve, self._scale) for curve in self._curves]
        label_width = max((len(label) for span in spans for label in axis_labels(span)), default=0)
        for number, block in self._shown():
            cursor = self._at if number == self._selected else None
            block.draw(self._curves[number], spans[number], label_width, baseline=self._baseline, cursor=cursor)

    def _move(self, number: int, index: int) -> None:
        """Put the cursor on a value, by the numbers of the curve and of the value, both from zero."""
        before = self._selected, self._at
        self._selected, self._index = number, max(index, 0)
        self._asked_for = self.matrix
        if before == (self._selected, self._at):
            return
        if self._grid is None and before[0] != number:
            self._draw()
        for shown, block in self._shown():
            block.move_cursor(self._at if shown == number else None)
        self._tell()

    def _tell(self) -> None:
        """Tell whoever listens where the cursor is."""
        curve = self._curves[self._selected]
        self.post_message(self.CursorMoved(self, curve.matrix, self.index, self.value))
