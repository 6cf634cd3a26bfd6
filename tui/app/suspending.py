"""The key with which the program stands back in its shell until it is called to the front again."""

from __future__ import annotations

import os
import signal
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.parts import Parts
from tui.toolkit.key_groups import PROGRAM

NO_SHELL = "there is no shell to suspend to: nothing else runs in this terminal"
"""Said where nobody could call the program to the front again."""


class SuspendActions(Parts):
    """An application that can be suspended as editors and pagers are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+z",
            "suspend_process",
            "Suspend; the shell's fg comes back",
            show=False,
            priority=True,  # from menus, lists and fields too
            id="app.suspend",
            group=PROGRAM,
        ),
    ]

    def action_suspend_process(self) -> None:
        """Give the terminal back and stop, until the shell continues the program; nothing where there is no such thing.

        All that the shell has started with it is stopped, as the terminal does it by itself. The toolkit stops the
        process alone and in any case: where it was begun by another program, nothing would wake either.
        """
        if self._driver is None or not self._driver.can_suspend or not hasattr(signal, "SIGTSTP"):
            return
        if os.getsid(0) == os.getpid():
            self.key_line.say(NO_SHELL)
            return
        with self.suspend():
            os.killpg(0, signal.SIGTSTP)
