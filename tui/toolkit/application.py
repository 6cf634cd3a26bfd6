"""An application that sends only what differs, handles keys in order, and leaves no traceback on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import RenderableType
from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.errors import NoWidget
from textual.filter import Monochrome, NoColor
from textual.notifications import Notification, Notify, SeverityLevel
from textual.screen import Screen
from textual.widget import MountError
from textual.widgets import Input
from textual.worker import Worker, WorkerFailed

from tui.drawing.text import escape_text, fit
from tui.toolkit.keys import IN_ASCII
from tui.toolkit.line_filters import AsciiOnly, Colourless, NearestColour, SafeCharacters
from tui.toolkit.output import LastFrame, only_difference
from tui.toolkit.themes import ANSI, OWN, default_theme

WIDTHS = [(0, "-tiny"), (40, "-narrow"), (100, "-wide")]
HEIGHTS = [(0, "-flat"), (12, "-low"), (34, "-tall")]
"""The classes of screens by their columns and rows."""

TROUBLE_TIMEOUT = 6
"""Seconds for which a warning or an error stays, as it takes longer to read than other messages."""

MOMENT = 0.01
"""Seconds."""

LAST_SECONDS = 3.0
"""Seconds that the program may take to leave after a signal."""

LOOKS = 100
"""How many such moments a key waits, at most, for what the previous key has opened."""


@dataclass
class LastingNotification(Notification):
    """A message that may expire just when it is shown.

    Textual sets a timer for the remaining time; with a negative one, the timer never ends and nothing else goes on.
    """

    @property
    def time_left(self) -> float:
        """The remaining time, always positive."""
        return max(super().time_left, MOMENT)

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return super().time_left <= 0


class TerminalApp(App[None]):
    """An application on a terminal.

    Attributes
    ----------
    is_ascii_only : whether only ASCII is sent.
    failure : the error that ended the program, if any.
    finish : ends the process once the terminal is restored, unless there is something to say then; None where the
        process goes on.
    """

    TITLE = "attn-tui"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    ENABLE_COMMAND_PALETTE = False  # Textual's own opens over lists and menus; the main screen has one
    NOTIFICATION_TIMEOUT = 3
    foot_keys: ClassVar[dict[str, str]] = {"app.help": "Help", "app.quit": "Quit"}
    ACTION_TARGETS: ClassVar[set[str]] = set()
    """Names of attributes that hold a widget; its actions can then be called from anywhere."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__()
        self._action_targets |= self.ACTION_TARGETS
        self.failure = ""
        self.finish: Callable[[], None] | None = None
        self.is_ascii_only = ascii_only
        self.animation_level = "none"
        self._held_keys: deque[events.Key | events.Paste] = deque()
        self._has_typed_g = False
        self._last_frame = LastFrame(lambda: self.call_later(self.action_redraw))
        # Textual's filters turn colours to grey, and the terminal's own, which it does not know, to black.
        colours = [Colourless() if isinstance(each, Monochrome | NoColor) else each for each in self._filters]
        nearest = [NearestColour()] if self.console.color_system == "256" else []
        self._filters = [SafeCharacters(), *colours, *nearest, *([AsciiOnly()] if ascii_only else ())]
        for theme in OWN.values():
            self.register_theme(theme)
        self.use_theme(None)
        self.stylesheet.set_variables(self.get_css_variables())  # it still has Textual's version of the theme

    def use_theme(self, name: str | None) -> None:
        """Set a theme by its full name, or the default; with ``NO_COLOR`` always the ANSI theme."""
        usual = default_theme(self.console.color_system, no_color=self.no_color)
        self.theme = ANSI if self.no_color else name or usual

    def on_mount(self) -> None:
        """Leave on a signal, and repaint everything when the application is resumed."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP):
            # Ended at once, the process would leave the terminal in the alternate screen.
            loop.add_signal_handler(name, self._hang_up, name)
        self.app_resume_signal.subscribe(self, lambda app: self.action_redraw())

    def _hang_up(self, name: signal.Signals) -> None:
        """Leave with the status of an end by a signal, even where the terminal is gone and cannot be drawn."""
        status = 128 + name
        self.leave(status)
        last = threading.Timer(LAST_SECONDS, os._exit, (status,))
        last.daemon = True
        last.start()

    def leave(self, status: int) -> None:
        """Leave with an exit status."""
        self.exit(return_code=status)

    def get_key_display(self, binding: Binding) -> str:
        """Format a key for the key line and the help; in ASCII, signs become names."""
        if not self.is_ascii_only or binding.key_display:
            return super().get_key_display(binding)
        modifiers, key = binding.parse_key()
        if key not in IN_ASCII:
            return super().get_key_display(binding)
        control = "^" if "ctrl" in modifiers else ""
        return "+".join((*(each for each in modifiers if each != "ctrl"), control + IN_ASCII[key]))

    @property
    def holds_keys(self) -> bool:
        """Whether keys wait because there is nothing yet that they could act on."""
        return False

    @property
    def is_settled(self) -> bool:
        """Whether the screen or view that a key has opened is ready and has the focus."""
        return self.screen.is_mounted and (self.focused is not None or not self.screen.focus_chain)

    def on_typed(self) -> None:
        """Do something before a key or a click is handled."""

    def on_command(self, binding: str) -> None:
        """Do something before a binding runs, given its id."""

    async def on_event(self, event: events.Event) -> None:
        """Handle keys in order; ignore the mouse over removed widgets that are still on screen."""
        if isinstance(event, events.InputEvent) and not self.screen_stack:
            return  # the program is being left
        # A key that a widget passes on may come only once the model that it was for has been closed.
        if isinstance(event, events.Key | events.Paste) and (self.holds_keys or not event.is_forwarded):
            if self.holds_keys and isinstance(event, events.Key) and event.key == "ctrl+j":
                event = events.Key("enter", "\r")  # as terminals send it before the program has set them up
            self._held_keys.append(event)
            await self._do_held_keys()
        elif not (isinstance(event, events.MouseEvent) and self._is_over_removed_widget(event)):
            if isinstance(event, events.MouseDown):
                self.on_typed()
            await super().on_event(event)

    def do_held_keys(self) -> None:
        """Handle the held keys in the queue of keys, one after the other."""
        self.call_later(self._do_held_keys)

    async def _do_held_keys(self) -> None:
        while self._held_keys and not self.holds_keys:
            await self._do_key(self._held_keys.popleft())

    async def _do_key(self, event: events.Key | events.Paste) -> None:
        """Handle a key.

        Textual passes a key through the queues of widgets before it runs its binding. If that moves the focus or opens
        a screen, fast keys would go to what had the focus before. So bindings run at once; in a field, after the
        letters before them.
        """
        for _ in range(LOOKS):
            if not self.screen_stack:
                return
            if self.is_settled:
                break
            await asyncio.sleep(MOMENT)
        self.on_typed()
        field = self.focused if isinstance(self.focused, Input) else None
        if field is None:
            event = self._pair_g(event)
        active = self.screen.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        is_text = isinstance(event, events.Key) and event.is_printable and field is not None
        if active is None or (is_text and not active.binding.priority):
            await super().on_event(event)
            return
        if field is not None:
            await _wait_for_queue(field)
            if not self.screen_stack:
                return
        self.on_command(active.binding.id or "")
        if not await self.run_action(active.binding.action, active.node):
            await super().on_event(event)
        elif field is not None:
            for each in field.ancestors_with_self:
                if each is not self:
                    await _wait_for_queue(each)

    def _pair_g(self, event: events.Key | events.Paste) -> events.Key | events.Paste:
        """Turn the second of two ``g`` into the key ``gg``."""
        is_g = isinstance(event, events.Key) and event.key == "g"
        is_second, self._has_typed_g = is_g and self._has_typed_g, is_g and not self._has_typed_g
        return events.Key("gg", None) if is_second else event

    def _is_over_removed_widget(self, event: events.MouseEvent) -> bool:
        """Return whether the mouse is over a removed widget, on which Textual fails."""
        try:
            return not self.screen.get_widget_at(event.x, event.y)[0].is_attached
        except NoWidget:
            # beyond the screen any event but a move would take the focus away
            return self.mouse_captured is None and not isinstance(event, events.MouseMove)

    def pop_screen(self) -> AwaitComplete:
        """Close the top screen; pass on its callbacks for the next frame, which Textual would lose."""
        closed = self.screen
        popped = super().pop_screen()
        waiting, closed._callbacks = closed._callbacks, []
        for callback, sender in waiting:
            self.screen._invoke_later(callback, sender)
        return popped

    def action_suspend_process(self) -> None:
        """Restore the terminal and stop, until the shell continues the program.

        The whole process group stops, as with ctrl+z elsewhere. Textual stops the process alone, and also where no
        shell could continue it.
        """
        if self._driver is None or not self._driver.can_suspend or not hasattr(signal, "SIGTSTP"):
            return
        if os.getsid(0) == os.getpid():
            self.notify("cannot suspend: no shell runs in this terminal")
            return
        with self.suspend():
            os.killpg(0, signal.SIGTSTP)

    def action_redraw(self) -> None:
        """Send the whole screen, over anything another program wrote."""
        self._last_frame.forget()
        self.screen.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Forget the last frame; at an unchanged size, lay out nothing."""
        self._last_frame.forget()
        if self.screen_stack and event.size == self.screen.size:
            self.screen.refresh()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only what differs from the last frame; nothing while the layout is for another size."""
        if screen.outer_size == self.size:
            super()._display(screen, only_difference(self._last_frame, renderable))

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
        usual = self.NOTIFICATION_TIMEOUT if severity == "information" else TROUBLE_TIMEOUT
        seconds = usual if timeout is None else timeout
        self.post_message(Notify(LastingNotification(message, title, severity, seconds, markup=markup)))

    def on_notify(self, event: Notify) -> None:
        """Show equal messages only once at a time."""
        said = event.notification
        if any((each.title, each.message) == (said.title, said.message) for each in self._notifications):
            event.prevent_default()

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave without waiting for the thread that reads keys, which wakes every tenth of a second."""
        super().exit(result, return_code, message)
        driver: Any = self._driver
        is_told = getattr(driver, "exit_event", None)  # some systems' drivers have none
        if self.finish is not None and is_told is not None and not is_told.is_set():
            driver._disable_mouse_support()
            is_told.set()

    async def _shutdown(self) -> None:
        """Remove the widgets, unless the process ends: on a busy machine that takes longer than all the rest."""
        if self.finish is not None and self._driver is not None:
            self._driver.close()  # after the last codes that restore the terminal
            self.finish()
        self.workers.cancel_all()  # work in between would draw on widgets that are gone
        await super()._shutdown()

    def _handle_exception(self, error: Exception) -> None:
        """Leave on an error, except one about missing widgets while the program is closing."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if not (self._exit and isinstance(cause, MountError | NoMatches)):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave on an unexpected error without printing a traceback over the terminal."""
        self._close_messages_no_wait()

    @property
    def unexpected_error(self) -> Exception | None:
        """The unexpected error that ended the application, if any."""
        return self._exception


