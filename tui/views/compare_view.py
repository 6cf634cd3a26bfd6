"""The pane with pinned heads beside each other: their spectra, their maps, or the difference of two maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np
from rich.text import Text
from textual import on
from textual.app import ComposeResult

from engine.analysis.ranks import spectrum_table
from engine.mathematics.chance import chance_curve
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import DELTA, MATRICES, Head
from engine.values.spectra import FloatArray, Spectrum
from engine.values.table import AnyTable
from tui.drawing.curves import Curve
from tui.drawing.curves import Line as CurveLine
from tui.drawing.facts import at_distance
from tui.drawing.levels import Scale
from tui.drawing.numbers import brief
from tui.drawing.readout import MASKED, write_weight
from tui.drawing.view_titles import COMPUTING, ViewTitle
from tui.state.session import Shown
from tui.state.stores import Stores
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

    def draw_spectra(self, shown: Shown, stores: Stores, heads: Sequence[Head], names: Sequence[str]) -> None:
        """Draw the heads' spectra, with the chance of the selected one or else of the last; ask for what is missing."""
        spectra, distance = stores.spectra, shown.distance
        for head in heads:
            if spectra.known(head, distance) is None and spectra.get(head, distance) is None:
                break  # one layer after the other
        answers = [spectra.known(head, distance) for head in heads]
        found = [{} if each is None or isinstance(each, EngineError) else each for each in answers]
        title = f"{quantity(len(heads), 'head')}{at_distance(distance, stores.outline)}"
        if not any(found):
            why_not = next((str(each) for each in answers if isinstance(each, EngineError)), "")
            if why_not or distance is None:
                self.show_message("", why_not or COMPUTING, is_waiting=not why_not)
            else:
                self.is_waiting = True
                self._set_title(title, (COMPUTING,))  # what is drawn stays until the next comes
            return
        front = heads.index(shown.selected) if shown.selected in heads else len(heads) - 1
        if not heads[front].stack.endswith(DELTA):
            title = f"{title}  chance of {names[front]}"
        self._names, self.is_waiting = tuple(names), False
        self._curves = tuple(_compared(matrix, names, found, found[front]) for matrix in MATRICES)
        self._set_title(title)
        self.graph.show(self._curves)
        self._read_out_spectra()

    def spectra_table(self, shown: Shown, stores: Stores, heads: Sequence[Head]) -> AnyTable:
        """List every singular value of the heads that are drawn, each head beside its own chance.

        Raises
        ------
        EngineError : when nothing is drawn yet.
        """
        found = [spectra for head in heads if (spectra := stores.spectra.listed(head, shown.distance))]
        if not found:
            raise EngineError("the compare view shows nothing yet; nothing was written")
        return spectrum_table(found)

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
        self.title_line.show_title(ViewTitle.of(line, state))

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


def _compared(
    matrix: str, names: Sequence[str], found: Sequence[Mapping[str, Spectrum]], front: Mapping[str, Spectrum]
) -> Curve:
    """Put one matrix's singular values of all heads together, with the chance of one."""
    values = [each[matrix].singular_values if each else np.zeros(0) for each in found]
    count = max(len(each) for each in values)
    chance = chance_curve(front[matrix]) if front else None
    lines = tuple(CurveLine(name, _padded(each, count)) for name, each in zip(names, values, strict=True))
    baseline = None if chance is None else _padded(chance, count)
    return Curve(matrix, max(values, key=len), baseline, "", lines, has_bars=False)


def _padded(values: FloatArray, count: int) -> FloatArray:
    """Bring values to a number of them, with what is not a number where there are none."""
    return np.concatenate([values, np.full(count - len(values), np.nan)])
