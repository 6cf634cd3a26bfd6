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
from tui.drawing.facts import model_line
from tui.toolkit.messages import GroupReady

if TYPE_CHECKING:
    from tui.app.conductor import Conductor
    from tui.app.learning import Learning
    from tui.app.restoring import Restoring
    from tui.export.files import ExportFiles
    from tui.parts import Parts
    from tui.state.stores import Stores

DEMO_SENTENCE = "Anna has a red ball. Anna gives the red ball to Tom."
"""What the demo reads when nothing else is asked for; it repeats itself, so that induction shows."""


class FirstLook:
    """How one model comes on screen.

    Parameters
    ----------
    app : whose tree shows it.
    conductor : what shows it.
    restoring : what was looked at last.
    exporting : what writes files of it.
    opened : called once the tree is on screen.
    started : called once the first head is.
    """

    def __init__(
        self,
        app: Parts,
        conductor: Conductor,
        restoring: Restoring,
        exporting: ExportFiles,
        *,
        opened: Callable[[], object],
        started: Callable[[], None],
    ) -> None:
        self._app = app
        self._engine = app.engine
        self._session = app.session
        self._conductor = conductor
        self._restoring = restoring
        self._exporting = exporting
        self._opened = opened
        self._started = started
        self._sweep: Future[None] | None = None

    @property
    def is_swept(self) -> bool:
        """Whether the whole model's spectra are known."""
        return self._sweep is not None and self._sweep.done()

    def open(self, opening: Future[ModelOutline], head: str | None) -> None:
        """Wait for a model that is being opened, to begin at a head or layer that was asked for."""
        self._conductor.run(partial(self.wait, opening, head), "open")

    async def wait(self, opening: Future[ModelOutline], head: str | None) -> None:
        """Show the tree once the model's headers are read, and then its first head."""
        app, restoring = self._app, self._restoring
        try:
            outline = await asyncio.wrap_future(opening)
            await restoring.recall(outline)
            begin = restoring.head or next(outline.layers[0].head_names())
            if head is not None:
                begin = parse_head(head, outline.stacks)
                outline.layer(begin)
        except Superseded:
            return
        except EngineError as error:
            app.fail(str(error))
            return
        app.report(Progress("", 1, 1, ""))
        self._session.change(epsilon=restoring.epsilon)
        restoring.show_measures()
        stores, learning = self._conductor.show(outline)
        self._exporting.begin(outline)
        app.model_line.show(model_line(outline))
        for note in outline.notes:
            app.notify(note, severity="warning")
        learning.compare()
        app.tree_widget.fill(outline)
        app.tree_widget.go_to(begin)
        is_demos = restoring.text is None and outline.name == "demo"
        self._take_sentence(DEMO_SENTENCE if is_demos else restoring.text)  # before a view says that there is none
        if self._engine.is_kept:
            self._look(stores, learning, begin)
        else:  # importing torch stalls the event loop, so nothing needs it before the tree is on screen
            self._once_drawn(self._look, stores, learning, begin)
        app.call_after_refresh(self._opened)

    def _look(self, stores: Stores, learning: Learning, begin: Head) -> None:
        """Show the first head; what else there is to do waits until it is on screen.

        A key or a click may have moved the tree's cursor on meanwhile; what it is on is shown then. A sentence and a
        view that a person has chosen meanwhile stay.
        """
        if not self._conductor.has_chosen_view:
            self._restoring.show_view()
        here = self._app.tree_widget.name_here
        stores.spectra.get(here or begin)  # for all the rest waits until something is known
        self._conductor.select(here)
        self._conductor.run(partial(self._go_on, stores, learning), "begin")

    def _take_sentence(self, usual: str | None) -> None:
        """Show the sentence that is to be read: one that was typed already, else the one to begin with.

        That is among the earlier ones from now on, for a person may have another read before its turn comes.
        """
        line, typed = self._app.sentence_input, self._session.shown.waiting_text
        for text in (usual, typed):
            if text:
                line.history.add(text)
        text = usual if typed is None else typed
        self._session.change(waiting_text=text)
        if text is not None:
            line.show_read(text, None)

    async def _go_on(self, stores: Stores, learning: Learning) -> None:
        """Wait until something of the model has been drawn."""
        await stores.spectra.has_any.wait()
        self._once_drawn(self._do_the_rest, stores, learning)

    def _once_drawn(self, step: Callable[..., None], *given: Any) -> None:
        """Take a step after the next picture, unless another model has come until then."""

        def take() -> None:
            if self._app.is_ready and self._app.session is self._session:
                step(*given)

        self._app.call_after_refresh(take)

    def _do_the_rest(self, stores: Stores, learning: Learning) -> None:
        """Ask for what is not looked at: the first sentence, the whole model."""
        self._started()
        if (text := self._session.shown.waiting_text) is not None:
            self._conductor.read(text)
        self._sweep = self._engine.sweep(self._swept)
        learning.measure_memory()

    def _swept(self, layer: Head, whole_layer: bool, group: SpectraGroup | EngineError, progress: Progress) -> None:
        """Pass on what the sweep has found; called on the engine thread."""
        self._app.post_message(GroupReady(self._engine, layer, whole_layer, group, progress))
