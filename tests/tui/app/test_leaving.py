"""Leaving while something is about to be shown is no error."""

from __future__ import annotations

import asyncio

import pytest
from textual.events import Key, MouseDown, MouseMove, MouseScrollDown, MouseUp, Paste
from textual.worker import Worker
from textual.worker_manager import WorkerManager

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from engine.values.views import CIRCUITS
from tests.tui.explorer import PATIENCE, explorer, hold, mouse_event, type_keys
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.cli import launch
from tui.toolkit.application import start_work

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


async def test_a_view_shown_while_the_program_ends_is_no_error() -> None:
    async def show() -> None:
        app.exit()
        app.views.show_view(CIRCUITS.name)

    async with explorer("demo") as (app, _):
        start_work(app, show, "view")
    assert app.unexpected_error is None
    assert app.return_code == 0


@pytest.mark.parametrize("keys", ["2", "9", "T", "4/c"])
async def test_leaving_while_a_view_is_computed_is_no_error(keys: str) -> None:
    async with explorer("demo", text="the cat sat") as (app, pilot):
        free = hold(app)
        await type_keys(pilot, *keys)
    free.set()
    assert app.unexpected_error is None


async def test_work_that_begins_once_all_work_has_been_ended_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    end_all, begun = WorkerManager.cancel_all, list[Worker[None]]()

    def end_all_and_begin_more(workers: WorkerManager) -> None:
        end_all(workers)
        asyncio.get_running_loop().call_soon(lambda: begun.append(start_work(workers._app, wait, "late")))

    async def wait() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(WorkerManager, "cancel_all", end_all_and_begin_more)
    async with explorer("demo"):
        pass
    _, undone = await asyncio.wait({worker._task for worker in begun if worker._task is not None}, timeout=1)
    assert not undone, "else the event loop tells of it when it is forgotten"


async def test_events_after_the_end_are_no_error() -> None:
    async with explorer("demo") as (app, _):
        pass
    assert not app.screen_stack
    passed_on = Key("j", "j")  # by the widget that had the focus
    passed_on._set_forwarded()
    for event in (Key("j", "j"), passed_on, Paste("j"), *(mouse_event(kind, 5, 5) for kind in MOUSE)):
        await app.on_event(event)


async def test_any_other_error_while_leaving_ends_the_program() -> None:
    app = Explorer(Engine(EngineOptions()), Start("demo"))
    app._exit = True
    app._handle_exception(error := KeyError("gone"))
    assert app.unexpected_error is error


def test_a_signal_also_ends_a_script_that_opened_the_explorer(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(app: Explorer) -> None:
        app._return_code = 143

    monkeypatch.setattr(launch, "_take_terminal", lambda otherwise: None)
    monkeypatch.setattr(Explorer, "run", run)
    with pytest.raises(SystemExit, match="143"):
        launch.run_explorer(Engine(EngineOptions()), Start("demo"), theme=None, ascii_only=False)
