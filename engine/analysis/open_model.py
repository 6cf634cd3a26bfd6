"""An open model, and the second one beside it: their weights, spectra, sentences and maps."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from engine.analysis.spectra import SpectraStore, with_torch
from engine.architectures.tensors import TensorsReadOnce
from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.checkpoints.locate import find_other, find_source
from engine.values import memory
from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError, NotFinite
from engine.values.heads import DELTA, MATRICES, NOTHING_OFF, Head, Off, no_attention
from engine.values.memory import FreeMemory, MemoryReport, Placement, SentenceNeed, place_sentence
from engine.values.outline import HOW_TO_COMPARE, Comparison, compare_outlines
from engine.values.progress import LOADING, Lane, Progress, ProgressReporter, Work, tell_nobody
from engine.values.spectra import SpectraGroup

if TYPE_CHECKING:
    from engine.architectures.heads import LayerWeights
    from engine.checkpoints.source import Source
    from engine.models.reader import MapReader, Tokens
    from engine.models.score_formula import ScoreFormula
    from engine.models.tokenizer import Words
    from engine.values.options import EngineOptions
    from engine.values.outline import ModelOutline

Value = TypeVar("Value")


class OpenModel:
    """An open model; its methods are thread-safe, and the thread that exhausts a generator does its work.

    Attributes
    ----------
    outline : its stacks, layers and heads.
    notify : called with notices, a sentence each.
    tell : called with the progress of long work.
    check : called inside long units; it raises `Superseded` if the work has been given up.
    spectra : its spectra, in memory and on disk.
    """

    def __init__(self, source: Source, options: EngineOptions) -> None:
        self.source = source
        self.outline: ModelOutline = source.anatomy.outline
        self.options = options
        self.notify: Callable[[str], None] = tell_nobody
        self.tell: Callable[[Progress], None] = tell_nobody
        self.check: Callable[[], None] = lambda: None
        if options.device not in ("auto", "cpu"):
            from engine.models.devices import choose_device

            choose_device(options.device)  # refuses a missing device at once, even if the cache has all spectra
        self.spectra = SpectraStore(source, options, self._notify)
        self._cached: dict[Hashable, Any] = {}
        self._reader: MapReader | None = None
        self._failure: EngineError | None = None
        self._other: OpenModel | None = None
        self._comparison: Comparison | None = None

    @classmethod
    def open(cls, name: str, options: EngineOptions, report: Callable[[Progress], None] = tell_nobody) -> OpenModel:
        """Find a model, download it if necessary, and read its headers.

        Raises `EngineError` if it cannot be found, read or split into heads.
        """
        return cls(find_source(name, options, report), options)

    def cached(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of a key, computed the first time; if two lanes compute it at once, one value is kept."""
        cached = self._cached
        if key not in cached:
            cached.setdefault(key, compute())
        return cast("Value", cached[key])

    def reporter(self, activity: str, unit: str) -> ProgressReporter:
        """Make a reporter for a piece of work; its parameters are those of `Progress`."""
        return ProgressReporter(self._tell, activity, unit)

    def _notify(self, said: str) -> None:  # `notify` and `tell` may be set later
        self.notify(said)

    def _tell(self, progress: Progress) -> None:
        self.tell(progress)

    # --- weights

    def layer_weights(self, layer: Head) -> LayerWeights:
        """Read one layer's attention weights, by head, into main memory."""
        with IMPORT_LOCK:
            from engine.architectures.heads import read_layer

        self.outline.layer(layer)
        return read_layer(TensorsReadOnce(self.source.tensors), self.source.anatomy.modules[layer.whole_layer])

    # --- the model itself

    def reader(self, text: str | None = None, off: Off = NOTHING_OFF, place: Head | str = "") -> Work[MapReader]:
        """Return the model itself, loaded if necessary, on its lane; with a text, it has read that sentence.

        The sentence stays read for the rest of the unit. Raises `EngineError` if the stack, layer or head ``place``
        has no maps, before loading; if the model cannot be loaded or fails on the sentence; or if its files have
        changed.
        """
        stack = place if isinstance(place, str) else place.stack
        if stack.endswith(DELTA):
            raise EngineError(no_attention(stack))
        if isinstance(place, Head):
            self.outline.layer(place)
        yield Lane.MODEL
        if self._reader is None:
            if self._failure is not None:
                raise self._failure
            self._reader = self._load()
            self._reader.tell = self._tell
        self.source.opened.check()  # on a CPU the weights may stay in their files
        if text is not None:
            self._reader.read(text, self.check, off)
        return self._reader

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._reader is not None

    def _load(self) -> MapReader:
        """Load the model; a failure is kept, unless it is a lack of memory."""
        with IMPORT_LOCK:
            import torch  # noqa: F401  # knows the devices
        device = self._choose_device()
        try:
            with IMPORT_LOCK:
                from engine.models.model_loader import load_reader, reporting_weights
            with self.reporter(LOADING, "bytes") as report, reporting_weights(report):
                return load_reader(self.source, device, self.options.dtype)
        except EngineError as error:
            self._failure = error
            raise

    def _choose_device(self) -> str:
        """Choose the model's device; raise `EngineError` if it does not fit into free memory."""
        need = self.source.sentence_need(self.options.dtype)
        if need is None:
            from engine.models.devices import choose_device

            return choose_device(self.options.device)
        placement = choose_placement(self.outline.name, need, self.options.device)
        if placement.refusal:
            raise EngineError(placement.refusal)
        return placement.device

    def memory(self) -> MemoryReport:
        """Report the memory that browsing and a sentence need, and what is free now."""
        anatomy, entries = self.source.anatomy, self.source.tensors.entries
        layer_bytes = max(
            sum(entries[name].stored_bytes for name in dict.fromkeys(module.weights.values()))
            for module in anatomy.modules.values()
        )
        need = self.source.sentence_need(self.options.dtype)
        is_known = self.options.device == "cpu" or hasattr(sys.modules.get("torch"), "nn")
        placement = choose_placement(self.outline.name, need, self.options.device) if need and is_known else None
        files, stored_bytes = len(self.source.opened.files), self.outline.stored_bytes
        return MemoryReport(files, stored_bytes, layer_bytes, need, placement, memory.free_memory())

    # --- sentences

    def spell(self, text: str) -> Work[Sentence]:
        """Tokenize a sentence as the model would read it, without loading the model."""
        if "words" not in self._cached:
            yield from with_torch()
            yield Lane.FILES
        return self.words().read(text, self.outline.context)

    def words(self) -> Words:
        """Return the tokenizer, opened the first time; raise `EngineError` if there is none."""

        def opened() -> Words:
            with IMPORT_LOCK:
                from engine.models.model_loader import words_of

                return words_of(self.source)

        return self.cached("words", opened)

    def read(self, text: str, off: Off = NOTHING_OFF) -> Work[Sentence]:
        """Run the model on a sentence, unless it was the last one, so that its maps can be recomputed."""
        sentence = (yield from self.reader(text, off)).sentence
        assert sentence is not None
        return sentence

    def attention(self, text: str, stack: str, layer: int | None, off: Off = NOTHING_OFF) -> Work[AttentionMaps]:
        """Return a layer's maps, or the means over a stack's layers, with the keys that each query sees.

        Raises `EngineError` if there are no such maps.
        """
        place = stack if layer is None else Head(stack, layer)
        return (yield from self.reader(text, off, place)).layer_maps(place, self.check)

    def scoring(self, text: str, layer: Head) -> Work[tuple[ScoreFormula, Tokens]]:
        """Return the formula of one layer's scores for a sentence, and the tokens along both axes of its maps."""
        reader = yield from self.reader(text, place=layer)
        return reader.scoring(layer, self.check)

    # --- two models

    def other(self, report: Callable[[Progress], None] | None = None) -> Work[OpenModel]:
        """Return the second model of the options, opened if necessary; ``report`` gets the progress of its download.

        Raises `EngineError` if none is named, or it cannot be opened or compared.
        """
        if self._other is None:
            if not self.options.is_comparing:
                raise EngineError(HOW_TO_COMPARE)
            yield Lane.FILES
        if self._other is None:
            source = find_other(self.outline.name, self.source, self.options, report or self._tell)
            other = OpenModel(source, self.options)
            other.notify, other.tell, other.check = self._notify, self._tell, self.check
            self.compare_with(other)
        return cast("OpenModel", self._other)

    def compare_with(self, other: OpenModel) -> None:
        """Make an open model the second one; raise `EngineError` if no layer can be compared."""
        self._comparison = compare_outlines(self.outline, other.outline)
        self._other = other

    def forget_other(self) -> None:
        """Forget the second model, so that it is opened again from the options."""
        self._other = self._comparison = None

    @property
    def is_comparing(self) -> bool:
        """Whether the second model is open."""
        return self._other is not None

    @property
    def comparison(self) -> Comparison:
        """What can be compared in this model and the second one, which must be open."""
        if self._comparison is None:
            raise EngineError(HOW_TO_COMPARE)
        return self._comparison

    # --- its end

    def forget(self) -> None:
        """Read and compute everything anew, as the weights may have changed."""
        self._cached, self._reader = {}, None
        self.spectra.forget()

    def close(self) -> None:
        """Free the memory of both models, even if something still refers to this."""
        self.forget()
        other = self._other
        self.forget_other()
        if other is not None:
            other.close()


