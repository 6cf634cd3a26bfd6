"""Text fields: what all have in common, and those that complete names of columns or measures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar
from unicodedata import category

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.expand_tabs import expand_tabs_inline
from textual.message import Message
from textual.reactive import Reactive
from textual.widgets import Input
from textual.widgets.input import Selection

from tui.drawing.text import escape_text, quote_text
from tui.state.overview_measures import MEASURES
from tui.state.tree_search import is_condition
from tui.toolkit.keys import key_of
from tui.toolkit.messages import Notice
from tui.toolkit.screen import is_displayed

OF_EDITING = "field."
"""Prefix of the ids of editing keys."""

EDITING = (
    ("left", "left", "cursor_left", "A character left"),
    ("right", "right", "cursor_right", "A character right"),
    ("word_left", "ctrl+left", "cursor_left_word", "A word left"),
    ("word_right", "ctrl+right", "cursor_right_word", "A word right"),
    ("begin", "home,ctrl+a", "home", "To the beginning"),
    ("end", "end,ctrl+e", "end", "To the end"),
    ("delete_left", "backspace", "delete_left", "Delete the character to the left"),
    ("delete", "delete,ctrl+d", "delete_right", "Delete the character under the cursor"),
    ("delete_word_left", "ctrl+w,alt+backspace,ctrl+backspace", "delete_left_word", "Delete the word to the left"),
    ("delete_word", "alt+d,ctrl+delete", "delete_right_word", "Delete the word to the right"),
    ("delete_to_begin", "ctrl+u", "delete_left_all", "Delete everything to the left"),
    ("delete_to_end", "ctrl+k", "delete_right_all", "Delete everything to the right"),
    ("select_left", "shift+left", "cursor_left(True)", "Select a character left"),
    ("select_right", "shift+right", "cursor_right(True)", "Select a character right"),
    ("select_word_left", "ctrl+shift+left", "cursor_left_word(True)", "Select a word left"),
    ("select_word_right", "ctrl+shift+right", "cursor_right_word(True)", "Select a word right"),
    ("select_to_begin", "shift+home", "home(True)", "Select up to the beginning"),
    ("select_to_end", "shift+end", "end(True)", "Select up to the end"),
    ("select_all", "ctrl+shift+a", "select_all", "Select all"),
    ("copy", "ctrl+c,super+c", "copy", "Copy the selection; without one, leave"),
    ("cut", "ctrl+x", "cut", "Cut the selection"),
    ("paste", "ctrl+v", "paste", "Paste"),
    ("submit", "enter", "submit", "Accept"),
)
"""Editing keys: the last word of their ids, the keys, the action, and a description."""

INVISIBLE = "Cf"
"""Unicode's category of invisible format characters, such as joiners."""


@lru_cache(4096)
def _visible_sign(character: str) -> str:
    """Return what a field draws for a character: a sign for joiners, skin tones and other invisible characters.

    Examples
    --------
    >>> _visible_sign("a"), _visible_sign("\u200d"), _visible_sign("\ufe0f"), _visible_sign("\U0001f3fd")
    ('a', '◌', '◌', '◌')
    """
    is_seen = escape_text(character)[:1] != "\\" or character == "\\"
    return character if is_seen else "◌"


class Field(Input, inherit_bindings=False):
    """A text field; ctrl+c copies a selection made by the user, or else leaves.

    Attributes
    ----------
    leaving : the action that leaves it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(keys, action, said, show=False, id=f"{OF_EDITING}{name}") for name, keys, action, said in EDITING)
    ]

    leaving: ClassVar[str] = "leave"
    cursor_blink = Reactive(False, init=False)  # blinking would send bytes all the time
    _offered: Selection | None = None

    def offer_to_replace(self) -> None:
        """Select all, so that typing replaces it; ctrl+c does not copy this selection."""
        self.select_all()
        self._offered = self.selection

    def watch_selection(self) -> None:
        """Take any other selection for the user's own."""
        if self.selection != self._offered:
            self._offered = None

    @property
    def focusable(self) -> bool:
        """Whether it can be typed into: not while its view is hidden, unlike in Textual."""
        return super().focusable and is_displayed(self)

    @property
    def _drawn_text(self) -> str:
        """The text with a sign for each invisible character, whose width terminals disagree on."""
        return "".join(map(_visible_sign, self.value))

    @property
    def _value(self) -> Text:
        """The text as it is drawn."""
        return Text(self._drawn_text, no_wrap=True, overflow="ignore", end="")

    def _position_to_cell(self, position: int) -> int:
        """Return the cell at which a position of the text is drawn."""
        return cell_len(expand_tabs_inline(self._drawn_text[:position], 4))

    def _cell_offset_to_index(self, offset: int) -> int:
        """Return the position of the text that is drawn at a cell."""
        at = offset + self.scroll_offset.x
        ends = accumulate(map(cell_len, self._drawn_text))
        return next((place for place, end in enumerate(ends) if at < end), max(0, min(at, len(self.value))))

    def on_key(self, event: events.Key) -> None:
        """Accept invisible characters too, which emoji and some scripts need."""
        if event.character is not None and category(event.character) == INVISIBLE:
            event.stop()
            self.replace(event.character, *self.selection)

    def _on_paste(self, event: events.Paste) -> None:
        """Insert all pasted lines as one; Textual takes only the first."""
        event.prevent_default()
        event.stop()
        self.replace(" ".join(event.text.splitlines()), *self.selection)

    async def action_copy(self) -> None:  # type: ignore[override]  # Textual awaits either
        """Copy the user's selection; without one, leave."""
        if self.selected_text and self._offered is None:
            super().action_copy()
        else:
            await self.run_action(self.leaving)


