"""The overview: one measure of all heads as a map of layers × heads, how its values are spread, and what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import Input

from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import LayerOutline
from engine.values.table import Table
from engine.values.views import HEADS, OVERVIEW, explain
from tui.drawing.measure_scale import MeasureScale
from tui.drawing.missing import why_empty
from tui.drawing.readout import of_measure
from tui.drawing.text import first_fitting
from tui.state.measure_map import MeasureMap
from tui.state.overview_measures import MEASURES
from tui.toolkit.messages import ConditionWanted, HeadEntered, HeadPicked, MeasureWanted, OverviewSeen
from tui.views.pane import Pane
from tui.widgets.head_map import HeadMap
from tui.widgets.histogram import Histogram
from tui.widgets.line import Line
from tui.widgets.name_input import MeasureInput, NameInput

PAUSE = 0.15
"""Seconds without another move of the cursor after which the head under it is selected."""

LOW = 12
"""Lines of the pane below which the measure is not explained."""


@dataclass(frozen=True, slots=True)
class Said:
    """What stands beside a head's value.

    Attributes
    ----------
    name : of the head, with its stack where there are several.
    label : what it clearly does, or nothing.
    chance : what chance gives for it; None where that is not known.
    trouble : why there is no value of it, where that is known.
    """

    name: str
    label: str = ""
    chance: float | None = None
    trouble: str = ""


class OverviewPane(Pane):
    """Shows one measure of every head of the model."""

    view = OVERVIEW
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Measure", id="overview.find", priority=True),
        Binding("enter", "take", "Show it", show=False, id="overview.take", priority=True),
        Binding("full_stop", "group(1)", "Next matrix; circuits, patterns", show=False, id="overview.next_group"),
        Binding("comma", "group(-1)", "Previous matrix", show=False, id="overview.group_before"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.add_class("-table")
        self.map = HeadMap()
        self.histogram = Histogram()
        self.name_input = MeasureInput()
        self.explanation_line = Line(classes="pane-legend")
        self.shown: MeasureMap | None = None
        self.scale: MeasureScale | None = None
        self._said: Callable[[Head], Said] = lambda head: Said(str(head))
        self._moving: Timer | None = None
        self._explanation = ""

    def compose(self) -> ComposeResult:
        """Stack the title, the map, the histogram, the explanation and the readout."""
        yield self.title_line
        yield self.name_input
        yield self.map
        yield self.histogram
        yield self.explanation_line
        yield self.readout_line

    def focus_view(self) -> None:
        """Put the focus on the map."""
        self.screen.set_focus(self.map)

    @property
    def is_moving(self) -> bool:
        """Whether the cursor has been moved and the head under it is not selected yet."""
        return self._moving is not None

    def open(self, layers: tuple[LayerOutline, ...], said: Callable[[Head], Said]) -> None:
        """Show a model's heads.

        Parameters
        ----------
        layers : of the model.
        said : gives what is said of a head beside its value.
        """
        self._said = said
        self.map.open(layers)

    def show(self, title: str, shown: MeasureMap, scale: MeasureScale | None, trouble: str) -> None:
        """Draw a measure; where there is no more to come of it, ``trouble`` says why."""
        self.shown, self.scale, self.is_waiting = shown, scale, not shown.known and not trouble
        self.is_unfinished = not trouble and None in shown.cells
        self.title_line.show(Text.assemble((f"{self.view} ", "bold"), title))
        self.map.show(shown, scale)
        self._explanation = trouble or explain(shown.measure, HEADS.name)
        self._draw_histogram()
        self.read_out()

    def _draw_histogram(self) -> None:
        """Draw how the values are spread."""
        if self.shown is not None:
            canvas, value = self.map, self._value_under_cursor()
            self.histogram.show(self.shown, self.scale, value, canvas.ink, canvas.glyphs, canvas.level_styles)

    def _value_under_cursor(self) -> float | None:
        """Give the value of the head under the cursor."""
        cell = None if self.shown is None or self.map.head is None else self.shown.cell(self.map.head)
        return None if cell is None or isinstance(cell, str) else float(cell)

    def read_out(self) -> None:
        """Say what is under the cursor, and what the measure is."""
        shown, head = self.shown, self.map.head
        if shown is None or head is None:
            return
        cell = shown.cell(head)
        said = self._said(head)
        if not self.name_input.display:
            formula = self._explanation.partition(": ")[2]  # the measure's name is in the title too
            said_of = first_fitting(self.size.width - 2, self._explanation, formula or self._explanation)
            self.explanation_line.show(said.trouble or said_of)
        if cell is None or isinstance(cell, str):
            empty = said.trouble or why_empty(shown.measure, {"stack": head.stack, shown.measure: None})
            why = "computing …" if cell is None else f"empty: {empty}"
            line = "  ".join(filter(None, (said.name, why, said.label)))
        else:
            place = f"{shown.place(cell)}/{shown.numbers}"
            line = of_measure(said.name, cell, said.chance, place, said.label, self.size.width - 2)
        self.readout_line.show(line)

    def follow(self, head: Head) -> None:
        """Put the cursor on the selected head, unless a person is moving it."""
        if not self.is_moving:
            self.map.move_to(head)
            self._mark()

    def table_on_screen(self) -> Table:
        """Give the measure of all heads as a table.

        Raises
        ------
        EngineError : when it shows nothing yet.
        """
        if self.shown is None or not self.shown.known:
            raise EngineError("the overview shows nothing yet; nothing was written")
        return self.shown.table()

    def on_show(self) -> None:
        """Tell that what has become known meanwhile can be drawn."""
        self.post_message(OverviewSeen())

    def on_resize(self, event: events.Resize) -> None:
        """Give the histogram what the map does not need, and the lines as much as they have room for."""
        self._share_room()
        self.read_out()

    @on(HeadMap.LaidOut)
    def _share_room(self) -> None:
        """Give the histogram what the map does not need, and at least a line."""
        lines = self.size.height - 3
        least = 2 if self.size.height < 14 else 3
        self.map.allow(lines - least)
        self.histogram.styles.height = max(least, min(lines - self.map.lines, 9))
        self._make_room()
        self._draw_histogram()

    def _make_room(self) -> None:
        """Leave the explanation out of a low pane, but not while a name is typed, for which it lists what there is."""
        self.explanation_line.display = self.size.height >= LOW or self.name_input.display

    def _mark(self) -> None:
        """Show what is under the cursor."""
        self.histogram.mark(self._value_under_cursor())
        self.read_out()

    @on(HeadMap.Moved)
    def _moved(self) -> None:
        """Read the head out at once, and have it selected once the cursor rests."""
        self._mark()
        if self._moving is not None:
            self._moving.stop()
        self._moving = self.set_timer(PAUSE, self._select)

    def _select(self) -> None:
        """Have the head under the cursor selected."""
        if (head := self.settle()) is not None:
            self.post_message(HeadPicked(head))

    def settle(self) -> Head | None:
        """Wait for no further move; give the head that is to be selected, where there was one."""
        if self._moving is None:
            return None
        self._moving.stop()
        self._moving = None
        return self.map.head

    @on(HeadMap.Chosen)
    def _enter(self) -> None:
        """Have the explorer go into the head under the cursor."""
        self.settle()
        if self.map.head is not None:
            self.post_message(HeadEntered(self.map.head))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the line for names have its own key, and the map its own."""
        is_typing = self.screen.focused is self.name_input
        return action not in ("find", "take", "group") or (action == "take") == is_typing

    def action_group(self, step: int) -> None:
        """Go to the same measure of the next matrix, or to circuits or patterns."""
        self.post_message(MeasureWanted(groups=step))

    def action_find(self) -> None:
        """Open the line that takes a measure's name."""
        self.name_input.display = True
        self.name_input.value = ""
        self._make_room()
        self.screen.set_focus(self.name_input)
        self._suggest()

    def action_take(self) -> None:
        """Show the measure that has been named, once what was typed is in the line."""
        self.name_input.finish()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Say which measures the word may mean."""
        event.stop()
        if self.name_input.display:
            self._suggest()

    def _suggest(self) -> None:
        """List the measures that hold what is typed; of the one that is meant say what it is."""
        if not self.name_input.found:
            self.explanation_line.show(self.name_input.why_none)
            return
        first, *others = self.name_input.found
        self.explanation_line.show(Text.assemble((first, "bold"), "  ", "  ".join(others[:12])))

    @on(NameInput.Finished)
    def _finished(self) -> None:
        """Show the measure that is meant, or the table of all heads for a condition; what is none stays in the line."""
        word, found = self.name_input.word, self.name_input.found
        if self.name_input.is_of_table:
            self.post_message(ConditionWanted(self.name_input.value.strip()))
        elif word and not found:
            return
        self._close()
        if found and word:
            self.post_message(MeasureWanted(word if word in MEASURES else found[0]))

    @on(NameInput.Cleared)
    def _close(self) -> None:
        """Put the line away and go back to the map."""
        self.name_input.display = False
        self._make_room()
        self.screen.set_focus(self.map)
        self.read_out()
