"""Keys and messages while one model replaces another, when there are no views."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.message import Message
from textual.pilot import Pilot

from engine.service.engine import Engine
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, outline_of, settle, type_keys, until
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.chooser import ChooserScreen
from tui.toolkit.messages import HeadEntered, TokenPointed

SAID: tuple[Message, ...] = (
    HeadEntered(Head("decoder", 0, 1)),
    TokenPointed(0, 0),
)
"""What views say that a person works in."""


def put_off(app: Explorer, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Have views of another model come no sooner than something is told."""
    make_views, may_go_on = app.main.make_views, asyncio.Event()

    async def late(engine: Engine, start: Start) -> None:
        await app.views.remove()
        app.main._views = None
        await may_go_on.wait()
        await make_views(engine, start)

    monkeypatch.setattr(app.main, "make_views", late)
    return may_go_on


async def choose(pilot: Pilot[None], model: Path, *keys: str) -> None:
    """Open another model, type on at once, and wait until the one before is put away."""
    app = pilot.app
    assert isinstance(app, Explorer)
    await type_keys(pilot, "B")
    screen = app.screen
    assert isinstance(screen, ChooserScreen)
    screen.field.value = str(model)
    await pilot.pause(0)
    await type_keys(pilot, "enter", *keys)
    await until(pilot, lambda: not app.main.is_ready)


async def test_keys_and_messages_of_the_old_views_are_no_error(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        may_go_on, old_views = put_off(app, monkeypatch), app.views
        await choose(pilot, tiny_model("gpt2"))
        for message in SAID:
            old_views.post_message(message)
        await type_keys(pilot, "j", "2", "enter")
        assert "ctrl+l" in app.screen.active_bindings, "the screen can be drawn again at any time"
        may_go_on.set()
        await until(pilot, lambda: app.main.is_ready)
        await settle(pilot)
        assert outline_of(app).model_type == "gpt2"
    assert app.unexpected_error is None


async def test_escape_while_a_model_opens_drops_the_keys_before_it(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model may come all the same, where it is too late to stop."""
    async with explorer(tiny_model("llama")) as (app, pilot):
        may_go_on = put_off(app, monkeypatch)
        await choose(pilot, tiny_model("gpt2"))
        await type_keys(pilot, "slash", "x", "escape", "1")
        may_go_on.set()
        await until(pilot, lambda: app.main.is_ready and app.main.stores is not None)
        await settle(pilot)
        assert not app.main.prompt.display
        assert app.views.active is app.views.spectra, "what was typed after it is done"
    assert app.unexpected_error is None


async def test_letters_after_a_waiting_key_wait_too(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among them are those that would lead elsewhere at once, or end the program."""
    async with explorer(tiny_model("llama")) as (app, pilot):
        may_go_on = put_off(app, monkeypatch)
        await choose(pilot, tiny_model("gpt2"))
        await type_keys(pilot, "slash", *"quit", "left")
        may_go_on.set()
        await until(pilot, lambda: app.main.is_ready and app.main.stores is not None)
        await settle(pilot)
        assert app.main.prompt.input.value == "quit"
        assert app.main.prompt.input.cursor_position == len("qui"), "what is no letter comes behind those before it"
    assert app.unexpected_error is None
