"""What Textual does by the clock, or anew for each application, as tests want it: it has no settings for that."""

from __future__ import annotations

from time import thread_time
from typing import Any

from textual import _wait
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.notifications import Notification

_parse_rules = Stylesheet._parse_rules
_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, css: str, read_from: tuple[str, str], *rest: Any, **more: Any) -> list[RuleSet]:
    """Parse a style sheet, or give what another application of this process made of it with the same colours."""
    key = (css, read_from, rest, *more.items(), *sheet._variables.items())
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, read_from, *rest, **more)
    return _parsed[key]


def suit_tests() -> None:
    """Fit the toolkit to tests, for as long as the process runs."""
    # After each key Textual waits until the process rests, for up to two seconds; what the engine's threads still work
    # out meanwhile is waited for by `tests.explorer.settle`, so that only the event loop's own thread counts here.
    _wait.process_time = thread_time  # type: ignore[attr-defined]
    # Each application parses the style sheets of all its widgets: half of what it costs to open one.
    Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign, assignment]
    # Messages stay until they are taken away, however slow the machine is.
    Notification.has_expired = False  # type: ignore[method-assign, assignment]
