"""Singular values of a head's matrices, as they cross to the screen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head

FloatArray = NDArray[np.float64]

Arrays = dict[str, FloatArray]
"""Of a head, or a layer as a whole: by matrix, its singular values (structural rank,); by the names of `EPSILONS` and
`NORMS`, how finely a factor is stored, (1,), and the norms, (2,), of one that has no singular values there."""

NORMS = {matrix: f"|{matrix}|" for matrix in "QKVO"}
"""What a factor's norms, Frobenius and spectral, are called beside arrays of singular values, where its own are left
out."""

EPSILONS = {matrix: f"eps {matrix}" for matrix in "QKVO"}
"""What the relative distance between a factor's neighbouring stored numbers, (heads, 1), is called beside them."""


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The singular values of one matrix of one head, or of a whole layer.

    Attributes
    ----------
    head : whose matrix it is.
    matrix : one of `engine.values.heads.MATRICES`.
    rows, cols : the matrix's shape, as PyTorch stores it.
    singular_values : (structural rank,) float64, largest first; the values beyond are zero by construction.
    noise : a singular value counts towards the numerical rank when it is above this.
    chance : (draws, structural rank) float64, singular values of Gaussian matrices of the same shape, or of products of
        Gaussian factors, each factor of Frobenius norm one; None where there is no chance, as of changes of weights.
    chance_scale : the product of the norms of the factors, which the draws are multiplied by to stand beside this one.
    chance_noise : what ``noise`` is for the draws, if they are stored as finely.
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
    """The spectra that one step of work yields: of all heads of a layer, or of the layer as a whole.

    Attributes
    ----------
    layer : the layer's name.
    whole_layer : whether the rows are those of the whole layer.
    spectra : by head number (-1 for the whole layer), then by matrix; of a whole layer some may be left out.
    lacking : why some are left out; empty where none is.
    """

    layer: Head
    whole_layer: bool
    spectra: Mapping[int, Mapping[str, Spectrum]]
    lacking: str = ""

    @property
    def left_out(self) -> frozenset[str]:
        """The matrices that are left out."""
        return frozenset(MATRICES).difference(*self.spectra.values()) if self.lacking else frozenset()

    def with_circuits(self) -> SpectraGroup:
        """Give it back where all are there but for W_Q and W_O.

        Raises
        ------
        EngineError : where more is left out, saying why.
        """
        if self.left_out - {"Q", "O"}:
            raise EngineError(self.lacking)
        return self

    def lacks(self, matrix: str | None) -> str:
        """Say why a matrix is left out, or any where None is named; nothing where it is there."""
        is_there = matrix is not None and all(matrix in each for each in self.spectra.values())
        return "" if is_there else self.lacking

    @property
    def size(self) -> int:
        """How many singular values there are in all."""
        return sum(len(each.singular_values) for head in self.spectra.values() for each in head.values())

    def listed(self, heads: Collection[int] | None = None, matrix: str | None = None) -> list[Spectrum]:
        """List the spectra head by head: of some heads alone, and of one matrix alone, where such are named."""
        return [
            spectrum
            for number, spectra in self.spectra.items()
            if heads is None or number in heads
            for spectrum in spectra.values()
            if matrix in (None, spectrum.matrix)
        ]

    def of(self, head: int) -> tuple[Spectrum, ...]:
        """List one head's spectra in the order of the tables."""
        return tuple(self.spectra[head].values())