async def _wait_for_queue(node: DOMNode) -> None:
    """Wait until a node has handled its queue; give up if it is removed or takes long."""
    reached = asyncio.Event()
    if node.call_later(reached.set):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reached.wait(), LOOKS * MOMENT)


def sends_ascii_only(app: App[None]) -> bool:
    """Return whether an application sends only ASCII; one that is not a `TerminalApp` does not."""
    return isinstance(app, TerminalApp) and app.is_ascii_only


Work = Callable[[], Coroutine[Any, Any, None]]
"""What to run. It is called only when its turn comes: a coroutine created earlier would be dropped with a warning if
newer work replaces it or the program closes.
"""


def start_work(owner: DOMNode, work: Work, group: str, *, is_alone: bool = True) -> Worker[None]:
    """Start work that ends with its owner.

    Screens still run delayed callbacks while the program closes. Work started by them would not be cancelled with the
    rest, and could wait for ever.

    Parameters
    ----------
    is_alone : whether it replaces older work of the same group.
    """
    worker: Worker[None] = owner.run_worker(work, group=group, exclusive=is_alone)
    if not owner.app.is_running:
        worker.cancel()
    return worker


SHOWN = 48
"""Cells shown of what was copied."""


def beginning_of(copied: str) -> str:
    """Return the beginning of what was copied, for a message."""
    return fit(escape_text(" ".join(copied[: 2 * SHOWN].split())), SHOWN).rstrip()


def notify_copied(app: App[Any]) -> None:
    """Show the beginning of what was copied."""
    app.notify(beginning_of(app.clipboard), title="copied", timeout=2)
