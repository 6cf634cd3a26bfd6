"""An application that sends only what differs, does keys in their order, and leaves no traceback on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, cast

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
from tui.toolkit.themes import ANSI, OWN, usual_theme

MOMENT = 0.01
"""Seconds."""

LOOKS = 100
"""How many such moments a key waits at most for what the one before it has opened."""


@dataclass
class LastingNotification(Notification):
    """A message whose time may be over just when it is shown.

    The toolkit sets a timer for the time that it has left; where that is less than none the timer never ends, and
    nothing else goes on.
    """

    @property
    def time_left(self) -> float:
        """The time that it has left, always some."""
        return max(super().time_left, MOMENT)

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return super().time_left <= 0


class TerminalApp(App[None]):
    """An application on a terminal.

    Attributes
    ----------
    is_ascii_only : whether nothing but ASCII is sent.
    finish : ends the process once the terminal is as it was before, unless there is something to say then; None where
        the process goes on.
    """

    NOTIFICATION_TIMEOUT = 3
    ACTION_TARGETS: ClassVar[set[str]] = set()
    """Names of attributes that hold a widget, by which its actions can be called anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self._action_targets |= self.ACTION_TARGETS
        self.finish: Callable[[], None] | None = None
        self.is_ascii_only = False
        self.animation_level = "none"
        self._held_keys: deque[events.Key | events.Paste] = deque()
        self._has_typed_g = False
        self._last_frame = LastFrame(lambda: self.call_later(self.action_redraw))
        # The toolkit turns colours to grey, and those of the terminal, which it does not know, to black on black.
        colours = [Colourless() if isinstance(each, Monochrome | NoColor) else each for each in self._filters]
        nearest = [NearestColour()] if self.console.color_system == "256" else []
        self._filters = [SafeCharacters(), *colours, *nearest]
        for theme in OWN.values():
            self.register_theme(theme)
        self.use_theme(None)
        self.stylesheet.set_variables(self.get_css_variables())  # which was made for the theme of that name before

    def use_theme(self, name: str | None) -> None:
        """Take a theme by its full name, or the usual one; without colour only one shows what is where."""
        usual = usual_theme(self.console.color_system, no_color=self.no_color)
        self.theme = ANSI if self.no_color else name or usual

    def draw_ascii_only(self) -> None:
        """Send nothing but ASCII from now on."""
        self.is_ascii_only = True
        self._filters.append(AsciiOnly())

    def on_mount(self) -> None:
        """Paint all anew when the terminal comes back from another program."""
        self.app_resume_signal.subscribe(self, lambda app: self.action_redraw())

    def get_key_display(self, binding: Binding) -> str:
        """Write a key as the line of keys and the help show it; in ASCII by its name where that is a sign."""
        if not self.is_ascii_only or binding.key_display:
            return super().get_key_display(binding)
        modifiers, key = binding.parse_key()
        if key not in IN_ASCII:
            return super().get_key_display(binding)
        control = "^" if "ctrl" in modifiers else ""
        return "+".join((*(each for each in modifiers if each != "ctrl"), control + IN_ASCII[key]))

    @property
    def holds_keys(self) -> bool:
        """Whether keys wait, as there is nothing yet that they could be for."""
        return False

    @property
    def is_settled(self) -> bool:
        """Whether the screen or view that a key has just opened is there, and has the focus."""
        return self.screen.is_mounted and (self.focused is not None or not self.screen.focus_chain)

    def on_typed(self) -> None:
        """Note that a key, or a click, is about to be done."""

    def on_command(self, binding: str) -> None:
        """Note that what a key is bound to is about to be done, by the binding's id."""

    async def on_event(self, event: events.Event) -> None:
        """Do keys in their order, and take no notice of the mouse over what has gone and is on screen still."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self._held_keys.append(_as_typed(event) if self.holds_keys else event)
            await self._do_held_keys()
        elif not (isinstance(event, events.MouseEvent) and self._is_over_what_has_gone(event)):
            if isinstance(event, events.MouseDown):
                self.on_typed()
            await super().on_event(event)

    def do_held_keys(self) -> None:
        """Have the keys that were held done where keys come in, and so one after the other."""
        self.call_later(self._do_held_keys)

    async def _do_held_keys(self) -> None:
        while self._held_keys and not self.holds_keys:
            await self._do_key(self._held_keys.popleft())

    async def _do_key(self, event: events.Key | events.Paste) -> None:
        """Do a key.

        The toolkit hands a key from widget to widget through their queues before it does what is bound to it. Where
        that moves the focus or opens a screen, keys typed fast would be on their way to what had the focus before. So
        what is bound is done at once; in a field, once the letters before it are there.
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
            event = self._paired(event)
        active = self.screen.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        is_text = isinstance(event, events.Key) and event.is_printable and field is not None
        if active is None or (is_text and not active.binding.priority):
            await super().on_event(event)
            return
        if field is not None:
            await _until_handled(field)
        self.on_command(active.binding.id or "")
        if not await self.run_action(active.binding.action, active.node):
            await super().on_event(event)
        elif field is not None:
            for each in field.ancestors_with_self:
                if each is not self:
                    await _until_handled(each)

    def _paired(self, event: events.Key | events.Paste) -> events.Key | events.Paste:
        """Take the second of two ``g`` for the key ``gg``, which no keyboard has."""
        is_g = isinstance(event, events.Key) and event.key == "g"
        is_second, self._has_typed_g = is_g and self._has_typed_g, is_g and not self._has_typed_g
        return events.Key("gg", None) if is_second else event

    def _is_over_what_has_gone(self, event: events.MouseEvent) -> bool:
        """Say whether the mouse is over what is no part of the application any more; the toolkit fails over it."""
        if not self.screen_stack:
            return True
        try:
            return not self.screen.get_widget_at(event.x, event.y)[0].is_attached
        except NoWidget:
            # beyond the screen, where any event but a move would leave nobody the focus
            return self.mouse_captured is None and not isinstance(event, events.MouseMove)

    def pop_screen(self) -> AwaitComplete:
        """Close the screen on top, and hand on what waits for the next frame: the toolkit loses it with that screen."""
        closed = self.screen
        popped = super().pop_screen()
        waiting, closed._callbacks = closed._callbacks, []
        for callback, sender in waiting:
            self.screen._invoke_later(callback, sender)
        return popped

    def action_redraw(self) -> None:
        """Send the whole screen, over whatever somebody else wrote on it."""
        self._last_frame.forget()
        self.screen.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Take nothing that was painted for granted; where the size is the same again, nothing is laid out anew."""
        self._last_frame.forget()
        if self.screen_stack and event.size == self.screen.size:
            self.screen.refresh()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Send only what differs from what is on the terminal; nothing while all is laid out for another size."""
        if screen.outer_size == self.size:
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
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.post_message(Notify(LastingNotification(message, title, severity, seconds, markup=markup)))

    def on_notify(self, event: Notify) -> None:
        """Show a message once at a time."""
        said = event.notification
        if any((each.title, each.message) == (said.title, said.message) for each in self._notifications):
            event.prevent_default()

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


