"""What is selected, what is known of it, what must be asked of the engine, and which pane shows what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING
from weakref import WeakSet, finalize

from textual.worker import Worker

from engine.values.comparison import HOW_TO_COMPARE
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, parse_head
from engine.values.model import ModelOutline
from engine.values.off import NOTHING_OFF, Off
from engine.values.progress import Progress
from engine.values.spectra import SpectraGroup
from engine.values.tables import Table
from engine.values.views import CONTRIBUTIONS, VIEWS, view_after
from tui.asking import Asking
from tui.coloured import Coloured
from tui.comparing import Comparing
from tui.distance import Distance
from tui.exporting import Exporting
from tui.facts import model_line
from tui.heads_off import HeadsOff
from tui.learning import Learning
from tui.messages import Advanced, GroupReady
from tui.overview import Overview
from tui.reading import Reading
from tui.restoring import Restoring
from tui.sentences import Sentences
from tui.shown_table import shown_table
from tui.start import Start
from tui.tables import Tables
from tui.walk import head_after, layer_after
from tui.ways import Ways
from tui.weights import Weights

if TYPE_CHECKING:
    from engine.values.attention import AttentionMap
    from tui.app import Explorer

DEMO_SENTENCE = "Anna has a red ball. Anna gives the red ball to Tom."
"""What the demo reads when nothing else is asked for; it repeats itself, so that induction shows."""


class Conductor:
    """The explorer's state; everything here happens on the event loop."""

    def __init__(self, app: Explorer, start: Start) -> None:
        self._app = app
        self._start = start
        self._weights: Weights | None = None
        self.selected: Head | None = None
        self.ways: Ways | None = None
        self._is_drawn = False
        self._reading: Reading | None = None
        self._tables: Tables | None = None
        self._first_text: str | None = None
        self._sweep: Future[None] | None = None
        self._learning: Learning | None = None
        self.distance: Distance | None = None
        self.off = HeadsOff(app.tree_widget, self._switched_off)
        self.comparing: Comparing | None = None
        self.overview = Overview(app.engine, app.views, self._run, self._report, self.go_to)
        self.exporting = Exporting(app, self)
        self.sentences = app.sentences or Sentences(app, keeps=start.keeps_history)
        app.sentences = self.sentences  # they are of the person, and stay when another model is opened
        self.coloured = Coloured(app)
        self.restoring = Restoring(app, start)
        self._engine = app.engine
        self._workers: WeakSet[Worker[None]] = WeakSet()

    @property
    def is_open(self) -> bool:
        """Whether a model is open."""
        return self._weights is not None

    @property
    def epsilon(self) -> float:
        """The ε of the energy rank."""
        return self.restoring.epsilon if self._weights is None else self._weights.epsilon

    def has(self, name: Head) -> bool:
        """Say whether the open model has a head or layer."""
        try:
            return self._weights is not None and bool(self._weights.knowledge.outline.layer(name))
        except EngineError:
            return False

    def close(self) -> None:
        """Wait for nothing any more: another model takes the place of this one."""
        self.restoring.close()
        for worker in list(self._workers):
            worker.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether a model is open and nothing more is awaited from the engine."""
        swept = self._sweep is not None and self._sweep.done()
        return swept and all(worker.is_finished for worker in self._app.workers)

    @property
    def weights(self) -> Weights | None:
        """What is known of the open model's weights, once there is one."""
        return self._weights

    @property
    def reading(self) -> Reading | None:
        """The open model's sentence, once there is one."""
        return self._reading

    @property
    def text(self) -> str | None:
        """The sentence that is read, or is to be once the first head is on screen."""
        return self._first_text if self._reading is None or self._first_text is not None else self._reading.text

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of what is selected."""
        if self._weights is None or self.selected is None:
            return ()
        return self._weights.knowledge.outline.layer(self.selected).marks

    def open(self, opening: Future[ModelOutline]) -> None:
        """Wait for a model that is being opened."""
        self._run(self._open(opening), "open")

    async def _open(self, opening: Future[ModelOutline]) -> None:
        """Show the tree once the model's headers are read, then begin the sweep."""
        try:
            outline = await asyncio.wrap_future(opening)
            await self.restoring.recall(outline)
            begin = self.restoring.head or next(outline.layers[0].head_names())
            if self._start.head is not None:
                begin = parse_head(self._start.head, outline.stacks)
                outline.layer(begin)
        except Superseded:
            return
        except EngineError as error:
            self._app.fail(str(error))
            return
        self._app.post_message(Advanced(Progress("", 1, 1, "")))
        app = self._app
        self._weights = Weights(app.engine, app.views, app.tree_widget, outline, self.restoring.epsilon, self._run)
        self._tables = Tables(self._app.engine, self._app.views, outline, self._run, self._report)
        self._reading = Reading(self._app.engine, self._app.views.attention, outline, self._run, self._has_read)
        self.coloured.take(self._reading)
        self.ways = Ways(app, outline, self._weights)
        asking = Asking(outline, self._app.engine.options, self._app.views, self._weights, self._reading, self._tables)
        self.exporting.begin(outline, asking)
        self.comparing = Comparing(self._app, self._weights, outline, self._run)
        self.distance = Distance(app, self._weights, self._tables, self._run)
        self._learning = Learning(app, self._weights, self._reading, self.overview, self.comparing, self._run)
        self.overview.open(outline, self._weights)
        self._app.show_model(model_line(outline))
        for note in outline.notes:
            self._app.notify(note, severity="warning", markup=False)
        self._learning.compare()
        self._app.tree_widget.fill(outline)
        self._app.tree_widget.go_to(begin)
        self._app.call_after_refresh(self._app.do_kept_keys)
        sentence = DEMO_SENTENCE if outline.name == "demo" else None
        if self._app.engine.is_kept:
            self._look(begin, sentence)
        else:  # importing torch stalls the event loop, so nothing needs it before the tree is on screen
            self._app.call_after_refresh(self._look, begin, sentence)

    def _look(self, begin: Head, sentence: str | None) -> None:
        """Show the first head; what else there is to do waits until it is on screen."""
        self._first_text = sentence if self.restoring.text is None else self.restoring.text
        if self._first_text is not None:
            self._app.sentence_input.value = self._first_text
        self.restoring.arrange()
        self.select(begin)
        self._run(self._go_on(), "begin")

    async def _go_on(self) -> None:
        """Wait until something of the model has been drawn."""
        if self._weights is not None:
            await self._weights.learned.wait()
        self._app.call_after_refresh(self._do_the_rest)

    def _do_the_rest(self) -> None:
        """Ask for what is not looked at: the other kind of spectra, the first sentence, the whole model."""
        started, self._app.started = self._app.started, lambda: None  # with the first model alone
        started()
        if self.selected is not None and self._weights is not None:
            self._weights.ask(self.selected, not self.selected.is_layer)
        if self._first_text is not None:
            self.read(self._first_text)
        self._sweep = self._app.engine.sweep(self._swept)
        if self._learning is not None:
            self._learning.measure_memory()

    def _has_read(self) -> None:
        """List a sentence that was read, and have the heads labelled."""
        if self._reading is not None and self._reading.sentence is not None:
            self.sentences.has_read(self._reading.sentence)
        if self._learning is not None:
            self._learning.label()

    def _advance(self, progress: Progress) -> None:
        """Pass on how far work in the background is; called on the engine thread."""
        self._app.post_message(Advanced(progress))

    def _swept(self, layer: Head, whole_layer: bool, group: SpectraGroup | EngineError, progress: Progress) -> None:
        """Pass on what the sweep has found; called on the engine thread."""
        self._app.post_message(GroupReady(self._engine, layer, whole_layer, group, progress))

    def _run(self, work: Awaitable[None], group: str) -> None:
        """Await an answer beside the event loop's other work; a newer one of the same group replaces it."""

        async def quietly() -> None:
            try:
                await work
            except Superseded:
                return

        worker: Worker[None] = self._app.run_worker(quietly, group=group, exclusive=True)
        if isinstance(work, Coroutine):
            finalize(
                worker, work.close
            ).atexit = False  # one that is replaced before its turn has come has not begun it
        self._workers.add(worker)

    def _report(self, progress: Progress) -> None:
        """Say how far something has come that was asked for."""
        self._app.post_message(Advanced(progress))

    def _switched_off(self, off: Off) -> None:
        """Show maps and predictions with other heads switched off."""
        if self._reading is not None and self._tables is not None:
            self._reading.switch_off(off if off.heads else NOTHING_OFF)
            if self.comparing is not None:
                self.comparing.switch_off(off if off.heads else NOTHING_OFF)
            self._tables.switch_off(off)

    def choose_token(self, number: int) -> None:
        """Take another token's numbers where tables are of one, and show what its logit is made of."""
        if self._tables is not None:
            self._tables.choose_token(number)
            self._app.views.go_to(CONTRIBUTIONS.name)
            self._tables.resume()

    def step_position(self, step: int) -> None:
        """Go to what is predicted at another token."""
        if self._tables is not None and self._reading is not None and self._reading.tokens:
            self._tables.step_position(step, self._reading.tokens)

    def stop(self) -> bool:
        """Stop a table that is being worked out head by head, or a file that is written; False where there is none."""
        return (self._tables is not None and self._tables.stop()) or self.exporting.writing.stop()

    def note(self, head: Head) -> str:
        """Give what the tree says beside a head."""
        return "" if self._weights is None else self._weights.note(head)

    def learn(self, layer: Head, whole_layer: bool, answer: SpectraGroup | EngineError) -> None:
        """Keep what the sweep has found."""
        if self._weights is not None:
            self._weights.learn(layer, whole_layer, answer)

    def change_measure(self, step: int) -> None:
        """Go on to another measure."""
        if self.overview.is_active:
            self.overview.change_measure(step)
        elif self._weights is not None:
            self._weights.change_measure(step)

    def change_epsilon(self, step: int) -> None:
        """Change ε, and measure again."""
        if self._weights is not None:
            self._weights.change_epsilon(step)
            self.overview.measure_again()
            if self._tables is not None:
                self._tables.measure_again(self._weights.epsilon)

    def go_to(self, name: Head | None) -> None:
        """Move the tree's cursor to a head, a layer, or the model (None), and show it."""
        self._app.tree_widget.go_to(name)
        self.select(name)

    def select(self, name: Head | None) -> None:
        """Show a head, a whole layer, or the model (None)."""
        if self._weights is None or (self._is_drawn and name == self.selected):
            return
        if self.ways is not None:
            self.ways.leave()
        self.selected = name
        self._is_drawn = True
        if name is None and self._learning is not None:
            self._learning.measure_memory()
        self._weights.select(name, with_neighbours=self._sweep is not None)
        self.overview.select(name)
        if self._tables is not None:
            self._tables.select(name)
        if self._reading is not None and self._first_text is None:
            self._reading.select(name)
        if self.ways is not None:
            self.ways.arrive()
        if self.comparing is not None:
            self.comparing.select(name)

    def look_at(self, view: str) -> None:
        """Go to a view, or to the one that the same key goes on to."""
        self.show_view(view_after(self._app.views.active.view, view))

    def show_view(self, view: str) -> None:
        """Go to a view by its name; one of two models takes a second one."""
        if view in VIEWS and "vs" in VIEWS[view].needs and not self._app.engine.is_comparing:
            self._app.notify(HOW_TO_COMPARE, markup=False)
            return
        self._app.views.go_to(view)
        if self._tables is not None:
            self._tables.resume()

    def look_at_cell(self) -> None:
        """Follow the map's cursor with what is in view beside the map."""
        self.coloured.follow()
        if self._tables is not None and self._app.views.table is not None:
            self._tables.draw()

    def read(self, text: str) -> None:
        """Have the model read a sentence."""
        self._first_text = None
        self.sentences.begin(text)
        if self._reading is not None:
            self._reading.select(self.selected)
            self._reading.read(text)
        if self.comparing is not None:
            self.comparing.read(text)
        self.overview.read(text)
        if self._tables is not None:
            self._tables.read(text)

    def change_averaging(self) -> None:
        """Go on to the next kind of mean."""
        if self._reading is not None:
            self._reading.change_averaging()

    def change_difference(self) -> None:
        """Show what maps are different in, the other model's or those with heads off, or the maps again."""
        if not self._app.engine.is_comparing and not self.off.now.heads:
            self._app.notify(f"{HOW_TO_COMPARE}; or switch a head off, with o in the tree", markup=False)
        elif self._reading is not None:
            self._app.views.go_to("attention")
            self._reading.change_difference()

    def step_head(self, step: int) -> None:
        """Go to the head after or before, across layers."""
        if self._weights is not None and (head := head_after(self._weights.knowledge.outline, self.selected, step)):
            self.go_to(head)

    def step_layer(self, step: int) -> None:
        """Go to the same head of the layer after or before."""
        if self._weights is not None:
            self.go_to(layer_after(self._weights.knowledge.outline, self.selected, step))

    def table(self, attention: AttentionMap | None = None) -> tuple[Table, str]:
        """Give the table that the active view draws, and what it is of; see `tui.shown_table.shown_table`.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        if self._weights is None:
            raise EngineError("no model is open yet; nothing was written")
        return shown_table(self._app.views, self._weights, self.overview, self.selected, attention)

    @property
    def name_of_several(self) -> tuple[str, str] | None:
        """Name the table of the active view and what it is of, where several heads are beside each other in it."""
        return None if self.comparing is None else self.comparing.named

    async def table_of_several(self) -> Table | None:
        """Give the table of the active view, where several heads are beside each other in it.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        return None if self.comparing is None else await self.comparing.table()

    async def whole_map(self) -> AttentionMap:
        """Give all weights of the map on screen.

        Raises
        ------
        EngineError : when there is no map on screen, or it cannot be had any more.
        """
        if self._reading is None:
            raise EngineError("no model is open yet; nothing was written")
        return await self._reading.whole_map()
