"""The engine as the screen and the command line see it: requests that return futures, answered by one thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from engine.models.directories import cache_directory
from engine.service.loading import preload_torch
from engine.service.open_model import Answer
from engine.service.options import EngineOptions
from engine.service.sentence_requests import SentenceRequests
from engine.service.spectra_requests import SpectraRequests
from engine.service.thread import Breathe, EngineThread, Urgency
from engine.service.writer import Writer
from engine.values.views import VIEWS

if TYPE_CHECKING:
    from engine.checkpoints.source import Source
    from engine.service.choices import Choices
    from engine.service.session import Session
    from engine.values.comparison import Comparison
    from engine.values.heads import Head
    from engine.values.memory import MemoryReport
    from engine.values.model import ModelOutline
    from engine.values.progress import Progress
    from engine.values.proof import LayerProof
    from engine.values.tables import Table
    from engine.values.view import Query


class Engine(SpectraRequests, SentenceRequests):
    """One open model, and the thread that works on it and on those that are opened after it.

    Every request returns at once with a future. Its error is an `EngineError` for what a person can mend, or
    `Superseded` when a newer request for the same view came in, or the model has been put away.
    """

    def __init__(
        self,
        options: EngineOptions | None = None,
        source: Callable[[], Source] | None = None,
        first: Engine | None = None,
    ) -> None:
        super().__init__(options or EngineOptions(), EngineThread() if first is None else first._thread)
        self._source = source
        self._first = first or self
        self._named: str | None = None
        self._writer = Writer(self._thread.give_up)

    def another(self, name: str) -> Engine:
        """Make an engine for another model on the same thread; this one goes on until it is closed.

        The options that were given hold for the first model that is opened, and whenever that is opened again.
        """
        first = self._first
        is_first = first._named in (None, name)
        options = first._options if is_first else first._options.for_another_model()
        made = Engine(options, first._source if is_first else None, first)
        made._listener, made._watcher = self._listener, self._watcher
        return made

    def close(self) -> None:
        """Put the model away: nobody is answered any more, and its memory is free as soon as its work has ended."""
        self._is_closed = True
        self._thread.submit(lambda breathe: self._put_away(), Urgency.SELECTED)

    def _put_away(self) -> None:
        """Let go of the model, on the engine thread, whoever still holds this."""
        models = (self._session, self._models.other if self._models is not None else None)
        self._session = self._models = self._tables = None
        for each in models:
            if each is not None:
                each.close()

    def _leave(self) -> None:
        """Let go of the model, and of what it would be opened from, as nothing will be asked any more."""
        self._put_away()
        self._source = None

    @property
    def choices(self) -> Choices:
        """What can be opened, by `another`; those who look for it get along without an open model."""
        from engine.service.choices import Choices

        first = self._first
        return Choices(self._thread, first._options, first._named, is_in_memory=first._source is not None)

    @classmethod
    def of_module(cls, module: Any, tokenizer: Any, name: str, example: Any) -> Engine:
        """Make an engine for a PyTorch model in memory, whatever it is then asked to open."""

        def source() -> Source:
            from engine.models.live import ModuleSource

            return ModuleSource(module, tokenizer, name, example)

        return cls(source=source)

    def open(self, name: str, report: Callable[[Progress], None]) -> Future[ModelOutline]:
        """Find a model, downloading it if it must be, and read its headers.

        Of a model that the cache does not hold spectra will have to be computed: torch's library begins to be mapped.
        """
        may_be_kept = self._options.use_cache and cache_directory().is_dir()
        if not may_be_kept:
            preload_torch()

        def work(breathe: Breathe) -> ModelOutline:
            from engine.service.session import Session

            def reporting(progress: Progress) -> None:
                self._check_open()
                breathe()
                report(progress)

            self._check_open()
            if self._source is not None:
                session = Session(self._source(), self._options)
            else:
                session = Session.open(name, self._options, reporting)
            self._check_open()
            session.notify = self._tell
            session.watch(self._advance)
            self._session = session
            self._first._named = self._first._named or name
            if may_be_kept and not session.is_kept:
                preload_torch()
            return session.outline

        # Whoever opens another model waits for that, and for nothing that is done for the present one.
        return self._thread.submit(work, Urgency.OPENING if self._first is self else Urgency.SELECTED, "open")

    @property
    def revision(self) -> str | None:
        """The branch, tag or commit of the model that was asked for, if one was."""
        return self._options.revision

    def compare(self, report: Callable[[Progress], None]) -> Future[Comparison]:
        """Open the second model that the options name, and find what can be compared of both."""
        return self._ask(
            lambda session, breathe: self._both(session, breathe, report).comparison, Urgency.OPENING, "compare"
        )

    def table(self, name: str, query: Query, view: str = "") -> Future[Table]:
        """Ask for a table of `engine.values.views.VIEWS`, or for the part of it that a query names.

        What is selected is not kept waiting by one of the whole model, or by one that runs it; that one waits for
        others that do, so that no two are in the model at once.
        """
        urgency = Urgency.SELECTED if query.layer is not None else Urgency.LARGE
        if "text" in VIEWS[name].options:
            urgency = Urgency.SENTENCE

        def work(session: Session, breathe: Breathe) -> Table:
            if query.of_two or "vs" in VIEWS[name].needs:
                self._both(session, breathe)
            return self._tables_of(session).table(name, query, breathe)

        return self._ask(work, urgency, view)

    def remember(self, name: str) -> Future[None]:
        """Put the open model at the head of those that were opened before, unless that is switched off."""

        def work(session: Session, breathe: Breathe) -> None:
            if self._options.keep_recent and self._source is None:
                from engine.service.recent import remember

                remember(name, session.outline)

        return self._ask(work, Urgency.OPENING)

    def memory(self) -> Future[MemoryReport]:
        """Ask what browsing reads, and what a sentence would take against what is free now."""
        return self._ask(lambda session, breathe: session.memory(), Urgency.KNOWN)

    def growing(
        self, name: str, query: Query, deliver: Callable[[Table, Progress], None], view: str = ""
    ) -> Future[Table]:
        """Ask for a table whose view grows: at once for what is there at once, then for the rest.

        The rest waits for whatever else is looked at and for sentences, and comes before the sweep.

        Parameters
        ----------
        deliver : called on the engine thread with what is known of it by then, and how far it has come.
        """

        def work(session: Session, breathe: Breathe) -> Table:
            for table, progress in self._tables_of(session).growing(name, query, breathe):
                deliver(table, progress)
            return table

        def begin(session: Session, breathe: Breathe) -> None:
            deliver(*next(self._tables_of(session).growing(name, query, breathe)))

        self._ask(begin, Urgency.SELECTED)
        return self._ask(work, Urgency.OPENING, view)

    def labels(self, report: Callable[[Progress], None]) -> Future[dict[Head, str]]:
        """Label the heads that clearly do one thing, in the background; the whole model is loaded for it.

        Parameters
        ----------
        report : called on the engine thread with how far it has come.
        """

        def work(session: Session, breathe: Breathe) -> dict[Head, str]:
            return self._tables_of(session).patterns.labels(report, breathe)

        return self._ask(work, Urgency.SWEEP, "labels")

    def check(self, deliver: Callable[[LayerProof, Progress], None]) -> Future[None]:
        """Check every layer's heads against the model's own numbers.

        Parameters
        ----------
        deliver : called on the engine thread with what was found for a layer, and how far the check has come.
        """

        def work(session: Session, breathe: Breathe) -> None:
            for step in session.proofs(breathe):
                deliver(*step)

        return self._ask(work, Urgency.SENTENCE, "check")

    def write(self, work: Callable[[Breathe], Answer]) -> Future[Answer]:
        """Write a file on a thread of its own; what the work asks of this engine comes after what is looked at.

        Parameters
        ----------
        work : calls what it is handed between its rows; that raises when the file is not wanted any more.
        """
        return self._writer.begin(work)

    def stop_writing(self) -> None:
        """Give up the file that is being written, if any; nothing of it is left."""
        self._writer.cancel()

    def stop(self, seconds: float = 0.0) -> None:
        """Give up all work, and then let go of the model; returns at once, or waits so long for a step being done."""
        self._thread.stop(self._leave)
        self._writer.cancel()
        if seconds:
            self._writer.join(seconds)
            self._thread.join(seconds)
