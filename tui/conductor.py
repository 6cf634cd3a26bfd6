"""What is selected, what is known of it, what must be asked of the engine, and which pane shows what."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from textual.worker import Worker

from engine.values.comparison import HOW_TO_COMPARE
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, Off
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import AnyTable
from engine.values.views import VIEWS, ring_of, view_after
from tui.beside import Work, begin
from tui.coloured import Coloured
from tui.export.files import Exporting
from tui.first_look import FirstLook
from tui.key_names import key_of
from tui.model_parts import ModelParts
from tui.overview import Overview
from tui.restoring import Restoring
from tui.sentences import Sentences
from tui.shown_model import ShownModel
from tui.shown_table import shown_table
from tui.start import Start
from tui.state.heads_off import HeadsOff
from tui.state.places import head_after, layer_after

if TYPE_CHECKING:
    from engine.values.attention import AttentionMap
    from tui.app import Explorer


class Conductor(ModelParts):
    """The explorer's state; everything here happens on the event loop."""

    def __init__(self, app: Explorer, start: Start) -> None:
        super().__init__(app)
        self._is_drawn = False
        keys = (partial(key_of, app, f"app.{name}") for name in ("switch", "all_on"))
        self.off = HeadsOff(self._switched_off, *keys)
        self.overview = Overview(app.engine, app.views, self._run, app.report, self.go_to)
        self.exporting = Exporting(app, self)
        self.sentences = app.sentences or Sentences(app, keeps=start.keeps_history)
        app.sentences = self.sentences  # they are of the person, and stay when another model is opened
        self.coloured = Coloured(app)
        self.restoring = Restoring(app, start)
        self._first_look = FirstLook(app, self, start, self._run)
        self._workers: WeakSet[Worker[None]] = WeakSet()

    @property
    def epsilon(self) -> float:
        """The ε of the energy rank."""
        return self.restoring.epsilon if self._model is None else self._model.weights.epsilon

    def close(self) -> None:
        """Wait for nothing any more: another model takes the place of this one."""
        self.restoring.close()
        for worker in list(self._workers):
            worker.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether a model is open and nothing more is awaited from the engine."""
        return self._first_look.is_swept and all(worker.is_finished for worker in self._app.workers)

    @property
    def text(self) -> str | None:
        """The sentence that is read, or is to be once the first head is on screen."""
        waiting = self._first_look.text
        return waiting if self._model is None or waiting is not None else self._model.reading.text

    @property
    def meant(self) -> Head | None:
        """The head, or layer, of the row that a person has moved to in a table that has the keys; else the selected."""
        row = self._app.views.chosen_head
        return self.selected if row is None else row

    def open(self, opening: Future[ModelOutline]) -> None:
        """Wait for a model that is being opened."""
        self._run(partial(self._first_look.wait, opening), "open")

    def show(self, outline: ModelOutline) -> ShownModel:
        """Make what shows a model whose headers have been read."""
        model = ShownModel(self._app, outline, self.restoring.epsilon, self.overview, self.sentences, self._run)
        self._model = model
        self._app.views.leaving = model.ways.leave
        self.coloured.take(model.reading)
        self.exporting.begin(outline, model.asking)
        self.overview.open(outline, model.weights)
        return model

    def _run(self, work: Work, group: str) -> None:
        """Await an answer beside the event loop's other work; a newer one of the same group replaces it."""

        async def quietly() -> None:
            try:
                await work()
            except Superseded:
                return

        self._workers.add(begin(self._app, quietly, group))

    def _switched_off(self, off: Off) -> None:
        """Show maps and predictions with other heads switched off, and which rows are of these."""
        self._app.tree_widget.off = frozenset(off.heads)
        self._app.tree_widget.refresh_notes()
        self._app.views.strike(frozenset(off.heads))
        if self._model is not None:
            self._model.switch_off(off)

    def choose_token(self, number: int) -> None:
        """Take another token's numbers where tables are of one, and show what its logit is made of."""
        if self._model is not None:
            self._model.choose_token(number)

    def fold_gains(self) -> None:
        """Show directions with the gains of norms, or without."""
        if self._model is not None:
            self._model.tables.fold()
            self._app.refresh_bindings()  # a key that can only lead back is offered for that alone

    def stop(self) -> bool:
        """Stop a table that is worked out and waited for, or a file that is written; False where there is none."""
        return (self._model is not None and self._model.tables.stop()) or self.exporting.writing.stop()

    def advance(self, progress: Progress) -> Progress:
        """Say how far the model is where that is waited for, and give it as it is shown."""
        return progress if self._model is None else self._model.advance(progress)

    def change_measure(self, step: int) -> None:
        """Go on to another measure."""
        if self.overview.is_active:
            self.overview.change_measure(step)
        elif self._model is not None:
            self._model.weights.change_measure(step)

    def change_epsilon(self, step: int) -> str:
        """Change ε, and measure again; say so where it goes no farther."""
        return "" if self._model is None else self._model.change_epsilon(step)

    def use_epsilon(self, epsilon: float) -> None:
        """Measure again with any ε."""
        if self._model is not None:
            self._model.use_epsilon(epsilon)

    def go_to(self, name: Head | None) -> None:
        """Move the tree's cursor to a head, a layer, or the model (None), and show it."""
        self._app.tree_widget.go_to(name)
        self.select(name)

    def select(self, name: Head | None) -> bool:
        """Show a head, a whole layer, or the model (None); False where it is shown, or no model is open."""
        model = self._model
        if model is None or (self._is_drawn and name == self.selected):
            return False
        model.ways.leave()
        self.selected = name
        self._is_drawn = True
        model.select(name, with_neighbours=self._first_look.is_sweeping)
        return True

    def look_at(self, view: str) -> None:
        """Go to a view, of those that share a key to the one looked at last, or on from there to the next.

        A table of theirs that was stopped goes on.
        """
        self._first_look.has_view, views = True, self._app.views
        if stopped := self._model.tables.stopped(view, *ring_of(view)) if self._model is not None else "":
            self.show_view(stopped)
        elif not views.return_to(*ring_of(view)):
            self.show_view(view_after(views.active.view, views.last_like(view)))

    def show_view(self, view: str) -> None:
        """Go to a view by its name; one of two models takes a second one."""
        if view in VIEWS and "vs" in VIEWS[view].needs and not self._app.engine.is_comparing:
            self._app.notify(HOW_TO_COMPARE)
            return
        self._app.views.go_to(view)
        if self._model is not None:
            self._model.tables.resume()

    def look_at_cell(self) -> None:
        """Follow the map's cursor with what is in view beside the map."""
        self.coloured.follow()
        if self._model is not None and self._app.views.table is not None:
            self._model.tables.draw()

    def read(self, text: str) -> None:
        """Have the model read a sentence, once there is one."""
        self._first_look.text = text if self._model is None else None
        self.sentences.begin(text)
        if self._model is None:
            self.overview.read(text)
        else:
            self._model.read(text, self.selected)

    def change_averaging(self) -> str:
        """Go on to the next kind of mean, and say which."""
        return "" if self._model is None else self._model.reading.change_averaging()

    def change_difference(self) -> None:
        """Show what maps are different in, the other model's or those with heads off; where that is seen, the maps."""
        if not self._app.engine.is_comparing and not self.off.now.heads:
            switch = key_of(self._app, "app.switch")
            self._app.notify(f"{HOW_TO_COMPARE}; or switch a head off, with {switch}")
        elif self._model is not None:
            is_seen = self._app.views.attention.display
            self._app.views.go_to("attention")
            if is_seen or not self._model.reading.is_difference:
                self._model.reading.change_difference()

    def step_head(self, step: int) -> None:
        """Go to the head after or before, across layers."""
        if self._model is not None and (head := head_after(self._model.outline, self.selected, step)):
            self.go_to(head)

    def step_layer(self, step: int) -> None:
        """Go to the same head of the layer after or before."""
        if self._model is not None:
            self.go_to(layer_after(self._model.outline, self.selected, step))

    def table(self, attention: AttentionMap | None = None) -> tuple[AnyTable, str]:
        """Give the table that the active view draws, and what it is of; see `tui.shown_table.shown_table`.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        if self._model is None:
            raise EngineError("no model is open yet; nothing was written")
        return shown_table(self._app.views, self._model.weights, self.overview, self.selected, attention)
