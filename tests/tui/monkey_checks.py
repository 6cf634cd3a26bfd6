"""Checks between random keys: that the keys at the foot do something, and that drawing again changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from textual.widgets._toast import Toast

from tests.tui.explorer import screen_text
from tests.tui.monkey_actions import has_ended, is_leaving
from tests.tui.painted_explorer import PaintedExplorer
from tui.widgets.key_line import KeyLine

MOST = 40
"""The most keys that are pressed, since each may open others."""

Press = Callable[[str], Awaitable[None]]
Rest = Callable[[], Awaitable[None]]


def offered(app: PaintedExplorer) -> dict[str, str]:
    """Give the working keys at the foot with their words, except those that leave."""
    lines = [app.main.key_line, *app.screen.query(KeyLine)]
    line = next((each for each in reversed(lines) if each.is_on_screen and each.region.area), None)
    if line is None or app.size.width < 40 or app.size.height < 12:
        return {}
    leaving = {key for key, active in app.screen.active_bindings.items() if is_leaving(active.binding)}
    return {key.key: key.description for key in line._keys_that_fit() if key.enabled and key.key not in leaving}


def said_twice(app: PaintedExplorer) -> Iterator[str]:
    """Report messages that are shown twice."""
    kept = Counter((each.title, each.message) for each in app._notifications)
    shown = Counter(str(each.render()) for each in app.screen.query(Toast) if each.region.area)
    for message, times in (*kept.items(), *shown.items()):
        if times > 1:
            yield f"{message} is said {times} times at the same time"


async def drawn_otherwise(app: PaintedExplorer, press: Press, rest: Rest) -> AsyncIterator[str]:
    """Report cells that change when everything is drawn again."""
    before = await _at_rest(app, rest)
    await press("ctrl+l")
    await rest()
    if not has_ended(app) and (cells := app.picture.cells) != before:
        changed = sorted(cell for cell in cells.keys() | before.keys() if cells.get(cell) != before.get(cell))
        first = changed[0]
        yield (
            f"ctrl+l changes {len(changed)} cells, {first} from {before.get(first)} to {cells.get(first)}, in rows "
            f"{sorted({row for row, _ in changed})}; there are now:\n{screen_text(app)}"
        )


async def silent(app: PaintedExplorer, press: Press, rest: Rest) -> AsyncIterator[str]:
    """Report keys at the foot, and at the foot of what they open, that neither change anything nor say why."""
    pressed: set[tuple[str, str]] = set()
    while len(pressed) < MOST and not has_ended(app):
        key, word = next((each for each in offered(app).items() if each not in pressed), ("", ""))
        if not key:
            return
        pressed.add((key, word))
        before, told, screen, engine = await _at_rest(app, rest), app.told, app.screen, app.engine
        await press(key)
        await rest()
        if has_ended(app) or app.screen is not screen or app.engine is not engine or app.told != told:
            continue
        if not app.main.key_line._message and app.picture.cells == before:
            yield f"{key} ({word}) is offered and does nothing:\n{screen_text(app)}"


async def _at_rest(app: PaintedExplorer, rest: Rest) -> dict[tuple[int, int], tuple[str, str]]:
    """Wait, clear the messages that the next key would clear, and give the screen."""
    await rest()
    app.main.key_line.clear_message()
    app.clear_notifications()
    for toast in (each for screen in app.screen_stack for each in screen.query(Toast)):
        toast.remove()  # a screen below keeps its own until their time is over
    await rest()
    return dict(app.picture.cells)
