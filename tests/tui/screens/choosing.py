"""The opening screen driven without a terminal, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.tui.explorer import until
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.chooser import ChooserScreen


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
        await until(pilot, lambda: all(worker.is_finished for worker in app.workers))
        await pilot.pause()
        yield app, pilot, screen
    app.engine.stop()
