"""A model's spectra and ranks: what is known of them, what is asked of the engine, and what of it is on screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from engine.mathematics.measures import MEASURES, Measure
from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.memory import MemoryReport
from engine.values.outline import ModelOutline
from engine.values.spectra import SpectraGroup
from engine.values.table import RANK_COLUMNS, Cell
from tui.drawing.facts import at_distance, model_facts
from tui.drawing.numbers import ways_to_say
from tui.spectra_requests import Measuring, OtherSpectra, Turned
from tui.state.head_labels import HeadLabels
from tui.state.known_spectra import Knowledge
from tui.state.session import Session
from tui.toolkit.tasks import Run
from tui.tree import HeadTree
from tui.views.spectra_view import Beside
from tui.views.switcher import Views

EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The steps of ε; one that was given on the command line is a step of its own."""


class Weights:
    """One open model's weights, as far as they are known.

    Parameters
    ----------
    engine : who computes.
    session : which says what is shown.
    views : where spectra and ranks are drawn.
    tree : whose lines say a measure of each head.
    outline : of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.

    Attributes
    ----------
    labels : what heads are called that clearly do one thing.
    noticed : called with a layer of whose heads something has become known, or been measured.
    asks_beside : whether a head's layer as a whole is asked for too, and a layer's heads.
    """

    def __init__(
        self, engine: Engine, session: Session, views: Views, tree: HeadTree, outline: ModelOutline, run: Run
    ) -> None:
        self.knowledge = Knowledge(outline)
        self.learned = asyncio.Event()
        self.asks_beside = False
        self._engine = engine
        self._session = session
        self._views = views
        self._tree = tree
        self._run = run
        self._measuring = Measuring(self.knowledge, run, self._draw_measured)
        self._turned = Turned(engine, self.knowledge, run, self._draw_turned)
        self._epsilons = {*EPSILONS, session.shown.epsilon}
        self._memory: MemoryReport | None = None
        self.labels = HeadLabels()
        self.other: OtherSpectra | None = None
        self.noticed: Callable[[Head], None] = lambda layer: None
        tree.title_line.name_measure(self.measure.title)
        session.follow(self._follow)

    def _follow(self, changed: frozenset[str]) -> None:
        """Ask for what is not known of what is shown now, and draw it."""
        shown = self._session.shown
        if "selected" in changed and shown.selected is not None:
            self.ask(shown.selected, shown.selected.is_layer)
            if self.asks_beside:
                self.ask(shown.selected, not shown.selected.is_layer)
        if changed & {"selected", "distance"} and shown.selected is not None:
            self._turned.ask(shown.selected, shown.distance)
        if "measure" in changed:
            self._tree.title_line.name_measure(self.measure.title)
        if changed & {"selected", "distance", "epsilon", "measure"}:
            self._draw_ranks()
        if changed & {"selected", "distance", "epsilon"}:
            self._draw_spectra()
        if changed & {"epsilon", "measure", "off", "pins"}:
            self._tree.refresh_notes()

    def pair(self, name: str) -> None:
        """Draw the spectra of a second model, which is open by now and has this name, over those of this one."""
        self.other = OtherSpectra(self._engine, name, self._run, self._draw_spectra)
        self._draw_spectra()

    @property
    def measure(self) -> Measure:
        """The measure that the ranks show."""
        return measure_named(self._session.shown.measure)

    def _draw_turned(self, name: Head) -> None:
        """Draw what has become known at a distance, where it is on screen."""
        selected = self._session.shown.selected
        if selected is not None and selected.whole_layer == name.whole_layer:
            self._draw_spectra()
            self._draw_ranks()

    def report_memory(self, memory: MemoryReport) -> None:
        """Keep what the model takes of memory and what is free, which the model's page says."""
        self._memory = memory
        if self._session.shown.selected is None:
            self._draw_spectra()

    def note(self, head: Head) -> tuple[str, ...]:
        """Give what the tree says beside a head, the longest first: the measure of QK and OV, and its label."""
        shown = self._session.shown
        place = RANK_COLUMNS.index(shown.measure)
        rows = self.knowledge.rows_of(head, shown.epsilon) if self._measuring.among([head], shown.epsilon) else ()
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
        selected = self._session.shown.selected
        if selected is None:
            if whole_layer:
                self._draw_ranks()
        elif selected.whole_layer == layer:
            self._draw_ranks()
            if selected.is_layer == whole_layer:
                self._draw_spectra()

    def _draw_spectra(self) -> None:
        """Draw the spectra of what is selected."""
        pane, knowledge, shown = self._views.spectra, self.knowledge, self._session.shown
        name, distance = shown.selected, shown.distance
        pane.graph.is_at_distance = distance is not None
        if name is None:
            pane.show_message("the model", model_facts(knowledge.outline, self._memory))
            return
        title = self._title(name)
        try:
            spectra = knowledge.spectra(name, distance)
        except EngineError as error:
            pane.show_message(title, str(error))
            return
        if spectra is None and distance is not None and pane.graph.matrices:
            pane.show_waiting(title)
        elif spectra is None:
            pane.show_message(title, "computing …", is_waiting=True)
        else:
            other = None
            if self.other is not None:
                self.other.ask(name, distance)
                why_not = self.other.why_not(name, distance)
                other = Beside(self.other.name, self.other.of(name, distance), why_not)
            pane.show(title, spectra, shown.epsilon, other, knowledge.lacking(name))

    def _title(self, name: Head) -> str:
        """Name what is selected, with the distance and the marks of what changes its circuit."""
        outline = self.knowledge.outline
        marks = "".join(f" · {mark}" for mark in outline.layer(name).marks)
        kind = " whole layer" if name.is_layer else ""
        at = at_distance(self._session.shown.distance, outline)
        return f"{self._stack(name)}{name}{kind}{self.labels.behind(name)}{at}{marks}"

    def _stack(self, name: Head) -> str:
        """Name the stack where there are several."""
        return f"{name.stack} " if len(self.knowledge.outline.stacks) > 1 else ""

    def _draw_ranks(self) -> None:
        """Draw the ranks of a layer's heads, or of the model's layers."""
        knowledge, outline = self.knowledge, self.knowledge.outline
        name, epsilon = self._session.shown.selected, self._session.shown.epsilon
        names = knowledge.names_beside(name)
        measured = self._measuring.among(names, epsilon)
        if name is not None and len(measured) < len(names):
            return  # it is drawn in a moment, with all numbers
        distance = None if name is None else self._session.shown.distance
        self._views.ranks.show(
            "all layers" if name is None else f"{self._stack(name)}layer {name.layer}{at_distance(distance, outline)}",
            names,
            knowledge.rows_at(measured, epsilon, distance),
            self.measure,
            epsilon,
            knowledge.chance(name or outline.layers[0].name, self.measure, epsilon),
            name,
            knowledge.troubles(names),
        )

    def rank_cells(self, heads: Iterable[Head], matrix: str, measure: str) -> tuple[Cell | None, ...]:
        """Give one measure of a matrix of heads; empty where there will be none, None while it is not known."""
        epsilon, place, names = self._session.shown.epsilon, RANK_COLUMNS.index(measure), tuple(heads)
        measured = set(self._measuring.among(names, epsilon))

        def cell(head: Head) -> Cell | None:
            rows = self.knowledge.rows_of(head, epsilon) if head in measured else ()
            if not rows:
                return "" if self.knowledge.trouble(head.whole_layer) else None
            return next((row[place] for row in rows if row[3] == matrix), "")

        return tuple(map(cell, names))

    def _draw_measured(self, layer: Head) -> None:
        """Draw the measures of a layer that have come by now."""
        self._tree.refresh_notes(layer)
        self.noticed(layer)
        selected = self._session.shown.selected
        if selected is None or selected.whole_layer == layer:
            self._draw_ranks()

    def change_epsilon(self, step: int) -> str:
        """Change ε to the next larger or smaller one; say so where there is none."""
        epsilon = self._session.shown.epsilon
        self._epsilons.add(epsilon)
        steps = sorted(self._epsilons)
        place = steps.index(epsilon) + step
        if not 0 <= place < len(steps):
            return f"ε {epsilon:g} is the {'largest' if step > 0 else 'smallest'} that the keys go to"
        self._session.change(epsilon=steps[place])
        return ""


def measure_named(name: str) -> Measure:
    """Find a measure of singular values."""
    return next(each for each in MEASURES if each.name == name)