def _as_typed(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """Take ctrl+j for Enter: it is what Enter sends before the program has set the terminal up."""
    return events.Key("enter", "\r") if isinstance(event, events.Key) and event.key == "ctrl+j" else event


async def _until_handled(node: DOMNode) -> None:
    """Wait until a widget has handled what it was sent before; not for one that goes, or that takes long."""
    reached = asyncio.Event()
    if node.call_later(reached.set):
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(reached.wait(), LOOKS * MOMENT)


def sends_ascii_only(app: App[None]) -> bool:
    """Say whether an application, which may be a widget's of tests, sends nothing but ASCII."""
    return isinstance(app, TerminalApp) and app.is_ascii_only


Work = Callable[[], Coroutine[Any, Any, None]]
"""What is to be done. It is called when its turn has come, and only then: a coroutine made before would be left behind,
with a warning on the terminal, where newer work comes first or the program is being left."""

Run = Callable[[Work, str], None]
"""Does work beside the event loop's other work; newer work of the same name replaces it."""


def start_work(owner: DOMNode, work: Work, group: str, *, is_alone: bool = True) -> Worker[None]:
    """Begin work, which ends with its owner.

    While the program is being left screens still do what was put off until they are drawn. Work that begins by that
    comes too late to be ended with all other work, and what it waits for may never come.

    Parameters
    ----------
    owner : a screen, a widget or the application.
    work : what is to be done.
    group : what it is called.
    is_alone : whether it replaces older work of the same group.
    """
    worker: Worker[None] = owner.run_worker(work, group=group, exclusive=is_alone)
    if not owner.app.is_running:
        worker.cancel()
    return worker


SHOWN = 48
"""Cells of what was copied that are shown."""


def notify_copied(app: App[Any]) -> None:
    """Say what has gone to the clipboard, by its beginning."""
    text = escape_text(" ".join(app.clipboard.split()))
    app.notify(fit(text, SHOWN).rstrip(), title="copied", timeout=2)
