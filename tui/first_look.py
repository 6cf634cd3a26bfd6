"""What is done in which order while a model opens: its tree, its first head, and then what is not looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, parse_head
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.spectra import SpectraGroup
from tui.beside import Run
from tui.facts import model_line
from tui.messages import GroupReady
from tui.start import Start

if TYPE_CHECKING:
    from tui.app import Explorer
    from tui.conductor import Conductor
    from tui.learning import Learning
    from tui.weights import Weights

DEMO_SENTENCE = "Anna has a red ball. Anna gives the red ball to Tom."
"""What the demo reads when nothing else is asked for; it repeats itself, so that induction shows."""


class FirstLook:
    """How one model comes on screen.

    Parameters
    ----------
    app : whose tree shows it.
    conductor : what decides what is shown of it.
    start : what was asked for.
    run : awaits work beside the event loop; newer work under the same name replaces older.

    Attributes
    ----------
    text : the sentence that is to be read once the first head is on screen; None where none waits.
    has_view : whether a person has chosen a view before that; none is brought back then.
    """

    def __init__(self, app: Explorer, conductor: Conductor, start: Start, run: Run) -> None:
        self.text: str | None = None
        self.has_view = False
        self._app = app
        self._engine = app.engine
        self._conductor = conductor
        self._start = start
        self._run = run
        self._sweep: Future[None] | None = None

    @property
    def is_swept(self) -> bool:
        """Whether the whole model's spectra are known."""
        return self._sweep is not None and self._sweep.done()

    async def wait(self, opening: Future[ModelOutline]) -> None:
        """Show the tree once the model's headers are read, and then its first head."""
        app, restoring = self._app, self._conductor.restoring
        try:
            outline = await asyncio.wrap_future(opening)
            await restoring.recall(outline)
            begin = restoring.head or next(outline.layers[0].head_names())
            if self._start.head is not None:
                begin = parse_head(self._start.head, outline.stacks)
                outline.layer(begin)
        except Superseded:
            return
        except EngineError as error:
            app.fail(str(error))
            return
        app.report(Progress("", 1, 1, ""))
        weights, learning = self._conductor.show(outline)
        app.show_model(model_line(outline))
        for note in outline.notes:
            app.notify(note, severity="warning")
        learning.compare()
        app.tree_widget.fill(outline)
        app.tree_widget.go_to(begin)
        is_demos = restoring.text is None and outline.name == "demo"
        self._take_sentence(DEMO_SENTENCE if is_demos else restoring.text)  # before a view says that there is none
        if self._engine.is_kept:
            self._look(weights, learning, begin)
        else:  # importing torch stalls the event loop, so nothing needs it before the tree is on screen
            self._once_drawn(self._look, weights, learning, begin)
        app.call_after_refresh(app.do_kept_keys)  # which are about the head and the sentence that are looked at by then

    def _look(self, weights: Weights, learning: Learning, begin: Head) -> None:
        """Show the first head; what else there is to do waits until it is on screen.

        A key or a click may have moved the tree's cursor on meanwhile; what it is on is shown then. A sentence and a
        view that a person has chosen meanwhile stay.
        """
        if not self.has_view:
            self._conductor.restoring.show_view()
        here = self._app.tree_widget.name_here
        if here is None:
            weights.ask(begin, begin.is_layer)  # for all the rest waits until something is learned
        if not self._conductor.select(here) and self._conductor.tables is not None:
            self._conductor.tables.draw()  # the tree was quicker, and no table was in view then
        self._run(partial(self._go_on, weights, learning), "begin")

    def _take_sentence(self, usual: str | None) -> None:
        """Show the sentence that is to be read: one that was typed already, else the one to begin with.

        That is among the earlier ones from now on, for a person may have another read before its turn comes.
        """
        line, typed = self._app.sentence_input, self.text
        for text in (usual, typed):
            if text:
                line.history.add(text)
        self.text = usual if typed is None else typed
        if self.text is not None:
            line.show_read(self.text, None)

    async def _go_on(self, weights: Weights, learning: Learning) -> None:
        """Wait until something of the model has been drawn."""
        await weights.learned.wait()
        self._once_drawn(self._do_the_rest, weights, learning)

    def _once_drawn(self, step: Callable[..., None], *given: Any) -> None:
        """Take a step after the next picture, unless another model has come until then."""

        def take() -> None:
            if self._app.is_ready and self._app.conductor is self._conductor:
                step(*given)

        self._app.call_after_refresh(take)

    def _do_the_rest(self, weights: Weights, learning: Learning) -> None:
        """Ask for what is not looked at: the other kind of spectra, the first sentence, the whole model."""
        started, self._app.started = self._app.started, lambda: None  # with the first model alone
        started()
        selected = self._app.session.shown.selected
        weights.asks_beside = True
        if selected is not None:
            weights.ask(selected, not selected.is_layer)
        if self.text is not None:
            self._conductor.read(self.text)
        self._sweep = self._engine.sweep(self._swept)
        learning.measure_memory()

    def _swept(self, layer: Head, whole_layer: bool, group: SpectraGroup | EngineError, progress: Progress) -> None:
        """Pass on what the sweep has found; called on the engine thread."""
        self._app.post_message(GroupReady(self._engine, layer, whole_layer, group, progress))
