"""From arrays of singular values to the spectra of named heads, and the baseline beside them; NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.mathematics.measures import rank_tolerance
from engine.values.heads import MATRICES, Head
from engine.values.model import LayerOutline
from engine.values.spectra import NORMS, FloatArray, SpectraGroup, Spectrum

COMPUTE_EPSILON = float(np.finfo(np.float64).eps)
"""All singular values are computed in float64."""

BASELINE_DRAWS = 8
"""Gaussian heads that the baseline of a head is taken from; a whole layer's averages itself over its many values."""


def _is_rounding(product: FloatArray, factors: Sequence[FloatArray], stored_epsilon: float) -> bool:
    """Say whether a product is no larger than what storing its factors has made of them.

    Singular values of AB move by up to ``‖A‖₂ ‖B‖₂ eps(stored dtype)`` (Weyl). Those of a product that is zero but for
    that are all of one size, so that none would be below a share of the largest.
    """
    largest: float = product.max(initial=0.0)
    return bool(0 < largest <= stored_epsilon * np.prod([each.max(initial=0.0) for each in factors]))


def assemble(
    layer: LayerOutline,
    numbers: Sequence[int],
    values: Mapping[str, FloatArray],
    epsilons: Mapping[str, float],
    lacking: str = "",
) -> SpectraGroup:
    """Name the singular values of a layer.

    Parameters
    ----------
    layer : whose they are.
    numbers : the heads whose they are; -1 alone for the whole layer's.
    values : by matrix, (heads, structural rank); those that are left out are not there, but the norms of factors.
    epsilons : by projection, the relative spacing of its stored dtype; a circuit has the coarser one of its factors.
    lacking : why some are left out.
    """
    whole_layer = list(numbers) == [-1]
    spectra: dict[int, dict[str, Spectrum]] = {number: {} for number in numbers}
    names = {number: Head(layer.stack, layer.layer, number) for number in numbers}  # one for all matrices of a head
    norms = {factor: float(values[norm][0, 0]) for factor, norm in NORMS.items() if norm in values}
    for matrix in (matrix for matrix in MATRICES if matrix in values):
        rows, cols = layer.shape(matrix, whole_layer)
        stored = max(epsilons[factor] for factor in matrix)
        tolerance = rank_tolerance(rows, cols, COMPUTE_EPSILON, stored)
        own_norms = {factor: norm for factor, norm in norms.items() if factor in matrix}
        for row, number in enumerate(numbers):
            own = values[matrix][row]
            factors = [values[each][row] if each in values else values[NORMS[each]][row, 1:] for each in matrix]
            is_rounding = len(matrix) > 1 and _is_rounding(own, factors, stored)
            spectra[number][matrix] = Spectrum(
                names[number], matrix, rows, cols, own, tolerance, is_rounding, own_norms
            )
    return SpectraGroup(layer.name, whole_layer, spectra, lacking)
