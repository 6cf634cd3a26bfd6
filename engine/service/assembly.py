"""From arrays of singular values to the spectra of named heads, and the baseline beside them; NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.mathematics.measures import rank_tolerance
from engine.values.heads import MATRICES, Head
from engine.values.model import LayerOutline
from engine.values.spectra import FloatArray, SpectraGroup, Spectrum

COMPUTE_EPSILON = float(np.finfo(np.float64).eps)
"""All singular values are computed in float64."""

BASELINE_DRAWS = 8
"""Gaussian heads that the baseline of a head is taken from; a whole layer's averages itself over its many values."""


def assemble(
    layer: LayerOutline, numbers: Sequence[int], values: Mapping[str, FloatArray], epsilons: Mapping[str, float]
) -> SpectraGroup:
    """Name the singular values of a layer.

    Parameters
    ----------
    layer : whose they are.
    numbers : the heads whose they are; -1 alone for the whole layer's.
    values : by matrix, (heads, structural rank).
    epsilons : by projection, the relative spacing of its stored dtype; a circuit has the coarser one of its factors.
    """
    whole_layer = list(numbers) == [-1]
    spectra: dict[int, dict[str, Spectrum]] = {number: {} for number in numbers}
    for matrix in MATRICES:
        rows, cols = layer.shape(matrix, whole_layer)
        stored = max(epsilons[factor] for factor in matrix)
        tolerance = rank_tolerance(rows, cols, COMPUTE_EPSILON, stored)
        for row, number in enumerate(numbers):
            name = Head(layer.stack, layer.layer, number)
            spectra[number][matrix] = Spectrum(name, matrix, rows, cols, values[matrix][row], tolerance)
    return SpectraGroup(layer.name, whole_layer, spectra)
