"""What chance gives: the same curves and measures on Gaussian factors of the same shapes and norms."""

from __future__ import annotations

from collections.abc import Mapping

from engine.mathematics.measures import Measure, frobenius_norm
from engine.values.spectra import Baseline, FloatArray, Spectrum


def chance_scale(matrix: str, spectra: Mapping[str, Spectrum]) -> float:
    """Multiply the Frobenius norms of the factors that form a head's matrix (``QK`` is formed by Q and K)."""
    scale = 1.0
    for factor in matrix:
        scale *= float(frobenius_norm(spectra[factor].singular_values))
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
        matrix: float(measure.compute(baseline.draws[matrix], epsilon, spectra[matrix].tolerance).mean())
        * (chance_scale(matrix, spectra) if measure.is_norm else 1.0)
        for matrix in baseline.draws
    }
