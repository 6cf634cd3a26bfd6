"""Spectra of a layer's QK at distances between query and key, one after the other as a person moves it.

With ``W_Qᵀ = A T`` and ``W_Kᵀ = B S``, A and B of orthonormal columns, ``W_Qᵀ R W_K = A · T R Sᵀ · Bᵀ``: whatever the
distance is, the bases stay, and only a core of head_dim × head_dim is made anew. What an adapter changes of QK,
``[Δ_Q; W_Q]ᵀ [W_K'; Δ_K]``, is rotated likewise, each half of its rows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.architectures.heads import LayerWeights
from engine.mathematics.factored import thin
from engine.mathematics.rotary import Rotation, rotate_keys
from engine.mathematics.spectra import layer_factors
from engine.values.outline import LayerOutline
from engine.values.spectra import FloatArray


class SpectraAtDistance:
    """What QK's spectra at any distance are computed from.

    Parameters
    ----------
    layer : which.
    weights : its factors of QK.
    rotation : how its keys are rotated by their positions.

    Attributes
    ----------
    layer : its name.
    """

    def __init__(self, layer: LayerOutline, weights: LayerWeights, rotation: Rotation) -> None:
        self.layer = layer.name
        self._rotation = rotation
        self._head_dim = layer.head_dim
        self._weights = weights
        self._triangles: dict[int, tuple[Tensor, Tensor]] = {}

    def _rotated(self, rows: Tensor, distance: int) -> Tensor:
        """Rotate rows of W_K, (heads, n · head_dim, …), of which each head_dim are rotated by themselves."""
        by_part = rows.reshape(-1, self._head_dim, rows.shape[-1])
        return rotate_keys(by_part, self._rotation, distance).reshape(rows.shape)

    def of_heads(self, numbers: Sequence[int], distance: int) -> FloatArray:
        """Compute QK's singular values of some heads, (heads, rank), largest first."""
        missing = [number for number in numbers if number not in self._triangles]
        if missing:
            shared = [number // self._weights.group for number in missing]
            query, key = (thin(each).triangle for each in (self._weights.query[missing], self._weights.key[shared]))
            self._triangles |= {number: (query[place], key[place]) for place, number in enumerate(missing)}
        query, key = (torch.stack([self._triangles[number][side] for number in numbers]) for side in (0, 1))
        values: FloatArray = torch.linalg.svdvals(query @ self._rotated(key.mT, distance)).numpy()
        return values

    def layer_factors(self, distance: int) -> tuple[Tensor, ...]:
        """Give what the sum of the heads' QK is made of, for `engine.mathematics.spectra.singular_values`."""
        weights = self._weights
        return layer_factors("QK", weights.query, self._rotated(weights.key, distance), weights.value, weights.output)