def choose_placement(model: str, need: SentenceNeed, wish: str) -> Placement:
    """Decide where a model reads sentences, by what is free now; torch must be imported unless the wish is ``cpu``.

    Raises `EngineError` if there is no such device.
    """
    cpu = FreeMemory("cpu", memory.free_memory())
    chosen = cpu
    others: list[FreeMemory] = []
    if wish != "cpu":
        from engine.models.devices import choose_device, free_of_gpus

        device = choose_device(wish)
        if device.startswith("cuda"):
            chosen, *others = free_of_gpus(device, alone=wish not in ("auto", "cuda"))
        elif device != "cpu":
            chosen = FreeMemory(device, cpu.free)  # MPS shares the main memory
    return place_sentence(
        model, need, chosen, others, cpu,
        may_spread=wish in ("auto", "cuda"), has_accelerate=importlib.util.find_spec("accelerate") is not None,
    )  # fmt: skip


def other_spectra(
    model: OpenModel, layer: Head, whole_layer: bool, matrices: tuple[str, ...] = MATRICES, distance: int | None = None
) -> Work[SpectraGroup]:
    """Return the second model's spectra, as `SpectraStore.layer` does.

    Raises
    ------
    EngineError : if the layers cannot be compared.
    NotFinite : naming the second model, if its layer holds NaN or infinite numbers.
    """
    other = yield from model.other()
    model.comparison.check(layer)
    try:
        return (yield from other.spectra.layer(layer, whole_layer, matrices, distance))
    except NotFinite as error:
        raise NotFinite(f"in {other.outline.name} {error.what}") from error


