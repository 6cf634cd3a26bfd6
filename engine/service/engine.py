"""The engine as the screen and the command line see it: requests that return futures, answered by one thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from engine.service.loading import preload_torch
from engine.service.options import EngineOptions, cache_directory
from engine.service.thread import Breathe, EngineThread, Urgency
from engine.service.writer import Writer
from engine.values.comparison import HOW_TO_COMPARE
from engine.values.errors import EngineError, Superseded
from engine.values.off import NOTHING_OFF, Off
from engine.values.views import VIEWS

if TYPE_CHECKING:
    import numpy as np

    from engine.models.source import Source
    from engine.service.choices import Choices
    from engine.service.session import Session
    from engine.service.two_models import TwoModels
    from engine.service.worked_out import WorkedOut
    from engine.values.attention import AttentionMap, AttentionMaps, MapWindow, PooledMap, Sentence
    from engine.values.comparison import Comparison
    from engine.values.heads import Head, MapName
    from engine.values.lines import MapLines
    from engine.values.memory import MemoryReport
    from engine.values.model import ModelOutline
    from engine.values.progress import Progress
    from engine.values.proof import LayerProof
    from engine.values.spectra import Baseline, SpectraGroup, Spectrum
    from engine.values.tables import Table
    from engine.values.view import Query

Answer = TypeVar("Answer")


class Engine:
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
        self._options = options or EngineOptions()
        self._source = source
        self._first = first or self
        self._thread: EngineThread = EngineThread() if first is None else first._thread
        self._named: str | None = None
        self._is_closed = False
        self._writer = Writer(self._thread.give_up)
        self._session: Session | None = None
        self._models: TwoModels | None = None
        self._is_pairing = False
        self._tables: WorkedOut | None = None
        self._listener: Callable[[str], None] | None = None

    def listen(self, listener: Callable[[str], None]) -> None:
        """Have what goes another way than was asked for told, in a sentence; called on the engine thread."""
        self._listener = listener

    def another(self, name: str) -> Engine:
        """Make an engine for another model on the same thread; this one goes on until it is closed.

        The options that were given hold for the first model that is opened, and whenever that is opened again.
        """
        first = self._first
        is_first = first._named in (None, name)
        options = first._options if is_first else first._options.for_another_model()
        made = Engine(options, first._source if is_first else None, first)
        made._listener = self._listener
        return made

    def close(self) -> None:
        """Put the model away: nobody is answered any more, and its memory is free as soon as its work has ended."""
        self._is_closed = True

        def put_away(breathe: Breathe) -> None:
            models = (self._session, self._models.other if self._models is not None else None)
            self._session = self._models = self._tables = None
            for each in models:
                if each is not None:
                    each.close()

        self._thread.submit(put_away, Urgency.SELECTED)

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

    @property
    def options(self) -> EngineOptions:
        """What a person has chosen about how it works."""
        return self._options

    @property
    def is_comparing(self) -> bool:
        """Whether a second model is to be seen beside the one that is opened."""
        return self._options.is_comparing

    def compare(self, report: Callable[[Progress], None]) -> Future[Comparison]:
        """Open the second model that the options name, and find what can be compared of both."""
        return self._ask(
            lambda session, breathe: self._both(session, breathe, report).comparison, Urgency.OPENING, "compare"
        )

    def _both(
        self, session: Session, breathe: Breathe, report: Callable[[Progress], None] = lambda progress: None
    ) -> TwoModels:
        """Give both models; whoever asks first has the second one opened.

        Raises
        ------
        EngineError : where there is one, or the second cannot be opened or compared.
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
            self._models, self._tables = TwoModels(session, other), None
        return self._models

    def differences(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Ask for the maps of a layer (None: the means over the layers) for a sentence, with others beside them.

        Those are of the same model with heads switched off, where any are, or else of the second model.
        """

        def work(session: Session, breathe: Breathe) -> AttentionMaps:
            if not off.heads:
                return self._both(session, breathe).attention(text, stack, layer, breathe)
            whole = session.attention(text, stack, layer, breathe)
            return replace(whole, other=session.attention(text, stack, layer, breathe, off).weights)

        return self._ask(work, Urgency.SENTENCE, view)

    def _tell(self, notice: str) -> None:
        """Hand a notice to whoever listens."""
        if self._listener is not None and not self._is_closed:
            self._listener(notice)

    @property
    def is_kept(self) -> bool:
        """Whether spectra of the open model are on disk, so that the first ones come without torch."""
        return self._session is not None and self._session.is_kept

    def spectra(
        self, layer: Head, whole_layer: bool, view: str = "", distance: int | None = None
    ) -> Future[SpectraGroup]:
        """Ask for the spectra of all heads of a layer, or of the layer as a whole, QK's perhaps at a distance."""

        def work(session: Session, breathe: Breathe) -> SpectraGroup:
            if distance is None:
                return session.spectra(layer, whole_layer, breathe)
            return session.spectra_at(layer, whole_layer, distance, breathe)

        return self._ask(work, self._urgency(layer, whole_layer), view)

    def head_spectra(self, head: Head, view: str = "", distance: int | None = None) -> Future[tuple[Spectrum, ...]]:
        """Ask for one head's six spectra, before those of its layer's other heads."""

        def work(session: Session, breathe: Breathe) -> tuple[Spectrum, ...]:
            if distance is None:
                return session.head_spectra(head, breathe)
            return session.head_spectra_at(head, distance, breathe)

        return self._ask(work, Urgency.SELECTED, view)

    def other_spectra(
        self, layer: Head, whole_layer: bool, view: str = "", distance: int | None = None
    ) -> Future[SpectraGroup]:
        """Ask for the second model's spectra of all heads of a layer, or of the layer as a whole."""

        def work(session: Session, breathe: Breathe) -> SpectraGroup:
            return self._both(session, breathe).spectra(layer, whole_layer, distance, breathe)

        return self._ask(work, self._urgency(layer, whole_layer), view)

    def baseline(self, layer: Head, whole_layer: bool, view: str = "") -> Future[Baseline | None]:
        """Ask for what chance gives for a layer's shapes, which for changes is nothing."""
        urgency = self._urgency(layer, whole_layer)
        return self._ask(lambda session, breathe: session.baseline(layer, whole_layer, breathe), urgency, view)

    def attention(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Ask for the maps of a layer (None: the means over the layers) for a sentence, perhaps with heads off."""
        return self._ask(
            lambda session, breathe: session.attention(text, stack, layer, breathe, off), Urgency.SENTENCE, view
        )

    def rollout(self, text: str, stack: str, view: str = "") -> Future[AttentionMaps]:
        """Ask for a sentence's attention followed through all layers of a stack."""
        return self._ask(
            lambda session, breathe: self._tables_of(session).rollout.maps(text, stack, breathe), Urgency.SENTENCE, view
        )

    def pooled(
        self, text: str, name: MapName, window: MapWindow, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[PooledMap]:
        """Ask for a rectangle of one map of a long sentence, pooled to blocks."""
        return self._ask(
            lambda session, breathe: session.pooled(text, name, window, breathe, off), Urgency.SENTENCE, view
        )

    def whole_map(self, text: str, name: MapName, view: str = "", off: Off = NOTHING_OFF) -> Future[AttentionMap]:
        """Ask for one whole map of a long sentence, to be written to a file."""
        return self._ask(lambda session, breathe: session.whole_map(text, name, breathe, off), Urgency.SENTENCE, view)

    def map_lines(
        self, text: str, name: MapName, place: tuple[int, int], view: str = "", off: Off = NOTHING_OFF
    ) -> Future[MapLines]:
        """Ask for the row of a query and the column of a key, ``place``, of one map of a long sentence."""
        return self._ask(
            lambda session, breathe: session.map_lines(text, name, place, breathe, off), Urgency.SENTENCE, view
        )

    def spell(self, text: str, view: str = "") -> Future[Sentence]:
        """Ask how the model's tokenizer cuts a sentence, while it is typed; the model is not loaded for it."""
        return self._ask(lambda session, breathe: session.spell(text, breathe), Urgency.SELECTED, view)

    def forget_sentence(self, text: str) -> Future[None]:
        """Have what is kept of a sentence let go of."""
        return self._ask(lambda session, breathe: session.forget_sentence(text), Urgency.SENTENCE)

    def arrays(self, layer: Head) -> Future[dict[Head, dict[str, np.ndarray[Any, Any]]]]:
        """Ask for every head's weights of a layer."""
        return self._ask(lambda session, breathe: session.arrays(layer), Urgency.SELECTED)

    def read(self, text: str, view: str = "", off: Off = NOTHING_OFF) -> Future[Sentence]:
        """Ask for a sentence to be run through the model, so that its maps can be asked for."""
        return self._ask(lambda session, breathe: session.read(text, breathe, off), Urgency.SENTENCE, view)

    def table(self, name: str, query: Query, view: str = "") -> Future[Table]:
        """Ask for a table of `engine.values.views.VIEWS`, or for the part of it that a query names.

        What is selected is not kept waiting by one of the whole model, or by one that runs it; that one waits for
        others that do, so that no two are in the model at once.
        """
        urgency = Urgency.SELECTED if query.layer is not None else Urgency.LARGE
        if "text" in VIEWS[name].options:
            urgency = Urgency.SENTENCE

        def work(session: Session, breathe: Breathe) -> Table:
            if "vs" in VIEWS[name].needs:
                self._both(session, breathe)
            return self._tables_of(session).table(name, query, breathe)

        return self._ask(work, urgency, view)

    def _tables_of(self, session: Session) -> WorkedOut:
        """Give what makes tables of the open model, with all that tables share."""
        if self._tables is None or self._tables.session is not session:
            from engine.service.worked_out import WorkedOut

            self._tables = WorkedOut(session, self._models)
        return self._tables

    def remember(self, name: str) -> Future[None]:
        """Put the open model at the head of those that were opened before, unless that is switched off."""

        def work(session: Session, breathe: Breathe) -> None:
            if self._options.keep_recent and self._source is None:
                from engine.service.recent import remember

                remember(name, session.outline)

        return self._ask(work, Urgency.OPENING)

    def memory(self) -> Future[MemoryReport]:
        """Ask what browsing reads, and what a sentence would take against what is free now."""
        return self._ask(lambda session, breathe: session.memory(), Urgency.SENTENCE)

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

    def give_up(self, view: str) -> None:
        """Stop the work for a view that nobody looks at any more, at its next step."""
        self._thread.give_up(view)

    def sweep(self, deliver: Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]) -> Future[None]:
        """Compute all spectra of the model in the background.

        Parameters
        ----------
        deliver : called on the engine thread with a layer, whether the layer as a whole is meant, its spectra
            or why there are none, and how far the sweep has come.
        """

        def work(session: Session, breathe: Breathe) -> None:
            for step in session.sweep(breathe):
                deliver(*step)
            if self._models is not None:
                for _ in self._models.other.sweep(breathe):
                    pass  # so that both are there when they are compared

        return self._ask(work, Urgency.SWEEP, "sweep")

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
        """Give up all work; returns at once, or waits so long for a step that is being done."""
        self._thread.stop()
        self._writer.cancel()
        if seconds:
            self._writer.join(seconds)
            self._thread.join(seconds)

    def _urgency(self, layer: Head, whole_layer: bool) -> Urgency:
        """Let whatever else is looked at come before a large layer as a whole, which takes minutes."""
        layers = () if self._session is None else self._session.outline.layers
        is_large = any(each.name == layer.whole_layer and each.is_large for each in layers)
        return Urgency.LARGE if whole_layer and is_large else Urgency.SELECTED

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
