"""The overview: a map of one measure, layers × heads, with its extremes, a histogram and an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.containers import Container
from textual.geometry import Size
from textual.timer import Timer

from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head, head_text
from engine.values.outline import ModelOutline
from engine.values.table import CHANCE, RANK_COLUMNS, Cell, Table
from engine.values.views import HEADS, OVERVIEW, RANK_MEASURES, explain, meaning, parts_of
from tui.drawing.levels import Scale, ValueScale, scale_of
from tui.drawing.measure_map import MeasureMap
from tui.drawing.readout import explain_empty, measure_readout
from tui.drawing.text import first_fitting
from tui.drawing.titles import Part, fact_part
from tui.state.overview_measures import LOGARITHMIC, SIGNED, table_of
from tui.state.session import Shown
from tui.state.stores import Stores
from tui.state.tables import TableKey
from tui.toolkit.messages import HeadEntered, Notice
from tui.views.pane import Pane
from tui.widgets.head_map import EXTREMES, ExtremeHeads, HeadMap, Histogram
from tui.widgets.line import Line

PAUSE = 0.15
"""Seconds for which the cursor rests before the head under it is selected."""

LOW = 12
"""Lines below which the pane leaves out the explanation of the measure."""


class OverviewPane(Pane):
    """One measure of every head of the model.

    Attributes
    ----------
    shown : what is drawn; None before anything is.
    scale : of the colours; None while there is no number.
    """

    view = OVERVIEW
    has_scale = True
    uses = ("selected", "measure", "mapped", "epsilon", "text")
    asks = ("spectra", "tables")
    foot_keys: ClassVar[Mapping[str, str]] = {
        "overview.choose": "Go in",
        "app.next_measure": "Measure",
        "app.next_matrix": "Matrix",
        "app.search": "Find",
        "app.overview": "Table",
    }

    def __init__(self) -> None:
        self.map = HeadMap()
        self.extremes = ExtremeHeads(self.map)
        self.histogram = Histogram(self.map)
        self.explanation_line = Line(classes="pane-legend")
        maps = Container(self.map, self.extremes, id="overview-maps")
        super().__init__(maps, self.histogram, self.explanation_line)
        self.add_class("-table")
        self.shown: MeasureMap | None = None
        self.scale: ValueScale | None = None
        self._outline: ModelOutline | None = None
        self._places: Mapping[Head, int] = {}
        self._scales: dict[str, Scale] = dict.fromkeys(LOGARITHMIC, "log")
        self._trouble = ""
        self._part: TableKey | None = None
        self._moving: Timer | None = None

    def draw(self, shown: Shown, stores: Stores) -> None:
        """Draw the values that are known; the cursor goes to the selected head unless a person is moving it."""
        measure = shown.overview
        if self._outline is not stores.outline:
            heads = (head for layer in stores.outline.layers for head in layer.head_names())
            self._outline, self._places = stores.outline, {head: place for place, head in enumerate(heads)}
            self.map.open(stores.outline.layers)
        if shown.selected is not None and self._moving is None:
            self.map.put(*self.map.place_of(shown.selected))
        cells, self._trouble = self._cells(shown, stores)
        if (drawn := MeasureMap(measure, self._places, tuple(cells))) != self.shown:
            self.shown = drawn
        self.scale = scale_of(self.shown.finite, self._scales.get(measure, "linear"), measure in SIGNED)
        self.is_of_sentence = parts_of((measure,)) == ("patterns",)
        self.is_waiting = not self.shown.known and not self._trouble
        self.is_unfinished = not self._trouble and None in cells
        epsilon = f"ε {shown.epsilon:g}" if measure.endswith("energy_rank") else ""
        scale = "log scale" if self.scale is not None and self.scale.scale == "log" else ""
        known = f"{self.shown.known} of " if self.shown.known < len(cells) else ""
        facts = map(fact_part, (epsilon, scale, f"{known}{quantity(len(cells), 'head')}"))
        self.show_title([Part(measure, " "), *facts])
        self.map.show(self.shown, self.scale)
        self._draw_around()
        self.read_out()

    def _draw_around(self) -> None:
        self.histogram.refresh()
        if self.stores is not None:
            stores = self.stores
            self.extremes.follow(lambda head: (stores.label(head), stores.short_label(head)))

    def _cells(self, shown: Shown, stores: Stores) -> tuple[Sequence[Cell | None], str]:
        """Give the measure's cells, None for those that are still to come, and why there are none, if that is so."""
        if shown.overview in RANK_MEASURES:
            if self._part is not None:
                stores.tables.give_up(self._part)  # it may go through the whole model
            self._part = None
            if shown.selected is not None and not shown.selected.is_layer:
                stores.spectra.get(shown.selected)  # ahead of the sweep
            return self._ranks(shown, stores), ""
        self._part = table_of(shown.overview, shown.text)
        found = stores.tables.get(self._part)
        if isinstance(found, EngineError):
            return [""] * len(self._places), str(found)
        missing = "" if stores.tables.is_complete(self._part) else None
        if found is None:
            return [missing] * len(self._places), ""
        cells = [missing if cell is None else cell for cell in found.frame[shown.overview].to_list()]
        is_without = missing == "" and not any(isinstance(cell, int | float) for cell in cells)
        return cells, next(filter(None, found.frame["note"]), "") if is_without else ""

    def _ranks(self, shown: Shown, stores: Stores) -> list[Cell | None]:
        matrix, measure = RANK_MEASURES[shown.overview]
        place = RANK_COLUMNS.index(measure)
        measures = stores.spectra.measures(tuple(self._places), shown.epsilon)
        cells: list[Cell | None] = []
        for head in self._places:
            if (rows := measures.get(head)) is not None:
                cells.append(rows[matrix][place] if matrix in rows else "")
            else:
                cells.append("" if stores.spectra.why_not(head) else None)
        return cells

    def read_out(self) -> None:
        """Explain the measure, and show the value of the head under the cursor."""
        shown, stores, head, room = self.shown, self.stores, self.map.head, self.size.width - 2
        if shown is None or stores is None or head is None:
            return
        cell, name, label = shown.cell(head), head_text(head, stores.outline.stacks), stores.label(head)
        chance, trouble = self._chance_of(head, self.session.shown, stores)
        said = meaning(shown.measure, self.session.shown.epsilon) or explain(shown.measure, HEADS.name)
        short = said.partition(": ")[2] or said  # the title has the measure's name
        formula = explain(shown.measure, HEADS.name).rpartition(": ")[2]
        ways = (f"{said}  ·  {formula}", said, short) if formula not in said else (said, short)
        self.explanation_line.show(trouble or self._trouble or first_fitting(room, *ways))
        if cell is None or isinstance(cell, str):
            empty = trouble or explain_empty(shown.measure, {"stack": head.stack, shown.measure: None})
            why = "computing …" if cell is None else f"empty: {empty}"
            line = "  ".join(filter(None, (name, why, label)))
        else:
            line = measure_readout(name, cell, chance, f"{shown.place(cell)}/{shown.numbers}", label, room)
        self.readout_line.show(line)

    def _chance_of(self, head: Head, shown: Shown, stores: Stores) -> tuple[float | None, str]:
        """Give a head's chance of the measure, if it is known, and why the head has no value, if that is so."""
        if shown.overview in RANK_MEASURES:
            matrix, measure = RANK_MEASURES[shown.overview]
            return stores.spectra.chance(head, measure, shown.epsilon).get(matrix), stores.spectra.why_not(head)
        found = stores.tables.peek(table_of(shown.overview, shown.text))
        if not isinstance(found, Table):
            return None, ""
        row = found.frame.row(self._places[head], named=True)
        return row.get(f"{shown.overview}{CHANCE}"), (row["note"] or "") if row[shown.overview] is None else ""

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale, or say why the measure has no logarithmic one."""
        if self.stores is None:
            return
        measure = self.session.shown.overview
        wanted: Scale = "linear" if self._scales.get(measure) == "log" else "log"
        self._scales[measure] = wanted
        self.draw(self.session.shown, self.stores)
        if self.scale is not None and self.scale.scale != wanted:
            self._scales[measure] = "linear"
            why = "it has a sign" if self.scale.is_signed else "it is not above zero"
            self.post_message(Notice(f"{measure} has no log scale: {why}"))

    def table_subject(self) -> str:
        """Name the measure."""
        self.table_on_screen()
        return self.session.shown.overview

    def table_on_screen(self) -> Table:
        """Give the measure of all heads."""
        if self.shown is None or not self.shown.known:
            raise self.nothing_drawn
        return self.shown.table()

    def on_resize(self) -> None:
        """Share the new room."""
        self._share_room()

    @on(HeadMap.LaidOut)
    def _share_room(self) -> None:
        """Share the room so that the map's cells are as large as possible, with the extremes beside or below it.

        The extremes are left out where they would halve the cells.
        """
        width, lines = self.size.width, self.size.height - (2 if self.is_framed else 3)
        if not width:
            return
        bars = max(2 if self.size.height < 14 else 3, min(lines // 5, 6))
        alone = Size(width, lines - bars)
        list_width = self.map.list_width
        beside, below = alone - (list_width, 0), alone - (0, EXTREMES + 2)
        best = max((below, beside), key=self.map.cell_area)
        room = best if 2 * self.map.cell_area(best) >= max(self.map.cell_area(alone), 1) else alone
        self.map.allow(room)
        used = self.map.virtual_size
        self.extremes.display = room is not alone
        self.extremes.styles.width = min(width - used.width, 2 * list_width - 1) if room is beside else "100%"
        self.map.styles.height = used.height + 1 if room is below else "1fr"
        self.query_one("#overview-maps").styles.layout = "horizontal" if room is beside else "vertical"
        self.histogram.styles.height = max(bars, min(lines - used.height - (alone.height - room.height), 9))
        self.explanation_line.display = self.size.height >= LOW
        self._draw_around()

    @on(HeadMap.Moved)
    def _moved(self) -> None:
        """Read the head out at once, and select it when the cursor rests."""
        self._draw_around()
        self.read_out()
        if self._moving is not None:
            self._moving.stop()
        self._moving = self.set_timer(PAUSE, self.settle)

    def settle(self) -> None:
        """Select the head under the cursor now, if the cursor has moved and not rested yet."""
        if self._moving is not None:
            self._moving.stop()
            self._moving = None
            if self.map.head is not None:
                self.session.change(selected=self.map.head)

    @on(HeadMap.Chosen)
    def _enter(self) -> None:
        self.settle()
        if self.map.head is not None:
            self.post_message(HeadEntered(self.map.head))
