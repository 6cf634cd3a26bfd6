"""Keys that come faster than their effects: each goes where the one before it leads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from engine.service.engine import Engine
from engine.values.options import EngineOptions
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, outline_of, press, see, settle, until
from tests.tui.invariants import disagreements
from tests.tui.monkey_actions import has_ended, send_key
from tui.app.explorer import Explorer
from tui.app.start import Start
from tui.screens.chooser import ChooserScreen
from tui.state.overview_measures import MEASURES


def burst(app: Explorer, *keys: str) -> None:
    for key in keys:
        send_key(app, key)


async def test_a_screen_that_is_closed_twice_leaves_the_one_below(folder: Path) -> None:
    async with explorer("demo", head="L0H0") as (app, pilot):
        await pilot.press("e", "tab")
        assert type(app.screen).__name__ == "ExportScreen"
        assert isinstance(app.focused, Input)
        burst(app, "enter", "enter")
        await settle(pilot)
        assert len(app.screen_stack) == 1
        assert len(list(folder.iterdir())) == 1
        await pilot.press("S")
        assert type(app.screen).__name__ == "SentencesScreen"
        burst(app, "escape", "enter", "escape")
        await pilot.press("question_mark")
        burst(app, "escape", "enter", "escape")
        await settle(pilot)
        assert len(app.screen_stack) == 1
        assert app.unexpected_error is None


async def test_a_view_left_at_once_does_not_take_the_focus_back() -> None:
    async with explorer("demo", head="L0H0", size=(40, 12)) as (app, pilot):
        await press(pilot, "P")
        for view in "wTCA":
            await press(pilot, "unbound:app.tree")
            burst(app, view, "escape", "1")
            await see(pilot, view="spectra", focus="view")
            assert not list(disagreements(app)), view


async def test_letters_and_pasted_text_go_where_the_key_before_them_leads() -> None:
    async with explorer("demo", text="One day", head="L0H0") as (app, pilot):
        for opening, typed, said in (
            ("i home", "it is qB", "it is qBOne day"), ("i", "it is q", "it is q"), ("slash", "/?q", "/?q"),
            ("colon", "L3q", "L3q"), ("colon", ":iq", ":iq"), ("ctrl+p", "qBe", "qBe"), ("w w slash", "qi", "qi"),
            ("question_mark slash", "qz", "qz"), ("B", "qi/B", "qi/B"),
        ):  # fmt: skip
            burst(app, *opening.split(), *typed)
            await settle(pilot)
            assert isinstance(app.focused, Input), opening
            assert app.focused.value == said, opening
            burst(app, *["escape"] * 4)
            await see(pilot, focus="tree")
        assert app._driver is not None
        app._driver.send_message(events.Paste("qBi"))
        burst(app, "i", "ctrl+u")
        app._driver.send_message(events.Paste("one\ntwo"))
        burst(app, "enter", "unbound:app.tree")
        await see(pilot, focus="tree")
        assert app.session.shown.sentence == "one two"


async def test_enter_opens_the_model_whose_name_was_typed_just_before(tiny_model: TinyModel) -> None:
    async with explorer("demo", head="L0H0") as (app, pilot):
        folder = str(tiny_model("gpt2"))
        before = app.engine
        burst(app, "B", *folder, "enter")
        await until(pilot, lambda: app.engine is not before or has_ended(app))
        await settle(pilot)
        assert outline_of(app).name == folder


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Keep explorers at their first frame, without views, until the event is set."""
    begin, may_go_on = Explorer._begin, asyncio.Event()

    async def begin_late(app: Explorer) -> None:
        await may_go_on.wait()
        await begin(app)

    monkeypatch.setattr(Explorer, "_begin", begin_late)
    return may_go_on


async def test_letters_typed_before_the_opening_screen_go_into_it(begun: asyncio.Event) -> None:
    app = Explorer(Engine(EngineOptions()), Start(None))
    async with app.run_test(size=(80, 24)) as pilot:
        burst(app, *"demo")
        begun.set()
        await until(pilot, lambda: isinstance(app.screen, ChooserScreen) and app.screen.field.value == "demo")


async def test_keys_typed_before_the_views_exist_are_done_then(tiny_model: TinyModel, begun: asyncio.Event) -> None:
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("llama"))))
    async with app.run_test(size=(80, 24)) as pilot:
        burst(app, "right_square_bracket", "j", "2")
        begun.set()
        await see(pilot, selected="L0H2", view="ranks", focus="view")


async def test_choices_made_while_the_model_opens_stay(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    first_shown, may_open = Explorer._first_shown, asyncio.Event()

    async def later(app: Explorer, *given: Any) -> dict[str, Any]:
        await may_open.wait()
        return await first_shown(app, *given)

    monkeypatch.setattr(Explorer, "_first_shown", later)
    before = {"view": "ranks", "text": "the one of before", "mapped": "qk", "measure": "stable_rank"}
    monkeypatch.setattr("tui.app.explorer.recall", lambda key, outline: before)
    app = Explorer(Engine(EngineOptions()), Start(str(tiny_model("gpt2")), is_restoring=True, log_scale=True))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.main.is_ready)
        for key in ("m", "i", *"the dog", "enter", "1", "s", "i", *"half"):
            send_key(app, key)
        await until(pilot, lambda: app.main.sentence_input.value.endswith("half"))
        may_open.set()
        await see(pilot, view="spectra")
        assert app.session.shown.sentence == "the dog"
        assert app.views.spectra.scale == "linear"
        assert app.session.shown.overview == MEASURES[MEASURES.index("qk_stable_rank") + 1]
        assert app.session.shown.overview.endswith(f"_{app.session.shown.measure}"), "in the tree too"
        assert app.main.sentence_input.value.endswith("half"), "what is being typed stays"
        send_key(app, "escape")
        await until(pilot, lambda: app.main.sentence_input.value == "the dog")


async def test_a_line_that_is_left_gives_the_keys_to_what_is_displayed() -> None:
    async with explorer("demo", head="L0H0") as (app, pilot):
        await see(pilot, "2", "colon", focus="prompt")
        app.views.go_to("overview", takes_focus=False)
        await press(pilot, "escape")
        assert app.views.overview.map.has_focus or app.main.tree_widget.has_focus
