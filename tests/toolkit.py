"""What Textual does by the clock, or anew for each application, as tests want it: it has no settings for that."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from textual import app, pilot
from textual import screen as screens
from textual._context import active_app
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from tui.toolkit.application import MOMENT, LastingNotification

LOOK = 0.002
"""Seconds between two looks at whether the event loop has something to do."""

FRAMES = 5
"""Frames a second that are drawn by the clock: a test waits for the last one, which is drawn at once."""

LOOKS = 2
"""How often in a row it has nothing to do before it is at rest."""

_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, css: str, read_from: tuple[str, str], *rest: Any, **more: Any) -> list[RuleSet]:
    """Parse a style sheet, or give what another application of this process made of it with the same colours."""
    key = (css, read_from, rest, *more.items(), *sheet._variables.items())
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, read_from, *rest, **more)
    return _parsed[key]


async def _rest(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until nothing is to be done; what is only drawn by the clock is drawn at once."""
    began, looks = monotonic(), 0
    while (waited := monotonic() - began) < max_sleep and (looks < LOOKS or waited < min_sleep):
        await asyncio.sleep(LOOK)
        looks = 0 if _has_messages() or _draw() else looks + 1


def _has_messages() -> bool:
    loop: Any = asyncio.get_running_loop()
    return bool(loop._ready)


def _draw() -> bool:
    """Draw the next frame of what is on screen, a menu or behind one; say whether there was anything to draw."""
    running = active_app.get(None)
    if running is None or not running.screen_stack:
        return False
    # A screen behind a menu says of itself that it is to be painted anew as soon as it has been, and stays so.
    drawn = [each for each in running._background_screens if _is_to_draw(each)]
    drawn += [running.screen] if running.screen._repaint_required or _is_to_draw(running.screen) else []
    for each in drawn:
        each._on_timer_update()
    return bool(drawn)


def _is_to_draw(screen: Screen[Any]) -> bool:
    """Say whether a screen has anything to lay out or to draw, or to do once it has."""
    is_required = screen._layout_required or screen._scroll_required
    return is_required or bool(screen._dirty_widgets or screen._callbacks)


async def _handle_messages(driven: pilot.Pilot[Any], timeout: float = 30.0) -> bool:
    """Wait until the event loop has no message to handle."""
    end = monotonic() + timeout
    await asyncio.sleep(0)
    while _has_messages():
        if monotonic() > end:
            raise pilot.WaitForScreenTimeout("the application always has another message to handle")
        await asyncio.sleep(0)
    return True


wait_for_widgets = pilot.Pilot._wait_for_screen
"""Textual's own waiting, until each widget has handled its messages: for the random play, which draws seldom."""

_refresh = Screen._compositor_refresh
_paintings = 0


def _paint(screen: Screen[Any]) -> None:
    global _paintings  # noqa: PLW0603
    _paintings += 1
    _refresh(screen)


def count_paintings() -> int:
    return _paintings


Screen._compositor_refresh = _paint  # type: ignore[method-assign, assignment]


def suit_tests() -> None:
    """Fit the toolkit to tests, for as long as the process runs."""
    # After each key, and where a test pauses, Textual looks every fiftieth of a second whether the processor rests.
    # The event loop knows; what the engine's threads still work out meanwhile `tests.tui.explorer.settle` waits for.
    app.wait_for_idle = pilot.wait_for_idle = _rest  # type: ignore[attr-defined]
    # It also sends a message to each widget, to know when all before that are handled: half of what a pause costs.
    pilot.Pilot._wait_for_screen = _handle_messages  # type: ignore[method-assign, assignment]
    screens.UPDATE_PERIOD = 1 / FRAMES  # type: ignore[misc]
    # Each application parses the style sheets of all its widgets: half of what it costs to open one.
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign, assignment]
    # Messages stay until they are taken away, however slow the machine is.
    LastingNotification.time_left = property(lambda message: 3600.0 if message.timeout > 0 else MOMENT)  # type: ignore[method-assign, assignment]
    LastingNotification.has_expired = property(lambda message: message.timeout <= 0)  # type: ignore[method-assign, assignment]
