"""The list of sentences, read in this run or an earlier one."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.drawing.text import escape_text, fit
from tui.screens.modal import Modal
from tui.state.sentences import Sentences
from tui.toolkit.keys import key_of
from tui.widgets.menu import Menu

SHOWN = 2000
"""How many characters of a sentence its line in the list is made of."""


class SentencesScreen(Modal[str | None]):
    """Lists sentences; the result is the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,S", "dismiss", "Back", id="sentences.back"),
        Binding("d,delete", "forget", "Forget it", id="sentences.forget"),
    ]

    foot_keys: ClassVar[dict[str, str]] = {
        "menu.select": "Show",
        "sentences.forget": "Forget",
        "sentences.back": "Back",
    }

    def __init__(self, sentences: Sentences) -> None:
        super().__init__()
        self._sentences = sentences
        self._list = Menu(markup=False, name="sentences menu")

    def compose(self) -> ComposeResult:
        """Put the list into a box."""
        with Vertical(id="sentences", classes="box") as box:
            box.border_title = "sentences"
            yield self._list

    def on_mount(self) -> None:
        """List the sentences."""
        self._fill()
        self.set_focus(self._list)

    def _fill(self) -> None:
        """List the sentences; the cursor stays on its line."""
        at, listed = self._list.highlighted or 0, self._sentences.newest_first
        self._list.clear_options()
        width = max(self.app.size.width - 12, 20)
        for text in listed:
            line = fit(escape_text(text[:SHOWN]), width).rstrip()
            self._list.add_option(Option(Text(line, no_wrap=True), id=text))
        if listed:
            self._list.highlighted = min(at, len(listed) - 1)
        else:
            said = f"no sentence here; {key_of(self.app, 'app.sentence')} types one"
            self._list.add_option(Option(Text(said, no_wrap=True), disabled=True))

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_forget(self) -> None:
        """Forget the sentence under the cursor."""
        option = self._list.highlighted_option
        if option is not None and option.id is not None:
            self._sentences.forget(option.id)
            self._fill()
