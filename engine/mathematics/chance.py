"""What chance gives: the same curves and measures on Gaussian factors of the same shapes and norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from engine.mathematics.measures import MEASURES, Measure
from engine.mathematics.random_matrices import chance_of_factor, chance_of_product
from engine.values.heads import MATRICES
from engine.values.model import LayerOutline
from engine.values.spectra import FloatArray, Spectrum


def chance_of(layer: LayerOutline, whole_layer: bool) -> Mapping[str, FloatArray]:
    """Give what chance gives for the shapes of a layer's heads, or of the layer as a whole; changes have no chance.

    The sum over heads that share keys is one product too: sums of Gaussian queries are Gaussian.

    Returns
    -------
    By matrix, (draws, structural rank) singular values, each factor of Frobenius norm one; empty for changes.
    """
    if layer.is_change:
        return {}
    shared = layer.key_value_heads if whole_layer else 1
    inner = {"QK": shared * layer.head_dim, "OV": shared * layer.value_head_dim}
    shapes = {matrix: layer.shape(matrix, whole_layer) for matrix in MATRICES}
    return {
        matrix: chance_of_product(inner[matrix], *shape) if matrix in inner else chance_of_factor(*shape)
        for matrix, shape in shapes.items()
    }


def chance_curve(spectrum: Spectrum) -> FloatArray | None:
    """Average the draws, scaled to a head's own factors: (structural rank,), or None where there is no chance."""
    if spectrum.chance is None:
        return None
    curve: FloatArray = spectrum.chance.mean(0) * spectrum.chance_scale
    return curve


def chance_measures(
    spectra: Sequence[Spectrum], epsilon: float, measures: Sequence[Measure] = MEASURES
) -> list[tuple[float, ...] | None]:
    """Give what chance makes of measures of each spectrum, scaled to a head's own factors where one is a norm.

    The draws are measured once for all heads that share them; None without chance.
    """
    means: dict[tuple[int, float], list[float]] = {}
    rows: list[tuple[float, ...] | None] = []
    for spectrum in spectra:
        draws, noise = spectrum.chance, spectrum.chance_noise
        if draws is None:
            rows.append(None)
            continue
        key = id(draws), noise
        if key not in means:
            means[key] = [_mean(measure, epsilon, draws, noise) for measure in measures]
        scale = spectrum.chance_scale
        pairs = zip(measures, means[key], strict=True)
        rows.append(tuple(mean * scale if measure.is_norm else mean for measure, mean in pairs))
    return rows


def _mean(measure: Measure, epsilon: float, draws: FloatArray, noise: float) -> float:
    """Average a measure over draws, (draws, structural rank)."""
    values = measure.compute(draws, epsilon, noise).astype(np.float64)
    return float(np.median(values) if measure.is_heavy_tailed else values.mean())
