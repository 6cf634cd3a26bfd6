"""Text fields: what all have in common, and those that complete names of columns or measures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar
from unicodedata import category

from textual import events
from textual.binding import Binding, BindingType
from textual.reactive import Reactive
from textual.widgets import Input
from textual.widgets.input import Selection

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


class Field(Input, inherit_bindings=False):
    """A text field; ctrl+c copies a selection made by the user, or else leaves.

    Attributes
    ----------
    leaving : the action that leaves it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(keys, action, said, show=False, id=f"{OF_EDITING}{name}") for name, keys, action, said in EDITING)
    ]

    leaving = "leave"
    cursor_blink = Reactive(False, init=False)  # blinking would send bytes all the time
    _offered: Selection | None = None

    def __init__(self, *, leaving: str = "", **settings: Any) -> None:
        super().__init__(compact=True, select_on_focus=False, **settings)
        self.leaving = leaving or self.leaving

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


def last_word(text: str) -> str:
    """Return the word at the end of a text; empty without one."""
    match = _WORD.search(text)
    return match[0] if match else ""


def complete_word(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Replace the last word of a text by each name that matches it."""
    word = last_word(text)
    return tuple(f"{text.removesuffix(word)}{name}" for name in candidates(word, names))
