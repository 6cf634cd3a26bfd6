"""What a person has chosen of the tables that are worked out, and what changes it."""

from __future__ import annotations

from dataclasses import replace

from engine.values.heads import Head, Off
from engine.values.views import Query
from tui.table_choice import TableChoice


class ChosenTables:
    """What is chosen; each change has what is looked at drawn again.

    Parameters
    ----------
    epsilon : of the energy rank, to begin with.
    """

    def __init__(self, epsilon: float) -> None:
        self._chosen = TableChoice(epsilon)
        self._is_announced = False

    def draw(self) -> None:
        """Draw what is looked at."""
        raise NotImplementedError

    @property
    def asked(self) -> Query:
        """What was chosen of the tables: the token, and the position in the sentence."""
        return self._chosen.asked

    def turn(self, distance: int | None, *, is_announced: bool = False) -> None:
        """Show QK with the key so many tokens before the query, or without positions (None); announced, only say so."""
        self._chosen, self._is_announced = replace(self._chosen, distance=distance), is_announced
        self.draw()

    @property
    def folds(self) -> bool:
        """Whether the gains of norms are folded into directions."""
        return self._chosen.folds

    def fold(self) -> None:
        """Fold the gains of norms into directions, or leave them out again."""
        self._chosen = replace(self._chosen, folds=not self.folds)
        self.draw()

    def measure_again(self, epsilon: float) -> None:
        """Show ranks of another ε, where a table has them."""
        self._chosen = replace(self._chosen, epsilon=epsilon)
        self.draw()

    def switch_off(self, off: Off) -> None:
        """Show what becomes of predictions with other heads switched off."""
        self._chosen = replace(self._chosen, off=off)
        self.draw()

    def choose_token(self, number: int) -> None:
        """Show what becomes of another token than the model's first choice."""
        self._chosen = replace(self._chosen, asked=replace(self.asked, token=f"#{number}"))
        self.draw()

    def select(self, name: Head | None) -> None:
        """Show the table of a head, a layer, or the model (None), if a table is looked at."""
        self._chosen = replace(self._chosen, selected=name)
        self.draw()
