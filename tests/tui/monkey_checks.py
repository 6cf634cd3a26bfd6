"""Checks between random keys: that no message is said twice, and that drawing again changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from textual.widgets._toast import Toast

from tests.tui.explorer import screen_text
from tests.tui.monkey_actions import has_ended
from tests.tui.painted_explorer import PaintedExplorer

Press = Callable[[str], Awaitable[None]]
Rest = Callable[[], Awaitable[None]]


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


async def _at_rest(app: PaintedExplorer, rest: Rest) -> dict[tuple[int, int], tuple[str, str]]:
    """Wait, clear the messages that the next key would clear, and give the screen."""
    await rest()
    app.main.key_line.clear_message()
    app.clear_notifications()
    for toast in (each for screen in app.screen_stack for each in screen.query(Toast)):
        toast.remove()  # a screen below keeps its own until their time is over
    await rest()
    return dict(app.picture.cells)
