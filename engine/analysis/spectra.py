"""A model's spectra: from memory, from disk, or computed in units that other work goes between.

Heads are computed a few at a time and a large layer's matrices one at a time; what has been computed is kept when the
rest is given up. No more than one layer's stored tensors are held. A large layer's are let go of before what was cut
out of them is computed with.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.analysis.whole_layers import room_for
from engine.checkpoints.library_imports import IMPORTING
from engine.checkpoints.source import Source
from engine.checkpoints.tensor_reader import Checkpoint, OpenedFiles
from engine.mathematics.chance import chance_of
from engine.mathematics.measures import StoredSize, frobenius_norm, product_noise, random_norm, spectral_norm
from engine.store.cache import SpectraCache
from engine.store.files import cache_directory
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head
from engine.values.options import EngineOptions
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Work
from engine.values.spectra import EPSILONS, NORMS, FloatArray, SpectraGroup, Spectrum

if TYPE_CHECKING:
    from torch import Tensor

    from engine.analysis.decompositions import Decomposer, SpectraAtDistance
    from engine.architectures.heads import LayerWeights, StoredLayer


Arrays = dict[str, FloatArray]
"""By matrix, singular values (heads, structural rank); by the names of `EPSILONS` and `NORMS`, how finely a factor is
stored, (heads, 1), and the norms (heads, 2) of one that has no singular values there."""

Key = tuple[Head, bool]
"""A layer's name, and whether the layer as a whole is meant."""


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
        self._groups: dict[Key, SpectraGroup] = {}
        self._asked: dict[Key, frozenset[str]] = {}
        self._arrays: dict[Key, Arrays] = {}
        self._heads: dict[Head, Arrays] = {}
        self._stored: tuple[Head, StoredLayer] | None = None
        self._at_distance: SpectraAtDistance | None = None

    def close(self) -> None:
        """Let go of what takes memory."""
        self.forget()

    @property
    def is_kept(self) -> bool:
        """Whether anything of the model is on disk, so that torch may not be needed for a while."""
        return self._cache is not None and self._cache.is_there

    def layer(self, layer: Head, whole_layer: bool, matrices: Collection[str] = MATRICES) -> Work[SpectraGroup]:
        """Give the spectra of all heads of a layer, or of the layer as a whole.

        There are the matrices that are asked for, and those that were before. A head's circuit comes with its factors.

        Raises
        ------
        EngineError : when there is no such layer, it cannot be read, or none of what is asked for has room.
        """
        outline, key = self._outline.layer(layer), (layer.whole_layer, whole_layer)
        asked = self._asked.get(key, frozenset()).union(matrices)
        if asked != self._asked.get(key):
            arrays, lacking = self._known(outline, whole_layer), ""
            missing = tuple(matrix for matrix in MATRICES if matrix in asked and matrix not in arrays)
            if missing and whole_layer:
                missing, lacking = self._with_room(outline, missing, len(missing) == len(asked))
            if missing:
                yield from self._prepare(Lane.LAYERS if whole_layer else Lane.WEIGHTS)
                yield from (self._whole_layer if whole_layer else self._all_heads)(outline, missing, arrays)
                if self._cache is not None:
                    self._cache.save(_file(key), arrays)
            group = assemble(outline, [-1] if whole_layer else range(outline.heads), arrays, lacking)
            if self._arrays.get(key) is not arrays:  # all was forgotten meanwhile
                return group
            self._groups[key], self._asked[key] = group, asked
        return self._groups[key]

    def head(self, head: Head, matrices: Collection[str] = MATRICES) -> Work[tuple[Spectrum, ...]]:
        """Give spectra of one head, reading and computing no more of its layer than they need; errors as `layer`."""
        outline, number, heads = self._outline.layer(head), head.head, self._heads

        def known() -> Arrays:
            of_layer = dict(self._known(outline, False))
            return {name: rows[number : number + 1] for name, rows in of_layer.items()} | heads.get(head, {})

        missing = [matrix for matrix in matrices if matrix not in known()]
        if missing:
            yield from self._prepare(Lane.WEIGHTS)
            yield from self._some_heads(outline, range(number, number + 1), missing, heads)
        return tuple(each for each in assemble(outline, [number], known()).of(number) if each.matrix in matrices)

    def layer_at(
        self, layer: Head, whole_layer: bool, distance: int, matrices: Collection[str] = MATRICES
    ) -> Work[SpectraGroup]:
        """Give spectra with QK's at a distance of so many tokens of the key before the query, and the others as ever.

        Raises
        ------
        EngineError : as `layer`, and when the layer has no rotary positions that are known.
        """
        at_distance = yield from self._of_rotated(layer)
        plain = yield from self.layer(layer, whole_layer, matrices)
        if not distance or not any("QK" in of_head for of_head in plain.spectra.values()):
            return plain
        if whole_layer:
            yield Lane.LAYERS
            assert self._decomposer is not None
            values = (yield from self._decomposer.layer({"QK": at_distance.layer_factors(distance)}))["QK"]
        else:
            yield Lane.WEIGHTS
            values = at_distance.of_heads(list(plain.spectra), distance)
        spectra = {
            number: {matrix: _with_qk(each, row) for matrix, each in by_matrix.items()}
            for row, (number, by_matrix) in zip(values, plain.spectra.items(), strict=True)
        }
        return replace(plain, spectra=spectra)

    def head_at(self, head: Head, distance: int, matrices: Collection[str] = MATRICES) -> Work[tuple[Spectrum, ...]]:
        """Give spectra of one head, QK's at a distance; parameters and errors as `layer_at`."""
        at_distance = yield from self._of_rotated(head)
        plain = yield from self.head(head, matrices)
        if not distance or "QK" not in matrices:
            return plain
        values = at_distance.of_heads([head.head], distance)[0]
        return tuple(_with_qk(each, values) for each in plain)

    def _known(self, layer: LayerOutline, whole_layer: bool) -> Arrays:
        """Give the arrays that are there already, in memory or on disk."""
        key = layer.name, whole_layer
        if key not in self._arrays:
            kept = (None if self._cache is None else self._cache.load(_file(key))) or {}
            rows, names = 1 if whole_layer else layer.heads, {*MATRICES, *NORMS.values(), *EPSILONS.values()}
            is_ours = not kept.keys() - names and {len(each) for each in kept.values()} == {rows}
            return self._arrays.setdefault(key, kept if is_ours else {})
        return self._arrays[key]

    def _with_room(self, layer: LayerOutline, missing: tuple[str, ...], is_all: bool) -> tuple[tuple[str, ...], str]:
        """Give those matrices of a layer as a whole that have room, and why the others are left out.

        Raises
        ------
        EngineError : when they are all that is asked for, and none has room.
        """
        if not layer.is_large:
            return missing, ""
        room = room_for(layer, missing, self._options.is_browsing)
        if is_all and not room.fitting:
            raise EngineError(room.lacking)
        if room.notice and not self._has_told_of_room:  # other layers of the model take the same
            self._has_told_of_room = True
            self._notify(room.notice)
        return room.fitting, room.lacking

    def _whole_layer(self, layer: LayerOutline, matrices: tuple[str, ...], arrays: Arrays) -> Work[None]:
        """Compute matrices of a layer as a whole, those of a large one each by itself, and add them to its arrays."""
        for some in [(matrix,) for matrix in matrices] if layer.is_large else [matrices]:
            if arrays.keys() >= {*some}:  # other work in between may have been the same
                continue
            made_of, sizes = self._layer_factors(layer, some, {*matrices, *arrays})
            assert self._decomposer is not None
            found = yield from self._decomposer.layer(made_of)
            arrays.update(sizes | found)

    def _layer_factors(
        self, layer: LayerOutline, matrices: tuple[str, ...], known: Collection[str]
    ) -> tuple[dict[str, tuple[Tensor, ...]], Arrays]:
        """Read what matrices of a layer as a whole are made of, and how large and how finely stored factors are."""
        from engine.mathematics.spectra import layer_factors, layer_norms

        weights = self._open(layer.name).cut(matrices=set("".join(matrices)))
        arrays: Arrays = {}
        for factor in "".join(matrices):
            by_head = {"Q": weights.query, "K": weights.key, "V": weights.value, "O": weights.output.mT}[factor]
            arrays[EPSILONS[factor]] = _epsilon_of_layer(weights.epsilons[factor], by_head)
            if factor not in known:
                arrays[NORMS[factor]] = np.array([layer_norms(by_head)])
        of_circuits = weights.circuits or weights
        made_of = {matrix: weights if len(matrix) == 1 else of_circuits for matrix in matrices}
        return {matrix: layer_factors(matrix, *_factors(each)) for matrix, each in made_of.items()}, arrays

    def _all_heads(self, layer: LayerOutline, matrices: tuple[str, ...], arrays: Arrays) -> Work[None]:
        """Compute matrices of all heads of a layer, a batch after the other, and add them to its arrays."""
        names, heads = list(layer.head_names()), self._heads
        for batch in layer.batches():
            missing = [each for each in matrices if any(each not in heads.get(names[n], {}) for n in batch)]
            if missing and not arrays.keys() >= {*matrices}:  # other work in between may have been the same
                yield from self._some_heads(layer, batch, missing, heads)
        found = [heads.pop(name, {}) for name in names]
        common = set(found[0]).intersection(*found)
        arrays.update({name: np.concatenate([each[name] for each in found]) for name in common})
        for name, each in zip(names, found, strict=True):
            if left := {matrix: rows for matrix, rows in each.items() if matrix not in arrays}:
                heads[name] = left
        self._stored = None

    def _some_heads(
        self, layer: LayerOutline, batch: range, matrices: Collection[str], heads: dict[Head, Arrays]
    ) -> Work[None]:
        """Compute matrices of a few heads, circuits with their factors, and keep them until the layer is complete."""
        wanted = {*matrices, *(factor for matrix in matrices for factor in matrix)}
        weights = self._cut(layer, batch, wanted.intersection("QKVO"))
        arrays = {EPSILONS[each]: weights.epsilons_by_head(each)[:, None] for each in wanted.intersection("QKVO")}
        assert self._decomposer is not None
        if weights.circuits is None:
            arrays |= yield from self._decomposer.heads(_factors(weights), wanted)
        else:  # of a change, whose circuits are products of factors of their own
            arrays |= yield from self._decomposer.heads(_factors(weights), wanted.intersection("QKVO"))
            arrays |= yield from self._decomposer.heads(_factors(weights.circuits), wanted.difference("QKVO"))
        for row, number in enumerate(batch):
            name = Head(layer.stack, layer.layer, number)
            own = {matrix: rows[row : row + 1] for matrix, rows in arrays.items()}
            heads[name] = heads.get(name, {}) | own

    def _cut(self, layer: LayerOutline, batch: range, projections: Collection[str]) -> LayerWeights:
        """Cut a few heads out of a layer, and hold its tensors for the next unless opening them again costs nothing."""
        if layer.is_large and isinstance(self._source.tensors, Checkpoint):
            return self._open(layer.name).cut(batch, projections).copied()
        self._files.check()
        stored = self._stored
        if stored is None or stored[0] != layer.name:
            self._stored = None
            self._stored = stored = layer.name, self._open(layer.name)
        return stored[1].cut(batch, projections)

    def _open(self, layer: Head) -> StoredLayer:
        from engine.architectures.heads import StoredLayer

        return StoredLayer(self._source.tensors, self._source.anatomy.modules[layer])

    def _prepare(self, lane: Lane) -> Work[None]:
        """Go to a lane with torch there, and choose where singular values are computed."""
        if self._decomposer is None:
            yield from with_torch()
            from engine.analysis.decompositions import Decomposer

            with self._lock:
                self._decomposer = self._decomposer or Decomposer(self._options.device, self._notify)
        yield lane

    def _of_rotated(self, layer: Head) -> Work[SpectraAtDistance]:
        """Give what computes QK at distances of a layer; that of the layer that was looked at last is kept."""
        yield from self._prepare(Lane.WEIGHTS)
        from engine.analysis.decompositions import SpectraAtDistance
        from engine.models.rotations import rotation_of

        source, outline, found = self._source, self._outline.layer(layer), self._at_distance
        if found is None or found.layer != outline.name:
            rotation = rotation_of(self._outline, outline, source.settings(), source.tensors)
            weights = self._open(outline.name).cut()
            self._at_distance = found = SpectraAtDistance(outline, weights.circuits or weights, rotation)
        return found


