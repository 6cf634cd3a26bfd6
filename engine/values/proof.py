"""What a check of the engine's own cutting of a model into heads has found."""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.heads import Head


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether one identity holds for one layer.

    Attributes
    ----------
    holds : whether it does; None where it could not be checked.
    residual : the largest difference between its two sides, relative to the largest number; NaN where not checked.
    note : what the model does beside the plain formula, or why nothing could be checked.
    """

    holds: bool | None
    residual: float
    note: str

    @property
    def verdict(self) -> str:
        """Say it in a word or two."""
        if self.holds is None:
            return "not verifiable"
        return "verified" if self.holds else "WRONG"


@dataclass(frozen=True, slots=True)
class LayerProof:
    """The findings for one layer.

    Attributes
    ----------
    layer : which.
    output : identity (a), what the heads write: ``Σ_h A_h (x W_V,hᵀ + b_V,h) W_O,hᵀ + b_O = out``.
    scores : identity (b), where they look: ``softmax(scale · (x W_Qᵀ + b_Q)(x W_Kᵀ + b_K)ᵀ + mask) = A_h``.
    """

    layer: Head
    output: Finding
    scores: Finding
