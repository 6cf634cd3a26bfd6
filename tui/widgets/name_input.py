"""Lines that complete names: a table's filter, and a measure over the map of all heads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from engine.values.table import CHANCE, TEXTS, Kind, kind_of
from engine.values.views import RANK_MEASURES
from tui.drawing.text import quoted
from tui.state.overview_measures import MEASURES
from tui.state.tree_search import is_condition
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Told
from tui.widgets.field import Field

_WORD = re.compile(r"""[^\s<>=()!"']*$""")
"""The word that ends where the cursor is."""


_COMPARED = re.compile(r"([\w.]*)\s*(<=?|>=?|==?|!=)\s*$")
"""What a word after it is compared with, and how."""


def comparable(before: str, columns: Sequence[str]) -> tuple[str, ...]:
    """List the columns that can follow what is typed: behind a comparison of numbers those of numbers.

    What chance gives for the one that is compared comes first, then the same measure of other matrices, then what is
    counted, or measured, as it is.

    Examples
    --------
    >>> comparable("induction > ", ["stack", "layer", "entropy", "induction", "induction_chance"])
    ('induction_chance', 'entropy', 'layer')
    >>> comparable("label = ", ["stack", "layer"]), comparable("layer > 3 and ", ["stack", "layer"])
    (('stack', 'layer'), ('stack', 'layer'))
    """
    match = _COMPARED.search(before)
    name = match[1].lower() if match else ""
    is_of_texts = name in columns and kind_of(name) in TEXTS
    if match is None or (match[2] in ("=", "==", "!=") and (is_of_texts or name not in columns)):
        return tuple(columns)

    def distance(column: str) -> tuple[bool, bool, bool]:
        of, compared = (RANK_MEASURES.get(each.removesuffix(CHANCE), ("", each))[1] for each in (column, name))
        is_same_measure = of == compared
        return column != f"{name}{CHANCE}", not is_same_measure, kind_of(column) is not kind_of(name)

    numbers = (column for column in columns if kind_of(column) in (Kind.WHOLE, Kind.NUMBER) and column != name)
    return tuple(sorted(numbers, key=distance))


def candidates(word: str, columns: Sequence[str]) -> tuple[str, ...]:
    """List the columns that a word may become: those that begin with it, then those that hold it.

    Examples
    --------
    >>> candidates("ov", ["head", "ov_copying", "rank_ov"])
    ('ov_copying', 'rank_ov')
    """
    begin = [name for name in columns if name.startswith(word)]
    return (*begin, *(name for name in columns if word in name and name not in begin))


class NameInput(Field):
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
        self._completed: tuple[str, str, int] | None = None

    @property
    def completed(self) -> str:
        """The column's name that was completed just now, if one was."""
        if self._completed is None or self._completed[0] != self.value[: self.cursor_position]:
            return ""
        match = _WORD.search(self._completed[0])
        return match[0] if match else ""

    def finish(self) -> None:
        """Say so when all that was typed by now is in it."""
        self.post_message(self.Finished())

    async def action_submit(self) -> None:
        """Take a key that some remapping has left to the toolkit for the same."""
        self.finish()

    def action_clear(self) -> None:
        """Leave the line."""
        self.post_message(self.Cleared())

    def offered(self, before: str) -> Sequence[str]:
        """List the names that a word may become behind what is typed before it."""
        return self.columns

    def action_complete(self, step: int) -> None:
        """Put a column's name in the place of the word before the cursor; again: the next one."""
        before, after = self.value[: self.cursor_position], self.value[self.cursor_position :]
        if self._completed is not None and self._completed[0] == before:
            _, word, place = self._completed
            place += step
        else:
            match = _WORD.search(before)
            word, place = match[0] if match else "", 0
        match = _WORD.search(before)
        found = candidates(word, self.offered(before[: match.start()] if match else before))
        if not found:
            self.post_message(Told(f"no {self.named} that can stand here has {quoted(word)} in its name"))
            return
        name = found[place % len(found)]
        begin = before[: match.start()] if match else before
        self._completed = f"{begin}{name}", word, place
        self.value = f"{begin}{name}{after}"
        self.cursor_position = len(begin) + len(name)


class FilterInput(NameInput):
    """The line that a table's filter is typed into."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "All rows", id="filter.clear")]

    def __init__(self) -> None:
        super().__init__("filter", "a word, or a column compared: layer > 3 and head != all")

    def offered(self, before: str) -> Sequence[str]:
        """List columns, of numbers alone where those are compared."""
        return comparable(before, self.columns)


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
