"""An open model: its weights, spectra and sentences, for whatever is worked out of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from engine.analysis.large_maps import LargeMaps, Reading
from engine.analysis.spectra import SpectraStore, with_torch
from engine.checkpoints.library_imports import IMPORTING
from engine.checkpoints.locate import find_other, find_source
from engine.checkpoints.memory import free_memory
from engine.checkpoints.tensor_reader import OpenedFiles
from engine.models.memory import WeightCount, place
from engine.values.attention import AttentionMap, AttentionMaps, MapName, Minuend, Sentence
from engine.values.comparison import HOW_TO_COMPARE, Comparison, compared
from engine.values.errors import EngineError, NotFinite, Superseded
from engine.values.heads import DELTA, MATRICES, NOTHING_OFF, Head, Off, no_attention
from engine.values.memory import MemoryReport
from engine.values.progress import LOADING, Lane, Progress, ProgressReporter, Work, finish
from engine.values.proof import LayerProof
from engine.values.spectra import SpectraGroup, Spectrum

if TYPE_CHECKING:
    from engine.analysis.token_tables import TokenTables
    from engine.architectures.heads import LayerWeights
    from engine.checkpoints.source import Source
    from engine.models.map_reader import MapReader, Tokens
    from engine.models.score_formula import ScoreFormula
    from engine.models.tokenizer import Words
    from engine.values.options import EngineOptions
    from engine.values.outline import LayerOutline, ModelOutline

Value = TypeVar("Value")

Deliver = Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]
"""Gets a layer, whether the layer as a whole is meant, its spectra or why there are none, and how far all have come."""

LOOK = 0.1
"""Seconds between two looks at how much of a model is loaded."""


def _no_one(said: object) -> None:
    """Let what is said pass."""


class OpenModel:
    """A model that is open; its methods may be called from any thread, and work is done where it is exhausted.

    Parameters
    ----------
    source : what it is opened from.
    options : how it works.

    Attributes
    ----------
    outline : its stacks, layers and heads, and what changes their circuits.
    notify : called with a sentence when something goes another way than was asked for.
    tell : called with how far loading the model, reading a sentence or a table is, where that takes long.
    check : called inside long units; it raises `Superseded` when nobody wants the work any more, and does nothing else.
    spectra_store : its spectra, in memory and on disk.
    large_maps : the maps of long sentences, on the model's lane.
    """

    def __init__(self, source: Source, options: EngineOptions) -> None:
        self.source = source
        self.outline: ModelOutline = source.anatomy.outline
        self.options = options
        self.notify: Callable[[str], None] = _no_one
        self.tell: Callable[[Progress], None] = _no_one
        self.check: Callable[[], None] = lambda: None
        self.large_maps = LargeMaps()
        if options.device not in ("auto", "cpu"):
            from engine.models.devices import choose_device

            choose_device(options.device)  # a device that is not there is said at once, whatever the cache holds
        self.spectra_store = SpectraStore(source, options, self._notify)
        self._cached: dict[Hashable, Any] = {}
        self._caching = threading.Lock()
        self._computing: dict[Hashable, threading.RLock] = {}
        self._opened_files = OpenedFiles(source.files)
        self._reader: MapReader | None = None
        self._failure: EngineError | None = None
        self._other: OpenModel | None = None
        self._comparison: Comparison | None = None

    @classmethod
    def open(cls, name: str, options: EngineOptions, report: Callable[[Progress], None] = _no_one) -> OpenModel:
        """Find a model, downloading it if it must be, and read its headers.

        Raises
        ------
        EngineError : when it cannot be found, read, or taken apart into heads.
        """
        return cls(find_source(name, options, report), options)

    def cached(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Give what is kept under a key, computing it the first time; thread-safe, and `forget` lets go of all.

        Parameters
        ----------
        compute : a plain function, which may ask for what is kept under other keys. It must not be one that exhausts
            `Work` of which a part is done on another lane, which could wait for this one.
        """
        with self._caching:
            if key in self._cached:
                return cast("Value", self._cached[key])
            lock = self._computing.setdefault(key, threading.RLock())
        with lock:
            if key not in self._cached:
                value = compute()
                with self._caching:
                    self._cached[key] = value
                    self._computing.pop(key, None)
                return value
        return self.cached(key, compute)

    def telling(self, activity: str, unit: str) -> ProgressReporter:
        """Give what tells how far a piece of work is; its parameters are those of `Progress`."""
        return ProgressReporter(self._tell, activity, unit)

    def _notify(self, said: str) -> None:
        """Pass a sentence on to whoever listens by then."""
        self.notify(said)

    def _tell(self, progress: Progress) -> None:
        """Pass on how far something is to whoever watches by then."""
        self.tell(progress)

    # --- weights

    def layer_weights(self, layer: Head) -> LayerWeights:
        """Read one layer's attention weights, cut by head, in main memory."""
        with IMPORTING:
            from engine.architectures.heads import read_layer

        self.outline.layer(layer)
        return read_layer(self.source.tensors, self.source.anatomy.modules[layer.whole_layer])

    @property
    def is_kept(self) -> bool:
        """Whether spectra of it are on disk, so that the first ones come without torch."""
        return self.spectra_store.is_kept

    def spectra(self, layer: Head, whole_layer: bool, matrices: tuple[str, ...] = MATRICES) -> Work[SpectraGroup]:
        """Give the spectra of all heads of a layer, or those of matrices of the layer as a whole."""
        return self.spectra_store.layer(layer, whole_layer, matrices)

    def spectra_at(
        self, layer: Head, whole_layer: bool, distance: int | None, matrices: tuple[str, ...] = MATRICES
    ) -> Work[SpectraGroup]:
        """Give the same with QK's at a distance of the key before the query; None leaves positions out."""
        if distance is None:
            return self.spectra_store.layer(layer, whole_layer, matrices)
        return self.spectra_store.layer_at(layer, whole_layer, distance, matrices)

    def head_spectra(
        self, head: Head, distance: int | None = None, matrices: tuple[str, ...] = MATRICES
    ) -> Work[tuple[Spectrum, ...]]:
        """Give one head's spectra, reading no more of its layer than they need, perhaps with QK's at a distance."""
        if distance is None:
            return self.spectra_store.head(head, matrices)
        return self.spectra_store.head_at(head, distance, matrices)

    def sweep(self, deliver: Deliver) -> Work[None]:
        """Compute all spectra: the heads of every layer, then every layer as a whole; what fails is delivered too."""
        layers = self.outline.layers
        for whole_layer in (False, True):
            total = len(layers) if whole_layer else self.outline.number_of_heads
            done = 0
            for layer in layers:
                try:
                    group: SpectraGroup | EngineError = yield from self.spectra(layer.name, whole_layer)
                except Superseded:
                    raise
                except EngineError as error:
                    group = error
                done += 1 if whole_layer else layer.heads
                unit = "whole layers" if whole_layer else "heads"
                deliver(layer.name, whole_layer, group, Progress("spectra", done, total, unit))
                yield None

    def has_room_for_token_map(self, layer: LayerOutline) -> bool:
        """Say whether the map from tokens to tokens may be formed, and tell what it takes where that is much."""
        from engine.analysis.whole_layers import token_map_room

        has_room, notice = token_map_room(layer, self.options.is_browsing)
        if notice:
            self._notify(notice)
        return has_room

    @property
    def token_tables(self) -> TokenTables:
        """Its tables of token embeddings."""
        from engine.analysis.token_tables import TokenTables

        return self.cached("token tables", lambda: TokenTables(self.source))

    # --- the model itself

    def reader(self) -> Work[MapReader]:
        """Give the model itself, on its lane, loading it first where no sentence has been read yet.

        Raises
        ------
        EngineError : when it cannot be loaded, or its files have been written over since.
        """
        yield Lane.MODEL
        if self._reader is None:
            if self._failure is not None:
                raise self._failure
            reader = self._load()
            if not self.options.use_cache:
                reader.folder = None
            reader.tell = self._tell
            self._reader = reader
        self._opened_files.check()  # on a CPU its weights may stay in their files
        return self._reader

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory, ready to read sentences."""
        return self._reader is not None

    def _load(self) -> MapReader:
        """Load the model; what keeps it from loading is found out once, unless it is memory."""
        with IMPORTING:
            import torch  # noqa: F401  # which knows what devices there are
        device = self._choose_device()
        try:
            with IMPORTING:
                from engine.models.loading import load_reader
            with self._telling_of_loading() as weights, weights.counting():
                return load_reader(self.source, device, self.options.dtype)
        except EngineError as error:
            self._failure = error
            raise

    def _choose_device(self) -> str:
        """Choose where the model is loaded.

        Raises
        ------
        EngineError : when it does not fit into the memory that is free now.
        """
        need = self.source.sentence_need(self.options.dtype)
        if need is None:
            from engine.models.devices import choose_device

            return choose_device(self.options.device)
        placement = place(self.outline.name, need, self.options.device)
        if placement.refusal:
            raise EngineError(placement.refusal)
        return placement.device

    @contextmanager
    def _telling_of_loading(self) -> Iterator[WeightCount]:
        """Tell from a thread beside this one how many bytes of weights are there."""
        weights, telling, ended = WeightCount(), self.telling(LOADING, "bytes"), threading.Event()

        def watch() -> None:
            while not ended.wait(LOOK):
                telling(weights.done, weights.total)

        watcher = threading.Thread(target=watch, name="loading", daemon=True)
        watcher.start()
        try:
            yield weights
        finally:
            ended.set()
            watcher.join()
            telling.end()

    def memory(self) -> MemoryReport:
        """Say what browsing reads, and what a sentence would take against what is free now."""
        anatomy, entries = self.source.anatomy, self.source.tensors.entries
        layer_bytes = max(
            sum(entries[name].stored_bytes for name in dict.fromkeys(module.weights.values()))
            for module in anatomy.modules.values()
        )
        need = self.source.sentence_need(self.options.dtype)
        is_known = self.options.device == "cpu" or hasattr(sys.modules.get("torch"), "nn")
        placement = place(self.outline.name, need, self.options.device) if need and is_known else None
        files, stored_bytes = len(self.source.files), self.outline.stored_bytes
        return MemoryReport(files, stored_bytes, layer_bytes, need, placement, free_memory())

    def proofs(self) -> Iterator[tuple[LayerProof, Progress]]:
        """Check, layer by layer, that the heads cut from the files are those that the model computes with.

        To be gone through on the model's lane.
        """
        reader = finish(self.reader())
        from engine.models.proof import prove

        seen = reader.observe(self.check)
        layers = self.outline.attending_layers
        for done, layer in enumerate(layers, start=1):
            proof = prove(self.source.anatomy.modules[layer.name], self.layer_weights(layer.name), seen[layer.name])
            yield proof, Progress("checking", done, len(layers), "layers")

    # --- sentences

    def spell(self, text: str) -> Work[Sentence]:
        """Tokenize a sentence as the model would read it, without the model."""
        if "words" not in self._cached:
            yield from with_torch()
            yield Lane.FILES
        words: Words = self.cached("words", self._open_words)
        return words.read(text, self.outline.context)

    def _open_words(self) -> Words:
        """Open the tokenizer."""
        with IMPORTING:
            from engine.models.loading import words_of

            return words_of(self.source)

    def read(self, text: str, off: Off = NOTHING_OFF) -> Work[Sentence]:
        """Run the model on a sentence, unless that was the last one, so that its layers' maps can be recomputed."""
        return self._read((yield from self.reader()), text, off)

    def _read(self, reader: MapReader, text: str, off: Off) -> Sentence:
        """Run the model on a sentence, in this unit."""
        if not reader.has_read(text, off):
            self.large_maps = LargeMaps()  # before the memory is needed for the new ones
        return reader.read(text, self.check, off)

    def attention(self, text: str, stack: str, layer: int | None, off: Off = NOTHING_OFF) -> Work[AttentionMaps]:
        """Give the maps of one layer, or the means over a stack's layers, for a sentence.

        Raises
        ------
        EngineError : when there are no such maps.
        """
        self._check_attends(stack, layer)
        reader = yield from self.reader()
        self._read(reader, text, off)
        if layer is None:
            return reader.mean_over_layers(stack, self.check)
        return reader.layer_maps(Head(stack, layer), self.check)

    def scoring(self, text: str, layer: Head) -> Work[tuple[ScoreFormula, Tokens]]:
        """Take one layer's scores for a sentence apart, and give the tokens along both axes of its maps."""
        self._check_attends(layer.stack, layer.layer)
        reader = yield from self.reader()
        self._read(reader, text, NOTHING_OFF)
        return reader.scoring(layer, self.check)

    def forget_sentence(self, text: str) -> Work[None]:
        """Let go of what is kept of a sentence that was read, unless it was the last one."""
        yield Lane.MODEL
        if self._reader is not None:
            self._reader.forget(text)

    def _check_attends(self, stack: str, layer: int | None) -> None:
        """Refuse what has no maps, or is not there, before the model is loaded for it."""
        if stack.endswith(DELTA):
            raise EngineError(no_attention(stack))
        if layer is not None:
            self.outline.layer(Head(stack, layer))

    # --- maps of long sentences

    def large_map(
        self, text: str, name: MapName, off: Off = NOTHING_OFF, minuend: Minuend | None = None
    ) -> Work[AttentionMap]:
        """Give one map of a sentence, with the one that it is subtracted from beside it.

        It is true until another one is asked for: to be used within the same unit.
        """
        if minuend is not None and minuend.name is None and not off.heads:
            return (yield from self._large_map_of_both(text, name))
        if minuend is None and self._other is not None and not self.large_maps.holds((text, off), name):
            self._other.large_maps = LargeMaps()  # nobody looks at a difference any more
        asked = [((text, off), name)]
        if minuend is not None:
            asked = [*asked, ((text, off), minuend.name)] if minuend.name else [((text, NOTHING_OFF), name), *asked]
        first, *others = yield from self._large(asked)
        return beside(first, others[0]) if others else first

    def _large(self, asked: list[tuple[Reading, MapName]]) -> Work[list[AttentionMap]]:
        """Give maps that stay here, reading the sentence for those that are not there."""
        for _, name in asked:
            self._check_attends(name.stack, name.layer)
        reader = yield from self.reader()

        def read(reading: Reading) -> MapReader:
            reader.read(reading[0], self.check, reading[1])
            return reader

        return self.large_maps.maps(asked, read, self.check)

    def _large_map_of_both(self, text: str, name: MapName) -> Work[AttentionMap]:
        """Give one map of a sentence with the other model's, of which each model keeps its own."""
        other = yield from self._check_both(text, name.stack, name.layer)
        yield from other.reader()
        (own,) = yield from self._large([((text, NOTHING_OFF), name)])
        (theirs,) = finish(other._large([((text, NOTHING_OFF), name)]))  # in the same unit
        self._check_sides(own, theirs)
        return replace(own, other=theirs.weights)

    # --- two models

    def other(self, report: Callable[[Progress], None] | None = None) -> Work[OpenModel]:
        """Give the second model that the options name, opening it for whoever asks first.

        Parameters
        ----------
        report : told how far a download is; `tell` unless given.

        Raises
        ------
        EngineError : when none is named, or it cannot be opened or compared.
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
        """Take an open model for the second one.

        Raises
        ------
        EngineError : when no layer of both can be compared.
        """
        self._comparison = compared(self.outline, other.outline)
        self._other = other

    def forget_other(self) -> None:
        """Have the second model opened anew, by the options."""
        self._other = self._comparison = None

    @property
    def is_comparing(self) -> bool:
        """Whether the other model is open."""
        return self._other is not None

    @property
    def comparison(self) -> Comparison:
        """What can be compared of this model and the other one, which must be open."""
        if self._comparison is None:
            raise EngineError(HOW_TO_COMPARE)
        return self._comparison

    def other_spectra(
        self, layer: Head, whole_layer: bool, distance: int | None = None, matrices: tuple[str, ...] = MATRICES
    ) -> Work[SpectraGroup]:
        """Give the other model's spectra of all heads of a layer, or of the layer as a whole.

        Raises
        ------
        EngineError : when the layers cannot be compared.
        NotFinite : naming the other model, when its layer holds NaN or infinite numbers.
        """
        other = yield from self.other()
        self.comparison.check(layer)
        try:
            return (yield from other.spectra_at(layer, whole_layer, distance, matrices))
        except NotFinite as error:
            raise NotFinite(f"in {other.outline.name} {error.what}") from error

    def check_both_read(self, text: str) -> Work[None]:
        """Refuse a sentence that the two models read as other tokens, or for which both do not fit into memory.

        Neither is loaded for it.
        """
        other = yield from self.other()
        own = yield from self.spell(text)
        theirs = yield from other.spell(text)
        if own.tokens != theirs.tokens:
            shared = min(len(own.tokens), len(theirs.tokens))
            at = next((n for n in range(shared) if own.tokens[n] != theirs.tokens[n]), shared)
            one, two = (each.tokens[at] if at < len(each.tokens) else "nothing" for each in (own, theirs))
            raise EngineError(self._other_tokens(f"token {at} is '{one}' for the first and '{two}' for the second"))
        needs = [each.source.sentence_need(self.options.dtype) for each in (self, other)]
        if self.is_loaded or other.is_loaded or needs[0] is None or needs[1] is None:
            return
        names = f"{self.outline.name} beside {other.outline.name}"
        if refusal := place(names, needs[0].beside(needs[1]), self.options.device).refusal:
            raise EngineError(refusal)

    def attention_of_both(self, text: str, stack: str, layer: int | None) -> Work[AttentionMaps]:
        """Give maps as `attention` does, with the other model's as their ``other``.

        Raises
        ------
        EngineError : when the layers cannot be compared, the models read other tokens, or both do not fit into memory.
        """
        other = yield from self._check_both(text, stack, layer)
        own = yield from self.attention(text, stack, layer)
        theirs = yield from other.attention(text, stack, layer)
        self._check_sides(own, theirs)
        return replace(own, other=theirs.weights)

    def _check_both(self, text: str, stack: str, layer: int | None) -> Work[OpenModel]:
        """Refuse maps that have no difference, before either model is loaded."""
        other = yield from self.other()
        if layer is None:
            self.comparison.check_stack(stack)
        else:
            self.comparison.check(Head(stack, layer))
        yield from self.check_both_read(text)
        return other

    def _check_sides(self, own: AttentionMaps | AttentionMap, theirs: AttentionMaps | AttentionMap) -> None:
        """Refuse maps whose cells are not of the same tokens."""
        if (own.query_tokens, own.key_tokens) != (theirs.query_tokens, theirs.key_tokens):
            raise EngineError(self._other_tokens("the maps of both have other tokens along their sides"))

    def _other_tokens(self, how: str) -> str:
        """Say why there is no difference."""
        assert self._other is not None
        names = f"{self.outline.name} and {self._other.outline.name}"
        return f"{names} read this sentence as other tokens, so they cannot be compared on it: {how}"

    # --- its end

    def forget(self) -> None:
        """Let everything be read and computed anew, of weights that may have changed since."""
        with self._caching:
            self._cached.clear()
        self.spectra_store.forget()
        self._reader, self.large_maps = None, LargeMaps()

    def close(self) -> None:
        """Let go of what takes memory, even where something still holds this."""
        with self._caching:
            self._cached.clear()
        other, self._other, self._comparison = self._other, None, None
        self.spectra_store.close()
        self._reader, self.large_maps = None, LargeMaps()
        if other is not None:
            other.close()


def beside(base: AttentionMap, other: AttentionMap) -> AttentionMap:
    """Put two maps together, of which a difference is the second less the first.

    Raises
    ------
    EngineError : when their queries or keys are other tokens.
    """
    if (base.query_tokens, base.key_tokens) != (other.query_tokens, other.key_tokens):
        raise EngineError("the maps have other tokens along their sides, so there is no difference")
    return replace(base, other=other.weights)