def with_torch() -> Work[None]:
    """Import torch, on a lane that keeps nobody waiting, unless it is there."""
    if not hasattr(sys.modules.get("torch"), "nn"):
        yield Lane.FILES
        with IMPORTING:
            import torch  # noqa: F401


def _file(key: Key) -> str:
    """Name the file on disk that keeps a layer's singular values."""
    layer, whole_layer = key
    return f"{layer.stack}-{layer.layer}-{'layer' if whole_layer else 'heads'}"


def _factors(weights: LayerWeights) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return weights.query, weights.key, weights.value, weights.output


def _epsilon_of_layer(epsilons: FloatArray, by_head: Tensor) -> FloatArray:
    """Say how finely a factor of a layer as a whole is stored: (1, 1); the squares of its heads' noise add up."""
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
    for matrix in known:
        rows, cols = layer.shape(matrix, whole_layer)
        noise, by_chance = (_noise(layer, matrix, whole_layer, arrays, is_chance) for is_chance in (False, True))
        scale = np.ones(len(numbers))
        for factor in matrix:
            scale = scale * _size(layer, factor, whole_layer, arrays, False).frobenius
        for row, number in enumerate(numbers):
            spectra[number][matrix] = Spectrum(
                names[number], matrix, rows, cols, arrays[matrix][row], float(noise[row]),
                chance.get(matrix), float(scale[row]), float(by_chance[row]),
            )  # fmt: skip
    return SpectraGroup(layer.name, whole_layer, spectra, lacking)


