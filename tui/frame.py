"""What the explorer does otherwise than the toolkit's applications: how it paints, and how it ends after an error."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from tui.painting import Painted, Repaint


class MainScreen(Screen[object]):
    """The screen with the tree and the views; where the focus goes, the widgets concerned are drawn anew, not all."""

    focused = Reactive[Widget | None](None, repaint=False)


class Frame(App[None]):
    """An application that sends only what differs, and leaves no traceback on the terminal.

    Attributes
    ----------
    is_all : whether the process ends with it, so that nobody needs to wait for the thread that reads keys.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_all = False
        self.animation_level = "none"
        self._painted = Painted()

    def on_mount(self) -> None:
        """Paint all anew when the terminal comes back from another program."""
        self.app_resume_signal.subscribe(self, lambda app: self._painted.forget())

    def get_default_screen(self) -> Screen[object]:
        """Make the screen."""
        return MainScreen(id="_default")

    def action_redraw(self) -> None:
        """Send the whole screen, over whatever somebody else wrote on it."""
        self._painted.forget()
        self.screen.refresh()

    def on_resize(self) -> None:
        """Take nothing that was painted for granted."""
        self._painted.forget()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only what differs from what is on the terminal."""
        if isinstance(renderable, ChopsUpdate | LayoutUpdate):
            renderable = Repaint(self._painted, renderable)
        super()._display(screen, renderable)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave. The thread that reads keys looks up every tenth of a second; the terminal does not wait for it."""
        super().exit(result, return_code, message)
        driver: Any = self._driver
        is_told = getattr(driver, "exit_event", None)  # not every system's driver has one
        if self.is_all and is_told is not None and not is_told.is_set():
            driver._disable_mouse_support()
            is_told.set()

    def _fatal_error(self) -> None:
        """Leave after an error that nobody foresaw; the traceback does not go over the person's terminal."""
        self._close_messages_no_wait()

    @property
    def unforeseen(self) -> Exception | None:
        """The error that ended the explorer, if nobody foresaw it."""
        return self._exception
