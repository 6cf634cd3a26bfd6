"""How much of what one head writes another one reads (Elhage et al. 2021, "A Mathematical Framework…").

A head of an earlier layer writes by its OV₁. A head of a later layer may read that in three ways, and in each the
composition is ``‖AB‖_F / (‖A‖_F ‖B‖_F)``, between 0 and 1:

* Q: as its query, ``‖OV₁ · QK₂‖``
* K: as its key, ``‖OV₁ · QK₂ᵀ‖``
* V: as its value, ``‖OV₁ · OV₂‖``

With a factor of each circuit replaced by the root of its square, ``W_V W_Vᵀ = L Lᵀ``, OV₁ has ``Lᵀ W_Oᵀ`` in its place,
which writes the same, and so has what reads. All compositions are norms of ``A Bᵀ``, A and B of ``head_dim`` rows: so
a layer's heads are ``heads · head_dim`` rows that write and as many that read, and all pairs of heads of two layers
come of one matrix product. Chance is ``1/√d``, the root mean square for heads that know nothing of each other: if the
one is turned at random, ``E ‖AB‖_F² = ‖A‖_F² ‖B‖_F² / d`` exactly, whatever their singular values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.mathematics.factored_matrices import root

KINDS = ("Q", "K", "V")
"""The ways in which a head may read what another one has written."""


def writing(value: Tensor, output: Tensor) -> Tensor:
    """Reduce what heads write to rows A (heads, k, d_output) float64 with ``AᵀA = OVᵀ OV / ‖OV‖²``.

    W_V is (key_value_heads, s, d_values), W_O (heads, d_output, s), k up to s. A head of zeros becomes NaN.
    """
    return _unit(root(value).repeat_interleave(len(output) // len(value), 0).mT @ output.mT.double())


def reading(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> dict[str, Tensor]:
    """Reduce what heads read to rows B of norm one, by kind: ``BᵀB`` is that of what they read by.

    W_Q (heads, r, d_model), W_K and W_V (key_value_heads, r, d) and W_O (heads, d_output, s) give (heads, k, d)
    float64. A head of zeros becomes NaN.
    """
    group = len(query) // len(key)
    return {
        "Q": _unit(root(key).repeat_interleave(group, 0).mT @ query.double()),
        "K": _unit(root(query).mT @ key.double().repeat_interleave(group, 0)),
        "V": _unit(root(output.mT).mT @ value.double().repeat_interleave(group, 0)),
    }


def _unit(rows: Tensor) -> Tensor:
    """Divide each of a batch of matrices by its Frobenius norm."""
    unit: Tensor = rows / torch.linalg.matrix_norm(rows)[:, None, None]
    return unit


def composition(written: Tensor, read: Tensor) -> Tensor:
    """Compute compositions (heads, others) of what heads write (heads, k, d) and others read (others, l, d)."""
    heads, k, d = written.shape
    others, width, _ = read.shape
    met = written.reshape(heads * k, d) @ read.reshape(others * width, d).mT
    norms: Tensor = torch.linalg.vector_norm(met.view(heads, k, others, width), dim=(1, 3))
    return norms
