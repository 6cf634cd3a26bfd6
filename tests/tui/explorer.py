"""The explorer driven without a terminal, for tests."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import threading
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TypeVar

from textual.app import App
from textual.events import Key, MouseDown, MouseUp
from textual.keys import REPLACED_KEYS, _character_to_key
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from engine.service.engine import Engine
from engine.values.attention import PooledMap
from engine.values.options import EngineOptions
from engine.values.outline import ModelOutline
from engine.values.table import Table
from tests.opening import hold_up
from tests.toolkit import count_paintings
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.chooser import ChooserScreen
from tui.views.pane import Pane
from tui.views.table_view import TablePane
from tui.widgets.line import Line

LOOK = 0.004
"""Seconds between two looks at whether the engine has answered."""

PATIENCE = 60.0
"""Seconds after which a test fails with what it was waiting for."""

SECONDS = itertools.count(1)
"""The times of typed keys, a second apart."""

HOPS = 4
"""How many messages in a row a key may set off."""

GRACE = 0.2
"""Seconds that a key waits, at most, for what the keys before it have asked for."""


async def settle(pilot: Pilot[None]) -> None:
    """Wait until every answer of the engine has been drawn and the screen does not change any more."""
    app = pilot.app
    assert isinstance(app, Explorer)
    end = monotonic() + PATIENCE
    await pilot.pause()
    while True:
        if rests(app):
            before = count_paintings()
            await pilot.pause()  # drawing may ask for more
            if rests(app) and count_paintings() == before:
                return
        assert monotonic() < end, f"{waited_for(app)}\n{screen_text(app)}"
        await asyncio.sleep(LOOK)


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = monotonic() + PATIENCE
    while not holds():
        assert monotonic() < end, screen_text(pilot.app)
        await pilot.pause(LOOK)


async def until_shown(pilot: Pilot[None], text: str) -> None:
    """Wait until a text is on screen, whose lines are joined."""
    await until(pilot, lambda: text in words(pilot.app))


def rests(app: Explorer) -> bool:
    """Say whether nothing is awaited from the engine and everything can be drawn, or the explorer has ended.

    Textual delays the layout after a command of the palette and after a resize, and the explorer asks for some things
    only a moment after the last key.
    """
    if app.failure or app.unexpected_error is not None:
        return True
    is_idle = app.main.is_ready and is_swept(app) and is_drawn(app) and all(each.is_finished for each in app.workers)
    if app._exit or not is_idle:
        return is_idle
    is_laid_out_late = app._batch_count > 0 or app._resize_timer is not None
    is_about_to_ask = app.main.sentence_input.pause is not None or app.views.overview._moving is not None
    return not is_laid_out_late and not is_about_to_ask


def is_swept(app: Explorer) -> bool:
    """Say whether the spectra of the whole model are computed."""
    sweep = app.engine._queue._latest.get("sweep")
    return app.main.stores is not None and (sweep is None or sweep.future.done())


def is_drawn(app: Explorer) -> bool:
    """Say whether everything known is drawn, and no answer is on its way."""
    stores = app.main.stores
    is_answered = stores is None or not (stores.spectra._measuring or any(each._asked for each in stores.every))
    return is_answered and not app.views._is_to_draw


def waited_for(app: Explorer) -> str:
    """Describe what an explorer is still waiting for."""
    working = [worker.group for worker in app.workers if not worker.is_finished]
    screen = app.screen if app.screen_stack else "no screen"
    return (
        f"still waiting for {working} on {screen}; ready: {app.main.is_ready}, the whole model known: {is_swept(app)}, "
        f"keys held: {len(app._held_keys)}, "
        f"batches: {app._batch_count}, resizing: {app._resize_timer is not None}, left: {app._exit}"
    )


def key_event(key: str) -> Key:
    """Make the event of a key, named by its character or as bindings name it."""
    if len(key) == 1:
        return Key(key if key.isalnum() else _character_to_key(key), key)
    try:
        return Key(key, unicodedata.lookup(REPLACED_KEYS.get(key, key).replace("_", " ").upper()))
    except KeyError:
        return Key(key, None)


async def type_keys(pilot: Pilot[None], *keys: str) -> None:
    """Type keys, each once the previous one has been handled and, but for text, if the engine is quick, answered.

    `Pilot.press` would wait until the processor is idle: a second for each key while the engine works.
    """
    for key in keys:
        is_text = len(key) == 1 and isinstance(pilot.app.focused, Input)
        event = key_event(key)
        event.time += next(SECONDS)
        pilot.app.post_message(event)
        await _arrival(pilot.app)
        for _ in range(1 if is_text else HOPS):
            await pilot.pause(0)
        app, end = pilot.app, monotonic() + (0 if is_text else GRACE)
        while isinstance(app, Explorer) and app.main.is_ready and not is_drawn(app) and monotonic() < end:
            await asyncio.sleep(LOOK)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Type, and wait until everything is drawn."""
    await type_keys(pilot, *keys)
    await settle(pilot)


