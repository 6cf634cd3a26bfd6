"""The line that a table's filter is typed into."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tui.field import Field

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


class NameInput(Field):
    """An input that completes names, such as those of columns.

    Parameters
    ----------
    name : of the line.
    placeholder : says what can be typed.

    Attributes
    ----------
    columns : the names.
    """

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

    def action_complete(self, step: int) -> None:
        """Put a column's name in the place of the word before the cursor; again: the next one."""
        before, after = self.value[: self.cursor_position], self.value[self.cursor_position :]
        if self._completed is not None and self._completed[0] == before:
            _, word, place = self._completed
            place += step
        else:
            match = _WORD.search(before)
            word, place = match[0] if match else "", 0
        found = candidates(word, self.columns)
        if not found:
            return
        name = found[place % len(found)]
        match = _WORD.search(before)
        begin = before[: match.start()] if match else before
        self._completed = f"{begin}{name}", word, place
        self.value = f"{begin}{name}{after}"
        self.cursor_position = len(begin) + len(name)


class FilterInput(NameInput):
    """The line that a table's filter is typed into."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "All rows", id="filter.clear")]

    def __init__(self) -> None:
        super().__init__("filter", "a word, or a column compared: layer > 3 and head != all")
