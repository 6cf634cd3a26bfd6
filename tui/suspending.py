"""The key with which the program stands back in its shell until it is called to the front again."""

from __future__ import annotations

import os
import signal
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.key_groups import PROGRAM
from tui.parts import Parts

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

        All that the shell has started with it is stopped, as the terminal does it by itself, and by the signal that the
        system leaves out where no shell waits. The toolkit stops the process alone and in any case: where it was begun
        by another program, nothing would wake either.
        """
        driver = self._driver
        if driver is None or not driver.can_suspend or not hasattr(signal, "SIGTSTP"):
            return
        if os.getsid(0) == os.getpid():
            self.key_line.say(NO_SHELL)
            return
        self._suspend_signal()
        with driver.no_automatic_restart():
            driver.suspend_application_mode()
            before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.killpg(0, signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, before)
        driver.resume_application_mode()
        self._resume_signal()
