"""A layer's singular values in steps that fit into memory and let a key press in between.

Heads are computed a few at a time and a large layer's matrices as a whole one at a time; what has been computed is kept
when the rest is given up. One layer's stored tensors are held at a time; when other work has looked at another layer
meanwhile, they are opened again. A large layer's are let go of before what was cut out of them is computed with: else
those of every layer that has been left for a more urgent one would stay in memory until it is gone on with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engine.checkpoints.source import Source
from engine.checkpoints.tensor_reader import Checkpoint, OpenedFiles
from engine.service.loading import collector_at_rest
from engine.values.heads import MATRICES, Head
from engine.values.model import LayerOutline
from engine.values.spectra import EPSILONS, NORMS, FloatArray

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.heads import LayerWeights, StoredLayer

POWER_STEPS = 6
"""That tell a large matrix's spectral norm to a few hundredths, enough to know rounding by its size."""

Breathe = Callable[[], None]
Factors = tuple["Tensor", "Tensor", "Tensor", "Tensor"]
Values = dict[str, FloatArray]
SingularValues = Callable[[Factors, tuple[str, ...], bool, Breathe], Values]


class Layers:
    """Singular values of a model's layers.

    Parameters
    ----------
    source : of the weights.
    singular_values : computes those of factors (query, key, value, output): which matrices, whether of the whole layer.
    """

    def __init__(self, source: Source, singular_values: SingularValues) -> None:
        self._source = source
        self._singular_values = singular_values
        self._held: tuple[Head, StoredLayer] | None = None
        self._opened = OpenedFiles(source.files)
        self._heads: dict[Head, Values] = {}
        self._matrices: dict[tuple[Head, str], Values] = {}
        self._complete: dict[Head, Values] = {}

    def forget(self) -> None:
        """Let everything be read and computed anew."""
        self._held = None
        self._heads.clear()
        self._matrices.clear()
        self._complete.clear()

    def head(self, head: Head, breathe: Breathe) -> Values:
        """Compute one head's singular values, (1, rank) by matrix; nothing else of its layer is converted."""
        if head not in self._heads:
            layer = self._source.anatomy.outline.layer(head)
            self._compute_heads(layer, range(head.head, head.head + 1), breathe)
        return self._heads[head]

    def heads(self, layer: LayerOutline, breathe: Breathe) -> Values:
        """Compute the singular values of all heads of a layer, (heads, rank) by matrix."""
        names, key = list(layer.head_names()), layer.name
        for batch in layer.batches():
            breathe()  # more urgent work may be the same
            if key not in self._complete and any(names[number] not in self._heads for number in batch):
                self._compute_heads(layer, batch, breathe)
        found = [self._heads.pop(name, {}) for name in names]
        self._held = None
        if key not in self._complete:
            names_of_arrays = (*MATRICES, *EPSILONS.values())
            self._complete[key] = {name: np.concatenate([each[name] for each in found]) for name in names_of_arrays}
        return self._complete[key]

    def _compute_heads(self, layer: LayerOutline, batch: range, breathe: Breathe) -> None:
        """Compute a few heads one after the other, and keep them until the layer is complete."""
        weights = self._cut(layer, batch)
        values = self._of_weights(weights, MATRICES, False, breathe)
        values |= {name: weights.epsilons_by_head(factor)[:, None] for factor, name in EPSILONS.items()}
        for row, number in enumerate(batch):
            name = Head(layer.stack, layer.layer, number)
            self._heads[name] = {matrix: rows[row : row + 1] for matrix, rows in values.items()}

    def whole(self, layer: LayerOutline, matrices: tuple[str, ...], breathe: Breathe) -> Values:
        """Compute the singular values of matrices of a layer as a whole.

        Returns
        -------
        (1, rank) by matrix, the norms, (1, 2), of circuits' factors that are not among them, and how finely each factor
        is stored, (1, 1).
        """

        def compute(some: tuple[str, ...]) -> Values:
            weights = self._open(layer.name).cut(matrices=set("".join(some)))
            beside = {NORMS[each]: _norms(weights, each) for each in "".join(some) if each not in matrices}
            beside |= {EPSILONS[each]: _epsilon_of_layer(weights, each) for each in "".join(some)}
            if layer.is_large:
                weights = _added_up(weights, some)  # what they are added up from goes before anything is computed
            return self._of_weights(weights, some, True, breathe) | beside

        return self._in_steps(layer, matrices, compute)

    def _in_steps(
        self, layer: LayerOutline, matrices: tuple[str, ...], compute: Callable[[tuple[str, ...]], Values]
    ) -> Values:
        """Compute matrices of a layer as a whole, those of a large one each by itself; they are kept."""
        if not layer.is_large:
            return compute(matrices)
        found: Values = {}
        for matrix in matrices:
            key = (layer.name, matrix)
            if key not in self._matrices:  # more urgent work in between may have been the same
                self._matrices[key] = compute((matrix,))
            found |= self._matrices[key]
        return found

    def _of_weights(
        self, weights: LayerWeights, matrices: tuple[str, ...], whole_layer: bool, breathe: Breathe
    ) -> Values:
        """Compute singular values of weights; the circuits of a change are products of factors of their own."""
        own = weights.circuits
        circuits = () if own is None else tuple(matrix for matrix in matrices if len(matrix) == 2)
        plain = tuple(matrix for matrix in matrices if matrix not in circuits)
        factors = weights.query, weights.key, weights.value, weights.output
        named = zip("QKVO", factors, strict=True)
        if not any(bool(head.any()) for name, factor in named if name in "".join(matrices) for head in factor):
            # What is pruned, or a hole in a file, is no work. A head at a time: a mask of all would take memory.
            return _zeros(factors, matrices, whole_layer)
        values = self._singular_values(factors, plain, whole_layer, breathe) if plain else {}
        if own is not None and circuits:
            factors = own.query, own.key, own.value, own.output
            values |= self._singular_values(factors, circuits, whole_layer, breathe)
        return values

    def _cut(self, layer: LayerOutline, batch: range) -> LayerWeights:
        """Cut a few heads out of a layer, and hold its tensors for the next unless opening them again costs nothing."""
        if layer.is_large and isinstance(self._source.tensors, Checkpoint):
            return self._open(layer.name).cut(batch).copied()
        return self._stored(layer.name).cut(batch)

    def _stored(self, layer: Head) -> StoredLayer:
        """Hold one layer's tensors, and let go of another's."""
        self._opened.check_mapped()
        if self._held is None or self._held[0] != layer:
            self._held = None
            self._held = layer, self._open(layer)
        return self._held[1]

    def _open(self, layer: Head) -> StoredLayer:
        """Open one layer's tensors."""
        with collector_at_rest():
            from engine.architectures.heads import StoredLayer

        return StoredLayer(self._source.tensors, self._source.anatomy.modules[layer])


