"""Which tokens a singular direction of a circuit stands for, and how far logits change by chance.

``QK = Σ σ_i u_i v_iᵀ``: a query along u_i finds a key along v_i. ``OV = Σ σ_i u_i v_iᵀ``: what is read along u_i is
written along v_i. A direction's tokens are those whose embeddings, or rows of the unembedding, have the largest and the
smallest projections on it (Millidge & Black 2022, "The Singular Value Decompositions of Transformer Weight Matrices are
Highly Interpretable"). Logits are such projections too; chance deals their changes to random tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from engine.values.spectra import FloatArray

NEAR = 1e-3
"""Singular values nearer than this, relative to the larger one, form a group: a change of the weights by a thousandth
would rotate their directions into each other, so that no single direction means anything."""

PIECE = 2**18
"""Numbers of an embedding that are converted to float64 at once: two mebibytes, about a core's cache."""

CHANCE_PIECE = 2**21
"""Numbers of an embedding that are projected on random directions at once, in some hundredths of a second."""

DRAWS = 64
"""Random directions that stand for chance, each with its opposite."""


def groups(sigma: FloatArray) -> list[tuple[int, int]]:
    """Return for each singular value, largest first, the first and last place of its group, from 0.

    Neighbours with ``σ_i − σ_{i+1} < NEAR · σ_i`` share a group: 3, 2, 2, 1 give 0–0, 1–2, 1–2, 3–3.
    """
    together = (sigma[:-1] - sigma[1:]) < NEAR * sigma[:-1]
    starts = [0, *(np.flatnonzero(~together) + 1).tolist()]
    ends = [*(start - 1 for start in starts[1:]), len(sigma) - 1]
    return [(start, end) for start, end in zip(starts, ends, strict=True) for _ in range(start, end + 1)]


class Rows(Protocol):
    """An embedding (tokens, d): a tensor, or one whose rows are read a block at a time."""

    @property
    def shape(self) -> Sequence[int]:
        """(tokens, d)."""

    def split(self, split_size: int) -> Iterable[Tensor]:
        """Iterate over the rows in order, ``split_size`` at a time."""


def projections(table: Rows, vectors: Tensor, gain: Tensor | None = None) -> Tensor:
    """Project every row of an embedding (tokens, d) on directions (d, n) float64: (n, tokens) float64.

    ``gain`` (d,) is that of a folded norm between the rows and the directions.
    """
    wanted = vectors if gain is None else gain.double()[:, None] * vectors
    rows_at_once = max(1, PIECE // table.shape[1])
    return torch.cat([wanted.mT @ rows.double().mT for rows in table.split(rows_at_once)], 1)


def chance_projections(
    table: Rows, top: int, check: Callable[[], None], gain: Tensor | None = None, draws: int = DRAWS
) -> Tensor:
    """Average over random directions the largest projections of an embedding's rows (tokens, d): (min(top, tokens),).

    ``c_k = mean over u of (the k-th largest of t·u over the rows t)``, u uniform on the unit sphere: a normal vector
    over its length (Muller 1959). Large rows, or rows that share a part, are far along any direction, so a projection
    alone says little. Each direction is taken with its opposite, so that −c_k is exactly the mean of the k-th smallest,
    and both are 0 for a single row. ``check`` is called between blocks of rows; it may raise.
    """
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(table.shape[1], draws, generator=generator, dtype=torch.float64)
    vectors /= vectors.norm(dim=0)
    best = vectors.new_empty(2, draws, 0)
    for rows in table.split(max(1, CHANCE_PIECE // table.shape[1])):
        check()
        met = projections(rows, vectors, gain)
        met = torch.cat([best, torch.stack([met, -met])], -1)  # (way, directions, tokens)
        best = met.topk(min(top, met.shape[-1])).values
    return best.mean((0, 1))


def root_mean_square(values: Tensor) -> Tensor:
    """Compute ``√(Σx²/n)`` along the last dimension over the n finite numbers; NaN where there are none.

    Examples
    --------
    >>> root_mean_square(torch.tensor([[2.0, -2.0, float("inf")], [0.0, 0.0, 0.0]])).tolist()
    [2.0, 0.0]
    """
    values = values.double()
    finite = values.isfinite()
    squares = torch.where(finite, values, 0.0).square()
    return (squares.sum(-1) / finite.sum(-1)).sqrt()


class ShuffledChanges:
    """The changes of all logits, dealt to other tokens: token t gets the change of token t + s, for every s.

    A token's probability would become ``p_t(s) = e^(z_t + δ_{t+s}) / Σ_j e^(z_j + δ_{j+s})``, with tokens counted
    modulo the vocabulary: the same changes, regardless of which token they belong to. The sums for all s are one cyclic
    correlation, computed by Fourier transforms. Tokens whose logit (vocabulary,) is not finite are left out.

    Attributes
    ----------
    logit_change : the root mean square of all changes, that is, by how much a random token's logit changes.
    """

    def __init__(self, before: Tensor, after: Tensor) -> None:
        before, after = before.detach().cpu().double(), after.detach().cpu().double()
        self._takes_part = before.isfinite() & after.isfinite()
        changes = (after - before)[self._takes_part]
        self.logit_change = float(root_mean_square(changes))
        if not len(changes):
            return
        self._probabilities = before[self._takes_part].softmax(0)
        self._factors = (changes - changes.max()).exp()  # up to a common factor
        spectrum = torch.fft.rfft(self._probabilities).conj() * torch.fft.rfft(self._factors)
        self._sums: Tensor = torch.fft.irfft(spectrum, n=len(changes))  # the denominators, for each s

    def change(self, token: int) -> float:
        """Compute the root mean square, over all s, of the change of a token's probability; NaN if it is left out.

        Examples
        --------
        >>> round(ShuffledChanges(torch.zeros(2), torch.tensor([3.0, 1.0]).log()).change(1), 6)  # to 3/4 or 1/4
        0.25
        """
        if not bool(self._takes_part[token]):
            return float("nan")
        place = int(self._takes_part[:token].sum())
        own = self._probabilities[place] * self._factors.roll(-place)
        sums = self._sums.maximum(own)  # each includes ``own``; rounding must not make it smaller
        return float(root_mean_square(own / sums - self._probabilities[place]))
