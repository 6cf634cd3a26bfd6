"""What the explorer does otherwise than the toolkit's applications: how it paints, and how it ends after an error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from rich.console import RenderableType
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App, ScreenStackError
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.errors import NoWidget
from textual.filter import Monochrome, NoColor
from textual.geometry import Size
from textual.notifications import Notify, SeverityLevel
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import MountError, Widget
from textual.widgets import Input
from textual.widgets._toast import ToastRack
from textual.worker import WorkerFailed

from engine.service.log import note
from tui.key_groups import TAKING_AWAY
from tui.key_line import KeyLine
from tui.lasting import Lasting
from tui.line_filters import AsciiOnly, Colourless, Settled
from tui.painting import Painted, Repaint
from tui.pasting import PasteParser
from tui.placing import Placing
from tui.selected_text import say_copied
from tui.stylesheet import OnceParsed
from tui.themes import ANSI, OWN, usual_theme
from tui.whole_frames import WholeFrames

WORDS = {"up": "Up", "down": "Down", "left": "Left", "right": "Right", "backspace": "Backspace", "enter": "Enter"}
"""How keys are written in ASCII that have a sign of their own."""


SEEN = 1.5
"""Seconds for which a message stays at least, whatever is typed."""


class MainScreen(WholeFrames[object], inherit_bindings=False):
    """The screen with the tree and the views; where the focus goes, the widgets concerned are drawn anew, not all.

    Attributes
    ----------
    moves_of_focus : how often the focus has been put on a part, as by a key; what only fills it does not count.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+c,super+c",
            "screen.copy_text",
            "Copy selected text; quit where none is",
            show=False,
            id="app.copy_selected",
            group=TAKING_AWAY,
        ),
    ]

    focused = Reactive[Widget | None](None, repaint=False)

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.moves_of_focus = 0
        self._compositor = Placing()

    def action_copy_text(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy_text()
        say_copied(self.app)

    @property
    def focus_chain(self) -> list[Widget]:
        """What tab goes through: the tree and the views, and no field, where the next key would be a letter."""
        return [each for each in super().focus_chain if not isinstance(each, Input)]

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus, but not to what another view has taken the place of and is on screen still.

        The mouse can meet it there until all is laid out anew; then it would go, and leave the focus to nobody. Where
        nobody is to have it, or who has it has gone, as when the terminal becomes smaller, the application says who
        has it instead; only another window takes it from all.
        """
        if widget is not None and not is_displayed(widget):
            if self.focused is not None and is_displayed(self.focused):
                return
            widget = None
        self.moves_of_focus += widget is not None and not from_app_focus
        if widget is None and self.app.app_focus:
            widget = cast(Frame, self.app).choose_focus(self.focus_chain)
        super().set_focus(widget, scroll_visible, from_app_focus)

    def _update_auto_focus(self) -> None:
        """Fill the focus when the screen is there, or there again; the toolkit takes the first, displayed or not."""
        if self.focused is None:
            self.set_focus(None)

    def _screen_resized(self, size: Size) -> None:
        """Lay out for another size, once: the toolkit says it again after that, and when a screen over this one opens.

        All is painted anew where the terminal had another size for a moment.
        """
        if size != self._compositor.size:
            super()._screen_resized(size)
        elif not cast(Frame, self.app).is_painted:
            self.refresh()

    def on_screen_suspend(self) -> None:
        """Show the keys of the screen that has come over this one."""
        self.query_one(KeyLine).follow(self.app.screen)

    def on_screen_resume(self) -> None:
        """Show the keys of this one again."""
        self.query_one(KeyLine).follow(self)


def is_displayed(widget: Widget) -> bool:
    """Say whether a widget, and all that it is in, is to be displayed, on screen by now or not."""
    return all(each.display for each in widget.ancestors_with_self if isinstance(each, Widget))


class Frame(App[None]):
    """An application that sends only what differs, and leaves no traceback on the terminal.

    Attributes
    ----------
    is_ascii_only : whether nothing but ASCII is sent.
    is_all : whether the process ends with it, so that nobody needs to wait for the thread that reads keys.
    """

    NOTIFICATION_TIMEOUT = 3

    def __init__(self) -> None:
        super().__init__()
        self.is_all = False
        self.is_ascii_only = False
        self.animation_level = "none"
        self._painted = Painted()
        # The toolkit turns colours to grey, and those of the terminal, which it does not know, to black on black.
        colours = [Colourless() if isinstance(each, Monochrome | NoColor) else each for each in self._filters]
        self._filters = [Settled(), *colours]
        for theme in OWN.values():
            self.register_theme(theme)
        self.stylesheet = OnceParsed(self.get_css_variables)
        self.use_theme(None)

    @property
    def is_painted(self) -> bool:
        """Whether it is known what the terminal shows."""
        return self._painted.is_known

    def use_theme(self, name: str | None) -> None:
        """Take a theme by its full name, or the usual one; without colour only one shows what is where."""
        usual = usual_theme(self.console.color_system, no_color=self.no_color)
        self.theme = ANSI if self.no_color else name or usual

    def get_driver_class(self) -> type[Driver]:
        """Choose what reads keys; it reads them by a parser of its module, whose place ours takes."""
        driver = super().get_driver_class()
        module = sys.modules[driver.__module__]
        if hasattr(module, XTermParser.__name__):
            setattr(module, XTermParser.__name__, PasteParser)
        return driver

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
        if key not in WORDS:
            return super().get_key_display(binding)
        control = "^" if "ctrl" in modifiers else ""
        return "+".join((*(each for each in modifiers if each != "ctrl"), control + WORDS[key]))

    def action_redraw(self) -> None:
        """Send the whole screen, over whatever somebody else wrote on it."""
        self._painted.forget()
        self.screen.refresh()

    def on_resize(self) -> None:
        """Take nothing that was painted for granted."""
        self._painted.forget()

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
        """Send only what differs from what is on the terminal, and nothing where nothing does."""
        if isinstance(renderable, ChopsUpdate | LayoutUpdate):
            renderable = Repaint(self._painted, renderable)
            if self._sends and not renderable.render_segments(self.console) and self._leaves_cursor:
                self.post_display_hook()
                return
        super()._display(screen, renderable)

    @property
    def _sends(self) -> bool:
        """Whether what is displayed is sent now; the toolkit drops what comes while much changes, or in tests."""
        is_there = self._running and not self._closed and self._driver is not None
        return is_there and not self.is_headless and not self._batch_count

    @property
    def _leaves_cursor(self) -> bool:
        """Whether the terminal's cursor, which follows what is typed, is where it is to be."""
        return self.screen.outer_size.clamp_offset(self.cursor_position) == self._previous_cursor_position

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message, and keep in the log what went wrong, where that much is asked for."""
        if severity != "information":
            note("warning", message)
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
        if self.is_all and is_told is not None and not is_told.is_set():
            driver._disable_mouse_support()
            is_told.set()

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
