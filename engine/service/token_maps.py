"""The map from tokens to tokens that an embedding and an unembedding make, a few thousand tokens at a time."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from engine.mathematics.directions import Rows

ROWS_AT_ONCE = 2**12
"""Tokens whose embeddings are made float64 at once."""

COLUMN_BLOCKS = 4
"""Into how many blocks the columns of a table are cut that is multiplied with itself."""


def multiplied(source: Rows, target: Rows | None) -> Tensor:
    """Multiply two tables of tokens, ``targetᵀ source`` in float64; one with itself where there is no second."""
    if target is None:
        return _gram(source)
    total = torch.zeros(target.shape[1], source.shape[1], dtype=torch.float64)
    for embedded, written in zip(source.split(ROWS_AT_ONCE), target.split(ROWS_AT_ONCE), strict=True):
        total += written.double().mT @ embedded.double()
    return total


def _gram(table: Rows) -> Tensor:
    """Multiply a table (n, d) with itself, ``TᵀT``, without working out twice what lies on both sides of the diagonal.

    Columns are taken in `COLUMN_BLOCKS` blocks, so that of ``c²`` products of blocks ``c (c + 1) / 2`` are done.
    """
    d = table.shape[1]
    total = torch.zeros(d, d, dtype=torch.float64)
    edges = [place * d // COLUMN_BLOCKS for place in range(COLUMN_BLOCKS + 1)]
    for rows in table.split(ROWS_AT_ONCE):
        wide = rows.double()
        for start, stop in itertools.pairwise(edges):
            total[start:stop, start:] += wide[:, start:stop].mT @ wide[:, start:]
    for start, stop in itertools.pairwise(edges):  # in place: of a wide model the whole is gigabytes
        square = total[start:stop, start:stop]
        square.copy_(square.triu() + square.triu(1).mT)
        total[stop:, start:stop] = total[start:stop, stop:].mT
    return total