async def press_slowly(pilot: Pilot[None], *keys: str) -> None:
    """Type, and wait after each key until everything is drawn."""
    for key in keys:
        await press(pilot, key)


async def click(pilot: Pilot[None], x: int, y: int) -> None:
    """Click as a terminal tells of it, and wait for all that follows."""
    for kind in (MouseDown, MouseUp):
        pilot.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
    await settle(pilot)


async def see(
    pilot: Pilot[None],
    *keys: str,
    slowly: bool = False,
    view: str | None = None,
    selected: str | None = None,
    pinned: str | None = None,
    off: str | None = None,
    focus: str | None = None,
    title: str | None = None,
    readout: str | None = None,
    foot: str | None = None,
    says: str | None = None,
    titled: str | None = None,
    text: str | None = None,
    no_text: str | None = None,
) -> None:
    """Type, wait until everything is drawn, and compare what is there then.

    Parameters
    ----------
    slowly : to wait after each key.
    view, selected, pinned, off : the name of the active view, and those of heads, with blanks between several.
    focus : what has it: the "tree", the "view" that is active, the "sentence" or the "prompt".
    title, readout, foot : how the active view's title and readout begin, and the last line of the screen.
    says, titled : the last line of the screen, and the title without the number of columns, whole.
    text, no_text : what is on the screen, and what is not.
    """
    await (press_slowly if slowly else press)(pilot, *keys)
    app = pilot.app
    assert isinstance(app, Explorer)
    main, pane, now, screen = app.main, app.views.active, app.session.shown, screen_text(app)
    whole_title, whole_readout = shown(pane.title_line), shown(pane.readout_line)
    last_line = screen.splitlines()[-1].strip()
    for wanted, found in (
        (view, pane.view), (selected, str(now.selected)), (pinned, " ".join(sorted(map(str, now.pins)))),
        (off, " ".join(map(str, now.off.heads))), (says, last_line), (titled, whole_title.partition("  →")[0]),
    ):  # fmt: skip
        assert wanted in (None, found), f"{found}, not {wanted}\n{screen}"
    if focus is not None:
        parts = {"tree": main.tree_widget, "view": pane, "sentence": main.sentence_input, "prompt": main.prompt}
        assert parts[focus].has_focus_within, f"{app.focused} has the focus\n{screen}"
    for begin, line in ((title, whole_title), (readout, whole_readout), (foot, last_line)):
        assert line.startswith(begin or ""), f"{line!r} does not begin with {begin!r}\n{screen}"
    assert (text or "") in screen, f"{text!r} is not there\n{screen}"
    assert no_text is None or no_text not in screen, f"{no_text!r} is there\n{screen}"


async def resize(pilot: Pilot[None], width: int, height: int) -> None:
    """Change the terminal's size, and wait until everything is drawn."""
    await pilot.resize_terminal(width, height)
    await settle(pilot)


async def filter_table(pilot: Pilot[None], text: str) -> None:
    """Filter the active view."""
    assert isinstance(pilot.app, Explorer)
    assert isinstance(pilot.app.views.active, TablePane)
    pilot.app.views.active.filter_by(text)
    await settle(pilot)


PaneType = TypeVar("PaneType", bound=Pane)


