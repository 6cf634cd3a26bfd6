"""From arrays of singular values to the spectra of named heads; NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from engine.mathematics.chance import chance_of
from engine.mathematics.measures import StoredSize, frobenius_norm, product_noise, random_norm, spectral_norm
from engine.values.heads import MATRICES, Head
from engine.values.model import LayerOutline
from engine.values.spectra import EPSILONS, NORMS, FloatArray, SpectraGroup, Spectrum


def assemble(
    layer: LayerOutline, numbers: Sequence[int], values: Mapping[str, FloatArray], lacking: str = ""
) -> SpectraGroup:
    """Name the singular values of a layer.

    Parameters
    ----------
    layer : whose they are.
    numbers : the heads whose they are; -1 alone for the whole layer's.
    values : by matrix, (heads, structural rank); those that are left out are not there, but the norms of factors. By
        the names of `EPSILONS`, how finely the factors are stored.
    lacking : why some are left out.
    """
    whole_layer = list(numbers) == [-1]
    spectra: dict[int, dict[str, Spectrum]] = {number: {} for number in numbers}
    names = {number: Head(layer.stack, layer.layer, number) for number in numbers}  # one for all matrices of a head
    chance = chance_of(layer, whole_layer)
    for matrix in (matrix for matrix in MATRICES if matrix in values):
        rows, cols = layer.shape(matrix, whole_layer)
        noise, by_chance = (_noise(layer, matrix, whole_layer, values, is_chance) for is_chance in (False, True))
        scale = np.ones(len(numbers))
        for factor in matrix:
            scale = scale * _size(layer, factor, whole_layer, values, False).frobenius
        for row, number in enumerate(numbers):
            spectra[number][matrix] = Spectrum(
                names[number], matrix, rows, cols, values[matrix][row], float(noise[row]),
                chance.get(matrix), float(scale[row]), float(by_chance[row]),
            )  # fmt: skip
    return SpectraGroup(layer.name, whole_layer, spectra, lacking)


def _noise(
    layer: LayerOutline, matrix: str, whole_layer: bool, values: Mapping[str, FloatArray], by_chance: bool
) -> FloatArray:
    """Give the noise of a matrix of each head: (heads,); by chance, that of Gaussian factors of norm one."""
    sizes = [_size(layer, factor, whole_layer, values, by_chance) for factor in matrix]
    if len(sizes) == 1:
        return sizes[0].noise
    if layer.is_change:  # it is a difference of two products, and no product of its factors
        epsilon, sigma = np.maximum(sizes[0].epsilon, sizes[1].epsilon), values[matrix]
        size = StoredSize(*layer.shape(matrix, whole_layer), epsilon, frobenius_norm(sigma), spectral_norm(sigma))
        return size.noise
    # A layer's circuit has each key/value head beside all the heads that share it.
    group = layer.heads / layer.key_value_heads if whole_layer else 1.0
    return product_noise(*sizes) * math.sqrt(group)


def _size(
    layer: LayerOutline, factor: str, whole_layer: bool, values: Mapping[str, FloatArray], by_chance: bool
) -> StoredSize:
    """Give the size of a factor of each head, from its singular values or from the norms that stand for them."""
    rows, cols = layer.shape(factor, whole_layer)
    epsilon = values[EPSILONS[factor]][:, 0]
    if by_chance:
        return StoredSize(rows, cols, epsilon, 1.0, random_norm(rows, cols))
    if factor not in values:
        frobenius, spectral = values[NORMS[factor]].T
        return StoredSize(rows, cols, epsilon, frobenius, spectral)
    return StoredSize(rows, cols, epsilon, frobenius_norm(values[factor]), spectral_norm(values[factor]))
