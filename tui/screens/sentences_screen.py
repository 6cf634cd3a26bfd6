"""The list of sentences, read in this run or an earlier one."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from tui.drawing.text import escape_text, fit
from tui.screens.modal import Modal
from tui.state.sentences import Sentences, find_sentences
from tui.toolkit.keys import key_of
from tui.widgets.field import Field
from tui.widgets.menu import Menu

SHOWN = 2000
"""How many characters of a sentence its line in the list is made of."""


class SentencesScreen(Modal[str | None]):
    """Lists sentences, narrowed by typed words; the result is the chosen one.

    Parameters
    ----------
    sentences : what is listed.
    is_finding : whether the screen opens with the line for words.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="sentences.back"),
        Binding("slash,ctrl+r", "find", "Find", id="sentences.find"),
        Binding("d,delete", "forget", "Forget it", id="sentences.forget"),
        Binding("q,S", "dismiss", "Close", show=False, id="sentences.close"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "menu.select": "Show",
        "field.submit": "Show",
        "sentences.find": "Find",
        "sentences.forget": "Forget",
        "sentences.back": "Back",
    }

    def __init__(self, sentences: Sentences, *, is_finding: bool) -> None:
        super().__init__()
        self._sentences = sentences
        self._is_finding = is_finding
        self._found: tuple[str, ...] = ()
        self._list = Menu(markup=False, name="sentences menu")
        self._words = _Words(placeholder="words to find")

    def compose(self) -> ComposeResult:
        """Put the words over the list."""
        with Vertical(id="sentences", classes="box") as box:
            box.border_title = "sentences"
            yield self._words
            yield self._list

    def on_mount(self) -> None:
        """List the sentences."""
        self._words.display = self._is_finding
        self._fill()
        self.set_focus(self._words if self._is_finding else self._list)

    @on(Input.Changed)
    def _fill(self) -> None:
        """List the sentences that hold the words; the cursor stays on its line."""
        at = self._list.highlighted or 0
        self._found = find_sentences(self._sentences.newest_first, self._words.value)
        self._list.clear_options()
        width = max(self.app.size.width - 12, 20)
        for text in self._found:
            line = fit(escape_text(text[:SHOWN]), width).rstrip()
            self._list.add_option(Option(Text(line, no_wrap=True), id=text))
        if self._found:
            self._list.highlighted = min(at, len(self._found) - 1)
        else:
            self._list.add_option(Option(Text(fit(self._why_none, width).rstrip(), no_wrap=True), disabled=True))

    @property
    def _why_none(self) -> str:
        if words := self._words.value.strip():
            return f"no sentence holds {escape_text(words)}; {key_of(self.app, 'sentences.back')} goes back"
        return f"no sentence here; {key_of(self.app, 'app.sentence')} types one"

    @on(Input.Submitted)
    def _choose_first(self) -> None:
        """Choose the match under the cursor while the words have the focus."""
        if self._found:
            self.dismiss(self._found[self._list.highlighted or 0])

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_leave(self) -> None:
        """Go back from the words to the list, if they were opened here, or close."""
        if self._words.display and not self._is_finding:
            self._words.display = False
            self._words.value = ""
            self.set_focus(self._list)
        else:
            self.dismiss(None)

    def action_find(self) -> None:
        """Open the line for words."""
        self._words.display = True
        self.set_focus(self._words)

    def action_forget(self) -> None:
        """Forget the sentence under the cursor."""
        if self._found and self._list.highlighted is not None:
            self._sentences.forget(self._found[self._list.highlighted])
            self._fill()


class _Words(Field):
    """The line for words, from which the arrows still move in the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "down,ctrl+n,ctrl+r", "screen.move('cursor_down')", "Next match", show=False, id="sentences.next_match"
        ),
        Binding("up,ctrl+p", "screen.move('cursor_up')", "Previous match", show=False, id="sentences.match_before"),
    ]

    leaving = "screen.leave"
