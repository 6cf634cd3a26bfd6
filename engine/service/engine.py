"""The engine as the screen sees it: requests that return futures, answered by one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from engine import analysis
from engine.service.queue import WRITING, Queue, Urgency
from engine.values.errors import EngineError, Superseded
from engine.values.heads import NOTHING_OFF, Off
from engine.values.options import EngineOptions
from engine.values.outline import Comparison, FoundModel, LayerProof, ModelOutline, Origin
from engine.values.progress import Lane, Work, one_unit
from engine.values.views import VIEWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.analysis.open_model import OpenModel
    from engine.checkpoints.source import Source
    from engine.values.attention import AttentionMaps, Sentence
    from engine.values.heads import Head, Label
    from engine.values.memory import MemoryReport
    from engine.values.progress import Progress
    from engine.values.spectra import SpectraGroup, Spectrum
    from engine.values.table import RowGroup, Table
    from engine.values.views import Query

Answer = TypeVar("Answer")
Part = TypeVar("Part")

ANOTHER_IS_OPEN = "another model has been opened"


class Engine:
    """One open model, and the queue that it shares with the models opened after it.

    Every request returns a future at once. The future fails with an `EngineError` that says what to do, or with
    `Superseded` when a newer request for the same ``view`` arrives or the model is closed. Callbacks such as
    ``deliver`` and ``report`` run on a lane of the queue.

    Attributes
    ----------
    listener : called with notices, a sentence each.
    watcher : called with the progress of long work, such as loading the model.
    """

    def __init__(
        self,
        options: EngineOptions | None = None,
        source: Callable[[], Source] | None = None,
        first: Engine | None = None,
    ) -> None:
        self.options = options or EngineOptions()
        self.listener: Callable[[str], None] | None = None
        self.watcher: Callable[[Progress], None] | None = None
        self._source = source
        self._first = first or self
        self._queue: Queue = Queue() if first is None else first._queue
        self._named: str | None = None
        self._model: OpenModel | None = None
        self._is_closed = False
        self._told: set[str] = set()

    @classmethod
    def of_module(cls, module: Any, tokenizer: Any, name: str, example: Any) -> Engine:
        """Make an engine for a PyTorch model in memory; it opens that model under any name."""

        def source() -> Source:
            from engine.models.live_module import ModuleSource

            return ModuleSource(module, tokenizer, name, example)

        return cls(source=source)

    # --- what is open

    @property
    def is_comparing(self) -> bool:
        """Whether a second model is asked for."""
        return self.options.is_comparing

    @property
    def has_stored_spectra(self) -> bool:
        """Whether spectra of the open model are on disk, so that the first ones need no torch."""
        model = self._model
        return model is not None and model.spectra.has_stored_spectra

    def found_models(self, deliver: Callable[[tuple[FoundModel, ...]], object]) -> Future[None]:
        """Find models to open: the one in memory, the demo, recent ones, and those of the local Hub cache."""
        first = self._first

        def work() -> Work[None]:
            from engine.checkpoints.model_folders import found_models

            if first._source is not None and first._named is not None:
                deliver((FoundModel(first._named, Origin.MEMORY),))  # it is found nowhere else
            revision = first.options.revision if first._named is None else None
            for some in found_models(revision, first.options.keep_recent):
                deliver(some)
                yield None

        return self._queue.submit(work, Urgency.SELECTED, Lane.WEIGHTS, "found models")

    def open(self, name: str, report: Callable[[Progress], None]) -> Future[ModelOutline]:
        """Find a model, download it if necessary, and read its headers."""

        def work() -> Work[ModelOutline]:
            from engine.checkpoints.library_imports import IMPORT_LOCK

            IMPORT_LOCK.tell = self._advance
            if self._source is not None:
                model = analysis.open_model.OpenModel(self._source(), self.options)
            else:
                model = analysis.open_model.OpenModel.open(name, self.options, self._while_wanted(report))
            yield None  # ends here if another model has been opened meanwhile
            model.notify, model.tell, model.check = self._tell, self._advance, self._queue.check
            self._model = model
            self._first._named = self._first._named or name
            return model.outline

        # Opening another model goes before all work on the present one.
        urgency = Urgency.OPENING if self._first is self else Urgency.SELECTED
        return self._queue.submit(work, urgency, Lane.FILES, "open", self)

    def another(self, name: str) -> Engine:
        """Make an engine for another model on the same queue; this one works until it is closed.

        The options for one model, such as its revision, hold for the first model alone, even when it is reopened.
        """
        first = self._first
        is_first = first._named in (None, name)
        options = first.options if is_first else first.options.for_another_model()
        made = Engine(options, first._source if is_first else None, first)
        made.listener, made.watcher = self.listener, self.watcher
        return made

    def close(self) -> None:
        """Give up the model's work, and free its memory once its lane is idle."""
        self._is_closed = True
        self._queue.give_up_all(self, ANOTHER_IS_OPEN)
        self._queue.submit(lambda: one_unit(self._free_model), Urgency.SELECTED, Lane.MODEL)

    def _free_model(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            model.close()

    def _free_all(self) -> None:
        self._free_model()
        self._source = None

    def stop(self, seconds: float = 0.0) -> None:
        """Give up all work and free the model; waits at most so long for a running unit."""
        self._queue.stop(self._free_all)
        if seconds:
            self._queue.join(seconds)

    def give_up(self, view: str) -> None:
        """Give up the work for a view."""
        self._queue.give_up(view)

    def compare(self, report: Callable[[Progress], None]) -> Future[Comparison]:
        """Open the second model, and find which layers can be compared."""

        def work(model: OpenModel) -> Work[Comparison]:
            yield from model.other(self._while_wanted(report))
            return model.comparison

        return self._ask(work, Urgency.OPENING, Lane.FILES, "compare")

    def remember(self) -> Future[None]:
        """Add the open model to the recent ones, if the options allow it."""

        def work(model: OpenModel) -> None:
            if self.options.keep_recent and self._source is None:
                from engine.store.history import remember_model

                remember_model(model.outline)

        return self._ask(lambda model: one_unit(lambda: work(model)), Urgency.OPENING, Lane.FILES)

    def memory(self) -> Future[MemoryReport]:
        """Request the memory that browsing and a sentence need, and what is free now."""
        return self._ask(lambda model: one_unit(model.memory), Urgency.KNOWN, Lane.WEIGHTS)

    # --- weights

    def spectra(
        self, layer: Head, whole_layer: bool, view: str = "", distance: int | None = None, *, of_other: bool = False
    ) -> Future[SpectraGroup]:
        """Request the spectra of all heads of a layer, or of the whole layer; of QK, perhaps at a distance."""

        def work(model: OpenModel) -> Work[SpectraGroup]:
            if of_other:
                return analysis.open_model.other_spectra(model, layer, whole_layer, distance=distance)
            return model.spectra.layer(layer, whole_layer, distance=distance)

        return self._ask(work, Urgency.SELECTED, Lane.LAYERS if whole_layer else Lane.WEIGHTS, view)

    def head_spectra(self, head: Head, view: str = "", distance: int | None = None) -> Future[tuple[Spectrum, ...]]:
        """Request one head's six spectra, before those of the other heads of its layer."""
        return self._ask(lambda model: model.spectra.head(head, distance), Urgency.SELECTED, Lane.WEIGHTS, view)

    def sweep(self, deliver: Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]) -> Future[None]:
        """Compute all spectra in the background: the heads of every layer, then every whole layer.

        ``deliver`` gets a layer, whether the whole layer is meant, its spectra or an error, and the progress.
        """

        def work(model: OpenModel) -> Work[None]:
            yield from model.spectra.sweep(deliver)
            if model.is_comparing:  # so that both are known when they are compared
                yield from (yield from model.other()).spectra.sweep(lambda *step: None)

        return self._ask(work, Urgency.SWEEP, Lane.WEIGHTS, "sweep")

    # --- tables

    def table(self, name: str, query: Query, view: str = "") -> Future[Table]:
        """Request a table of `engine.values.views.VIEWS`, or the part of it that a query names."""
        urgency = Urgency.SELECTED if query.layer is not None else Urgency.LARGE
        if "text" in VIEWS[name].options:
            urgency = Urgency.SENTENCE
        return self._ask(lambda model: analysis.tables.table(model, name, query), urgency, Lane.WEIGHTS, view)

    def growing_table(
        self, name: str, query: Query, deliver: Callable[[Table, Progress], None], view: str = ""
    ) -> Future[Table]:
        """Request a table that is delivered as it grows: first what is known at once, then the rest.

        The rest waits for selected heads and sentences, and comes before the sweep.
        """

        def work(model: OpenModel) -> Work[Table]:
            for state in analysis.tables.table_states(model, name, query):
                if isinstance(state, tuple):
                    deliver(*state)
                    table = state[0]
                yield state if isinstance(state, Lane) else None
            return table

        return self._ask(work, Urgency.OPENING, Lane.WEIGHTS, view)

    def labels(self, report: Callable[[Progress], None]) -> Future[dict[Head, Label]]:
        """Label heads with a clear pattern, in the background; this loads the model."""
        return self._ask(lambda model: analysis.patterns.labels(model, report), Urgency.SWEEP, Lane.MODEL, "labels")

    def check(self, deliver: Callable[[LayerProof, Progress], None]) -> Future[None]:
        """Check every layer's heads against the model's own numbers, and deliver each layer's proof."""

        def work(model: OpenModel) -> Work[None]:
            for step in analysis.weights.proofs(model):
                deliver(*step)
                yield None

        return self._ask(work, Urgency.SENTENCE, Lane.MODEL, "check")

    # --- sentences

    def spell(self, text: str, view: str = "") -> Future[Sentence]:
        """Tokenize a sentence while it is typed, without loading the model."""
        return self._ask(lambda model: model.spell(text), Urgency.SELECTED, Lane.WEIGHTS, view)

    def read(self, text: str, view: str = "", off: Off = NOTHING_OFF) -> Future[Sentence]:
        """Run the model on a sentence, so that its maps can be requested."""
        return self._ask_model(lambda model: model.read(text, off), view)

    def attention(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Request a layer's maps (None: the means over the layers) for a sentence, perhaps with heads off."""
        return self._ask_model(lambda model: model.attention(text, stack, layer, off), view)

    def differences(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Request a layer's maps (None: the means over the layers) beside others for the same sentence.

        The others are those with heads ``off``, or if none is off, those of the second model.
        """

        def work(model: OpenModel) -> Work[AttentionMaps]:
            if not off.heads:
                return (yield from analysis.open_model.attention_of_both(model, text, stack, layer))
            whole = yield from model.attention(text, stack, layer)
            return replace(whole, other=(yield from model.attention(text, stack, layer, off)).weights)

        return self._ask_model(work, view)

    def rollout(self, text: str, stack: str, view: str = "") -> Future[AttentionMaps]:
        """Request a sentence's attention followed through all layers of a stack."""
        return self._ask_model(lambda model: analysis.attention.rollout_of(model, text, stack), view)

    # --- files

    def write(self, work: Callable[[Callable[[], None]], Answer]) -> Future[Answer]:
        """Write a file on a thread of its own, with a function to call between rows: it raises when it is cancelled."""
        return self._queue.write(work)

    def rows(self, name: str, query: Query) -> Iterator[RowGroup]:
        """Yield the groups of a table, each computed when it is asked for, so that a file needs little memory."""
        return self._each(lambda model: analysis.tables.row_groups(model, name, query))

    def named_arrays(self, name: str, query: Query) -> Iterator[tuple[str, NDArray[Any]] | RowGroup]:
        """Yield the arrays of ``attention`` or ``matrices`` likewise, and groups that say what is left out."""
        return self._each(lambda model: analysis.tables.arrays(model, name, query))

    def _each(self, begin: Callable[[OpenModel], Iterator[Part | Lane | None]]) -> Iterator[Part]:
        """Yield the parts of a generator on the open model, doing its units as each part needs them.

        Screen requests come first.
        """
        begun: list[Iterator[Part | Lane | None]] = []
        lane = Lane.WEIGHTS

        def following(model: OpenModel) -> Work[Part | None]:
            nonlocal lane
            begun[:] = begun or [begin(model)]
            for unit in begun[0]:
                if unit is not None and not isinstance(unit, Lane):
                    return unit
                lane = unit or lane
                yield unit
            return None

        while (part := self._ask(following, Urgency.LARGE, lane, WRITING).result()) is not None:
            yield part
            del part  # before the next is computed

    def stop_writing(self) -> None:
        """Cancel the file that is being written, if any, and remove it."""
        self._queue.stop_writing()

    # --- the queue

    def _ask(
        self, work: Callable[[OpenModel], Work[Answer]], urgency: Urgency, lane: Lane, view: str = ""
    ) -> Future[Answer]:

        def on_model() -> Work[Answer]:
            if self._is_closed:
                raise Superseded(ANOTHER_IS_OPEN)
            if self._model is None:
                raise EngineError("no model is open")
            return work(self._model)

        return self._queue.submit(on_model, urgency, lane, view, self)

    def _ask_model(self, work: Callable[[OpenModel], Work[Answer]], view: str) -> Future[Answer]:
        return self._ask(work, Urgency.SENTENCE, Lane.MODEL, view)

    def _while_wanted(self, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Wrap a report so that it ends work that has been given up."""

        def reporting(progress: Progress) -> None:
            self._queue.check()
            report(progress)

        return reporting

    def _tell(self, notice: str) -> None:
        """Pass a notice on, once if both models give the same."""
        if self.listener is not None and not self._is_closed and notice not in self._told:
            self._told.add(notice)
            self.listener(notice)

    def _advance(self, progress: Progress) -> None:
        if self.watcher is not None and not self._is_closed:
            self.watcher(progress)