class CompletingField(Field):
    """A field in which a key completes the text before the cursor; pressed again, in another way."""

    _completed: tuple[str, str, int] | None = None

    def completions(self, text: str) -> tuple[str, ...]:
        """Return the possible completions of a text."""
        raise NotImplementedError

    def say_none(self, text: str) -> None:
        """Tell the user that a text has no completion."""
        raise NotImplementedError

    def action_complete(self, step: int) -> None:
        """Complete the text before the cursor; pressed again, the next or the previous way."""
        before, after = self.value[: self.cursor_position], self.value[self.cursor_position :]
        text, place = before, 0
        if self._completed is not None and self._completed[0] == before:
            _, text, place = self._completed
            place += step
        found = self.completions(text)
        if not found:
            self.say_none(text)
            return
        completed = found[place % len(found)]
        self._completed = completed, text, place
        self.value = f"{completed}{after}"
        self.cursor_position = len(completed)


_WORD = re.compile(r"""[^\s<>=()!"']*$""")
"""The word before the cursor."""


def candidates(word: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that begin with a word, then those that contain it.

    Examples
    --------
    >>> candidates("ov", ["head", "ov_copying", "rank_ov"])
    ('ov_copying', 'rank_ov')
    """
    begin = [name for name in columns if name.startswith(word)]
    return (*begin, *(name for name in columns if word in name and name not in begin))


def _word(text: str) -> str:
    match = _WORD.search(text)
    return match[0] if match else ""


class NameInput(CompletingField):
    """A field that completes names, such as those of columns.

    Attributes
    ----------
    named : the kind of name, in words.
    """

    named = "column"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete(1)", "Complete", id="filter.complete"),
        Binding("shift+tab", "complete(-1)", "Complete backwards", show=False, id="filter.complete_back"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "filter.apply": "Filter",
        "explain.apply": "Filter",
        "overview.take": "Show it",
        "filter.complete": "Complete",
        "filter.clear": "All rows",
        "overview.leave": "Leave",
    }

    leaving = "clear"

    class Finished(Message):
        """The filter is complete."""

    class Cleared(Message):
        """The user left the line and wants all rows again."""

    def __init__(self, name: str, placeholder: str) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False, name=name, classes="pane-filter")
        self.columns: tuple[str, ...] = ()

    @property
    def completed(self) -> str:
        """The column's name that was just completed, if any."""
        if self._completed is None or self._completed[0] != self.value[: self.cursor_position]:
            return ""
        return _word(self._completed[0])

    def finish(self) -> None:
        """Post that the filter is complete."""
        self.post_message(self.Finished())

    async def action_submit(self) -> None:
        """Finish: a remapped Enter may still reach Textual's action."""
        self.finish()

    def action_clear(self) -> None:
        """Leave the line."""
        self.post_message(self.Cleared())

    def completions(self, text: str) -> tuple[str, ...]:
        """Replace the last word of a text by each matching name."""
        word = _word(text)
        return tuple(f"{text.removesuffix(word)}{name}" for name in candidates(word, self.columns))

    def say_none(self, text: str) -> None:
        """Tell the user that no name contains the word."""
        self.post_message(Notice(f"no {self.named} has {quote_text(_word(text))} in its name"))


class FilterInput(NameInput):
    """The field for a table's filter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "All rows", id="filter.clear")]

    def __init__(self) -> None:
        super().__init__("filter", "a word, or a condition: layer > 3 and head != all")


class MeasureInput(NameInput):
    """The field for a measure's name."""

    named = "measure"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear", "Leave", id="overview.leave")]

    def __init__(self) -> None:
        super().__init__("measure", "a measure's name: ov_stable_rank, induction")
        self.columns = MEASURES
        self.display = False

    @property
    def word(self) -> str:
        """The text in lower case."""
        return self.value.strip().lower()

    @property
    def found(self) -> tuple[str, ...]:
        """The matching measures, best match first."""
        return candidates(self.word, self.columns)

    @property
    def is_of_table(self) -> bool:
        """Whether the text is a condition, which only a table takes."""
        return is_condition(self.word)

    @property
    def why_none(self) -> str:
        """Why no measure matches, or what the typed condition would do."""
        if self.is_of_table:
            return f"{key_of(self.app, 'overview.take')} filters the table of all heads by that"
        return f"there is no measure '{self.value.strip()}'; {key_of(self.app, 'overview.leave')} goes back"
