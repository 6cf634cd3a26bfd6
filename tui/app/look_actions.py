"""Keys that change how the explorer looks, and what a person set in the configuration file about keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.parts import Parts
from tui.start import Configuration
from tui.state.saved import remember_theme, trouble
from tui.toolkit.key_groups import PROGRAM
from tui.toolkit.keys import UNBOUND, key_of
from tui.toolkit.tasks import begin
from tui.toolkit.themes import ANSI, next_theme

QUITTING = ("list.quit", "export.quit", "sentences.quit", "chooser.quit_too")
"""The keys that quit from other screens than the views."""


class LookActions(Parts):
    """An application with themes to go through, and with a person's own keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+t",
            "next_theme",
            "Next theme",
            show=False,
            id="app.next_theme",
            group=PROGRAM,
        ),
    ]

    misconfigured: tuple[str, ...] = ()
    """What of the configuration is not used, a line each."""

    remembers_theme = False
    """Whether a theme that is chosen with a key comes back at the next start."""

    def action_next_theme(self) -> None:
        """Go on to the next theme, and say which."""
        self.choose_theme(next_theme(self.theme))

    def choose_theme(self, name: str) -> None:
        """Take a theme by its full name, and say so."""
        self.clear_notifications()
        if self.no_color:
            self.notify("NO_COLOR is set, and every theme without colour is the same")
            return
        self.theme = name
        if self.remembers_theme:
            threading.Thread(target=remember_theme, args=(self.theme,), daemon=True).start()
        short = self.theme.removeprefix("textual-")
        few = " (the terminal's own colours; maps are drawn with signs)" if self.theme == ANSI else ""
        self.notify(f"theme {short}{few}", timeout=2)

    async def tell_what_is_not_kept(self) -> None:
        """Say where nothing can be kept for the next start; the program goes on without."""
        if said := await asyncio.to_thread(trouble):
            self.notify(said, severity="warning", timeout=6)

    def set_keymap(self, keymap: Mapping[str, str]) -> None:
        """Take other keys, or none, and name those where a text does so all the time."""
        super().set_keymap({name: keys or f"{UNBOUND}{name}" for name, keys in keymap.items()})
        self.name_keys()

    def name_keys(self) -> None:
        """Say where the sentence is typed with which keys."""
        begin, read = key_of(self, "app.sentence"), key_of(self, "sentence.read")
        self.sentence_input.placeholder = f"{begin}: type a sentence, {read} reads it"

    def take_keys(self, config: Configuration) -> None:
        """Take over the keys of a configuration file, before any is named on screen."""
        if config.keys:
            self.set_keymap(_everywhere(dict(config.keys)))

    def check_config(self, config: Configuration) -> None:
        """Say soon what of a configuration file is wrong, and take its keys back that cannot be had."""
        self.misconfigured = config.problems
        if config.keys or config.problems:
            self.call_after_refresh(begin, self, partial(self._check, config), "config")

    async def _check(self, config: Configuration) -> None:
        """Look at the file closely beside the event loop: it takes every module that has keys.

        What is wrong with it stays where it can be read again: in the help, and behind the explorer.
        """
        if config.keys:
            keys, problems = await asyncio.to_thread(config.checked_keys)
            self.set_keymap(_everywhere(keys))
            self.misconfigured += problems
        if self.misconfigured:
            first, *others = self.misconfigured
            said = first.replace(str(config.path), config.path.name)  # of which the help has the whole
            if others:
                said += f"\n… and {len(others)} more; {key_of(self, 'app.help')} lists all"
            self.notify(said, severity="warning", timeout=10)


def _everywhere(keys: dict[str, str]) -> dict[str, str]:
    """Have a key that quits quit from every screen, unless a screen was given one of its own."""
    quitting = keys.get("app.quit_too")
    return keys if quitting is None else dict.fromkeys(QUITTING, quitting) | keys
