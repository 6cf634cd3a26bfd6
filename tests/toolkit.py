"""What Textual does by the clock, or anew for each application, as tests want it: it has no settings for that."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from textual import app, pilot
from textual._context import active_app
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from tui.toolkit.application import MOMENT, LastingNotification

LOOK = 0.002
"""Seconds between two looks at whether the event loop has something to do."""

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
    """Wait until nothing is to be done and nothing to be drawn, which is only done by the clock."""
    began, looks = monotonic(), 0
    while (waited := monotonic() - began) < max_sleep and (looks < LOOKS or waited < min_sleep):
        await asyncio.sleep(LOOK)
        looks = 0 if _is_at_work() else looks + 1


def _is_at_work() -> bool:
    """Say whether the event loop, or the next frame of what is on screen, a menu or behind one, has anything to do."""
    ready: Any = asyncio.get_running_loop()
    running = active_app.get(None)
    if ready._ready or running is None or not running.screen_stack:
        return bool(ready._ready)
    # A screen behind a menu says of itself that it is to be painted anew as soon as it has been, and stays so.
    return running.screen._repaint_required or any(map(_is_to_draw, (running.screen, *running._background_screens)))


def _is_to_draw(screen: Screen[Any]) -> bool:
    """Say whether a screen has anything to lay out or to draw, or to do once it has."""
    is_required = screen._layout_required or screen._scroll_required
    return is_required or bool(screen._dirty_widgets or screen._callbacks)


def suit_tests() -> None:
    """Fit the toolkit to tests, for as long as the process runs."""
    # After each key, and where a test pauses, Textual looks every fiftieth of a second whether the processor rests.
    # The event loop knows; what the engine's threads still work out meanwhile `tests.tui.explorer.settle` waits for.
    app.wait_for_idle = pilot.wait_for_idle = _rest  # type: ignore[attr-defined]
    # Each application parses the style sheets of all its widgets: half of what it costs to open one.
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign, assignment]
    # Messages stay until they are taken away, however slow the machine is.
    LastingNotification.time_left = property(lambda message: 3600.0 if message.timeout > 0 else MOMENT)  # type: ignore[method-assign, assignment]
    LastingNotification.has_expired = property(lambda message: message.timeout <= 0)  # type: ignore[method-assign, assignment]
