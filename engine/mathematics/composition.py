"""How much of what one head writes another one reads (Elhage et al. 2021, "A Mathematical Framework…").

A head of an earlier layer writes by its OV₁. A head of a later layer may read that in three ways, and in each the
composition is ``‖AB‖_F / (‖A‖_F ‖B‖_F)``, between 0 and 1:

* Q: as its query, ``‖OV₁ · QK₂‖``
* K: as its key, ``‖OV₁ · QK₂ᵀ‖``
* V: as its value, ``‖OV₁ · OV₂‖``

With a factor of each circuit replaced by the root of its square, ``W_V W_Vᵀ = L Lᵀ``, OV₁ has ``Lᵀ W_Oᵀ`` in its place,
which writes the same, and so has what reads. All compositions are norms of ``A Bᵀ``, A and B of ``head_dim`` rows: so
a layer's heads are ``heads · head_dim`` rows that write and as many that read, and all pairs of heads of two layers
come of one matrix product.

Where many layers are compared the norms come of squares instead: ``‖A Bᵀ‖_F² = ⟨AᵀA, BᵀB⟩``, and each square, of
``d × d`` numbers, is made once, so that a pair takes ``d²`` steps in place of ``head_dim² · d`` (`Squares`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.mathematics.factored import root

KINDS = ("Q", "K", "V")
"""The ways in which a head may read what another one has written."""


STRIP = 64
"""Rows of a square that are made at once."""

FAINT = 3e-3
"""A composition from squares above this has lost no more than about five of float64's sixteen digits."""


def writing(value: Tensor, output: Tensor) -> Tensor:
    """Reduce what heads write to rows A with ``AᵀA = OVᵀ OV / ‖OV‖²``; a head of zeros becomes NaN.

    Parameters
    ----------
    value : (key_value_heads, s, d_values)
    output : (heads, d_output, s)

    Returns
    -------
    (heads, k, d_output) float64, k up to s.
    """
    return _unit(_for_each(root(value), len(output) // len(value)).mT @ output.mT.double())


def reading(query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> dict[str, Tensor]:
    """Reduce what heads read to rows B, by kind: of norm one, with ``BᵀB`` that of what they read by.

    Parameters
    ----------
    query : (heads, r, d_model)
    key : (key_value_heads, r, d_source)
    value : (key_value_heads, s, d_values)
    output : (heads, d_output, s)

    Returns
    -------
    By kind (heads, k, d) float64, d the width of the stream that is read; a head of zeros becomes NaN.
    """
    group = len(query) // len(key)
    return {
        "Q": _unit(_for_each(root(key), group).mT @ query.double()),
        "K": _unit(root(query).mT @ _for_each(key.double(), group)),
        "V": _unit(root(output.mT).mT @ _for_each(value.double(), group)),
    }


def _for_each(shared: Tensor, group: int) -> Tensor:
    return shared if group == 1 else shared.repeat_interleave(group, 0)


def _unit(rows: Tensor) -> Tensor:
    """Divide each of a batch of matrices by its Frobenius norm."""
    unit: Tensor = rows / torch.linalg.matrix_norm(rows)[:, None, None]
    return unit


def composition(written: Tensor, read: Tensor) -> Tensor:
    """Compute the composition of every head that writes with every head that reads.

    Parameters
    ----------
    written : (heads, k, d), from `writing`.
    read : (other heads, l, d), one kind from `reading`.

    Returns
    -------
    (heads, other heads)
    """
    heads, k, d = written.shape
    others, width, _ = read.shape
    met = written.reshape(heads * k, d) @ read.reshape(others * width, d).mT
    norms: Tensor = torch.linalg.vector_norm(met.view(heads, k, others, width), dim=(1, 3))
    return norms


class Squares:
    """The squares ``AᵀA`` of many heads, of which each number that stands on both sides of the diagonal is kept once.

    Parameters
    ----------
    heads : how many there may be, the `room`.
    d : width of what they write or read.
    device : where they are kept.
    """

    def __init__(self, heads: int, d: int, device: str | torch.device = "cpu") -> None:
        sizes = ((heads, *strip) for strip in _strips(d))
        self._strips = [torch.empty(size, dtype=torch.float64, device=device) for size in sizes]
        self.room = heads
        self.heads = 0

    @staticmethod
    def nbytes(heads: int, d: int) -> int:
        """Give the memory that so many heads take."""
        return 8 * heads * sum(rows * columns for rows, columns in _strips(d))

    def add(self, rows: Tensor) -> slice:
        """Square heads (heads, k, d), and say which places they have."""
        places = slice(self.heads, self.heads + len(rows))
        for strip in self._strips:
            height, length = strip.shape[1:]
            right = rows[:, :, rows.shape[-1] - length :]
            torch.bmm(right[:, :, :height].mT, right, out=strip[places])
        self.heads = places.stop
        return places

    def composition(self, read: Squares) -> Tensor:
        """Compute the composition of every head that writes with every head that reads: (heads, other heads).

        Numbers below `FAINT` may have lost digits: of what is nearly orthogonal rounding is left, which is about
        ``eps`` of the square.
        """
        squared = torch.zeros(self.heads, read.heads, dtype=torch.float64, device=self._strips[0].device)
        for mine, other in zip(self._strips, read._strips, strict=True):
            here, there, block = mine[: self.heads], other[: read.heads], mine.shape[1]
            squared += 2.0 * (here.flatten(1) @ there.flatten(1).mT)  # both sides of the diagonal
            squared -= here[:, :, :block].flatten(1) @ there[:, :, :block].flatten(1).mT  # which is counted once
        return squared.clamp_min(0.0).sqrt()


def _strips(d: int) -> list[tuple[int, int]]:
    """Give the shapes of a square's strips: rows, and columns from the diagonal's block to the right."""
    return [(min(STRIP, d - start), d - start) for start in range(0, d, STRIP)]


def chance(d: int) -> float:
    """Give ``1/√d``, the root mean square for heads that know nothing of each other.

    If what the one writes is turned at random against what the other reads, ``E ‖AB‖_F² = ‖A‖_F² ‖B‖_F² / d`` exactly,
    whatever their singular values.
    """
    return float(d**-0.5)
