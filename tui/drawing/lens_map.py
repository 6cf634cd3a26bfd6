"""The lens as a map of layers × tokens: the likeliest token in each cell, and what the cell is coloured by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.values.table import Table
from tui.drawing.levels import Ink, Levels
from tui.drawing.text import label

Choice = tuple[int, str, float]
"""A token's id, its text and its probability."""

LEAST, MOST = 8, 10
"""Columns that a cell takes, at least and at most."""


@dataclass(frozen=True, eq=False)
class LensMap:
    """A table of the lens at every token; its first rows are those of the embedding.

    Attributes
    ----------
    table : the rows, ``choices`` for each cell, token after token and layer after layer.
    """

    table: Table

    @cached_property
    def choices(self) -> int:
        """How many tokens are listed in each cell."""
        found: int = self.table.frame["place"].max()  # type: ignore[assignment]  # of whole numbers
        return found

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the sentence that is predicted from."""
        count = int(self.table.frame["position"].max()) + 1  # type: ignore[arg-type]  # of whole numbers
        return tuple(self.table.frame["at"][: count * self.choices : self.choices].to_list())

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """What stands before each row: the embedding, then the blocks."""
        names = self.table.frame["layer"].gather_every(self.choices * len(self.tokens)).to_list()
        return tuple("emb" if name == "embedding" else f"L{name}" for name in names)

    @cached_property
    def likeliest(self) -> list[str]:
        """The likeliest token of each cell, as it is written there."""
        return [label(text) for text in self.table.frame["token"].gather_every(self.choices).to_list()]

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """That token's probability, (layers, tokens)."""
        return self._column("probability")

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """What cells are coloured by, (layers, tokens): the logit difference, where there is one."""
        return self._column("logit_difference") if self.is_signed else self.probabilities

    @property
    def is_signed(self) -> bool:
        """Whether it says how much likelier one token is than another."""
        return "logit_difference" in self.table.columns

    @property
    def pair(self) -> tuple[str, str] | None:
        """The two tokens whose logits are compared, if any are."""
        frame = self.table.frame
        return (frame["chosen"][0], frame["against"][0]) if self.is_signed else None

    def levels(self, ink: Ink) -> Levels:
        """Give the scale of the colours: probabilities from 0 to 1, differences as far as they go."""
        return Levels("linear", float(np.nanmax(np.abs(self.values))) if self.is_signed else 1.0, ink, self.is_signed)

    def place(self, layer: int, token: int) -> int:
        """Give the first row of the table that is of a cell."""
        return (layer * len(self.tokens) + token) * self.choices

    def cell(self, layer: int, token: int) -> Table:
        """Give the rows of the table that are of a cell."""
        return self.table.with_frame(self.table.frame.slice(self.place(layer, token), self.choices))

    def choices_at(self, layer: int, token: int) -> list[Choice]:
        """List the likeliest tokens of a cell."""
        frame = self.cell(layer, token).frame
        return list(frame.select("token_id", "token", "probability").rows())

    def _column(self, name: str) -> NDArray[np.float64]:
        cells = self.table.frame[name].gather_every(self.choices).to_numpy().astype(np.float64)
        return cells.reshape(len(self.layers), len(self.tokens))


def cell_width(room: int, tokens: int) -> int:
    """Choose how many columns a cell takes: as many as all tokens have room for.

    Examples
    --------
    >>> cell_width(60, 5), cell_width(60, 40), cell_width(150, 16)
    (10, 8, 9)
    """
    return min(MOST, max(LEAST, room // max(tokens, 1)))
