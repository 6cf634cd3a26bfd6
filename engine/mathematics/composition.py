"""How much of what one head writes another one reads (Elhage et al. 2021, "A Mathematical Framework…").

A head of an earlier layer writes by its OV₁. A head of a later layer may read that in three ways, and in each the
composition is ``‖AB‖_F / (‖A‖_F ‖B‖_F)``, between 0 and 1:

* Q: as its query, ``‖OV₁ · QK₂‖``
* K: as its key, ``‖OV₁ · QK₂ᵀ‖``
* V: as its value, ``‖OV₁ · OV₂‖``

With both products factored as ``left · core · rightᵀ``, orthonormal outside, ``OV₁ · QK₂`` has the norm of
``(core₁ right₁ᵀ)(left₂ core₂)``. So a layer's heads are ``heads · head_dim`` rows that write and as many columns that
read, and all pairs of heads of two layers come of one matrix product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.mathematics.factored import Product

KINDS = ("Q", "K", "V")
"""The ways in which a head may read what another one has written."""


def writing(ov: Product) -> Tensor:
    """Reduce what heads write to ``core · rightᵀ``, of norm one: (heads, k, d). Zero products become NaN."""
    return (ov.core @ ov.right.mT) / ov.squared_norm.sqrt()[:, None, None]


def reading(qk: Product, ov: Product) -> dict[str, Tensor]:
    """Reduce what heads read to ``left · core`` by kind, of norm one: (d, heads, k). Zero products become NaN."""
    qk_norm, ov_norm = qk.squared_norm.sqrt()[:, None, None], ov.squared_norm.sqrt()[:, None, None]
    by_head = {
        "Q": qk.left @ qk.core / qk_norm,
        "K": qk.right @ qk.core.mT / qk_norm,
        "V": ov.left @ ov.core / ov_norm,
    }
    return {kind: part.transpose(0, 1).contiguous() for kind, part in by_head.items()}


def composition(written: Tensor, read: Tensor) -> Tensor:
    """Compute the composition of every head that writes with every head that reads.

    Parameters
    ----------
    written : (heads, k, d), from `writing`.
    read : (d, other heads, l), one kind from `reading`.

    Returns
    -------
    (heads, other heads)
    """
    heads, k, d = written.shape
    _, others, width = read.shape
    met = written.reshape(heads * k, d) @ read.reshape(d, others * width)
    norms: Tensor = torch.linalg.vector_norm(met.view(heads, k, others, width), dim=(1, 3))
    return norms


def chance(d: int) -> float:
    """Give ``1/√d``, the root mean square for heads that know nothing of each other.

    If what the one writes is turned at random against what the other reads, ``E ‖AB‖_F² = ‖A‖_F² ‖B‖_F² / d`` exactly,
    whatever their singular values.
    """
    return float(d**-0.5)
