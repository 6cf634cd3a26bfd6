"""The pane with pinned heads beside each other: their spectra, their maps, or the difference of two maps."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult

from tui.drawing.curves import Curve
from tui.drawing.levels import Scale
from tui.drawing.readout import MASKED, write_weight
from tui.drawing.ticks import brief
from tui.drawing.view_titles import COMPUTING, ViewTitle
from tui.toolkit.messages import RoomChanged
from tui.views.pane import Pane
from tui.widgets.head_values import HeadValue, HeadValues
from tui.widgets.line import Line
from tui.widgets.map_grid import MapGrid, Titled
from tui.widgets.spectra import SpectraView


class Side(Enum):
    """What of the heads is beside each other."""

    SPECTRA = "spectra"
    MAPS = "maps"
    DIFFERENCE = "difference"

    @property
    def next(self) -> Side:
        """The one that follows."""
        every = list(Side)
        return every[(every.index(self) + 1) % len(every)]


class ComparePane(Pane):
    """Several heads at once, with what each has under the cursor."""

    view = "compare"
    has_scale = True

    def __init__(self) -> None:
        super().__init__()
        self.add_class("-table")
        self.graph = SpectraView(name="spectra")
        self.maps = MapGrid()
        self.values = HeadValues()
        self.legend_line = Line(classes="pane-legend")
        self._names: tuple[str, ...] = ()
        self._curves: tuple[Curve, ...] = ()
        self._title = ""
        self._state: Sequence[str] = ()
        self.turn(Side.SPECTRA)

    def compose(self) -> ComposeResult:
        """Stack the title, what is compared, the heads' values, the legend and the readout."""
        yield self.title_line
        yield self.graph
        yield self.maps
        yield self.values
        yield self.legend_line
        yield self.readout_line

    def on_resize(self) -> None:
        """Ask for what is to be drawn, of which nothing can be before there is a place for it."""
        self.post_message(RoomChanged())

    def turn(self, side: Side) -> None:
        """Show something else of the heads."""
        self.side = side
        is_graph = side is Side.SPECTRA
        self.graph.display, self.maps.display, self.legend_line.display = is_graph, not is_graph, not is_graph
        self.values.display = side is not Side.DIFFERENCE
        self.is_of_sentence, self.is_waiting = not is_graph, True
        if self.is_mounted:
            self._set_title("")
            if self.has_focus_within:
                self.focus_view()

    def focus_view(self) -> None:
        """Put the focus on what is shown."""
        self.screen.set_focus(self.graph if self.side is Side.SPECTRA else self.maps.leading)

    def show_message(self, title: str, message: str, *, is_waiting: bool = False) -> None:
        """Say why there is nothing to compare, or nothing yet."""
        self.is_waiting = is_waiting
        self._names, self._curves = (), ()
        self._set_title(title)
        if self.side is Side.SPECTRA:
            self.graph.show_message(message, is_waiting=is_waiting)
        else:
            self.maps.show([Titled(Text(""), message)])
        self.values.show(())
        self.legend_line.show("")
        self.readout_line.show("")

    def show_waiting(self, title: str) -> None:
        """Say what comes next; what is drawn stays until it does."""
        self.is_waiting = True
        self._set_title(title, (COMPUTING,))

    def show_spectra(self, title: str, names: Sequence[str], curves: Sequence[Curve]) -> None:
        """Draw the heads' spectra; the lines of every curve are in the order of the names."""
        self._names, self._curves, self.is_waiting = tuple(names), tuple(curves), False
        self._set_title(title)
        self.graph.show(curves)
        self._read_out_spectra()

    def show_maps(self, title: str, maps: Sequence[Titled]) -> None:
        """Draw the heads' maps, or a difference."""
        self._names, self._curves, self.is_waiting = tuple(each.title.plain for each in maps), (), False
        self._set_title(title)
        self.maps.show(maps)
        self._read_out_maps()

    @property
    def under_cursor(self) -> list[tuple[str, float]]:
        """What each head has under the cursor, by its name; the difference of two by both their names."""
        if self.side is not Side.SPECTRA:
            maps = zip(self._heads, self.maps.heatmaps, strict=True) if self._names else ()
            return [(name, each.value) for name, each in maps if each.pooled is not None]
        curve = next((each for each in self._curves if each.matrix == self.graph.matrix), None)
        lines = zip(self._names, curve.lines, strict=True) if curve is not None else ()
        return [(name, float(line.values[self.graph.index - 1])) for name, line in lines]

    @property
    def _heads(self) -> tuple[str, ...]:
        """The names without the signs before them, which a difference has none of."""
        return self._names if self.side is Side.DIFFERENCE else tuple(name.split(" ", 1)[-1] for name in self._names)

    def number(self, is_numbered: bool) -> None:
        """Write the weights into the maps' cells, or not."""
        self.maps.number(is_numbered)

    def begin_on(self, scale: Scale) -> None:
        """Draw what is shown first on a scale."""
        self.graph.begin_on(scale)
        self.maps.begin_on(scale)

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        (self.graph if self.side is Side.SPECTRA else self.maps).toggle_scale()
        self._set_title(self._title, self._state)
        if self.side is not Side.SPECTRA:
            self._read_out_maps()

    def _set_title(self, title: str, state: Sequence[str] = ()) -> None:
        """Say what is shown, how far that is, and on which scale."""
        self._title, self._state = title, state
        line = Text.assemble((f"compare {self.side.value} ", "bold"), title)
        if self.side is Side.SPECTRA:
            line.append(f"  {self.graph.scale} scale")
        self.title_line.show_title(ViewTitle(line, state))

    @on(SpectraView.CursorMoved)
    def _read_out_spectra(self) -> None:
        """Say which value of each head is under the cursor."""
        curve = next((each for each in self._curves if each.matrix == self.graph.matrix), None)
        if curve is None or self.side is not Side.SPECTRA:
            return
        at = self.graph.index - 1
        self.values.show(
            [
                HeadValue(*self.graph.line_sign(number), name, brief(float(line.values[at]), 4))
                for number, (name, line) in enumerate(zip(self._names, curve.lines, strict=True))
            ]
        )
        self.readout_line.show(self.graph.readout(max(self.readout_line.size.width - 2, 20)))

    @on(MapGrid.Moved)
    def _read_out_maps(self) -> None:
        """Say which weight of each head is under the cursor, and what the levels mean."""
        if self.side is Side.SPECTRA or not self._names:
            return
        leading = self.maps.leading
        if self.side is Side.MAPS:
            self.values.show(
                [
                    HeadValue(
                        *self.graph.line_sign(number),
                        name,
                        MASKED if each.is_masked else "" if np.isnan(each.value) else write_weight(each.value),
                    )
                    for number, (name, each) in enumerate(zip(self._heads, self.maps.heatmaps, strict=True))
                ]
            )
        self.legend_line.show(leading.legend(self.legend_line.size.width - 2))
        of = f"{self._heads[self.maps.heatmaps.index(leading)]}: " if self.side is Side.MAPS else ""
        said = leading.readout(self.readout_line.size.width - len(of))
        self.readout_line.show(f"{of}{said}" if said else "")
