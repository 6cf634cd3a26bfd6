"""What is selected, what is known of it, what must be asked of the engine, and which pane shows what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.mathematics.measures import MEASURES
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, parse_head
from engine.values.memory import MemoryReport
from engine.values.model import ModelOutline
from engine.values.progress import Progress
from engine.values.spectra import SpectraGroup
from engine.values.tables import RANK_COLUMNS, Table
from tui.export_view import file_stem, table_on_screen
from tui.facts import model_facts, model_line
from tui.knowledge import Knowledge
from tui.messages import Advanced, GroupReady
from tui.numbers import short
from tui.panes.ranks import next_measure
from tui.reading import Reading
from tui.start import Start
from tui.walk import head_after, layer_after
from tui.writing import Writing

if TYPE_CHECKING:
    from engine.values.attention import AttentionMap
    from tui.app import Explorer

Answer = TypeVar("Answer")

DEMO_SENTENCE = "Anna has a red ball. Anna gives the red ball to Tom."
"""What the demo reads when nothing else is asked for; it repeats itself, so that induction shows."""

EPSILONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The steps of ε; one that was given on the command line is a step of its own."""


class Conductor:
    """The explorer's state; everything here happens on the event loop."""

    def __init__(self, app: Explorer, start: Start) -> None:
        self._app = app
        self._start = start
        self._knowledge: Knowledge | None = None
        self.selected: Head | None = None
        self._is_drawn = False
        self._measure = MEASURES[0]
        self._epsilons = tuple(sorted({*EPSILONS, start.epsilon}))
        self._epsilon = start.epsilon
        self._memory: MemoryReport | None = None
        self._reading: Reading | None = None
        self._first_text: str | None = None
        self._learned = asyncio.Event()
        self._sweep: Future[None] | None = None
        self._writing = Writing(app)

    @property
    def is_idle(self) -> bool:
        """Whether a model is open and nothing more is awaited from the engine."""
        swept = self._sweep is not None and self._sweep.done()
        return swept and all(worker.is_finished for worker in self._app.workers)

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of what is selected."""
        if self._knowledge is None or self.selected is None:
            return ()
        return self._knowledge.outline.layer(self.selected).marks

    def open(self, opening: Future[ModelOutline]) -> None:
        """Wait for a model that is being opened."""
        self._run(self._open(opening), "open")

    async def _open(self, opening: Future[ModelOutline]) -> None:
        """Show the tree once the model's headers are read, then begin the sweep."""
        try:
            outline = await asyncio.wrap_future(opening)
            begin = next(outline.layers[0].head_names())
            if self._start.head is not None:
                begin = parse_head(self._start.head, outline.stacks)
                outline.layer(begin)
        except Superseded:
            return
        except EngineError as error:
            self._app.fail(str(error))
            return
        self._app.post_message(Advanced(Progress("", 1, 1, "")))
        self._knowledge = Knowledge(outline)
        self._reading = Reading(self._app.engine, self._app.views.attention, outline, self._run)
        self._app.show_model(model_line(outline))
        for note in outline.notes:
            self._app.notify(note, severity="warning", markup=False)
        self._app.tree_widget.fill(outline)
        self._app.tree_widget.go_to(begin)
        sentence = DEMO_SENTENCE if outline.name == "demo" else None
        if self._app.engine.is_kept:
            self._look(begin, sentence)
        else:  # importing torch stalls the event loop, so nothing needs it before the tree is on screen
            self._app.call_after_refresh(self._look, begin, sentence)

    def _look(self, begin: Head, sentence: str | None) -> None:
        """Show the first head; what else there is to do waits until it is on screen."""
        self._first_text = sentence if self._start.text is None else self._start.text
        if self._first_text is not None:
            self._app.sentence_input.value = self._first_text
        self.select(begin)
        self._run(self._go_on(), "begin")

    async def _go_on(self) -> None:
        """Wait until something of the model has been drawn."""
        await self._learned.wait()
        self._app.call_after_refresh(self._do_the_rest)

    def _do_the_rest(self) -> None:
        """Ask for what is not looked at: the other kind of spectra, the first sentence, the whole model."""
        self._app.started()
        if self.selected is not None:
            self._ask_spectra(self.selected, not self.selected.is_layer)
        if self._first_text is not None:
            self.read(self._first_text)
        self._sweep = self._app.engine.sweep(self._swept)
        self._run(self._fetch_memory(), "memory")

    def _swept(self, layer: Head, whole_layer: bool, group: SpectraGroup | EngineError, progress: Progress) -> None:
        """Pass on what the sweep has found; called on the engine thread."""
        self._app.post_message(GroupReady(layer, whole_layer, group, progress))

    def _run(self, work: Awaitable[None], group: str) -> None:
        """Await an answer beside the event loop's other work; a newer one of the same group replaces it."""

        async def quietly() -> None:
            try:
                await work
            except Superseded:
                return

        self._app.run_worker(quietly(), group=group, exclusive=True)

    def note(self, head: Head) -> str:
        """Give what the tree says beside a head: the measure of QK and OV."""
        if self._knowledge is None:
            return ""
        rows = self._knowledge.rows([head], self._epsilon)
        place = RANK_COLUMNS.index(self._measure.name)
        values = {row[3]: row[place] for row in rows if row[2] == head.label}
        return " ".join(
            short(value) for value in (values.get("QK"), values.get("OV")) if isinstance(value, int | float)
        )

    def go_to(self, name: Head) -> None:
        """Move the tree's cursor to a head or layer, and show it."""
        self._app.tree_widget.go_to(name)
        self.select(name)

    def select(self, name: Head | None) -> None:
        """Show a head, a whole layer, or the model (None)."""
        if self._knowledge is None or (self._is_drawn and name == self.selected):
            return
        self.selected = name
        self._is_drawn = True
        if name is None:
            self._run(self._fetch_memory(), "memory")
        else:
            self._ask_spectra(name, name.is_layer)
            if self._sweep is not None:
                self._ask_spectra(name, not name.is_layer)
        self._draw_spectra()
        self._draw_ranks()
        if self._reading is not None and self._first_text is None:
            self._reading.select(name)

    def _ask_spectra(self, name: Head, whole_layer: bool) -> None:
        """Ask for the spectra of a layer's heads, or of the layer, and for what chance gives, unless that is known.

        The matrices of a large layer as a whole take minutes; beside a head they are left to the sweep.
        """
        knowledge = self._knowledge
        if knowledge is None:
            return
        is_large, kind = knowledge.outline.layer(name).is_large, Head(name.stack, name.layer, -1 if whole_layer else 0)
        is_left_to_sweep = is_large and whole_layer and not name.is_layer
        if is_left_to_sweep or (knowledge.has(name, whole_layer) and knowledge.baseline(kind)):
            return
        first = name if is_large and not name.is_layer and not knowledge.has(name, False) else None
        self._run(self._fetch_spectra(name.whole_layer, whole_layer, first), f"spectra {whole_layer}")

    async def _fetch_spectra(self, layer: Head, whole_layer: bool, first: Head | None) -> None:
        """Learn a layer's spectra, one head's before the others' where that is wanted, then what chance gives."""
        engine, knowledge = self._app.engine, self._knowledge
        assert knowledge is not None  # asked for by select alone
        view = f"spectra {whole_layer}"
        try:
            if first is not None:
                alone = await asyncio.wrap_future(engine.head_spectra(first, view))
                knowledge.learn_head(first, alone)
                self._learned.set()
                self._redraw(layer, whole_layer)
            spectra = await asyncio.wrap_future(engine.spectra(layer, whole_layer, view))
            self.learn(layer, whole_layer, spectra)
            baseline = await asyncio.wrap_future(engine.baseline(layer, whole_layer, view))
            if baseline is not None:
                knowledge.learn_baseline(knowledge.outline.layer(layer), whole_layer, baseline)
            self._redraw(layer, whole_layer)
        except Superseded:
            raise
        except EngineError as error:
            self.learn(layer, whole_layer, error)

    async def _fetch_memory(self) -> None:
        """Learn what the model takes of memory and what is free now, which the model's page says."""
        try:
            self._memory = await asyncio.wrap_future(self._app.engine.memory())
        except EngineError:
            return  # what keeps a model from being measured is said by what needs it
        placement = self._memory.placement
        if self._reading is not None and placement is not None:
            self._reading.warn(placement.refusal or placement.notice)
        if self.selected is None:
            self._draw_spectra()

    def learn(self, layer: Head, whole_layer: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep spectra, and draw them where they are on screen."""
        if self._knowledge is None:
            return
        self._learned.set()
        is_new = not self._knowledge.has(layer, whole_layer)
        self._knowledge.learn(layer, whole_layer, answer)
        if is_new:
            self._redraw(layer, whole_layer)

    def _redraw(self, layer: Head, whole_layer: bool) -> None:
        """Draw what has become known where it is on screen."""
        if not whole_layer:
            self._app.tree_widget.refresh_notes(layer)
        if self.selected is None:
            if whole_layer:
                self._draw_ranks()
        elif self.selected.whole_layer == layer:
            self._draw_ranks()
            if self.selected.is_layer == whole_layer:
                self._draw_spectra()

    def _draw_spectra(self) -> None:
        """Draw the spectra of what is selected."""
        pane, knowledge, name = self._app.views.spectra, self._knowledge, self.selected
        if knowledge is None:
            return
        if name is None:
            pane.show_message("the model", model_facts(knowledge.outline, self._memory))
            return
        title = self._title(name)
        try:
            spectra = knowledge.spectra(name)
        except EngineError as error:
            pane.show_message(title, str(error))
            return
        if spectra is None:
            pane.show_message(title, "computing …")
        else:
            pane.show(title, spectra, knowledge.baseline(name), self._epsilon)

    def _title(self, name: Head) -> str:
        """Name what is selected, with the marks of what changes its circuit."""
        assert self._knowledge is not None  # titles are drawn for models that are open
        outline = self._knowledge.outline
        stack = f"{name.stack} " if len(outline.stacks) > 1 else ""
        marks = "".join(f" · {mark}" for mark in outline.layer(name).marks)
        return f"{stack}{name}{' whole layer' if name.is_layer else ''}{marks}"

    def _draw_ranks(self) -> None:
        """Draw the ranks of a layer's heads, or of the model's layers."""
        knowledge, name = self._knowledge, self.selected
        if knowledge is None:
            return
        names = knowledge.names_beside(name)
        beside = name or knowledge.outline.layers[0].name
        self._app.views.ranks.show(
            "all layers" if name is None else f"layer {name.layer}",
            names,
            knowledge.rows(names, self._epsilon),
            self._measure,
            self._epsilon,
            knowledge.chance(beside, self._measure, self._epsilon),
            name,
        )

    def read(self, text: str) -> None:
        """Have the model read a sentence."""
        self._first_text = None
        if self._reading is not None:
            self._reading.select(self.selected)
            self._reading.read(text)

    def change_averaging(self) -> None:
        """Go on to the next kind of mean."""
        if self._reading is not None:
            self._reading.change_averaging()

    def change_measure(self, step: int) -> None:
        """Go on to another measure."""
        self._measure = next_measure(self._measure, step)
        self._draw_ranks()
        self._app.tree_widget.refresh_notes()

    def change_epsilon(self, step: int) -> None:
        """Change ε, and measure again."""
        place = self._epsilons.index(self._epsilon) + step
        self._epsilon = self._epsilons[max(0, min(place, len(self._epsilons) - 1))]
        self._draw_ranks()
        self._draw_spectra()
        self._app.tree_widget.refresh_notes()

    def step_head(self, step: int) -> None:
        """Go to the head after or before, across layers."""
        if self._knowledge is not None and (head := head_after(self._knowledge.outline, self.selected, step)):
            self.go_to(head)

    def step_layer(self, step: int) -> None:
        """Go to the same head of the layer after or before."""
        if self._knowledge is not None:
            self.go_to(layer_after(self._knowledge.outline, self.selected, step))

    def table(self, view: str, attention: AttentionMap | None = None) -> tuple[Table, str]:
        """Give the table that a view draws, and what it is of.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        if self._knowledge is None:
            raise EngineError("no model is open yet; nothing was written")
        attention = attention or self._app.views.attention.shown
        return table_on_screen(view, self._knowledge, self.selected, self._epsilon, attention)

    async def export(self, view: str) -> tuple[Path, int]:
        """Write the table of a view beside where the program was started; give the path and the number of rows.

        Raises
        ------
        EngineError : when there is nothing to write, no place to write it to, or a file that is still being written.
        """
        if self._knowledge is None or self._reading is None:
            raise EngineError("no model is open yet; nothing was written")
        self._writing.refuse_a_second()
        attention = await self._reading.whole_map() if view == "attention" else None
        table, subject = self.table(view, attention)
        name = self.selected if attention is None else attention.name
        stem = file_stem(self._knowledge.outline, None if name is None else name.stack, subject, table.view)
        return await self._writing.write(table, stem, attention)
