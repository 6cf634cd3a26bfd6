"""A model's spectra: from memory, from disk, or computed in units that other work goes between.

Heads are computed a few at a time and a large layer's matrices one at a time; what has been computed is kept when the
rest is given up. No more than one layer's tensors are held, and of large ones in files no more than is computed with.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.analysis.whole_layers import room_for
from engine.architectures.tensors import Tensors, TensorsReadOnce
from engine.checkpoints.library_imports import IMPORTING
from engine.checkpoints.source import Source
from engine.checkpoints.tensor_reader import Checkpoint, OpenedFiles
from engine.mathematics.chance import chance_of
from engine.mathematics.measures import StoredSize, frobenius_norm, product_noise, random_norm, spectral_norm
from engine.store.cache import SpectraCache
from engine.store.files import cache_directory
from engine.values.errors import EngineError, Superseded
from engine.values.heads import MATRICES, Head
from engine.values.options import EngineOptions
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Progress, Work
from engine.values.spectra import EPSILONS, NORMS, FloatArray, SpectraGroup, Spectrum

if TYPE_CHECKING:
    from torch import Tensor

    from engine.analysis.decompositions import Decomposer, SpectraAtDistance


Arrays = dict[str, FloatArray]
"""By matrix, singular values (heads, structural rank); by the names of `EPSILONS` and `NORMS`, how finely a factor is
stored, (heads, 1), and the norms (heads, 2) of one that has no singular values there."""

NAMES = {*MATRICES, *NORMS.values(), *EPSILONS.values()}
"""Of all that arrays may hold."""

Deliver = Callable[[Head, bool, SpectraGroup | EngineError, Progress], None]
"""Gets a layer, whether the layer as a whole is meant, its spectra or why there are none, and how far all have come."""


class SpectraStore:
    """Gives a model's spectra, computing each once; lanes may ask for different ones at the same time.

    Parameters
    ----------
    source : of the weights.
    options : the device, whether spectra are kept on disk, and whether what takes much is left out as in browsing.
    notify : told in a sentence what takes much memory or time, or goes another way than was asked for.
    """

    def __init__(self, source: Source, options: EngineOptions, notify: Callable[[str], None]) -> None:
        self._source, self._options, self._notify = source, options, notify
        self._outline = source.anatomy.outline
        identity = source.identity if options.use_cache else None
        self._cache = None if identity is None else SpectraCache(cache_directory(), identity, notify=notify)
        self._files = OpenedFiles(source.files)
        self._lock = threading.Lock()
        self._decomposer: Decomposer | None = None
        self._has_told_of_room = False
        self.forget()

    def forget(self) -> None:
        """Let everything be read and computed anew, of weights that may have changed since."""
        self._arrays: defaultdict[Head, Arrays] = defaultdict(dict)  # of a head, or of a layer as a whole
        self._looked_up: set[str] = set()  # files of the cache
        self._groups: dict[tuple[Head, bool], tuple[frozenset[str], SpectraGroup]] = {}  # with the matrices asked for
        self._tensors: tuple[Head, TensorsReadOnce] | None = None  # of the layer whose heads are looked at
        self._at_distance: SpectraAtDistance | None = None

    @property
    def is_kept(self) -> bool:
        """Whether anything of the model is on disk, so that torch may not be needed for a while."""
        return self._cache is not None and self._cache.is_there

    def layer(
        self, layer: Head, whole_layer: bool, matrices: Collection[str] = MATRICES, distance: int | None = None
    ) -> Work[SpectraGroup]:
        """Give the spectra of all heads of a layer, or of the layer as a whole.

        There are the matrices that are asked for, and those that were before. A head's circuit comes with its factors.

        Parameters
        ----------
        distance : how many tokens the key is before the query, for QK; None leaves positions out.

        Raises
        ------
        EngineError : when there is no such layer, it cannot be read, none of what is asked for has room, or it has no
            rotary positions that are known.
        """
        outline = self._outline.layer(layer)
        at_distance = None if distance is None else (yield from self._rotated(outline))
        plain = yield from self._group(outline, whole_layer, matrices)
        if not distance or at_distance is None or not any("QK" in of_head for of_head in plain.spectra.values()):
            return plain
        decomposer = yield from self._begin(Lane.LAYERS if whole_layer else Lane.WEIGHTS)
        if whole_layer:
            values = (yield from decomposer.layer({"QK": at_distance.layer_factors(distance)}))["QK"]
        else:
            values = at_distance.of_heads(list(plain.spectra), distance)
        spectra = {
            number: {matrix: _with_qk(each, row) for matrix, each in by_matrix.items()}
            for row, (number, by_matrix) in zip(values, plain.spectra.items(), strict=True)
        }
        return replace(plain, spectra=spectra)

    def head(
        self, head: Head, matrices: Collection[str] = MATRICES, distance: int | None = None
    ) -> Work[tuple[Spectrum, ...]]:
        """Give spectra of one head, reading and computing no more of its layer than they need; else as `layer`."""
        outline, arrays, number = self._outline.layer(head), self._arrays, head.head
        at_distance = None if distance is None else (yield from self._rotated(outline))
        self._read_kept(outline, False, arrays)
        if not arrays[head].keys() >= {*matrices}:
            yield from self._compute_heads(outline, [head], matrices, arrays)
        found = [each for each in assemble(outline, [number], arrays[head]).of(number) if each.matrix in matrices]
        if distance and at_distance is not None and "QK" in matrices:
            values = at_distance.of_heads([number], distance)[0]
            found = [_with_qk(each, values) for each in found]
        return tuple(found)

    def sweep(self, deliver: Deliver) -> Work[None]:
        """Compute all spectra: the heads of every layer, then every layer as a whole; what fails is delivered too."""
        layers = self._outline.layers
        for whole_layer in (False, True):
            total = len(layers) if whole_layer else self._outline.number_of_heads
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

    def _group(self, layer: LayerOutline, whole_layer: bool, matrices: Collection[str]) -> Work[SpectraGroup]:
        """Give spectra where positions are left out."""
        key = layer.name, whole_layer
        asked, group = self._groups.get(key, (frozenset[str](), None))
        if group is not None and asked.issuperset(matrices):
            return group
        asked, arrays, lacking = asked.union(matrices), self._arrays, ""
        self._read_kept(layer, whole_layer, arrays)
        names = [layer.name] if whole_layer else list(layer.head_names())
        missing = [each for each in MATRICES if each in asked and any(each not in arrays[name] for name in names)]
        if missing and whole_layer and layer.is_large:
            missing, lacking = self._with_room(layer, missing, len(missing) == len(asked))
        if missing and whole_layer:
            yield from self._compute_layer(layer, missing, arrays[layer.name])
        elif missing:
            for batch in layer.batches():
                yield from self._compute_heads(layer, names[batch.start : batch.stop], missing, arrays)
            self._tensors = None
        rows = [arrays[name] for name in names]
        common = set(rows[0]).intersection(*rows)
        together = {each: np.concatenate([row[each] for row in rows]) for each in common}
        _spread(together, names, arrays)
        if missing and self._cache is not None:
            self._cache.save(_file(layer, whole_layer), together)
        group = assemble(layer, [-1] if whole_layer else range(layer.heads), together, lacking)
        if self._arrays is arrays:  # else all was forgotten meanwhile
            self._groups[key] = asked, group
        return group

    def _read_kept(self, layer: LayerOutline, whole_layer: bool, arrays: dict[Head, Arrays]) -> None:
        """Take in what is on disk of a layer as a whole, or of its heads, the first time."""
        file = _file(layer, whole_layer)
        if self._cache is None or file in self._looked_up:
            return
        if kept := self._cache.load(file):
            names = [layer.name] if whole_layer else list(layer.head_names())
            if kept.keys() <= NAMES and all(len(rows) == len(names) for rows in kept.values()):
                _spread(kept, names, arrays)
        self._looked_up.add(file)

    def _with_room(self, layer: LayerOutline, missing: list[str], is_all: bool) -> tuple[list[str], str]:
        """Give those matrices of a layer as a whole that have room, and why the others are left out.

        Raises
        ------
        EngineError : when they are all that is asked for, and none has room.
        """
        room = room_for(layer, missing, self._options.is_browsing)
        if is_all and not room.fitting:
            raise EngineError(room.lacking)
        if room.notice and not self._has_told_of_room:  # other layers of the model take the same
            self._has_told_of_room = True
            self._notify(room.notice)
        return list(room.fitting), room.lacking

    def _compute_layer(self, layer: LayerOutline, matrices: list[str], arrays: Arrays) -> Work[None]:
        """Compute matrices of a layer as a whole, those of a large one each by itself, and add them to its arrays."""
        for some in [[matrix] for matrix in matrices] if layer.is_large else [matrices]:
            decomposer = yield from self._begin(Lane.LAYERS)
            if not arrays.keys() >= {*some}:  # other work in between may have been the same
                made_of, sizes = self._layer_factors(layer, some, {*matrices, *arrays})
                found = yield from decomposer.layer(made_of)
                arrays.update(sizes | found)

    def _layer_factors(
        self, layer: LayerOutline, matrices: list[str], known: Collection[str]
    ) -> tuple[dict[str, tuple[Tensor, ...]], Arrays]:
        """Read what matrices of a layer as a whole are made of, and how large and how finely stored factors are."""
        from engine.architectures.heads import read_layer
        from engine.mathematics.spectra import layer_factors, layer_norms

        tensors, module = TensorsReadOnce(self._source.tensors), self._source.anatomy.modules[layer.name]
        weights = read_layer(tensors, module, matrices={*"".join(matrices)})
        arrays: Arrays = {}
        for factor in "".join(matrices):
            by_head = {"Q": weights.query, "K": weights.key, "V": weights.value, "O": weights.output.mT}[factor]
            arrays[EPSILONS[factor]] = _epsilon_of_layer(weights.epsilons[factor], by_head)
            if factor not in known:
                arrays[NORMS[factor]] = np.array([layer_norms(by_head)])
        of_circuits = weights.circuits or weights
        made_of = {matrix: weights if len(matrix) == 1 else of_circuits for matrix in matrices}
        return {matrix: layer_factors(matrix, *each.factors) for matrix, each in made_of.items()}, arrays

    def _compute_heads(
        self, layer: LayerOutline, names: Sequence[Head], matrices: Collection[str], arrays: dict[Head, Arrays]
    ) -> Work[None]:
        """Compute what is missing of matrices of a few heads, circuits with their factors, and add it to their arrays.

        Heads that were computed before are computed again where others are missing.
        """
        decomposer = yield from self._begin(Lane.WEIGHTS)
        from engine.architectures.heads import read_layer

        missing = {*matrices} - {*matrices}.intersection(*map(arrays.__getitem__, names))
        if not missing:  # other work in between may have been the same
            return
        tensors, module = self._source.tensors, self._source.anatomy.modules[layer.name]
        if not isinstance(tensors, Checkpoint):  # some are made of others
            tensors = self._made_once(layer)
        elif len({*module.weights.values()}) < len(module.weights):  # one is fused, and read for each matrix
            tensors = TensorsReadOnce(tensors)
        factors, heads = {*"".join(missing)}, range(names[0].head, names[-1].head + 1)
        weights = read_layer(tensors, module, heads, factors)
        if weights.circuits is None:
            found = yield from decomposer.heads(weights.factors, missing | factors)
        else:  # of a change, whose circuits are products of factors of their own
            found = yield from decomposer.heads(weights.factors, factors)
            found |= yield from decomposer.heads(weights.circuits.factors, missing - factors)
        for factor in factors:
            found[EPSILONS[factor]] = weights.epsilons[factor][:, None]
        del weights, tensors  # else what stays lies between tensors that go, whose memory cannot be given back
        _spread(found, names, arrays)

    def _made_once(self, layer: LayerOutline) -> Tensors:
        """Give the tensors of a layer whose heads are looked at one after the other; none stays of the layer before."""
        held = self._tensors
        if held is not None and held[0] == layer.name:
            self._files.check()  # what was read before
            return held[1]
        self._tensors = None
        self._tensors = layer.name, TensorsReadOnce(self._source.tensors)
        return self._tensors[1]

    def _begin(self, lane: Lane) -> Work[Decomposer]:
        """Go to a lane with torch there, and give what computes singular values, where it was chosen to."""
        if self._decomposer is None:
            yield from with_torch()
            from engine.analysis.decompositions import Decomposer

            with self._lock:
                self._decomposer = self._decomposer or Decomposer(self._options.device, self._notify)
        yield lane
        return self._decomposer

    def _rotated(self, layer: LayerOutline) -> Work[SpectraAtDistance]:
        """Give what computes QK at distances of a layer; that of the layer that was looked at last is kept."""
        yield from self._begin(Lane.WEIGHTS)
        from engine.analysis.decompositions import SpectraAtDistance
        from engine.architectures.heads import read_layer
        from engine.models.rotations import rotation_of

        source, found = self._source, self._at_distance
        if found is None or found.layer != layer.name:
            rotation = rotation_of(self._outline, layer, source.settings(), source.tensors)
            weights = read_layer(TensorsReadOnce(source.tensors), source.anatomy.modules[layer.name])
            self._at_distance = found = SpectraAtDistance(layer, weights.circuits or weights, rotation)
        return found


def with_torch() -> Work[None]:
    """Import torch, on a lane that keeps nobody waiting, unless it is there."""
    if not hasattr(sys.modules.get("torch"), "nn"):
        yield Lane.FILES
        with IMPORTING:
            import torch  # noqa: F401


def _file(layer: LayerOutline, whole_layer: bool) -> str:
    """Name the file on disk that keeps a layer's singular values."""
    return f"{layer.stack}-{layer.layer}-{'layer' if whole_layer else 'heads'}"


