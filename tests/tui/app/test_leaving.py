"""Leaving while something is about to be shown is no error."""

from __future__ import annotations

import asyncio

import pytest
from textual.events import MouseDown, MouseMove, MouseScrollDown, MouseUp

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.tui.explorer import PATIENCE, explorer, hold, type_keys
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.cli import launch

MOUSE = (MouseDown, MouseMove, MouseUp, MouseScrollDown)


async def test_leaving_before_there_are_views_is_no_error() -> None:
    class LeftAtOnce(Explorer):
        async def _begin(self) -> None:
            self.exit()
            await super()._begin()

    app = LeftAtOnce(Engine(EngineOptions()), Start("demo"))
    async with app.run_test():
        assert app._task is not None
        await asyncio.wait({app._task}, timeout=PATIENCE)
    assert app.unexpected_error is None
    assert app.return_code == 0


@pytest.mark.parametrize("keys", ["2", "9", "T", "4/c"])
async def test_leaving_while_a_view_is_computed_is_no_error(keys: str) -> None:
    async with explorer("demo", text="the cat sat") as (app, pilot):
        free = hold(app)
        await type_keys(pilot, *keys)
    free.set()
    assert app.unexpected_error is None


def test_a_signal_also_ends_a_script_that_opened_the_explorer(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(app: Explorer) -> None:
        app._return_code = 143

    monkeypatch.setattr(launch, "_take_terminal", lambda otherwise: None)
    monkeypatch.setattr(Explorer, "run", run)
    with pytest.raises(SystemExit, match="143"):
        launch.run_explorer(Engine(EngineOptions()), Start("demo"), theme=None, ascii_only=False)
