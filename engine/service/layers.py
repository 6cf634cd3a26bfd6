"""A layer's singular values in steps that fit into memory and let a key press in between.

Heads are computed a few at a time and a large layer's matrices as a whole one at a time; what has been computed is kept
when the rest is given up. One layer's stored tensors are held at a time; when other work has looked at another layer
meanwhile, they are opened again, which costs nothing where they are memory-mapped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from engine.models.memory import free_memory
from engine.models.source import Source
from engine.service.loading import collector_at_rest
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head
from engine.values.memory import size
from engine.values.model import BATCH, LayerOutline
from engine.values.spectra import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.heads import LayerWeights, StoredLayer

Breathe = Callable[[], None]
Factors = tuple["Tensor", "Tensor", "Tensor", "Tensor"]
Values = dict[str, FloatArray]
SingularValues = Callable[[Factors, tuple[str, ...], bool, Breathe], Values]

MATRIX_COPIES = 5
"""How many float64 matrices of the same size there are at once while the singular values of one are computed."""


class Layers:
    """Singular values of a model's layers, and of chance beside them.

    Parameters
    ----------
    source : of the weights.
    singular_values : computes those of factors (query, key, value, output): which matrices, whether of the whole layer.
    """

    def __init__(self, source: Source, singular_values: SingularValues) -> None:
        self._source = source
        self._singular_values = singular_values
        self._held: tuple[Head, StoredLayer] | None = None
        self._heads: dict[Head, Values] = {}
        self._matrices: dict[tuple[str, Head, str], Values] = {}
        self._complete: dict[tuple[str, Head], Values] = {}

    def forget(self) -> None:
        """Let everything be read and computed anew."""
        self._held = None
        self._heads.clear()
        self._matrices.clear()
        self._complete.clear()

    def head(self, head: Head, breathe: Breathe) -> Values:
        """Compute one head's singular values, (1, rank) by matrix; nothing else of its layer is converted."""
        if head not in self._heads:
            self._compute_heads(head.whole_layer, range(head.head, head.head + 1), breathe)
        return self._heads[head]

    def heads(self, layer: LayerOutline, breathe: Breathe) -> Values:
        """Compute the singular values of all heads of a layer, (heads, rank) by matrix."""
        names, key = list(layer.head_names()), ("heads", layer.name)
        for batch in layer.batches():
            breathe()  # more urgent work may be the same
            if key not in self._complete and any(names[number] not in self._heads for number in batch):
                self._compute_heads(layer.name, batch, breathe)
        found = [self._heads.pop(name, {}) for name in names]
        self._held = None
        if key not in self._complete:
            self._complete[key] = {matrix: np.concatenate([each[matrix] for each in found]) for matrix in MATRICES}
        return self._complete[key]

    def _compute_heads(self, layer: Head, batch: range, breathe: Breathe) -> None:
        """Compute a few heads one after the other, and keep them until the layer is complete."""
        values = self._of_weights(self._stored(layer).cut(batch), MATRICES, False, breathe)
        for row, number in enumerate(batch):
            name = Head(layer.stack, layer.layer, number)
            self._heads[name] = {matrix: rows[row : row + 1] for matrix, rows in values.items()}

    def whole(self, layer: LayerOutline, breathe: Breathe) -> Values:
        """Compute the singular values of a layer's matrices as a whole, (1, rank) by matrix."""

        def compute(matrices: tuple[str, ...]) -> Values:
            weights = self._open(layer.name).cut(matrices=set("".join(matrices)))
            return self._of_weights(weights, matrices, True, breathe)

        return self._in_steps(layer, "weights", compute)

    def chance(self, layer: LayerOutline, whole_layer: bool, draws: int, breathe: Breathe) -> Values:
        """Simulate: Gaussian factors, each of Frobenius norm one, through the same functions as the weights.

        Returns
        -------
        (draws, rank) of single heads by matrix, or (1, rank) of the whole layer.
        """
        if whole_layer:

            def compute(matrices: tuple[str, ...]) -> Values:
                factors = _gaussian_layer(layer, set("".join(matrices)))
                return self._singular_values(factors, matrices, True, breathe)

            return self._in_steps(layer, "chance", compute)
        import torch

        generator = torch.Generator().manual_seed(0)
        shapes = _shapes(layer, 1, 1).values()
        at_once = max(1, BATCH // sum(math.prod(shape) for shape in shapes))
        found = []
        for first in range(0, draws, at_once):
            breathe()
            factors = _gaussian_heads(layer, min(at_once, draws - first), generator)
            found.append(self._singular_values(factors, MATRICES, False, breathe))
        return {matrix: np.concatenate([values[matrix] for values in found]) for matrix in MATRICES}

    def _in_steps(self, layer: LayerOutline, kind: str, compute: Callable[[tuple[str, ...]], Values]) -> Values:
        """Compute a whole layer's matrices, those of a large one each by itself; they are kept until all are there."""
        if not layer.is_large:
            return compute(MATRICES)
        key = (kind, layer.name)
        for matrix in MATRICES:
            if key not in self._complete and (*key, matrix) not in self._matrices:
                _check_room(layer)
                self._matrices[*key, matrix] = compute((matrix,))
        found = [self._matrices.pop((*key, matrix), {}) for matrix in MATRICES]
        if key not in self._complete:
            self._complete[key] = {matrix: rows for values in found for matrix, rows in values.items()}
        return self._complete[key]

    def _of_weights(
        self, weights: LayerWeights, matrices: tuple[str, ...], whole_layer: bool, breathe: Breathe
    ) -> Values:
        """Compute singular values of weights; the circuits of a change are products of factors of their own."""
        own = weights.circuits
        circuits = () if own is None else tuple(matrix for matrix in matrices if len(matrix) == 2)
        plain = tuple(matrix for matrix in matrices if matrix not in circuits)
        factors = weights.query, weights.key, weights.value, weights.output
        if not any(bool(factor.any()) for factor in factors):  # what is pruned, or a hole in a file, is no work
            return _zeros(factors, matrices, whole_layer)
        values = self._singular_values(factors, plain, whole_layer, breathe) if plain else {}
        if own is not None and circuits:
            factors = own.query, own.key, own.value, own.output
            values |= self._singular_values(factors, circuits, whole_layer, breathe)
        return values

    def _stored(self, layer: Head) -> StoredLayer:
        """Hold one layer's tensors, and let go of another's."""
        if self._held is None or self._held[0] != layer:
            self._held = None
            self._held = layer, self._open(layer)
        return self._held[1]

    def _open(self, layer: Head) -> StoredLayer:
        """Open one layer's tensors."""
        with collector_at_rest():
            from engine.models.heads import StoredLayer

        return StoredLayer(self._source.tensors, self._source.anatomy.modules[layer])


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


def _check_room(layer: LayerOutline) -> None:
    """Refuse a layer's matrices as a whole where the largest would not fit into memory.

    Raises
    ------
    EngineError : when it does not fit.
    """
    rows, columns = max((layer.shape(matrix, True) for matrix in "QKVO"), key=lambda shape: shape[0] * shape[1])
    needed, free = MATRIX_COPIES * 8 * rows * columns, free_memory()
    if free is not None and needed > free:
        raise EngineError(
            f"{layer.name} as a whole has matrices of {rows}×{columns}, which need {size(needed)} of memory, "
            f"and {size(free)} are free; its heads have their spectra one by one"
        )


def _gaussian(shape: tuple[int, int, int], generator: object, by_head: bool) -> Tensor:
    """Draw a factor, of Frobenius norm one for each head or for all together."""
    import torch

    assert isinstance(generator, torch.Generator)
    drawn: Tensor = torch.randn(shape, generator=generator, dtype=torch.float64)
    norm: Tensor = drawn.flatten(1).norm(dim=1)[:, None, None] if by_head else drawn.norm()
    return drawn.div_(norm)


def _shapes(layer: LayerOutline, heads: int, shared: int) -> dict[str, tuple[int, int, int]]:
    """Give the shapes of factors of so many heads."""
    return {
        "Q": (heads, layer.head_dim, layer.d_model),
        "K": (shared, layer.head_dim, layer.d_source),
        "V": (shared, layer.value_head_dim, layer.d_values),
        "O": (heads, layer.d_output, layer.value_head_dim),
    }


def _gaussian_heads(layer: LayerOutline, heads: int, generator: object) -> Factors:
    """Draw the factors of single heads, each with keys and values of its own."""
    shapes = _shapes(layer, heads, heads)
    query, key, value, output = (_gaussian(shapes[matrix], generator, True) for matrix in "QKVO")
    return query, key, value, output


def _gaussian_layer(layer: LayerOutline, matrices: Collection[str]) -> Factors:
    """Draw a whole layer's factors, each the same whichever others are wanted; zeros stand for those that are not."""
    import torch

    generator = torch.Generator().manual_seed(0)
    factors = []
    for matrix, shape in _shapes(layer, layer.heads, layer.key_value_heads).items():
        drawn = _gaussian(shape, generator, False)
        factors.append(drawn if matrix in matrices else torch.zeros(()).expand(shape))
    query, key, value, output = factors
    return query, key, value, output
