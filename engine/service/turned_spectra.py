"""Spectra of QK at a distance between query and key, one after the other as a person moves it.

With ``W_Qᵀ = A T`` and ``W_Kᵀ = B S``, A and B of orthonormal columns, ``W_Qᵀ R W_K = A · T R Sᵀ · Bᵀ``: whatever the
distance is, the bases stay, and only a core of head_dim × head_dim is made anew. What an adapter changes of QK,
``[Δ_Q; W_Q]ᵀ [W_K'; Δ_K]``, is turned likewise, each half of its rows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from engine.mathematics.factored import Thin, thin
from engine.mathematics.rotary import Rotation, turned
from engine.models.rotations import rotation_of
from engine.values.heads import Head
from engine.values.spectra import FloatArray, SpectraGroup, Spectrum

if TYPE_CHECKING:
    from torch import Tensor

    from engine.analysis.open_model import OpenModel
    from engine.architectures.heads import LayerWeights
    from engine.service.session import Breathe


class TurnedSpectra:
    """An open model's spectra at distances; of the layer that was looked at last the factors are kept."""

    def __init__(self, session: OpenModel) -> None:
        self._session = session
        self._layer: Head | None = None
        self._rotation: Rotation | None = None
        self._weights: LayerWeights | None = None
        self._head_dim = 0
        self._split: dict[int, tuple[Thin, Thin]] = {}

    def head(self, head: Head, distance: int, breathe: Breathe) -> tuple[Spectrum, ...]:
        """Give one head's six spectra, QK's at a distance; parameters and errors as in `group`."""
        self._open(head.whole_layer)
        plain = self._session.head_spectra(head, breathe)
        values = self._of_heads([head.head], distance)[0]
        return tuple(_at(each, values) if distance else each for each in plain)

    def group(
        self, layer: Head, whole_layer: bool, distance: int, breathe: Breathe, matrices: tuple[str, ...]
    ) -> SpectraGroup:
        """Give the spectra of a layer's heads, or of the layer as a whole, QK's at a distance and the others as ever.

        Parameters
        ----------
        layer : whose.
        whole_layer : whether the layer as a whole is meant.
        distance : how many tokens the key is before the query; at 0 nothing is turned.
        matrices : those that are asked for of a layer as a whole.

        Raises
        ------
        EngineError : when the layer has no rotary positions that are known.
        """
        self._open(layer.whole_layer)
        plain = self._session.spectra(layer, whole_layer, breathe, matrices)
        if not distance or not any("QK" in of_head for of_head in plain.spectra.values()):
            return plain
        breathe()
        values = self._of_layer(distance, breathe) if whole_layer else self._of_heads(list(plain.spectra), distance)
        spectra = {
            number: {matrix: _at(each, row) for matrix, each in by_matrix.items()}
            for row, (number, by_matrix) in zip(values, plain.spectra.items(), strict=True)
        }
        return replace(plain, spectra=spectra)

    def _open(self, layer: Head) -> None:
        """Turn to a layer."""
        if self._layer == layer:
            return
        session, self._layer, self._weights = self._session, None, None
        self._split.clear()
        outline = session.outline.layer(layer)
        self._rotation, self._head_dim = (
            rotation_of(session.outline, outline, session.source.settings(), session.source.tensors),
            outline.head_dim,
        )
        weights = session.layer_weights(layer)
        self._weights = weights.circuits or weights
        self._layer = layer

    def _turned(self, rows: Tensor, distance: int) -> Tensor:
        """Turn rows of W_K, (heads, n · head_dim, …), of which each head_dim are turned by themselves."""
        assert self._rotation is not None
        by_part = rows.reshape(-1, self._head_dim, rows.shape[-1])
        return turned(by_part, self._rotation, distance).reshape(rows.shape)

    def _of_heads(self, numbers: Sequence[int], distance: int) -> FloatArray:
        """Compute QK's singular values of some heads, (heads, rank), largest first."""
        assert self._weights is not None
        missing = [number for number in numbers if number not in self._split]
        if missing:
            shared = [number // self._weights.group for number in missing]
            query, key = thin(self._weights.query[missing]), thin(self._weights.key[shared])
            self._split |= {number: (query.of(place), key.of(place)) for place, number in enumerate(missing)}
        query_rows, key_rows = (
            torch.cat([self._split[number][side].triangle for number in numbers]) for side in (0, 1)
        )
        core = query_rows @ self._turned(key_rows.mT, distance)
        values: FloatArray = torch.linalg.svdvals(core).numpy()
        return values

    def _of_layer(self, distance: int, breathe: Breathe) -> FloatArray:
        """Compute the singular values of the sum of the heads' QK, (1, rank)."""
        weights = self._weights
        assert weights is not None
        factors = weights.query, self._turned(weights.key, distance), weights.value, weights.output
        return self._session.singular_values(factors, ("QK",), True, breathe)["QK"]


def _at(spectrum: Spectrum, values: FloatArray) -> Spectrum:
    """Put QK's singular values at a distance into the place of those without one."""
    return replace(spectrum, singular_values=values) if spectrum.matrix == "QK" else spectrum
