"""One measure of every head of a model: a column of the table of all heads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.values.heads import Head
from engine.values.table import Cell, Table
from engine.values.views import OVERVIEW, parts_of

SIGNED = frozenset({"qk_symmetry", "ov_copying", "ov_copying_residual"})
"""Measures from −1 to 1, of which zero is the middle."""


def part_of(measure: str) -> str:
    """Say which part of the table of all heads a measure belongs to."""
    return parts_of((measure,))[0]


@dataclass(frozen=True)
class MeasureMap:
    """A measure of all heads.

    Attributes
    ----------
    measure : a numeric column of the table of all heads.
    order : every head of the model, layer by layer, and where its cell stands.
    cells : of each head, as the table has it: empty where nothing is defined; None while it is not known.
    """

    measure: str
    order: Mapping[Head, int]
    cells: tuple[Cell | None, ...]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The cells as numbers, (heads,); not a number where there is none."""
        numbers = [math.nan if cell is None or isinstance(cell, str) else cell for cell in self.cells]
        return np.array(numbers, dtype=np.float64)

    @cached_property
    def finite(self) -> NDArray[np.float64]:
        """The numbers that are known and finite, in the order of the heads."""
        return self.values[np.isfinite(self.values)]

    @cached_property
    def numbers(self) -> int:
        """How many heads have a number, which may be infinite."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    @property
    def known(self) -> int:
        """How many heads' cells are known."""
        return len(self.cells) - self.cells.count(None)

    def cell(self, head: Head) -> Cell | None:
        """Give one head's cell."""
        return self.cells[self.order[head]]

    def place(self, value: float) -> int:
        """Count down from the largest to a value: 1 for the largest, and the same for heads that are alike."""
        return int(np.count_nonzero(self.values > value)) + 1

    def table(self) -> Table:
        """Give the heads under ``stack, layer, head`` and the measure's name; a cell that is not known is empty."""
        heads = zip(self.order, self.cells, strict=True)
        rows = ((head.stack, head.layer, head.label, cell) for head, cell in heads)
        return Table.of_rows(OVERVIEW, ("stack", "layer", "head", self.measure), rows)
