"""An open model, perhaps with a second one beside it, and the queue of work that is done on them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from engine.service.options import EngineOptions
from engine.service.thread import Breathe, EngineThread, Urgency
from engine.values.comparison import HOW_TO_COMPARE
from engine.values.errors import EngineError, Superseded

if TYPE_CHECKING:
    from engine.service.session import Session
    from engine.service.two_models import TwoModels
    from engine.service.worked_out import WorkedOut
    from engine.values.progress import Progress

Answer = TypeVar("Answer")


class OpenModel:
    """What is open, which belongs to the engine thread, and what queues work on it, from any other thread.

    Requests of one kind make a class that is built on this one; `engine.service.engine.Engine` is all of them.
    """

    def __init__(self, options: EngineOptions, thread: EngineThread) -> None:
        self._options = options
        self._thread = thread
        self._is_closed = False
        self._session: Session | None = None
        self._models: TwoModels | None = None
        self._is_pairing = False
        self._tables: WorkedOut | None = None
        self._listener: Callable[[str], None] | None = None
        self._told: set[str] = set()
        self._watcher: Callable[[Progress], None] | None = None

    def listen(self, listener: Callable[[str], None]) -> None:
        """Have what goes another way than was asked for told, in a sentence; called on the engine thread."""
        self._listener = listener

    def _tell(self, notice: str) -> None:
        """Hand a notice to whoever listens, once where both models say the same."""
        if self._listener is not None and not self._is_closed and notice not in self._told:
            self._told.add(notice)
            self._listener(notice)

    def watch(self, watcher: Callable[[Progress], None]) -> None:
        """Have it told how far a model is loaded, or a sentence is read, where that takes long; as for `listen`."""
        self._watcher = watcher

    def _advance(self, progress: Progress) -> None:
        """Hand on how far something is."""
        if self._watcher is not None and not self._is_closed:
            self._watcher(progress)

    @property
    def options(self) -> EngineOptions:
        """What a person has chosen about how it works."""
        return self._options

    @property
    def is_comparing(self) -> bool:
        """Whether a second model is to be seen beside the one that is opened."""
        return self._options.is_comparing

    @property
    def is_kept(self) -> bool:
        """Whether spectra of the open model are on disk, so that the first ones come without torch."""
        session = self._session  # which the engine thread may let go of meanwhile
        return session is not None and session.is_kept

    def give_up(self, view: str) -> None:
        """Stop the work for a view that nobody looks at any more, at its next step."""
        self._thread.give_up(view)

    def _both(
        self, session: Session, breathe: Breathe, report: Callable[[Progress], None] = lambda progress: None
    ) -> TwoModels:
        """Give both models; whoever asks first has the second one opened.

        Raises
        ------
        EngineError : when no second one is named, or it cannot be opened or compared.
        """
        if self._models is None:
            if not self.is_comparing:
                raise EngineError(HOW_TO_COMPARE)
            if self._is_pairing:
                raise EngineError("the second model is still being opened; ask again when it is there")
            from engine.service.session import Session
            from engine.service.sources import find_other
            from engine.service.two_models import TwoModels

            def reporting(progress: Progress) -> None:
                breathe()
                report(progress)

            self._is_pairing = True
            try:
                source = find_other(session.outline.name, session.source, self._options, reporting)
            finally:
                self._is_pairing = False
            other = Session(source, self._options)
            other.notify = self._tell
            other.watch(self._advance)
            self._models, self._tables = TwoModels(session, other), None
        return self._models

    def _tables_of(self, session: Session) -> WorkedOut:
        """Give what makes tables of the open model, with all that tables share."""
        if self._tables is None or self._tables.session is not session:
            from engine.service.worked_out import WorkedOut

            self._tables = WorkedOut(session, self._models)
        return self._tables

    def _ask(self, work: Callable[[Session, Breathe], Answer], urgency: Urgency, view: str = "") -> Future[Answer]:
        """Queue work on the open model."""

        def with_session(breathe: Breathe) -> Answer:
            def going_on() -> None:
                breathe()
                self._check_open()

            self._check_open()
            if self._session is None:
                raise EngineError("no model is open")
            return work(self._session, going_on)

        return self._thread.submit(with_session, urgency, view)

    def _check_open(self) -> None:
        """Stop work on a model that has been put away."""
        if self._is_closed:
            raise Superseded("another model has been opened")
