"""A model's spectra: in memory, on disk, or computed in units."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from engine.checkpoints.library_imports import IMPORTING
from engine.checkpoints.source import Source
from engine.service.assembly import assemble
from engine.service.kept_spectra import KeptSpectra
from engine.service.layers import Layers
from engine.service.whole_spectra import WholeSpectra
from engine.values.heads import MATRICES, Head
from engine.values.model import ModelOutline
from engine.values.options import EngineOptions
from engine.values.progress import Lane, Work
from engine.values.spectra import FloatArray, SpectraGroup, Spectrum

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.heads import LayerWeights
    from engine.service.computing import Computing
    from engine.service.turned_spectra import TurnedSpectra


def _go_on() -> None:
    """Let nothing else be done."""


class SpectraStore:
    """The spectra of one model; thread-safe.

    Parameters
    ----------
    source : of the weights.
    options : on which device, and whether spectra are kept on disk.
    notify : told in a sentence what goes another way than was asked for.
    """

    def __init__(self, source: Source, options: EngineOptions, notify: Callable[[str], None]) -> None:
        self.source, self._options, self._notify = source, options, notify
        self._lock = threading.RLock()
        self._whole_lock = threading.RLock()
        self._groups: dict[tuple[Head, bool], SpectraGroup] = {}
        self._asked: defaultdict[Head, frozenset[str]] = defaultdict(frozenset)
        self._layers = Layers(source, self.singular_values)
        self._whole_layers = Layers(source, self.singular_values)
        self._kept = KeptSpectra(source.identity if options.use_cache else None, notify)
        self._wholes = WholeSpectra(self._whole_layers, self._kept, notify, options.is_browsing)
        self._computing: dict[bool, Computing] = {}
        self._turned: TurnedSpectra | None = None

    @property
    def outline(self) -> ModelOutline:
        """What is known of the model."""
        return self.source.anatomy.outline

    @property
    def is_kept(self) -> bool:
        """Whether anything of the model is on disk, so that torch may not be needed for a while."""
        return self._kept.is_there

    def layer(self, layer: Head, whole_layer: bool, matrices: tuple[str, ...] = MATRICES) -> Work[SpectraGroup]:
        """Give the spectra of all heads of a layer, or of matrices of the layer as a whole."""
        is_known = self._asked[layer.whole_layer] >= set(matrices) if whole_layer else (layer, False) in self._groups
        if not is_known:
            yield Lane.LAYERS if whole_layer else Lane.WEIGHTS
        return self.spectra(layer, whole_layer, _go_on, matrices)

    def head(self, head: Head, matrices: Collection[str] = MATRICES) -> Work[tuple[Spectrum, ...]]:
        """Give spectra of one head, reading no more of its layer than they need."""
        if not (is_known := (head.whole_layer, False) in self._groups):
            yield Lane.WEIGHTS
            is_known = self._kept.load_all(_file(head, False), self.outline.layer(head).heads) is not None
        if not is_known:
            yield from with_torch()
            yield Lane.WEIGHTS
        return tuple(each for each in self.head_spectra(head, _go_on) if each.matrix in matrices)

    def layer_at(
        self, layer: Head, whole_layer: bool, distance: int, matrices: tuple[str, ...] = MATRICES
    ) -> Work[SpectraGroup]:
        """Give a layer's spectra with QK's at a distance of the key before the query."""
        yield from with_torch()
        yield Lane.LAYERS if whole_layer else Lane.WEIGHTS
        with self._lock:
            return self._turned_spectra().group(layer, whole_layer, distance, _go_on, matrices)

    def head_at(self, head: Head, distance: int, matrices: Collection[str] = MATRICES) -> Work[tuple[Spectrum, ...]]:
        """Give one head's six spectra with QK's at a distance."""
        yield from with_torch()
        yield Lane.WEIGHTS
        with self._lock:
            found = self._turned_spectra().head(head, distance, _go_on)
            return tuple(each for each in found if each.matrix in matrices)

    def forget(self) -> None:
        """Let everything be computed anew, of weights that may have changed since."""
        with self._lock:
            self._groups.clear()
            self._asked.clear()
            self._layers.forget()
            self._whole_layers.forget()
            self._turned = None

    def close(self) -> None:
        """Let go of what takes memory."""
        self._groups, self._turned, self._computing = {}, None, {}
        self._layers.forget()
        self._whole_layers.forget()

    def spectra(
        self, layer: Head, whole_layer: bool, breathe: Callable[[], None], matrices: tuple[str, ...] = MATRICES
    ) -> SpectraGroup:
        """Give the spectra of all heads of a layer, or of the layer as a whole."""
        key = (layer.whole_layer, whole_layer)
        with self._whole_lock if whole_layer else self._lock:
            outline, file = self.outline.layer(layer), _file(layer, whole_layer)
            asked = self._asked[layer.whole_layer] | set(matrices)
            if whole_layer and asked != self._asked[layer.whole_layer]:
                whole = self._wholes.of_weights(outline, file, [each for each in MATRICES if each in asked], breathe)
                self._groups[key] = assemble(outline, [-1], whole.values, whole.lacking)
                self._asked[layer.whole_layer] = asked
            elif not whole_layer and key not in self._groups:
                heads = outline.heads
                values = self._kept.get(file, heads, lambda: self._layers.heads(outline, breathe), breathe)
                self._groups[key] = assemble(outline, range(heads), values)
            return self._groups[key]

    def head_spectra(self, head: Head, breathe: Callable[[], None]) -> tuple[Spectrum, ...]:
        """Give one head's six spectra."""
        with self._lock:
            outline = self.outline.layer(head)
            is_known = (head.whole_layer, False) in self._groups
            if is_known or self._kept.load_all(_file(head, False), outline.heads) is not None:
                return self.spectra(head, False, breathe).of(head.head)
            return assemble(outline, [head.head], self._layers.head(head, breathe)).of(head.head)

    def layer_weights(self, layer: Head) -> LayerWeights:
        """Read one layer's weights."""
        from engine.architectures.heads import read_layer

        return read_layer(self.source.tensors, self.source.anatomy.modules[layer.whole_layer])

    def singular_values(
        self,
        factors: tuple[Tensor, Tensor, Tensor, Tensor],
        matrices: tuple[str, ...],
        whole_layer: bool,
        breathe: Callable[[], None],
    ) -> dict[str, FloatArray]:
        """Compute where and how this machine does it fastest."""
        if whole_layer not in self._computing:
            from engine.service.computing import Computing

            self._computing[whole_layer] = Computing(self._options.device, self._notify)
        computing = self._computing[whole_layer]
        if whole_layer:
            return computing.layer(factors, matrices, breathe)
        of_heads = computing.heads(factors, breathe)
        return {matrix: of_heads[matrix] for matrix in matrices}

    def _turned_spectra(self) -> TurnedSpectra:
        """Give what turns queries and keys."""
        if self._turned is None:
            from engine.service.turned_spectra import TurnedSpectra

            self._turned = TurnedSpectra(self)
        return self._turned


def _file(layer: Head, whole_layer: bool) -> str:
    """Name the file in the cache on disk that keeps a layer's singular values."""
    return f"{layer.stack}-{layer.layer}-{'layer' if whole_layer else 'heads'}"


def with_torch() -> Work[None]:
    """Import torch, on a lane that keeps nobody waiting, unless it is there."""
    import sys

    if not hasattr(sys.modules.get("torch"), "nn"):
        yield Lane.FILES
        with IMPORTING:
            import torch  # noqa: F401
