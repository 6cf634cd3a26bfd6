"""What chance gives: the same curves and measures on Gaussian factors of the same shapes and norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.mathematics.measures import MEASURES, Measure, frobenius_norm
from engine.mathematics.random_matrices import chance_of_factor, chance_of_product
from engine.values.heads import MATRICES
from engine.values.model import LayerOutline
from engine.values.spectra import Baseline, FloatArray, Spectrum


def chance_of(layer: LayerOutline, whole_layer: bool) -> Baseline | None:
    """Give what chance gives for the shapes of a layer's heads, or of the layer as a whole; changes have no chance.

    The sum over heads that share keys is one product too: sums of Gaussian queries are Gaussian.
    """
    if layer.is_change:
        return None
    shared = layer.key_value_heads if whole_layer else 1
    inner = {"QK": shared * layer.head_dim, "OV": shared * layer.value_head_dim}
    shapes = {matrix: layer.shape(matrix, whole_layer) for matrix in MATRICES}
    return Baseline(
        {
            matrix: chance_of_product(inner[matrix], *shape) if matrix in inner else chance_of_factor(*shape)
            for matrix, shape in shapes.items()
        }
    )


def chance_scale(matrix: str, spectra: Mapping[str, Spectrum]) -> float:
    """Multiply the Frobenius norms of the factors that form a head's matrix (``QK`` is formed by Q and K)."""
    scale = 1.0
    for factor in matrix:
        own = spectra.get(factor)
        norm = spectra[matrix].norms[factor] if own is None else float(frobenius_norm(own.singular_values))
        scale *= norm
    return scale


def chance_curve(matrix: str, spectra: Mapping[str, Spectrum], baseline: Baseline) -> FloatArray:
    """Average the draws' singular values, scaled to a head's own factors: (structural rank,)."""
    curve: FloatArray = baseline.draws[matrix].mean(0) * chance_scale(matrix, spectra)
    return curve


def chance_measure(
    measure: Measure, epsilon: float, spectra: Mapping[str, Spectrum], baseline: Baseline
) -> dict[str, float]:
    """Average a measure over the draws, by matrix, scaled to a head's own factors where it is a norm."""
    return {
        matrix: _mean(measure, epsilon, baseline.draws[matrix], spectra[matrix].chance_noise)
        * (chance_scale(matrix, spectra) if measure.is_norm else 1.0)
        for matrix in baseline.draws
        if matrix in spectra
    }


def _mean(measure: Measure, epsilon: float, draws: FloatArray, noise: float) -> float:
    """Average a measure over draws, (draws, structural rank)."""
    values = measure.compute(draws, epsilon, noise).astype(np.float64)
    return float(np.median(values) if measure.is_heavy_tailed else values.mean())


@dataclass(frozen=True, slots=True)
class BesideChance:
    """Heads of a layer, or the layer as a whole, and what chance gives for their shapes.

    Attributes
    ----------
    heads : all spectra of each, by matrix: the norms of the factors scale the chance of a product.
    baseline : what chance gives; None where there is none, as for changes of weights.
    matrix : the only one that is listed; None for all.
    """

    heads: Sequence[Mapping[str, Spectrum]]
    baseline: Baseline | None
    matrix: str | None = None

    def listed(self) -> list[Spectrum]:
        """List the spectra, head by head."""
        return [spectra[matrix] for spectra, matrix in self._places()]

    def curves(self) -> list[FloatArray | None]:
        """Give the curve of chance of each, as `chance_curve` does."""
        baseline = self.baseline
        return [
            None if baseline is None or matrix not in baseline.draws else chance_curve(matrix, spectra, baseline)
            for spectra, matrix in self._places()
        ]

    def measured(self, epsilon: float) -> list[tuple[float, ...] | None]:
        """Give what chance makes of every measure of each, as `chance_measure` does.

        The draws are measured once for all heads; but for norms these share the result.
        """
        baseline = self.baseline
        if baseline is None:
            return [None for _ in self._places()]
        draws = baseline.draws
        means: dict[tuple[str, float], list[float]] = {}
        rows: list[tuple[float, ...] | None] = []
        for spectra, matrix in self._places():
            if matrix not in draws:
                rows.append(None)
                continue
            noise = spectra[matrix].chance_noise
            if (matrix, noise) not in means:
                means[matrix, noise] = [_mean(measure, epsilon, draws[matrix], noise) for measure in MEASURES]
            scale = chance_scale(matrix, spectra)
            rows.append(
                tuple(
                    mean * scale if measure.is_norm else mean
                    for measure, mean in zip(MEASURES, means[matrix, noise], strict=True)
                )
            )
        return rows

    def _places(self) -> list[tuple[Mapping[str, Spectrum], str]]:
        """List each head's spectra with the name of each matrix that is listed."""
        return [(spectra, matrix) for spectra in self.heads for matrix in spectra if self.matrix in (None, matrix)]