def active(app: Explorer, kind: type[PaneType]) -> PaneType:
    """Give the active view, which must be of a kind."""
    assert isinstance(app.views.active, kind)
    return app.views.active


def active_table(app: Explorer) -> TablePane:
    """Give the table that is the active view."""
    return active(app, TablePane)


def shown_table(app: Explorer) -> Table:
    """Give what is shown by the table that is the active view."""
    table = active_table(app).shown
    assert table is not None
    return table


def title(app: Explorer) -> str:
    """Give the title of the active view."""
    return shown(app.views.active.title_line)


async def _arrival(app: App[None]) -> None:
    """Wait until the application has taken its messages, or has ended."""
    has_arrived = asyncio.Event()
    app.call_later(has_arrived.set)
    end = monotonic() + PATIENCE
    while not has_arrived.is_set() and not app._exit:
        assert monotonic() < end, "the application does not take what is posted to it"
        await asyncio.sleep(0)


def hold(app: Explorer) -> threading.Event:
    """Hold back the engine's answers until the returned event is set."""
    free = threading.Event()
    hold_up(app.engine, free)
    return free


@asynccontextmanager
async def explorer(
    model: Path | str,
    *,
    size: tuple[int, int] = (80, 24),
    text: str = "",
    head: str | None = None,
    ascii_only: bool = False,
    other: Path | str | None = None,
    engine: Engine | None = None,
    start: Start | None = None,
) -> AsyncIterator[tuple[Explorer, Pilot[None]]]:
    """Open the explorer on a model, or on two, and wait until it is idle; without a text it reads no sentence."""
    engine = engine or Engine(EngineOptions(other=None if other is None else str(other)))
    app = Explorer(engine, start or Start(str(model), text=text, head=head), ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot
    app.engine.stop()


def outline_of(app: Explorer) -> ModelOutline:
    """Give the outline of the open model."""
    assert app.main.stores is not None
    return app.main.stores.outline


def shown(line: Line) -> str:
    """Give the text of a title or readout line."""
    return line.shown.plain


def screen_text(app: App[None]) -> str:
    """Give everything that is on screen, as text."""
    if not app.screen_stack:
        return "no screen: the program has been left"
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def drawn_lines(app: Explorer, widget: Widget) -> list[str]:
    """Give the lines of one widget that are on screen, as text."""
    region = widget.region
    return [line[region.x : region.right] for line in screen_text(app).splitlines()[region.y : region.bottom]]


def line_of(app: App[None], text: str) -> int:
    """Give the number of the one line on screen that a text stands in."""
    (number,) = (number for number, line in enumerate(screen_text(app).splitlines()) if text in line)
    return number


def words(app: App[None]) -> str:
    """Give everything that is on screen, with its lines joined."""
    return " ".join(screen_text(app).split())


def foot(app: Explorer) -> str:
    """Give the last line of the screen."""
    return screen_text(app).splitlines()[-1].strip()


def shown_map(app: Explorer) -> PooledMap:
    """Give what is drawn of the map of attention."""
    pooled = app.views.attention.heatmap.pooled
    assert pooled is not None
    return pooled


def notices(app: Explorer) -> list[str]:
    """Give the messages that are shown, the oldest first."""
    return [str(each.message) for each in app._notifications]


def copied(app: Explorer) -> list[list[str]]:
    """Give the cells of each line that was copied last."""
    return list(csv.reader(io.StringIO(app.clipboard), delimiter="\t"))


@asynccontextmanager
async def opening_screen(
    size: tuple[int, int] = (80, 24), options: EngineOptions | None = None, start: Start | None = None
) -> AsyncIterator[tuple[Explorer, Pilot[None], ChooserScreen]]:
    """Start without a model, and wait until all models are listed."""
    app = Explorer(Engine(options or EngineOptions(use_cache=False)), start or Start(None))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ChooserScreen))
        screen = app.screen
        assert isinstance(screen, ChooserScreen)
        await until(pilot, lambda: screen.is_mounted and all(worker.is_finished for worker in app.workers))
        await pilot.pause()
        yield app, pilot, screen
