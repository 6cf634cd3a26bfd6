"""An explorer that keeps a picture of its output, and comparisons with a screen that is painted or styled again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.tui.explorer import settle
from tests.tui.painted import TerminalPicture, forget_lines
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.toolkit.output import Difference


class PaintedExplorer(Explorer):
    """Keeps a picture of its output, and counts the bytes written."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.picture = TerminalPicture()
        self.written = 0

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, ChopsUpdate | LayoutUpdate) and not self._batch_count:
            data = Difference(self._last_frame, renderable).render_segments(self.console)
            self.written += len(data.encode())
            self.picture.write(data)


@asynccontextmanager
async def painted_explorer(
    model: Path | str = "demo", *, size: tuple[int, int] = (80, 24), ascii_only: bool = False, **named: Any
) -> AsyncIterator[tuple[PaintedExplorer, Pilot[None]]]:
    """Open an explorer on a model and wait until it is idle; what else is named is of the start."""
    app = PaintedExplorer(Engine(EngineOptions()), Start(str(model), **named), ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot


def stale(app: PaintedExplorer) -> Iterator[str]:
    """Report cells that differ from a screen painted at once; nothing while more is to be painted."""
    screen = app.screen
    widgets = [each for each in screen.walk_children(Widget, with_self=True) if each.display]
    if any(each._repaint_required or each._layout_required or each.message_queue_size for each in widgets):
        return
    screen._on_timer_update()
    if app._batch_count or screen._layout_required or is_closing(app) or not app._last_frame._lines:
        return
    forget_lines(screen)
    update = screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    whole = TerminalPicture()
    whole.write(update.render_segments(app.console))
    for cell in sorted(whole.cells):
        if whole.cells[cell] != (shown := app.picture.cells.get(cell)):
            yield f"{cell} shows {shown}, and is {whole.cells[cell]}, in {whole.line(cell[0])!r}"


def is_closing(app: Explorer) -> bool:
    """Say whether a widget is being removed, such as a toast, after which Textual lays the screen out again."""
    return any(widget._pruning for widget in app.screen._compositor.visible_widgets)
