"""An open model on the engine thread: its weights, spectra and sentences. Slow imports wait until they are needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.checkpoints.source import Source
from engine.models.telling import Tell, Telling
from engine.service.assembly import assemble
from engine.service.kept_spectra import KeptSpectra
from engine.service.layers import Layers
from engine.service.loading import KeptApart, collector_at_rest, torch_import
from engine.service.options import EngineOptions
from engine.service.sentences import Sentences
from engine.service.sources import find_source
from engine.service.whole_model import WholeModel
from engine.service.whole_spectra import WholeSpectra
from engine.values.attention import AttentionMaps, Sentence
from engine.values.errors import EngineError, Superseded
from engine.values.heads import MATRICES, Head
from engine.values.memory import MemoryReport
from engine.values.model import LayerOutline, ModelOutline, Parameter
from engine.values.off import NOTHING_OFF, Off
from engine.values.progress import Progress
from engine.values.proof import LayerProof
from engine.values.spectra import FloatArray, SpectraGroup, Spectrum

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.heads import LayerWeights
    from engine.models.maps import MapReader
    from engine.service.computing import Computing
    from engine.service.turned_spectra import TurnedSpectra

Breathe = Callable[[], None]


def _nobody_listens(notice: str) -> None:
    """Let a notice pass."""


class Session:
    """A model that is open. Every method belongs to the engine thread; none is called from another.

    Attributes
    ----------
    sentences : what it reads.
    notify : called with a sentence when something goes another way than a person asked for.
    """

    def __init__(self, source: Source, options: EngineOptions) -> None:
        self._source = source
        self._options = options
        self._groups: dict[tuple[Head, bool], SpectraGroup] = {}
        self._asked: defaultdict[Head, frozenset[str]] = defaultdict(frozenset)
        self._kept_apart = KeptApart()
        if options.device not in ("auto", "cpu"):
            from engine.models.devices import choose_device

            choose_device(options.device)  # a device that is not there is said at once, whatever the cache holds
        self._whole_model = WholeModel(source, options)
        self.notify: Callable[[str], None] = _nobody_listens
        self._computing: Computing | None = None
        self._layers = Layers(source, self.singular_values)
        self._turned: TurnedSpectra | None = None
        self.sentences = Sentences(source, self._whole_model)
        self._kept = KeptSpectra(source.identity if options.use_cache else None, self._tell)
        self._wholes = WholeSpectra(self._layers, self._kept, self._tell, options.is_browsing)

    @classmethod
    def open(cls, name: str, options: EngineOptions, report: Callable[[Progress], None]) -> Session:
        """Find a model and read its headers.

        Raises
        ------
        EngineError : when it cannot be found, read, or taken apart into heads.
        """
        return cls(find_source(name, options, report), options)

    def _tell(self, notice: str) -> None:
        """Pass a sentence on to whoever listens by then."""
        self.notify(notice)

    def has_room_for_token_map(self, layer: LayerOutline) -> bool:
        """Say whether the map from tokens to tokens may be formed, and tell what it takes where that is much."""
        from engine.service.whole_layers import token_map_room

        has_room, notice = token_map_room(layer, self._options.is_browsing)
        if notice:
            self._tell(notice)
        return has_room

    def watch(self, watcher: Tell) -> None:
        """Have it told how far loading the model, reading a sentence or making a table is, where that takes long."""
        self._whole_model.tell = watcher

    def telling(self, activity: str, unit: str) -> Telling:
        """Give what tells how far a piece of work is; its parameters are those of `Progress`."""
        return Telling(self._whole_model.tell, activity, unit)

    @property
    def outline(self) -> ModelOutline:
        """What is known of the model."""
        return self._source.anatomy.outline

    @property
    def is_kept(self) -> bool:
        """Whether the cache on disk holds anything of this model, so that torch may not be needed for a while."""
        return self._kept.is_there

    @property
    def source(self) -> Source:
        """What the model was opened from: its tensors, settings and tokenizer."""
        return self._source

    def layer_weights(self, layer: Head) -> LayerWeights:
        """Read one layer's attention weights, cut by head, in main memory."""
        with collector_at_rest():
            from engine.architectures.heads import read_layer

        self.outline.layer(layer)
        return read_layer(self._source.tensors, self._source.anatomy.modules[layer.whole_layer])

    def arrays(self, layer: Head) -> dict[Head, dict[str, np.ndarray[Any, Any]]]:
        """Give every head's W_Q, W_K, W_V, W_O and biases as NumPy arrays; bfloat16 becomes float32, exactly."""
        from engine.service.arrays import arrays_of

        return arrays_of(self.outline.layer(layer), self.layer_weights(layer))

    def spectra(
        self, layer: Head, whole_layer: bool, breathe: Breathe, matrices: tuple[str, ...] = MATRICES
    ) -> SpectraGroup:
        """Give the spectra of all heads of a layer, or of the layer as a whole: from memory, from disk, or computed.

        Of a layer as a whole there are the matrices that are asked for, and those that were asked for before.
        """
        key = (layer.whole_layer, whole_layer)
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
            self._kept_apart.add(heads * len(MATRICES))
        return self._groups[key]

    def head_spectra(self, head: Head, breathe: Breathe) -> tuple[Spectrum, ...]:
        """Give one head's six spectra, reading no more of its layer than they need."""
        outline = self.outline.layer(head)
        is_known = (head.whole_layer, False) in self._groups
        if is_known or self._kept.load_all(_file(head, False), outline.heads) is not None:
            return self.spectra(head, False, breathe).of(head.head)
        torch_import.wait(breathe)
        values = self._layers.head(head, breathe)
        return assemble(outline, [head.head], values).of(head.head)

    def spectra_at(
        self, layer: Head, whole_layer: bool, distance: int, breathe: Breathe, matrices: tuple[str, ...] = MATRICES
    ) -> SpectraGroup:
        """Give spectra with QK's at a distance of the key before the query, of a layer's heads or of the layer."""
        return self._turned_spectra(breathe).group(layer, whole_layer, distance, breathe, matrices)

    def head_spectra_at(self, head: Head, distance: int, breathe: Breathe) -> tuple[Spectrum, ...]:
        """Give one head's six spectra with QK's at a distance."""
        return self._turned_spectra(breathe).head(head, distance, breathe)

    def _turned_spectra(self, breathe: Breathe) -> TurnedSpectra:
        """Give what computes them, with torch."""
        torch_import.wait(breathe)
        if self._turned is None:
            from engine.service.turned_spectra import TurnedSpectra

            self._turned = TurnedSpectra(self)
        return self._turned

    def forget(self) -> None:
        """Let spectra be computed anew, of weights that may have changed since."""
        self._groups.clear()
        self._asked.clear()
        self._layers.forget()
        self._turned = None

    def close(self) -> None:
        """Let go of what takes memory, even where something still holds this."""
        self.forget()
        self._computing = None  # with its threads
        self.sentences.close()
        self._whole_model.close()

    def singular_values(
        self,
        factors: tuple[Tensor, Tensor, Tensor, Tensor],
        matrices: tuple[str, ...],
        whole_layer: bool,
        breathe: Breathe,
    ) -> dict[str, FloatArray]:
        """Compute where and how this machine does it fastest."""
        if self._computing is None:
            from engine.service.computing import Computing

            self._computing = Computing(self._options.device, self.notify)
        if whole_layer:
            return self._computing.layer(factors, matrices, breathe)
        of_heads = self._computing.heads(factors, breathe)
        return {matrix: of_heads[matrix] for matrix in matrices}

    def sweep(self, breathe: Breathe) -> Iterator[tuple[Head, bool, SpectraGroup | EngineError, Progress]]:
        """Go through the whole model: the heads of every layer first, then every layer as a whole.

        A layer that cannot be computed yields its error, and the sweep goes on.
        """
        layers = self.outline.layers
        for whole_layer in (False, True):
            total = len(layers) if whole_layer else self.outline.number_of_heads
            done = 0
            for layer in layers:
                breathe()
                try:
                    group: SpectraGroup | EngineError = self.spectra(layer.name, whole_layer, breathe)
                except Superseded:
                    raise
                except EngineError as error:
                    group = error
                done += 1 if whole_layer else layer.heads
                unit = "whole layers" if whole_layer else "heads"
                yield layer.name, whole_layer, group, Progress("spectra", done, total, unit)

    def read(self, text: str, breathe: Breathe, off: Off = NOTHING_OFF) -> Sentence:
        """Run the model on a sentence, so that its layers' maps can be recomputed."""
        return self.sentences.read(text, breathe, off)

    def attention(
        self, text: str, stack: str, layer: int | None, breathe: Breathe, off: Off = NOTHING_OFF
    ) -> AttentionMaps:
        """Give the maps of one layer, or the means over a stack's layers, for a sentence."""
        return self.sentences.attention(text, stack, layer, breathe, off)

    def reader(self, breathe: Breathe) -> MapReader:
        """Give the loaded model, loading it first where no sentence has been read yet."""
        return self._whole_model.reader(breathe)

    def memory(self) -> MemoryReport:
        """Say what browsing reads, and what a sentence would take against what is free now."""
        return self._whole_model.memory()

    def make_room(self, other: Session) -> None:
        """See to it that this model and another one fit into memory together, before either is loaded.

        Raises
        ------
        EngineError : when they do not.
        """
        self._whole_model.make_room(other._whole_model)

    def proofs(self, breathe: Breathe) -> Iterator[tuple[LayerProof, Progress]]:
        """Check, layer by layer, that the heads cut from the files are those that the model computes with."""
        reader = self._whole_model.reader(breathe)
        from engine.models.proof import prove

        seen = reader.observe(breathe)
        layers = self.outline.attending_layers
        for done, layer in enumerate(layers, start=1):
            breathe()
            module = self._source.anatomy.modules[layer.name]
            yield (
                prove(module, self.layer_weights(layer.name), seen[layer.name]),
                Progress("checking", done, len(layers), "layers"),
            )

    def parameters(self) -> tuple[Parameter, ...]:
        """List the checkpoint's tensors."""
        return self._source.parameters()


def _file(layer: Head, whole_layer: bool) -> str:
    """Name the file in the cache on disk that keeps a layer's singular values."""
    return f"{layer.stack}-{layer.layer}-{'layer' if whole_layer else 'heads'}"
