"""What is learned of an open model beside what is looked at: its heads' labels, its memory, a second model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine.values.errors import EngineError, Superseded
from engine.values.progress import Progress
from tui.drawing.facts import line_of_two, short_name
from tui.state.head_labels import HeadLabels
from tui.toolkit.messages import Advanced, PairRefused
from tui.toolkit.tasks import Run

if TYPE_CHECKING:
    from tui.parts import Parts
    from tui.state.session import Session
    from tui.state.stores import Stores


class Learning:
    """Asks the engine for what takes long, and tells those who show it.

    Parameters
    ----------
    app : whose model it is.
    session : which says what is shown.
    stores : keep what is learned.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    """

    def __init__(
        self,
        app: Parts,
        session: Session,
        stores: Stores,
        run: Run,
    ) -> None:
        self._app = app
        self._stores = stores
        self._run = run
        self._is_labelled = False
        self._session = session
        session.follow(self._follow)

    def _follow(self, changed: frozenset[str]) -> None:
        """Learn what there is of memory where the model as a whole is looked at, which says so."""
        if "selected" in changed and self._session.shown.selected is None:
            self.measure_memory()

    def compare(self) -> None:
        """Open the second model, if one was named, and say what of it is compared."""
        if self._app.engine.is_comparing:
            self._run(self._compare, "compare")

    async def _compare(self) -> None:
        """Open the other model and say what of it is compared."""
        try:
            comparison = await asyncio.wrap_future(self._app.engine.compare(self._app.report))
        except Superseded:
            return
        except EngineError as error:
            self._app.post_message(PairRefused(str(error)))
            return
        self._app.model_line.show(line_of_two(comparison))
        self._stores.other = short_name(comparison.other)
        self._stores.arrived()
        for note in filter(None, (*comparison.other.notes, comparison.note)):
            self._app.notify(note, severity="warning")

    def label(self) -> None:
        """Have the heads labelled after the sweep, once the whole model is loaded because a sentence was read."""
        if not self._is_labelled:
            self._is_labelled = True
            self._run(self._fetch_labels, "labels")

    async def _fetch_labels(self) -> None:
        """Learn what the heads are called; where that fails, the next sentence is another chance."""
        try:
            labels = await asyncio.wrap_future(self._app.engine.labels(self._advance))
        except EngineError:
            self._is_labelled = False
            self._advance(Progress("", 1, 1, ""))
        else:
            self._stores.labels = HeadLabels(labels, is_known=True)
            self._stores.arrived()

    def _advance(self, progress: Progress) -> None:
        """Pass on how far work in the background is; called on the engine thread."""
        self._app.post_message(Advanced(progress))

    def measure_memory(self) -> None:
        """Learn what the model takes of memory and what is free now, which the model's page says."""
        self._run(self._fetch_memory, "memory")

    async def _fetch_memory(self) -> None:
        """Learn what there is of memory."""
        try:
            memory = await asyncio.wrap_future(self._app.engine.memory())
        except EngineError:
            return  # what keeps a model from being measured is said by what needs it
        placement = memory.placement
        if placement is not None:
            self._stores.maps.warning = placement.refusal or placement.notice
        self._stores.memory = memory
        self._stores.arrived()
