"""Singular values of a head's matrices, as they cross to the screen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import Head

FloatArray = NDArray[np.float64]

Arrays = dict[str, FloatArray]
"""Of a head or a whole layer: the singular values of each matrix, (structural rank,), and under the keys of `EPSILONS`
and `NORMS` how finely a factor is stored, (1,), and the norms, (2,), of a factor without singular values."""

NORMS = {matrix: f"|{matrix}|" for matrix in "QKVO"}
"""The keys of the Frobenius and spectral norms of factors whose singular values are left out."""

EPSILONS = {matrix: f"eps {matrix}" for matrix in "QKVO"}
"""The keys of the relative distance between a factor's neighbouring stored numbers."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The singular values of one matrix of one head, or of a whole layer.

    Attributes
    ----------
    head : whose matrix it is.
    matrix : one of `engine.values.heads.MATRICES`.
    rows, cols : the matrix's shape, as PyTorch stores it.
    singular_values : (structural rank,) float64, largest first; all others are zero by construction.
    noise : singular values above this count towards the numerical rank.
    chance : (draws, structural rank) float64, singular values of Gaussian matrices of the same shape, or of products of
        Gaussian factors, each factor of Frobenius norm one; None for an adapter's changes.
    chance_scale : the product of the norms of the factors, by which the draws are multiplied.
    chance_noise : ``noise`` for the draws, if they are stored as finely.
    """

    head: Head
    matrix: str
    rows: int
    cols: int
    singular_values: FloatArray
    noise: float
    chance: FloatArray | None = None
    chance_scale: float = 1.0
    chance_noise: float = 0.0


@dataclass(frozen=True, slots=True)
class SpectraGroup:
    """The spectra of all heads of a layer, or of the whole layer.

    Attributes
    ----------
    spectra : by head number (-1 for the whole layer), then by matrix.
    """

    spectra: Mapping[int, Mapping[str, Spectrum]]

    @property
    def size(self) -> int:
        """The number of singular values."""
        return sum(len(each.singular_values) for head in self.spectra.values() for each in head.values())

    def listed(self, heads: Collection[int] | None = None, matrix: str | None = None) -> list[Spectrum]:
        """List the spectra head by head, perhaps of some heads or one matrix alone."""
        return [
            spectrum
            for number, spectra in self.spectra.items()
            if heads is None or number in heads
            for spectrum in spectra.values()
            if matrix in (None, spectrum.matrix)
        ]