def _noise(
    layer: LayerOutline, matrix: str, whole_layer: bool, arrays: Mapping[str, FloatArray], by_chance: bool
) -> FloatArray:
    """Give the noise of a matrix of each head: (heads,); by chance, that of Gaussian factors of norm one."""
    sizes = [_size(layer, factor, whole_layer, arrays, by_chance) for factor in matrix]
    if len(sizes) == 1:
        return sizes[0].noise
    if layer.is_change:  # it is a difference of two products, and no product of its factors
        epsilon, sigma = np.maximum(sizes[0].epsilon, sizes[1].epsilon), arrays[matrix]
        size = StoredSize(*layer.shape(matrix, whole_layer), epsilon, frobenius_norm(sigma), spectral_norm(sigma))
        return size.noise
    # A layer's circuit has each key/value head beside all the heads that share it.
    group = layer.heads / layer.key_value_heads if whole_layer else 1.0
    return product_noise(*sizes) * math.sqrt(group)


def _size(
    layer: LayerOutline, factor: str, whole_layer: bool, arrays: Mapping[str, FloatArray], by_chance: bool
) -> StoredSize:
    """Give the size of a factor of each head, from its singular values or from the norms that stand for them."""
    rows, cols = layer.shape(factor, whole_layer)
    epsilon = arrays[EPSILONS[factor]][:, 0]
    if by_chance:
        return StoredSize(rows, cols, epsilon, 1.0, random_norm(rows, cols))
    if factor not in arrays:
        frobenius, spectral = arrays[NORMS[factor]].T
        return StoredSize(rows, cols, epsilon, frobenius, spectral)
    return StoredSize(rows, cols, epsilon, frobenius_norm(arrays[factor]), spectral_norm(arrays[factor]))
