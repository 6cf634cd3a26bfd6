"""The random actions: keys, the mouse, pasted text, sizes; and waiting until they are done."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from textual import events
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size
from textual.pilot import Pilot
from textual.widgets import Input

from tests.toolkit import wait_for_widgets
from tests.tui.explorer import LOOK, PATIENCE, key_event, rests
from tests.tui.painted_explorer import is_closing
from tui.app.explorer import Explorer

LEAVING = ("quit", "app.quit", "suspend_process")
"""Actions that end the program."""

OPENING = "app.models"
"""The id of the key that opens another model."""

SENTENCES = (
    "Anna has a red ball. Anna gives the red ball to Tom.", "the cat sat on the mat", "a", "", "  ",
    "[bold] \u65e5\u672c \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301", "one two three " * 20, "word " * 160,
)  # fmt: skip

CLICK: tuple[type[events.MouseEvent], ...] = (events.MouseDown, events.MouseUp)
MOUSE: tuple[tuple[type[events.MouseEvent], ...], ...] = (
    CLICK, CLICK, CLICK, CLICK * 2, (events.MouseDown, events.MouseMove, events.MouseUp), (events.MouseMove,),
    (events.MouseScrollDown,), (events.MouseScrollUp,), (events.MouseScrollLeft,), (events.MouseScrollRight,),
)  # fmt: skip
"""Gestures of the mouse."""

PASTED = (
    "L1H0", "1.2", "demo", "matrix = OV and stable_rank < 4", "out.csv\n", "/nowhere/at/all.npz",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u2764\ufe0f\u202eabc\u200b\t\u00ad" * 5, "one\r\ntwo\n\n",
)  # fmt: skip
"""Texts to paste, wherever the focus is."""

SIZES = (
    (4, 3), (20, 5), (40, 12), (39, 30), (60, 13), (80, 11), (80, 24), (100, 30), (119, 34), (120, 34), (160, 50),
    (200, 60),
)  # fmt: skip

LOOKS = 4
"""How many looks in a row must find everything at rest."""


def send_key(app: App[Any], key: str) -> None:
    """Send a key as a terminal's driver does, without waiting for its effect."""
    assert app._driver is not None
    app._driver.send_message(key_event(key))


async def come_to_rest(app: Explorer, pilot: Pilot[None]) -> bool:
    """Wait until everything is done and drawn or the program has been left; False where that takes too long."""
    end, looks = time.monotonic() + PATIENCE, 0
    while not has_ended(app) and looks < LOOKS:
        is_told_more = bool(app.main.top_line.progress)  # of work that nobody awaits any more
        is_at_rest = rests(app) and not is_closing(app) and not is_told_more
        looks = looks + 1 if is_at_rest else 0
        await (wait_for_widgets(pilot) if is_at_rest else asyncio.sleep(LOOK))
        for screen in (*app._background_screens, app.screen):
            screen._on_timer_update()  # which the clock would do later
        if time.monotonic() > end:
            return False
    return True


async def taken(app: Explorer) -> bool:
    """Wait until everything typed has been handled; False where that takes too long."""
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), asyncio.get_running_loop()))
    end = time.monotonic() + PATIENCE
    while app.message_queue_size and not has_ended(app):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(LOOK)
    return True


async def leave(app: Explorer) -> None:
    """Leave as a person does, so that no work goes on during the end of the test."""
    app.engine.stop()
    app.exit()
    assert app._task is not None
    await asyncio.wait({app._task}, timeout=10)


def point(app: App[Any], chance: random.Random) -> str:
    """Click, scroll or move the mouse somewhere, with or without modifier keys; return a description."""
    x, y = (chance.randrange(max(length, 1)) for length in app.size)
    kinds, button = chance.choice(MOUSE), chance.choice((1, 1, 1, 1, 2, 3))
    shift, meta, ctrl = (chance.random() < 0.1 for _ in range(3))
    for kind in kinds:
        app.post_message(kind(None, x, y, 0, 0, button, shift, meta, ctrl, x, y))
    return f"<{' '.join(kind.__name__ for kind in kinds)} {x},{y}>"


def say(app: App[Any], sentence: str) -> str:
    """Type a text into the line that has the focus, or else into the sentence; return a description."""
    begin = "" if isinstance(app.focused, Input) else "i"
    for character in begin + sentence[:60]:
        send_key(app, character)
    if not has_ended(app):
        app.post_message(events.Paste(sentence[60:]))
        send_key(app, "enter")
    return f"{begin} {sentence[:20]!r} enter".strip()


def paste(app: App[Any], chance: random.Random) -> str:
    """Paste a text, whatever has the focus; return a description."""
    text = chance.choice(PASTED)
    assert app._driver is not None
    app._driver.send_message(events.Paste(text))
    return f"<paste {text[:20]!r}>"


def resize(app: App[Any], width: int, height: int) -> None:
    """Resize the terminal without waiting for the layout."""
    size = Size(width, height)
    assert isinstance(app._driver, HeadlessDriver)
    app._driver._size = size
    app.post_message(events.Resize(size, size))


def working_keys(app: Explorer) -> list[str]:
    """List the keys that work where the focus is, except those that leave."""
    active = {key: each.binding for key, each in app.screen.active_bindings.items() if key != "ctrl+c"}
    return [key for key, each in active.items() if not each.action.startswith(LEAVING) and each.id != "chooser.quit"]


def has_ended(app: App[Any]) -> bool:
    """Say whether the program has been left."""
    assert isinstance(app, Explorer)
    return app._exit or bool(app.failure) or app.unexpected_error is not None
