"""The line that a measure's name is typed into, over the map of all heads."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.state.overview_measures import MEASURES
from tui.state.tree_search import is_condition
from tui.toolkit.keys import key_of
from tui.widgets.filter_input import NameInput, candidates


class MeasureInput(NameInput):
    """The line that a measure's name is typed into."""

    named = "measure"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "Leave", id="overview.leave")]

    def __init__(self) -> None:
        super().__init__("measure", "a measure's name: ov_energy_rank, induction")
        self.columns = MEASURES
        self.display = False

    @property
    def word(self) -> str:
        """What is typed."""
        return self.value.strip().lower()

    @property
    def found(self) -> tuple[str, ...]:
        """The measures that hold what is typed, the one that is meant first."""
        return candidates(self.word, MEASURES)

    @property
    def is_of_table(self) -> bool:
        """Whether a condition is typed, which no map takes."""
        return is_condition(self.word)

    @property
    def why_none(self) -> str:
        """Say that no measure is called so, or where a condition leads."""
        if self.is_of_table:
            return f"{key_of(self.app, 'overview.take')} filters the table of all heads by that"
        return f"no measure is called '{self.value.strip()}'; {key_of(self.app, 'overview.leave')} goes back"