def _spread(found: Arrays, names: Sequence[Head], arrays: dict[Head, Arrays]) -> None:
    """Add arrays of several heads, a row each, to those of each head."""
    for row, name in enumerate(names):
        arrays[name].update({each: rows[row : row + 1] for each, rows in found.items()})


def _epsilon_of_layer(epsilons: FloatArray, by_head: Tensor) -> FloatArray:
    """Say how finely a factor of a layer as a whole is stored: (1, 1); the squares of its heads' noise add up.

    Parameters
    ----------
    epsilons : (heads,)
    by_head : (heads or key_value_heads, …)
    """
    epsilons = epsilons[:: len(epsilons) // len(by_head)]
    if np.ptp(epsilons) > 0:
        sizes = [float(head.double().norm()) for head in by_head]
        epsilons = np.sqrt(np.average(epsilons**2, weights=np.square(sizes), keepdims=True))
    return np.array(epsilons[:1, None])


def _with_qk(spectrum: Spectrum, values: FloatArray) -> Spectrum:
    """Put QK's singular values at a distance into the place of those without one."""
    return replace(spectrum, singular_values=values) if spectrum.matrix == "QK" else spectrum


def assemble(
    layer: LayerOutline, numbers: Sequence[int], arrays: Mapping[str, FloatArray], lacking: str = ""
) -> SpectraGroup:
    """Name the singular values of a layer.

    Parameters
    ----------
    layer : whose they are.
    numbers : the heads whose they are; -1 alone for the whole layer's.
    arrays : by matrix, (heads, structural rank), and by the names of `EPSILONS` and `NORMS`.
    lacking : why some are left out.
    """
    whole_layer = list(numbers) == [-1]
    spectra: dict[int, dict[str, Spectrum]] = {number: {} for number in numbers}
    names = {number: Head(layer.stack, layer.layer, number) for number in numbers}  # one for all matrices of a head
    known = [matrix for matrix in MATRICES if matrix in arrays]
    chance = chance_of(layer, whole_layer, known)
    sizes = {factor: _size(layer, factor, whole_layer, arrays) for factor in {*"".join(known)}}
    by_chance = {
        factor: replace(size, frobenius=1.0, spectral=random_norm(size.rows, size.cols))
        for factor, size in sizes.items()
    }
    for matrix in known:
        rows, cols = layer.shape(matrix, whole_layer)
        noise, chance_noise = (_noise(layer, whole_layer, matrix, arrays[matrix], each) for each in (sizes, by_chance))
        scale = np.ones(len(numbers))
        for factor in matrix:
            scale = scale * sizes[factor].frobenius
        for row, number in enumerate(numbers):
            spectra[number][matrix] = Spectrum(
                names[number], matrix, rows, cols, arrays[matrix][row], float(noise[row]),
                chance.get(matrix), float(scale[row]), float(chance_noise[row]),
            )  # fmt: skip
    return SpectraGroup(layer.name, whole_layer, spectra, lacking)


def _size(layer: LayerOutline, factor: str, whole_layer: bool, arrays: Mapping[str, FloatArray]) -> StoredSize:
    """Give the size of a factor of each head, from its singular values or from the norms that stand for them."""
    epsilon, sigma = arrays[EPSILONS[factor]][:, 0], arrays.get(factor)
    norms = arrays[NORMS[factor]].T if sigma is None else (frobenius_norm(sigma), spectral_norm(sigma))
    return StoredSize(*layer.shape(factor, whole_layer), epsilon, *norms)


def _noise(
    layer: LayerOutline, whole_layer: bool, matrix: str, sigma: FloatArray, sizes: Mapping[str, StoredSize]
) -> FloatArray:
    """Give the noise of a matrix of each head, (heads,), by the sizes of its factors."""
    if len(matrix) == 1:
        return sizes[matrix].noise
    one, other = (sizes[factor] for factor in matrix)
    if layer.is_change:  # it is a difference of two products, and no product of its factors
        epsilon = np.maximum(one.epsilon, other.epsilon)
        shape = layer.shape(matrix, whole_layer)
        return StoredSize(*shape, epsilon, frobenius_norm(sigma), spectral_norm(sigma)).noise
    # A layer's circuit has each key/value head beside all the heads that share it.
    group = layer.heads / layer.key_value_heads if whole_layer else 1.0
    return product_noise(one, other) * math.sqrt(group)
