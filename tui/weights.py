"""A model's spectra and ranks: what is known of them, what is asked of the engine, and what of it is on screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from engine.mathematics.measures import MEASURES, Measure
from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.memory import MemoryReport
from engine.values.outline import ModelOutline
from engine.values.spectra import SpectraGroup
from engine.values.table import RANK_COLUMNS
from tui.beside import Run
from tui.facts import at_distance, model_facts
from tui.measuring import Measuring
from tui.numbers import ways_to_say
from tui.other_spectra import OtherSpectra
from tui.panes.ranks import next_measure
from tui.panes.spectra import Beside
from tui.state.head_labels import HeadLabels
from tui.state.known_spectra import Knowledge
from tui.tree import HeadTree
from tui.turned import Turned
from tui.views import Views

EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The steps of ε; one that was given on the command line is a step of its own."""


class Weights:
    """One open model's weights, as far as they are known.

    Parameters
    ----------
    engine : who computes.
    views : where spectra and ranks are drawn.
    tree : whose lines say a measure of each head.
    outline : of the model.
    epsilon : of the energy rank, to begin with.
    run : awaits work beside the event loop; newer work under the same name replaces older.

    Attributes
    ----------
    labels : what heads are called that clearly do one thing.
    noticed : called with a layer of whose heads something has become known.
    turned_to : called with the name of another measure that is shown.
    """

    def __init__(
        self, engine: Engine, views: Views, tree: HeadTree, outline: ModelOutline, epsilon: float, run: Run
    ) -> None:
        self.knowledge = Knowledge(outline)
        self.epsilon = epsilon
        self.learned = asyncio.Event()
        self._engine = engine
        self._views = views
        self._tree = tree
        self._run = run
        self._measuring = Measuring(self.knowledge, run, self._draw_measured)
        self._turned = Turned(engine, self.knowledge, run, self._draw_turned)
        self._selected: Head | None = None
        self._name_measure(MEASURES[0])
        self._epsilons = tuple(sorted({*EPSILONS, epsilon}))
        self._memory: MemoryReport | None = None
        self.distance: int | None = None
        self.labels = HeadLabels()
        self.other: OtherSpectra | None = None
        self.noticed: Callable[[Head], None] = lambda layer: None
        self.turned_to: Callable[[str], None] = lambda measure: None

    def pair(self, name: str) -> None:
        """Draw the spectra of a second model, which is open by now and has this name, over those of this one."""
        self.other = OtherSpectra(self._engine, name, self._run, self._draw_spectra)
        self._draw_spectra()

    @property
    def measure(self) -> Measure:
        """The measure that the ranks show."""
        return self._measure

    def choose_measure(self, name: str) -> None:
        """Have the ranks begin with a measure, if there is one of that name."""
        self._name_measure(next((each for each in MEASURES if each.name == name), self._measure))
        self.turned_to(self._measure.name)

    def _name_measure(self, measure: Measure) -> None:
        """Take a measure, and name it over the tree."""
        self._measure = measure
        self._tree.title_line.name_measure(measure.title)

    def select(self, name: Head | None, with_neighbours: bool) -> None:
        """Show a head, a whole layer, or the model (None), and ask for what is not known of it.

        With its neighbours a head's layer as a whole is asked for too, and a layer's heads.
        """
        self._selected = name
        if name is not None:
            self.ask(name, name.is_layer)
            if with_neighbours:
                self.ask(name, not name.is_layer)
            self._turned.ask(name, self.distance)
        self._draw_spectra()
        self._draw_ranks()

    def turn(self, distance: int | None) -> None:
        """Show QK with the key so many tokens before the query, or without positions (None)."""
        if self._selected is not None:
            self._turned.ask(self._selected, distance)
        self.announce(distance)

    def announce(self, distance: int | None) -> None:
        """Show QK at a distance as far as it is known, without asking for it."""
        self.distance = distance
        self._draw_spectra()
        self._draw_ranks()

    def _draw_turned(self, name: Head) -> None:
        """Draw what has become known at a distance, where it is on screen."""
        if self._selected is not None and self._selected.whole_layer == name.whole_layer:
            self._draw_spectra()
            self._draw_ranks()

    def report_memory(self, memory: MemoryReport) -> None:
        """Keep what the model takes of memory and what is free, which the model's page says."""
        self._memory = memory
        if self._selected is None:
            self._draw_spectra()

    @property
    def is_turning(self) -> bool:
        """Whether what is selected is still being worked out at the distance."""
        if self._selected is None or self.distance is None:
            return False
        try:
            return self.knowledge.spectra(self._selected, self.distance) is None
        except EngineError:
            return False

    def note(self, head: Head) -> tuple[str, ...]:
        """Give what the tree says beside a head, the longest first: the measure of QK and OV, and its label."""
        place = RANK_COLUMNS.index(self._measure.name)
        rows = self.knowledge.rows_of(head, self.epsilon) if self._measuring.among([head], self.epsilon) else ()
        values = {row[3]: row[place] for row in rows}
        numbers = [value for value in (values.get("QK"), values.get("OV")) if isinstance(value, int | float)]
        return ways_to_say(numbers, self.labels.short(head))

    def learn_labels(self, labels: Mapping[Head, str]) -> None:
        """Keep what heads are called that clearly do one thing."""
        self.labels = HeadLabels(labels, is_known=True)
        self._tree.refresh_notes()
        self._draw_spectra()
        self._draw_ranks()

    def ask(self, name: Head, whole_layer: bool) -> None:
        """Ask for the spectra of a layer's heads, or of the layer, unless they are known.

        The matrices of a large layer as a whole take minutes; beside a head they are left to the sweep.
        """
        knowledge = self.knowledge
        is_large = knowledge.outline.layer(name).is_large
        is_left_to_sweep = is_large and whole_layer and not name.is_layer
        if is_left_to_sweep or knowledge.has(name, whole_layer):
            return
        first = name if is_large and not name.is_layer and not knowledge.has(name, False) else None
        self._run(partial(self._fetch_spectra, name.whole_layer, whole_layer, first), f"spectra {whole_layer}")

    async def _fetch_spectra(self, layer: Head, whole_layer: bool, first: Head | None) -> None:
        """Learn a layer's spectra, one head's before the others' where that is wanted."""
        engine, knowledge = self._engine, self.knowledge
        view = f"spectra {whole_layer}"
        try:
            if first is not None:
                alone = await asyncio.wrap_future(engine.head_spectra(first, view))
                knowledge.learn_head(first, alone)
                self.learned.set()
                self._redraw(layer, whole_layer)
            spectra = await asyncio.wrap_future(engine.spectra(layer, whole_layer, view))
            self.learn(layer, whole_layer, spectra)
        except Superseded:
            raise
        except EngineError as error:
            self.learn(layer, whole_layer, error)

    def learn(self, layer: Head, whole_layer: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep spectra, and draw them where they are on screen."""
        self.learned.set()
        is_new = not self.knowledge.has(layer, whole_layer)
        self.knowledge.learn(layer, whole_layer, answer)
        if is_new:
            self._redraw(layer, whole_layer)

    def _redraw(self, layer: Head, whole_layer: bool) -> None:
        """Draw what has become known where it is on screen."""
        if not whole_layer:
            self._tree.refresh_notes(layer)
            self.noticed(layer)
        if self._selected is None:
            if whole_layer:
                self._draw_ranks()
        elif self._selected.whole_layer == layer:
            self._draw_ranks()
            if self._selected.is_layer == whole_layer:
                self._draw_spectra()

    def _draw_spectra(self) -> None:
        """Draw the spectra of what is selected."""
        pane, knowledge, name = self._views.spectra, self.knowledge, self._selected
        if name is None:
            pane.show_message("the model", model_facts(knowledge.outline, self._memory))
            return
        title = self._title(name)
        try:
            spectra = knowledge.spectra(name, self.distance)
        except EngineError as error:
            pane.show_message(title, str(error))
            return
        if spectra is None and self.distance is not None and pane.graph.matrices:
            pane.show_waiting(title)
        elif spectra is None:
            pane.show_message(title, "computing …", is_waiting=True)
        else:
            other = None
            if self.other is not None:
                self.other.ask(name, self.distance)
                why_not = self.other.why_not(name, self.distance)
                other = Beside(self.other.name, self.other.of(name, self.distance), why_not)
            pane.show(title, spectra, self.epsilon, other, knowledge.lacking(name))

    def _title(self, name: Head) -> str:
        """Name what is selected, with the distance and the marks of what changes its circuit."""
        outline = self.knowledge.outline
        marks = "".join(f" · {mark}" for mark in outline.layer(name).marks)
        kind = " whole layer" if name.is_layer else ""
        return f"{self._stack(name)}{name}{kind}{self.labels.behind(name)}{at_distance(self.distance, outline)}{marks}"

    def _stack(self, name: Head) -> str:
        """Name the stack where there are several."""
        return f"{name.stack} " if len(self.knowledge.outline.stacks) > 1 else ""

    def _draw_ranks(self) -> None:
        """Draw the ranks of a layer's heads, or of the model's layers."""
        knowledge, name = self.knowledge, self._selected
        outline = knowledge.outline
        names = knowledge.names_beside(name)
        measured = self._measuring.among(names, self.epsilon)
        if name is not None and len(measured) < len(names):
            return  # it is drawn in a moment, with all numbers
        distance = None if name is None else self.distance
        self._views.ranks.show(
            "all layers" if name is None else f"{self._stack(name)}layer {name.layer}{at_distance(distance, outline)}",
            names,
            knowledge.rows_at(measured, self.epsilon, distance),
            self._measure,
            self.epsilon,
            knowledge.chance(name or knowledge.outline.layers[0].name, self._measure, self.epsilon),
            name,
            knowledge.troubles(names),
        )

    def _draw_measured(self, layer: Head) -> None:
        """Draw the measures of a layer that have come by now."""
        self._tree.refresh_notes(layer)
        if self._selected is None or self._selected.whole_layer == layer:
            self._draw_ranks()

    def change_measure(self, step: int) -> None:
        """Go on to another measure."""
        self.show_measure(next_measure(self._measure, step))

    def show_measure(self, measure: Measure) -> None:
        """Show a measure."""
        if measure is self._measure:
            return
        self._name_measure(measure)
        self._draw_ranks()
        self._tree.refresh_notes()
        self.turned_to(measure.name)

    def change_epsilon(self, step: int) -> str:
        """Change ε, and measure again; say so where there is no larger or smaller one."""
        place = self._epsilons.index(self.epsilon) + step
        if not 0 <= place < len(self._epsilons):
            return f"ε {self.epsilon:g} is the {'largest' if step > 0 else 'smallest'} that the keys go to"
        self._measure_with(self._epsilons[place])
        return ""

    def use_epsilon(self, epsilon: float) -> None:
        """Measure again with any ε, from which the keys go on."""
        self._epsilons = tuple(sorted({*EPSILONS, epsilon}))
        self._measure_with(epsilon)

    def _measure_with(self, epsilon: float) -> None:
        """Measure again with another ε."""
        self.epsilon = epsilon
        self._draw_ranks()
        self._draw_spectra()
        self._tree.refresh_notes()
