"""The lens as a map of layers by tokens: the likeliest token of each cell and the number that colours it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.values.table import Table
from tui.drawing.levels import Ink, Levels

Choice = tuple[int, str, float]
"""A token's id, text and probability."""


@dataclass(frozen=True, eq=False)
class LensMap:
    """The table of the lens at every token; its first rows are those of the embedding.

    Attributes
    ----------
    table : ``choices`` rows per cell, token by token and layer by layer.
    """

    table: Table

    @cached_property
    def choices(self) -> int:
        """Number of tokens listed per cell."""
        found: int = self.table.frame["place"].max()  # type: ignore[assignment]  # integers
        return found

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the sentence."""
        count = int(self.table.frame["position"].max()) + 1  # type: ignore[arg-type]  # integers
        return tuple(self.table.frame["at"][: count * self.choices : self.choices].to_list())

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """Labels of the rows: the embedding, then the layers."""
        names = self.table.frame["layer"].gather_every(self.choices * len(self.tokens)).to_list()
        return tuple("emb" if name == "embedding" else f"L{name}" for name in names)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The number of each cell, (layers, tokens): of the likeliest token, or logit differences if there are any."""
        column = self.table.frame["logit_difference" if self.is_signed else "probability"]
        of_likeliest = column.gather_every(self.choices).to_numpy().astype(np.float64)
        return of_likeliest.reshape(len(self.layers), len(self.tokens))

    @property
    def is_signed(self) -> bool:
        """Whether the numbers are differences of two tokens' logits."""
        return "logit_difference" in self.table.columns

    @property
    def pair(self) -> tuple[str, str] | None:
        """The two tokens of the differences."""
        frame = self.table.frame
        return (frame["chosen"][0], frame["against"][0]) if self.is_signed else None

    def levels(self, ink: Ink) -> Levels:
        """Return the scale of the colours: from 0 to 1, or to the largest difference."""
        return Levels("linear", float(np.nanmax(np.abs(self.values))) if self.is_signed else 1.0, ink, self.is_signed)

    def cell(self, layer: int, token: int) -> Table:
        """Return the rows of a cell."""
        start = (layer * len(self.tokens) + token) * self.choices
        return self.table.with_frame(self.table.frame.slice(start, self.choices))

    def choices_at(self, layer: int, token: int) -> list[Choice]:
        """Return the likeliest tokens of a cell."""
        frame = self.cell(layer, token).frame
        return list(frame.select("token_id", "token", "probability").rows())
