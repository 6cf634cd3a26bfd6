"""A model's spectra: from memory, from disk, or computed in units.

Heads are computed a few at a time, and a large layer's matrices one at a time; finished ones are kept when the rest is
given up. At most one layer's tensors are in memory, and of large tensors only the parts that are computed with.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.architectures.tensors import TensorsReadOnce
from engine.checkpoints.library_imports import IMPORT_LOCK
from engine.checkpoints.source import Source
from engine.checkpoints.tensor_reader import Checkpoint
from engine.mathematics.chance import chance_of
from engine.mathematics.measures import StoredSize, frobenius_norm, product_noise, random_norm, spectral_norm
from engine.store.cache import SpectraCache
from engine.store.files import cache_directory
from engine.values import memory
from engine.values.errors import EngineError, Superseded
from engine.values.heads import MATRICES, Head
from engine.values.memory import check_room
from engine.values.options import EngineOptions
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Progress, Work
from engine.values.spectra import EPSILONS, NORMS, Arrays, SpectraGroup, Spectrum

if TYPE_CHECKING:
    from engine.analysis.decompositions import Decomposer
    from engine.architectures.heads import LayerWeights
    from engine.mathematics.scores import Rotation

Deliver = Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]
"""Called with a layer, whether the whole layer is meant, its spectra or an error, and the progress of the sweep."""


class SpectraStore:
    """Computes a model's spectra, each once; several lanes may use it at the same time.

    It notifies the person of what takes much memory or time.
    """

    def __init__(self, source: Source, options: EngineOptions, notify: Callable[[str], None]) -> None:
        self._source, self._options, self._notify = source, options, notify
        self._outline = source.anatomy.outline
        identity = source.identity if options.use_cache else None
        self._cache = None if identity is None else SpectraCache(cache_directory(), identity, notify=notify)
        self._lock = threading.Lock()
        self._decomposer: Decomposer | None = None
        self._has_told_of_room = False
        self.forget()

    def forget(self) -> None:
        """Read and compute everything anew, as the weights may have changed."""
        self._arrays: defaultdict[Head, Arrays] = defaultdict(dict)  # of heads and whole layers
        self._tensors: tuple[Head, TensorsReadOnce] | None = None  # of the selected head's layer

    @property
    def has_stored_spectra(self) -> bool:
        """Whether spectra of the model are on disk, so that torch may not be needed."""
        return self._cache is not None and bool(self._cache.names)

    def layer(
        self, layer: Head, whole_layer: bool, matrices: Collection[str] = MATRICES, distance: int | None = None
    ) -> Work[SpectraGroup]:
        """Return the spectra of all heads of a layer, or of the whole layer; else as `arrays`.

        They include the matrices that are known already.
        """
        outline = self._outline.layer(layer)
        names = [outline.name] if whole_layer else list(outline.head_names())
        return spectra_group(outline, names, (yield from self.arrays(names, matrices, distance)))

    def head(self, head: Head, distance: int | None = None) -> Work[tuple[Spectrum, ...]]:
        """Return the six spectra of one head, reading and computing nothing else of its layer."""
        rows = yield from self.arrays([head], MATRICES, distance)
        return tuple(spectra_group(self._outline.layer(head), [head], rows).listed())

    def arrays(
        self, names: Sequence[Head], matrices: Collection[str], distance: int | None = None
    ) -> Work[list[Arrays]]:
        """Return the singular values of one or all heads of a layer, or of the whole layer.

        A head's circuit comes with its factors.

        Parameters
        ----------
        names : of the heads, or of the layer.
        distance : how many tokens the key is before the query, for QK; None leaves positions out.

        Raises
        ------
        EngineError : if there is no such layer, it cannot be read, a matrix of the whole layer does not fit into
            memory, or it has no known rotary positions.
        """
        layer, whole_layer, arrays = self._outline.layer(names[0]), names[0].is_layer, self._arrays
        rotation: Rotation | None = None
        if distance is not None:
            yield from with_torch()
            yield Lane.WEIGHTS
            from engine.models.rotations import rotation_of

            rotation = rotation_of(self._outline, layer, self._source.settings(), self._source.tensors)
        file = f"{layer.stack}-{layer.layer}-{'layer' if whole_layer else 'heads'}"
        if self._cache is not None and file in self._cache.names:
            self._load(self._cache, file, [layer.name] if whole_layer else list(layer.head_names()))
        missing = [each for each in MATRICES if each in matrices and any(each not in arrays[name] for name in names)]
        units = [(names, missing)] if missing else []
        if missing and whole_layer and layer.is_large:
            self._check_room(layer, missing)
            units = [(names, [matrix]) for matrix in missing]
        elif missing and len(names) > 1:
            units = [(names[some.start : some.stop], missing) for some in layer.batches()]
        for some, wanted in units:
            decomposer = self._decomposer or (yield from self._make_decomposer())
            yield Lane.LAYERS if whole_layer else Lane.WEIGHTS
            from engine.architectures.heads import read_layer

            lacked = {*wanted} if whole_layer else {*wanted, *"".join(wanted)}
            lacked -= {*lacked}.intersection(*(arrays[name] for name in some))
            if not lacked:  # computed meanwhile by other work
                continue
            tensors, module = self._source.tensors, self._source.anatomy.modules[layer.name]
            factors = {*"".join(lacked)}
            if whole_layer:
                weights = read_layer(TensorsReadOnce(tensors), module, matrices=factors)
                work = decomposer.layer(weights, lacked, {*missing, *arrays[layer.name]})
            else:
                if not isinstance(tensors, Checkpoint) or len({*module.weights.values()}) < len(module.weights):
                    tensors = self._layer_tensors(layer.name)
                weights = read_layer(tensors, module, range(some[0].head, some[-1].head + 1), factors)
                work = decomposer.heads(weights, lacked)
            del weights, tensors  # their sums can be as large
            found = yield from work
            for name, row in zip(some, found, strict=True):
                arrays[name].update(row)
        if units and (whole_layer or len(names) > 1):
            self._tensors = None
            if self._cache is not None:
                common = set(arrays[names[0]]).intersection(*(arrays[name] for name in names))
                self._cache.save(file, {each: np.stack([arrays[name][each] for name in names]) for each in common})
        rows = [arrays[name] for name in names]
        if distance and rotation is not None and "QK" in matrices and all("QK" in row for row in rows):
            rotated = yield from self._rotated_qk(layer, names, rotation, distance)
            rows = [row | {"QK": each["QK"]} for row, each in zip(rows, rotated, strict=True)]
        return rows

    def _load(self, cache: SpectraCache, file: str, names: Sequence[Head]) -> None:
        """Load a file of the cache once, with the arrays of all heads of a layer, or of the whole layer."""
        kept = cache.load(file)
        if kept and all(len(rows) == len(names) for rows in kept.values()):
            for name, *values in zip(names, *kept.values(), strict=True):
                self._arrays[name].update(zip(kept, values, strict=True))
        cache.names.discard(file)

    def decompose(
        self, weights: LayerWeights, whole_layer: bool, matrices: Collection[str] = MATRICES
    ) -> Work[list[Arrays]]:
        """Compute the singular values of given weights, of each head or of the whole layer."""
        decomposer = self._decomposer or (yield from self._make_decomposer())
        yield Lane.LAYERS if whole_layer else Lane.WEIGHTS
        compute = decomposer.layer if whole_layer else decomposer.heads
        return (yield from compute(weights, matrices))

    def _rotated_qk(
        self, layer: LayerOutline, names: Sequence[Head], rotation: Rotation, distance: int
    ) -> Work[list[Arrays]]:
        """Compute QK with keys rotated by a distance; in an adapter's change, each half of the rows by itself."""
        from engine.architectures.heads import read_layer
        from engine.mathematics.scores import rotate_keys

        heads = None if names[0].is_layer else range(names[0].head, names[-1].head + 1)
        module = self._source.anatomy.modules[layer.name]
        weights = read_layer(TensorsReadOnce(self._source.tensors), module, heads, "QK")
        of_circuits = weights.circuits or weights
        rows = of_circuits.key.reshape(-1, layer.head_dim, of_circuits.key.shape[-1])
        key = rotate_keys(rows, rotation, distance).reshape(of_circuits.key.shape)
        return (yield from self.decompose(replace(of_circuits, key=key), heads is None, ["QK"]))

    def sweep(self, deliver: Deliver) -> Work[None]:
        """Compute all spectra, the heads of every layer, then every whole layer; errors are delivered too."""
        layers = self._outline.layers
        for whole_layer in (False, True):
            total = len(layers) if whole_layer else sum(layer.heads for layer in layers)
            done = 0
            for layer in layers:
                try:
                    group: SpectraGroup | EngineError = yield from self.layer(layer.name, whole_layer)
                except Superseded:
                    raise
                except EngineError as error:
                    group = error
                done += 1 if whole_layer else layer.heads
                unit = "whole layers" if whole_layer else "heads"
                deliver(layer.name, whole_layer, group, Progress("spectra", done, total, unit))
                yield None

    def _check_room(self, layer: LayerOutline, matrices: Collection[str]) -> None:
        notice = check_room(layer, matrices, self._options.is_browsing, memory.free_memory())
        if notice and not self._has_told_of_room:  # other layers need as much
            self._has_told_of_room = True
            self._notify(notice)

    def _layer_tensors(self, layer: Head) -> TensorsReadOnce:
        """Return the tensors of the selected head's layer, and free those of the layer before."""
        held = self._tensors
        if held is not None and held[0] == layer:
            self._source.opened.check()
            return held[1]
        self._tensors = None
        self._tensors = layer, TensorsReadOnce(self._source.tensors)
        return self._tensors[1]

    def _make_decomposer(self) -> Work[Decomposer]:
        yield from with_torch()
        from engine.analysis.decompositions import Decomposer

        with self._lock:
            self._decomposer = self._decomposer or Decomposer(self._options.device, self._notify)
        return self._decomposer