def _added_up(weights: LayerWeights, matrices: tuple[str, ...]) -> LayerWeights:
    """Give the weights with queries or outputs of heads that share a key/value head added up, where only that is used.

    Of many heads to a key the sum in float64 takes less than they do.
    """
    if weights.group == 1 or weights.circuits is not None or any(len(matrix) == 1 for matrix in matrices):
        return weights
    from engine.mathematics.spectra import added_up

    shared, both = len(weights.key), "".join(matrices)
    return replace(
        weights,
        query=added_up(weights.query, shared) if "Q" in both else weights.query,
        output=added_up(weights.output.mT, shared).mT if "O" in both else weights.output,
    )


def _by_head(weights: LayerWeights, factor: str) -> Tensor:
    """Give a factor's heads, (heads or key_value_heads, head_dim, width)."""
    return {"Q": weights.query, "K": weights.key, "V": weights.value, "O": weights.output.mT}[factor]


def _epsilon_of_layer(weights: LayerWeights, factor: str) -> FloatArray:
    """Say how finely a factor of a layer as a whole is stored: (1, 1); the squares of its heads' noise add up."""
    epsilons = weights.epsilons[factor]
    if np.ptp(epsilons) > 0:
        sizes = [float(head.double().norm()) for head in _by_head(weights, factor)]
        epsilons = np.sqrt(np.average(epsilons**2, weights=np.square(sizes), keepdims=True))
    return np.array(epsilons[:1, None])


def _norms(weights: LayerWeights, factor: str) -> FloatArray:
    """Compute the norms of a factor of a layer as a whole, Frobenius and spectral, a head after the other: (1, 2).

    The spectral norm, by a few steps of power iteration, is a little less than it is.
    """
    import torch

    heads = _by_head(weights, factor)
    frobenius = math.hypot(*(float(head.double().norm()) for head in heads))
    vector, largest = torch.randn(heads.shape[-1], generator=torch.Generator().manual_seed(0)), 0.0
    for _ in range(POWER_STEPS if frobenius else 0):
        vector /= vector.norm()
        following = torch.zeros_like(vector)
        square = 0.0
        for head in heads:
            rows = head.float()
            image = rows @ vector
            square += float(image.norm()) ** 2
            following += rows.mT @ image
        vector, largest = following, math.sqrt(square)
    return np.array([[frobenius, largest]])


def _zeros(factors: Factors, matrices: tuple[str, ...], whole_layer: bool) -> Values:
    """Give the singular values of factors that are zero."""
    query, key, value, output = factors
    heads, shared = (len(query), len(key)) if whole_layer else (1, 1)
    ranks = {
        "Q": min(heads * query.shape[1], query.shape[2]),
        "K": min(shared * key.shape[1], key.shape[2]),
        "V": min(shared * value.shape[1], value.shape[2]),
        "O": min(heads * output.shape[2], output.shape[1]),
        "QK": min(shared * key.shape[1], query.shape[2], key.shape[2]),
        "OV": min(shared * value.shape[1], value.shape[2], output.shape[1]),
    }
    return {matrix: np.zeros((1 if whole_layer else len(query), ranks[matrix])) for matrix in matrices}
