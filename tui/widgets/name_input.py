"""Lines that complete names: a table's filter, and a measure over the map of all heads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.drawing.text import quoted
from tui.state.overview_measures import MEASURES
from tui.state.tree_search import is_condition
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Told
from tui.widgets.field import CompletingField

_WORD = re.compile(r"""[^\s<>=()!"']*$""")
"""The word that ends where the cursor is."""


def candidates(word: str, columns: Sequence[str]) -> tuple[str, ...]:
    """List the columns that a word may become: those that begin with it, then those that hold it.

    Examples
    --------
    >>> candidates("ov", ["head", "ov_copying", "rank_ov"])
    ('ov_copying', 'rank_ov')
    """
    begin = [name for name in columns if name.startswith(word)]
    return (*begin, *(name for name in columns if word in name and name not in begin))


def _word(text: str) -> str:
    """Give the word that a text ends with."""
    match = _WORD.search(text)
    return match[0] if match else ""


class NameInput(CompletingField):
    """An input that completes names, such as those of columns.

    Parameters
    ----------
    name : of the line.
    placeholder : says what can be typed.

    Attributes
    ----------
    columns : the names.
    named : what they are the names of.
    """

    named = "column"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", "Complete", id="filter.complete"),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False, id="filter.complete_back"),
    ]

    leaving = "clear"

    class Finished(Message):
        """The filter is complete once what was typed before has been put into it."""

    class Cleared(Message):
        """The line is left: all rows are wanted again."""

    def __init__(self, name: str, placeholder: str) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False, name=name, classes="pane-filter")
        self.cursor_blink = False
        self.columns: tuple[str, ...] = ()

    @property
    def completed(self) -> str:
        """The column's name that was completed just now, if one was."""
        if self._completed is None or self._completed[0] != self.value[: self.cursor_position]:
            return ""
        return _word(self._completed[0])

    def finish(self) -> None:
        """Say so when all that was typed by now is in it."""
        self.post_message(self.Finished())

    async def action_submit(self) -> None:
        """Take a key that some remapping has left to the toolkit for the same."""
        self.finish()

    def action_clear(self) -> None:
        """Leave the line."""
        self.post_message(self.Cleared())

    def completions(self, text: str) -> tuple[str, ...]:
        """Put each name in the place of the last word of a text that has that word in it."""
        word = _word(text)
        return tuple(f"{text.removesuffix(word)}{name}" for name in candidates(word, self.columns))

    def say_none(self, text: str) -> None:
        """Say that no name has the word in it."""
        self.post_message(Told(f"no {self.named} that can stand here has {quoted(_word(text))} in its name"))


class FilterInput(NameInput):
    """The line that a table's filter is typed into."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "All rows", id="filter.clear")]

    def __init__(self) -> None:
        super().__init__("filter", "a word, or a column compared: layer > 3 and head != all")


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