def with_torch() -> Work[None]:
    """Import torch, if necessary, on a lane that nothing urgent waits for."""
    if not hasattr(sys.modules.get("torch"), "nn"):
        yield Lane.FILES
        with IMPORT_LOCK:
            import torch  # noqa: F401


def spectra_group(layer: LayerOutline, names: Sequence[Head], rows: Sequence[Arrays]) -> SpectraGroup:
    """Make spectra of heads, or of a whole layer, from what `SpectraStore.arrays` returns, with noise and chance."""
    whole_layer = names[0].is_layer
    known = [matrix for matrix in MATRICES if all(matrix in row for row in rows)]
    sigma = {matrix: np.stack([row[matrix] for row in rows]) for matrix in known}
    chance = chance_of(layer, whole_layer, known)
    own: dict[str, StoredSize] = {}
    drawn: dict[str, StoredSize] = {}
    for factor in {*"".join(known)}:
        shape, epsilon = layer.shape(factor, whole_layer), np.concatenate([row[EPSILONS[factor]] for row in rows])
        norms = (
            (frobenius_norm(sigma[factor]), spectral_norm(sigma[factor]))
            if factor in known
            else np.stack([row[NORMS[factor]] for row in rows], axis=1)
        )
        own[factor] = StoredSize(*shape, epsilon, *norms)
        drawn[factor] = StoredSize(*shape, epsilon, 1.0, random_norm(*shape))
    # A whole layer's circuit has each key/value head as often as heads share it.
    group = layer.heads / layer.key_value_heads if whole_layer else 1.0
    spectra: dict[int, dict[str, Spectrum]] = {name.head: {} for name in names}
    for matrix in known:
        shape, factors = layer.shape(matrix, whole_layer), [own[factor] for factor in matrix]
        if len(matrix) == 1:
            noise, chance_noise = own[matrix].noise, drawn[matrix].noise
        elif layer.is_change:  # a difference of two products
            epsilon = np.maximum(factors[0].epsilon, factors[1].epsilon)
            norms = frobenius_norm(sigma[matrix]), spectral_norm(sigma[matrix])
            noise = chance_noise = StoredSize(*shape, epsilon, *norms).noise
        else:
            noise = product_noise(*factors) * math.sqrt(group)
            chance_noise = product_noise(*(drawn[factor] for factor in matrix)) * math.sqrt(group)
        scale = np.multiply(own[matrix[0]].frobenius, own[matrix[1]].frobenius if len(matrix) == 2 else 1.0)
        for place, name in enumerate(names):
            spectra[name.head][matrix] = Spectrum(
                name, matrix, *shape, rows[place][matrix], float(noise[place]),
                chance.get(matrix), float(scale[place]), float(chance_noise[place]),
            )  # fmt: skip
    return SpectraGroup(spectra)
