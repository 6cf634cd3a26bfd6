"""What the explorer does otherwise than the toolkit's applications: how it paints, and how it ends after an error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

from rich.console import RenderableType
from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App, ScreenStackError
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.errors import NoWidget
from textual.filter import Monochrome, NoColor
from textual.notifications import Notify, SeverityLevel
from textual.screen import Screen
from textual.widget import MountError, Widget
from textual.widgets._toast import ToastRack
from textual.worker import WorkerFailed

from tui.key_names import IN_ASCII
from tui.lasting import Lasting
from tui.line_filters import AsciiOnly, Colourless, Settled
from tui.main_screen import MainScreen
from tui.pasting import PasteParser
from tui.themes import ANSI, OWN, usual_theme
from tui.toolkit.colours import NearestColour
from tui.toolkit.output import RESET, LastFrame, only_difference

SEEN = 1.5
"""Seconds for which a message stays at least, whatever is typed."""


class LeavesPlain(Driver):
    """A driver of the toolkit's that has the terminal write in no style before it is given back.

    The toolkit draws on the stream of errors. Where that goes to a file the other one is the terminal's.
    """

    _file: TextIO

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self._file is sys.__stderr__ and not self._file.isatty() and sys.__stdout__ is not None:
            self._file = sys.__stdout__

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        self.write(RESET)
        super().stop_application_mode()  # type: ignore[safe-super]


class Frame(App[None]):
    """An application that sends only what differs, and leaves no traceback on the terminal.

    Attributes
    ----------
    is_ascii_only : whether nothing but ASCII is sent.
    finish : ends the process once the terminal is as it was before, unless there is something to say then; None where
        the process goes on.
    """

    NOTIFICATION_TIMEOUT = 3

    def __init__(self) -> None:
        super().__init__()
        self.finish: Callable[[], None] | None = None
        self.is_ascii_only = False
        self.animation_level = "none"
        self._last_frame = LastFrame()
        # The toolkit turns colours to grey, and those of the terminal, which it does not know, to black on black.
        colours = [Colourless() if isinstance(each, Monochrome | NoColor) else each for each in self._filters]
        nearest = [NearestColour()] if self.console.color_system == "256" else []
        self._filters = [Settled(), *colours, *nearest]
        for theme in OWN.values():
            self.register_theme(theme)
        self.use_theme(None)

    def use_theme(self, name: str | None) -> None:
        """Take a theme by its full name, or the usual one; without colour only one shows what is where."""
        usual = usual_theme(self.console.color_system, no_color=self.no_color)
        self.theme = ANSI if self.no_color else name or usual

    def get_driver_class(self) -> type[Driver]:
        """Choose what writes, and reads keys; it reads them by a parser of its module, whose place ours takes."""
        driver = super().get_driver_class()
        module = sys.modules[driver.__module__]
        if hasattr(module, XTermParser.__name__):
            setattr(module, XTermParser.__name__, PasteParser)
        return cast("type[Driver]", type(driver.__name__, (LeavesPlain, driver), {}))

    def draw_ascii_only(self) -> None:
        """Send nothing but ASCII from now on."""
        self.is_ascii_only = True
        self._filters.append(AsciiOnly())

    def on_mount(self) -> None:
        """Paint all anew when the terminal comes back from another program."""
        self.app_resume_signal.subscribe(self, lambda app: self.action_redraw())

    def get_default_screen(self) -> Screen[object]:
        """Make the screen."""
        return MainScreen(id="_default")

    def choose_focus(self, chain: Sequence[Widget]) -> Widget | None:
        """Say which of the widgets that can have the focus gets it, where nobody has; none of a bare application's."""

    def fill_focus(self) -> None:
        """Have somebody get the focus of the main screen, where nobody has it."""
        self.screen_stack[0]._update_auto_focus()

    def get_key_display(self, binding: Binding) -> str:
        """Write a key as the line of keys and the help show it; in ASCII by its name where that is a sign."""
        if not self.is_ascii_only or binding.key_display:
            return super().get_key_display(binding)
        modifiers, key = binding.parse_key()
        if key not in IN_ASCII:
            return super().get_key_display(binding)
        control = "^" if "ctrl" in modifiers else ""
        return "+".join((*(each for each in modifiers if each != "ctrl"), control + IN_ASCII[key]))

    def action_redraw(self) -> None:
        """Send the whole screen, over whatever somebody else wrote on it."""
        self._last_frame.forget()
        self.screen.refresh()

    def on_resize(self) -> None:
        """Take nothing that was painted for granted."""
        self._last_frame.forget()

    async def on_event(self, event: events.Event) -> None:
        """Take no notice of a mouse button over what has gone and is on screen still; the toolkit fails over it.

        Nor of one beyond the screen, as where the terminal was larger a moment ago; the focus would go to nobody.
        """
        if not isinstance(event, events.MouseDown | events.MouseMove | events.MouseUp) or self._meets(event):
            await super().on_event(event)

    def _meets(self, event: events.MouseEvent) -> bool:
        """Say whether the mouse is over something that is there still, or moves away, or lets go of what it holds."""
        try:
            is_there = self.screen.get_widget_at(event.x, event.y)[0].parent is not None
            return is_there or isinstance(event, events.MouseUp)
        except NoWidget:
            return self.mouse_captured is not None or isinstance(event, events.MouseMove)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only what differs from what is on the terminal."""
        super()._display(screen, cast("RenderableType | None", only_difference(self._last_frame, renderable)))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message literally."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def _on_notify(self, event: Notify) -> None:
        """Take away the same message where it is on screen still; the new one, which follows, has its place."""
        new = event.notification = Lasting.of(event.notification)
        for old in list(self._notifications):
            if (old.title, old.message, old.severity) == (new.title, new.message, new.severity):
                self._unnotify(old, refresh=False)

    def put_away_what_stays(self) -> None:
        """Take away what is to stay longer than messages do by themselves, once it could be seen."""
        usual = self.NOTIFICATION_TIMEOUT
        for each in list(self._notifications):
            if each.timeout > usual and time.time() - each.raised_at > SEEN:
                self._unnotify(each)

    def _refresh_notifications(self) -> None:
        """Take away what holds a message that has gone; the toolkit leaves it, and the next one would stand lower."""
        with contextlib.suppress(NoMatches, ScreenStackError):
            kept = {ToastRack._toast_id(each) for each in self._notifications}
            for holder in self.screen.get_child_by_type(ToastRack).children:
                if holder.id not in kept:
                    holder.remove()
        super()._refresh_notifications()

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave. The thread that reads keys looks up every tenth of a second; the terminal does not wait for it."""
        super().exit(result, return_code, message)
        driver: Any = self._driver
        is_told = getattr(driver, "exit_event", None)  # not every system's driver has one
        if self.finish is not None and is_told is not None and not is_told.is_set():
            driver._disable_mouse_support()
            is_told.set()

    async def _shutdown(self) -> None:
        """Take widgets apart, unless the process ends: beside busy ones that takes longer than all else of leaving."""
        if self.finish is not None and self._driver is not None:
            self._driver.close()  # once all has been written that gives the terminal back
            self.finish()
        await super()._shutdown()

    def _handle_exception(self, error: Exception) -> None:
        """Leave over an error, but not over a part that cannot be shown any more because the program is being left."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if not (self._exit and isinstance(cause, MountError | NoMatches)):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave after an error that nobody foresaw; the traceback does not go over the person's terminal."""
        self._close_messages_no_wait()

    @property
    def unforeseen(self) -> Exception | None:
        """The error that ended the explorer, if nobody foresaw it."""
        return self._exception


def sends_ascii_only(app: App[Any]) -> bool:
    """Say whether an application, which may be a widget's of tests, sends nothing but ASCII."""
    return isinstance(app, Frame) and app.is_ascii_only
