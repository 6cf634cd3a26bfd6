"""The engine as the screen sees it: requests that return futures, answered by the lanes of one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from engine.service.queue import Queue, Urgency
from engine.values.errors import EngineError, Superseded
from engine.values.found_models import FoundModel, Origin, Place
from engine.values.heads import MATRICES, NOTHING_OFF, Off
from engine.values.options import EngineOptions
from engine.values.progress import Lane, Work, one_unit
from engine.values.views import VIEWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.analysis.attention import Arrays
    from engine.analysis.open_model import OpenModel
    from engine.checkpoints.source import Source
    from engine.values.attention import (
        AttentionMap,
        AttentionMaps,
        MapLines,
        MapQuery,
        MapWindow,
        PooledMap,
        Sentence,
    )
    from engine.values.heads import Head, Label
    from engine.values.memory import MemoryReport
    from engine.values.outline import Comparison, LayerProof, ModelOutline
    from engine.values.progress import Progress
    from engine.values.spectra import SpectraGroup, Spectrum
    from engine.values.table import Groups, RowGroup, Table
    from engine.values.views import Query

Answer = TypeVar("Answer")
Part = TypeVar("Part")

ANOTHER_IS_OPEN = "another model has been opened"


class Engine:
    """One open model, and the queue that works on it and on those that are opened after it.

    Every request returns at once with a future. Its error is an `EngineError` for what a person can mend, or
    `Superseded` when a newer request for the same ``view`` came in, or the model has been put away. What is delivered
    or reported meanwhile is so on a lane of the queue.

    Attributes
    ----------
    listener : is told, in a sentence, what goes another way than was asked for.
    watcher : is told how far a model is loaded, or a sentence is read, where that takes long.
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
        """Make an engine for a PyTorch model in memory, whatever it is then asked to open."""

        def source() -> Source:
            from engine.models.live_module import ModuleSource

            return ModuleSource(module, tokenizer, name, example)

        return cls(source=source)

    # --- what is open

    @property
    def is_comparing(self) -> bool:
        """Whether a second model is to be seen beside the one that is opened."""
        return self.options.is_comparing

    @property
    def is_kept(self) -> bool:
        """Whether spectra of the open model are on disk, so that the first ones come without torch."""
        model = self._model
        return model is not None and model.spectra.is_kept

    def found_models(self, deliver: Callable[[tuple[FoundModel, ...]], object]) -> Future[None]:
        """Look for models that can be opened: the demo, those opened before, and those of the local Hub cache."""
        first = self._first

        def work() -> Work[None]:
            from engine.service.choices import found_models

            if first._source is not None and first._named is not None:
                deliver((FoundModel(first._named, Origin.MEMORY),))  # it is found nowhere else
            revision = first.options.revision if first._named is None else None
            for some in found_models(revision, first.options.keep_recent):
                deliver(some)
                yield None

        return self._queue.submit(work, Urgency.SELECTED, Lane.WEIGHTS, "found models")

    def look_up(self, path: str, reason: str = "path") -> Future[Place]:
        """Find what a path that is being typed leads to; a newer one, for the same reason, takes the place of it."""

        def find() -> Place:
            from engine.service.choices import look_up

            return look_up(path, is_described=self._first.options.layout is not None)

        return self._queue.submit(lambda: one_unit(find), Urgency.SELECTED, Lane.WEIGHTS, reason)

    def open(self, name: str, report: Callable[[Progress], None]) -> Future[ModelOutline]:
        """Find a model, downloading it if it must be, and read its headers."""

        def work() -> Work[ModelOutline]:
            from engine.analysis.open_model import OpenModel
            from engine.checkpoints.library_imports import IMPORTING

            IMPORTING.tell = self._advance
            if self._source is not None:
                model = OpenModel(self._source(), self.options)
            else:
                model = OpenModel.open(name, self.options, self._while_wanted(report))
            yield None  # where it is ended if another one is opened by now
            model.notify, model.tell, model.check = self._tell, self._advance, self._queue.check
            self._model = model
            self._first._named = self._first._named or name
            return model.outline

        # Whoever opens another model waits for that, and for nothing that is done for the present one.
        urgency = Urgency.OPENING if self._first is self else Urgency.SELECTED
        return self._queue.submit(work, urgency, Lane.FILES, "open", self)

    def another(self, name: str) -> Engine:
        """Make an engine for another model on the same queue; this one goes on until it is closed.

        The options that were given hold for the first model that is opened, and whenever that is opened again.
        """
        first = self._first
        is_first = first._named in (None, name)
        options = first.options if is_first else first.options.for_another_model()
        made = Engine(options, first._source if is_first else None, first)
        made.listener, made.watcher = self.listener, self.watcher
        return made

    def close(self) -> None:
        """Put the model away: nobody is answered any more, and its memory is free as soon as its work has ended."""
        self._is_closed = True
        self._queue.give_up_all(self, ANOTHER_IS_OPEN)

        # Where nothing reads with it any more.
        self._queue.submit(lambda: one_unit(self._put_away), Urgency.SELECTED, Lane.MODEL)

    def _put_away(self) -> None:
        model, self._model = self._model, None
        if model is not None:
            model.close()

    def _leave(self) -> None:
        """Let go of the model, and of what it would be opened from, as nothing will be asked any more."""
        self._put_away()
        self._source = None

    def stop(self, seconds: float = 0.0) -> None:
        """Give up all work, and then let go of the model; returns at once, or waits so long for what is being done."""
        self._queue.stop(self._leave)
        self._queue.stop_writing()
        if seconds:
            self._queue.join(seconds)

    def give_up(self, view: str) -> None:
        """Give up the work for a view that nobody looks at any more."""
        self._queue.give_up(view)

    def compare(self, report: Callable[[Progress], None]) -> Future[Comparison]:
        """Open the second model that the options name, and find what can be compared of both."""

        def work(model: OpenModel) -> Work[Comparison]:
            yield from model.other(self._while_wanted(report))
            return model.comparison

        return self._ask(work, Urgency.OPENING, Lane.FILES, "compare")

    def remember(self, name: str) -> Future[None]:
        """Put the open model at the head of those that were opened before, unless that is switched off."""

        def work(model: OpenModel) -> None:
            if self.options.keep_recent and self._source is None:
                from engine.store.history import remember

                remember(name, model.outline)

        return self._ask_at_once(work, Urgency.OPENING, Lane.FILES)

    def memory(self) -> Future[MemoryReport]:
        """Ask what browsing reads, and what a sentence would take against what is free now."""
        return self._ask_at_once(lambda model: model.memory(), Urgency.KNOWN, Lane.WEIGHTS)

    # --- weights

    def spectra(
        self,
        layer: Head,
        whole_layer: bool,
        view: str = "",
        distance: int | None = None,
        matrices: tuple[str, ...] = MATRICES,
        *,
        of_other: bool = False,
    ) -> Future[SpectraGroup]:
        """Ask for the spectra of all heads of a layer, or of matrices of the layer as a whole, QK's at a distance."""

        def work(model: OpenModel) -> Work[SpectraGroup]:
            if not of_other:
                return (yield from model.spectra.layer(layer, whole_layer, matrices, distance))
            from engine.analysis.open_model import other_spectra

            return (yield from other_spectra(model, layer, whole_layer, matrices, distance))

        return self._ask(work, Urgency.SELECTED, Lane.LAYERS if whole_layer else Lane.WEIGHTS, view)

    def head_spectra(self, head: Head, view: str = "", distance: int | None = None) -> Future[tuple[Spectrum, ...]]:
        """Ask for one head's six spectra, before those of its layer's other heads."""
        return self._ask(
            lambda model: model.spectra.head(head, distance=distance), Urgency.SELECTED, Lane.WEIGHTS, view
        )

    def sweep(self, deliver: Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]) -> Future[None]:
        """Compute all spectra of the model in the background: the heads of every layer, then every layer as a whole.

        What is delivered is a layer, whether the layer as a whole is meant, its spectra or why there are none, and how
        far the sweep has come.
        """

        def work(model: OpenModel) -> Work[None]:
            yield from model.spectra.sweep(deliver)
            if model.is_comparing:  # so that both are there when they are compared
                yield from (yield from model.other()).spectra.sweep(lambda *step: None)

        return self._ask(work, Urgency.SWEEP, Lane.WEIGHTS, "sweep")

    # --- tables

    def table(self, name: str, query: Query, view: str = "") -> Future[Table]:
        """Ask for a table of `engine.values.views.VIEWS`, or for the part of it that a query names."""

        def work(model: OpenModel) -> Work[Table]:
            from engine.analysis import tables

            return (yield from tables.table(model, name, query))

        urgency = Urgency.SELECTED if query.layer is not None else Urgency.LARGE
        if "text" in VIEWS[name].options:
            urgency = Urgency.SENTENCE
        return self._ask(work, urgency, Lane.WEIGHTS, view)

    def growing(
        self, name: str, query: Query, deliver: Callable[[Table, Progress], None], view: str = ""
    ) -> Future[Table]:
        """Ask for a table whose view grows: at once for what is there at once, then for the rest.

        The rest waits for whatever else is looked at and for sentences, and comes before the sweep. What is known by
        then is delivered with how far it has come.
        """

        def work(model: OpenModel) -> Work[Table]:
            from engine.analysis import tables

            for state in tables.growing(model, name, query):
                if isinstance(state, tuple):
                    deliver(*state)
                    table = state[0]
                yield state if isinstance(state, Lane) else None
            return table

        def begin(model: OpenModel) -> None:
            from engine.analysis import tables

            deliver(*next(each for each in tables.growing(model, name, query) if isinstance(each, tuple)))

        self._ask_at_once(begin, Urgency.SELECTED, Lane.WEIGHTS)
        return self._ask(work, Urgency.OPENING, Lane.WEIGHTS, view)

    def labels(self, report: Callable[[Progress], None]) -> Future[dict[Head, Label]]:
        """Label the heads that clearly do one thing, in the background; the whole model is loaded for it."""

        def work(model: OpenModel) -> Work[dict[Head, Label]]:
            from engine.analysis.patterns import labels

            return (yield from labels(model, report))

        return self._ask(work, Urgency.SWEEP, Lane.MODEL, "labels")

    def check(self, deliver: Callable[[LayerProof, Progress], None]) -> Future[None]:
        """Check every layer's heads against the model's own numbers; each layer's proof is delivered."""

        def work(model: OpenModel) -> Work[None]:
            from engine.analysis.weights import proofs

            for step in proofs(model):
                deliver(*step)
                yield None

        return self._ask(work, Urgency.SENTENCE, Lane.MODEL, "check")

    # --- sentences

    def spell(self, text: str, view: str = "") -> Future[Sentence]:
        """Ask how the model's tokenizer cuts a sentence, while it is typed; the model is not loaded for it."""
        return self._ask(lambda model: model.spell(text), Urgency.SELECTED, Lane.WEIGHTS, view)

    def read(self, text: str, view: str = "", off: Off = NOTHING_OFF) -> Future[Sentence]:
        """Ask for a sentence to be run through the model, so that its maps can be asked for."""
        return self._of_sentence(lambda model: model.read(text, off), view)

    def forget_sentence(self, text: str) -> Future[None]:
        """Have what is kept of a sentence let go of."""
        return self._of_sentence(lambda model: model.forget_sentence(text), "")

    def attention(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Ask for the maps of a layer (None: the means over the layers) for a sentence, perhaps with heads off."""
        return self._of_sentence(lambda model: model.attention(text, stack, layer, off), view)

    def differences(
        self, text: str, stack: str, layer: int | None, view: str = "", off: Off = NOTHING_OFF
    ) -> Future[AttentionMaps]:
        """Ask for the maps of a layer (None: the means over the layers) for a sentence, with others beside them.

        Those are of the same model with heads switched off, where any are, or else of the second model.
        """

        def work(model: OpenModel) -> Work[AttentionMaps]:
            if not off.heads:
                from engine.analysis.open_model import attention_of_both

                return (yield from attention_of_both(model, text, stack, layer))
            whole = yield from model.attention(text, stack, layer)
            return replace(whole, other=(yield from model.attention(text, stack, layer, off)).weights)

        return self._of_sentence(work, view)

    def rollout(self, text: str, stack: str, view: str = "") -> Future[AttentionMaps]:
        """Ask for a sentence's attention followed through all layers of a stack."""

        def work(model: OpenModel) -> Work[AttentionMaps]:
            from engine.analysis.attention import rollout_of

            return (yield from rollout_of(model, text, stack))

        return self._of_sentence(work, view)

    def pooled(self, query: MapQuery, window: MapWindow, view: str = "") -> Future[PooledMap]:
        """Ask for a rectangle of a map of a long sentence, pooled to blocks."""

        def work(model: OpenModel) -> Work[PooledMap]:
            from engine.analysis.large_maps import pooled_map

            return (yield from pooled_map(model, query, window))

        return self._of_sentence(work, view)

    def whole_map(self, query: MapQuery, view: str = "") -> Future[AttentionMap]:
        """Ask for a whole map of a long sentence, or two for their difference, to be written to a file."""

        def work(model: OpenModel) -> Work[AttentionMap]:
            from engine.analysis.large_maps import whole_map

            return (yield from whole_map(model, query))

        return self._of_sentence(work, view)

    def map_lines(self, query: MapQuery, place: tuple[int, int], view: str = "") -> Future[MapLines]:
        """Ask for the row of a query and the column of a key, ``place``, of a map of a long sentence."""

        def work(model: OpenModel) -> Work[MapLines]:
            from engine.analysis.large_maps import map_lines

            return (yield from map_lines(model, query, place))

        return self._of_sentence(work, view)

    # --- files

    def write(self, work: Callable[[Callable[[], None]], Answer]) -> Future[Answer]:
        """Write a file on a thread of its own; what the work asks of this engine comes after what is looked at.

        The work calls what it is handed between its rows; that raises when the export was cancelled.
        """
        return self._queue.write(work)

    def rows(self, name: str, query: Query) -> Iterator[RowGroup]:
        """Go through the groups of a table as they are worked out, each when it is asked for.

        For a thread that writes them to a file: what is not asked for yet is not in memory. It comes after whatever is
        looked at.
        """

        def begin(model: OpenModel) -> Groups:
            from engine.analysis import tables

            return tables.groups(model, name, query)

        return self._each(begin)

    def named_arrays(self, name: str, query: Query) -> Iterator[tuple[str, NDArray[Any]] | RowGroup]:
        """Go through the arrays of ``attention`` or ``matrices`` likewise; a group says what is left out."""

        def begin(model: OpenModel) -> Arrays:
            from engine.analysis import tables

            return tables.arrays(model, name, query)

        return self._each(begin)

    def _each(self, begin: Callable[[OpenModel], Iterator[Part | Lane | None]]) -> Iterator[Part]:
        """Yield what a generator on the open model gives, doing as many of its units as the next takes."""
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

        while (part := self._ask(following, Urgency.LARGE, lane).result()) is not None:
            yield part
            del part  # before there is the next

    def stop_writing(self) -> None:
        """Give up the file that is being written, if any; nothing of it is left."""
        self._queue.stop_writing()

    # --- asking

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

    def _ask_at_once(
        self, work: Callable[[OpenModel], Answer], urgency: Urgency, lane: Lane, view: str = ""
    ) -> Future[Answer]:
        return self._ask(lambda model: one_unit(lambda: work(model)), urgency, lane, view)

    def _of_sentence(self, work: Callable[[OpenModel], Work[Answer]], view: str) -> Future[Answer]:
        return self._ask(work, Urgency.SENTENCE, Lane.MODEL, view)

    def _while_wanted(self, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Report, unless the work has been given up, which then ends."""

        def reporting(progress: Progress) -> None:
            self._queue.check()
            report(progress)

        return reporting

    def _tell(self, notice: str) -> None:
        """Hand a notice to whoever listens, once where both models say the same."""
        if self.listener is not None and not self._is_closed and notice not in self._told:
            self._told.add(notice)
            self.listener(notice)

    def _advance(self, progress: Progress) -> None:
        if self.watcher is not None and not self._is_closed:
            self.watcher(progress)