def check_both_read(model: OpenModel, text: str) -> Work[OpenModel]:
    """Return the second model if both read a sentence as the same tokens and fit into memory, before loading them.

    Raises `EngineError` otherwise.
    """
    other = yield from model.other()
    own = (yield from model.spell(text)).tokens
    theirs = (yield from other.spell(text)).tokens
    if own != theirs:
        shared = min(len(own), len(theirs))
        at = next((n for n in range(shared) if own[n] != theirs[n]), shared)
        one, two = (tokens[at] if at < len(tokens) else "nothing" for tokens in (own, theirs))
        raise _other_tokens(model, other, f"token {at} is '{one}' in the first model and '{two}' in the second")
    own_need, their_need = (each.source.sentence_need(model.options.dtype) for each in (model, other))
    if not (model.is_loaded or other.is_loaded or own_need is None or their_need is None):
        names = f"{model.outline.name} beside {other.outline.name}"
        if refusal := choose_placement(names, own_need.plus(their_need), model.options.device).refusal:
            raise EngineError(refusal)
    return other


def attention_of_both(model: OpenModel, text: str, stack: str, layer: int | None) -> Work[AttentionMaps]:
    """Return maps as `OpenModel.attention` does, with the second model's as their ``other``.

    Raises `EngineError` if the layers cannot be compared, the models read different tokens, or both do not fit into
    memory.
    """
    yield from model.other()
    if layer is None:
        model.comparison.check_stack(stack)
    else:
        model.comparison.check(Head(stack, layer))
    other = yield from check_both_read(model, text)
    own = yield from model.attention(text, stack, layer)
    theirs = yield from other.attention(text, stack, layer)
    if (own.query_tokens, own.key_tokens) != (theirs.query_tokens, theirs.key_tokens):
        raise _other_tokens(model, other, "the maps of both models have different tokens")
    return replace(own, other=theirs.weights)


def _other_tokens(model: OpenModel, other: OpenModel, how: str) -> EngineError:
    names = f"{model.outline.name} and {other.outline.name}"
    return EngineError(f"{names} cut this sentence into different tokens, so they cannot be compared on it: {how}")
