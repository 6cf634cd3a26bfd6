"""The whole model, which reading sentences takes: whether it fits into memory, and its loading beside other work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.checkpoints.memory import free_memory
from engine.checkpoints.source import Source
from engine.checkpoints.tensor_reader import OpenedFiles
from engine.checkpoints.transformers_library import IMPORTING
from engine.models.memory import place
from engine.models.telling import LOADING, Tell, Telling, WeightCount, nobody
from engine.service.loading import Beside, collector_at_rest, torch_import
from engine.service.options import EngineOptions
from engine.values.errors import EngineError
from engine.values.memory import MemoryReport

if TYPE_CHECKING:
    from engine.models.maps import MapReader

Breathe = Callable[[], None]


class WholeModel:
    """A model that is loaded when the first sentence wants to be read; belongs to the engine thread.

    Parameters
    ----------
    source : of the model.
    options : on which device, and in which dtype.

    Attributes
    ----------
    tell : gets how far loading it is, or reading a sentence with it, where that takes long.
    """

    def __init__(self, source: Source, options: EngineOptions) -> None:
        self._source = source
        self._options = options
        self._outline = source.anatomy.outline
        self._loading = Beside(self._load)
        self._opened = OpenedFiles(source.files)
        self._device = ""
        self._weights = WeightCount()
        self.tell: Tell = nobody

    def memory(self) -> MemoryReport:
        """Say what browsing reads, and what a sentence would take against what is free now."""
        anatomy, entries = self._source.anatomy, self._source.tensors.entries
        layer_bytes = max(
            sum(entries[name].stored_bytes for name in dict.fromkeys(module.weights.values()))
            for module in anatomy.modules.values()
        )
        need = self._source.sentence_need(self._options.dtype)
        is_known = self._options.device == "cpu" or hasattr(sys.modules.get("torch"), "nn")
        placement = place(self._outline.name, need, self._options.device) if need and is_known else None
        files, stored_bytes = len(self._source.files), self._outline.stored_bytes
        return MemoryReport(files, stored_bytes, layer_bytes, need, placement, free_memory())

    def _choose_device(self) -> str:
        """Choose where the model is loaded.

        Raises
        ------
        EngineError : when it does not fit into the memory that is free now.
        """
        need = self._source.sentence_need(self._options.dtype)
        if need is None:
            from engine.models.devices import choose_device

            return choose_device(self._options.device)
        placement = place(self._outline.name, need, self._options.device)
        if placement.refusal:
            raise EngineError(placement.refusal)
        return placement.device

    def make_room(self, other: WholeModel) -> None:
        """See to it that two models fit into memory together, unless one is there already and the other finds its room.

        Raises
        ------
        EngineError : when they do not.
        """
        needs = [each._source.sentence_need(self._options.dtype) for each in (self, other)]
        if self._loading.has_begun or other._loading.has_begun or None in needs:
            return
        first, second = (need for need in needs if need is not None)
        names = f"{self._outline.name} beside {other._outline.name}"
        refusal = place(names, first.beside(second), self._options.device).refusal
        if refusal:
            raise EngineError(refusal)

    @property
    def is_loaded(self) -> bool:
        """Whether the model is there, and waiting for it takes no time."""
        return self._loading.is_made

    def reader(self, breathe: Breathe) -> MapReader:
        """Load the model, at the first sentence; what keeps it from loading is found out once, unless it is memory."""
        if not self._loading.has_begun:
            if self._options.device != "cpu":
                torch_import.wait(breathe)  # which knows what there is
            self._device = self._choose_device()
        torch_import.wait(breathe)
        reader = self._loading.wait(breathe) if self.is_loaded else self._load_telling(breathe)
        reader.tell = self.tell
        if not self._options.use_cache:
            reader.folder = None
        self._opened.check_mapped()  # on a CPU its weights may stay in their files
        return reader

    def _load_telling(self, breathe: Breathe) -> MapReader:
        """Wait for the model, and tell how many of its bytes are there."""
        telling = Telling(self.tell, LOADING, "bytes")

        def going_on() -> None:
            breathe()
            telling(self._weights.done, self._weights.total)

        try:
            return self._loading.wait(going_on)
        finally:
            telling.end()

    def close(self) -> None:
        """Let go of the model."""
        self._loading.forget()

    def _load(self) -> MapReader:
        """Load the model, on a thread beside this one."""
        with collector_at_rest():
            self._import_model_code()
            from engine.models.loading import load_reader

            with self._weights.counting():
                return load_reader(self._source, self._device, self._options.dtype)

    def _import_model_code(self) -> None:
        """Import transformers and its code for models of this type."""
        with IMPORTING:
            import transformers
            from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

            import engine.models.sentence  # noqa: F401  # for what it imports

            names = MODEL_MAPPING_NAMES.get(self._outline.model_type, ())
            with suppress(
                ImportError, RuntimeError
            ):  # what its code needs and is not there is told when the model loads
                for name in (names,) if isinstance(names, str) else names:
                    getattr(transformers, name, None)
