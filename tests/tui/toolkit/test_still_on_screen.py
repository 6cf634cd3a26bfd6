"""What is still on screen though its time is over: a click on it, or a message in its place, harms nothing."""

from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.geometry import Region
from textual.widgets._toast import Toast

from engine.service.engine import Engine
from engine.values.heads import Head
from engine.values.options import EngineOptions
from tests.tui.explorer import explorer, settle, type_keys, until
from tests.tui.monkey_hands import press
from tui.app import Explorer
from tui.start import Start
from tui.widgets.spectrum_block import SpectrumBlock


async def test_a_click_on_a_message_that_has_just_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Explorer(Engine(EngineOptions()), Start("demo"))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        app.notify("gone soon", timeout=60)
        await until(pilot, lambda: any(toast.region.area for toast in app.screen.query(Toast).results()))
        toast = app.screen.query_one(Toast)
        assert toast.region.right == app.size.width, "nothing of what lies below sticks to its end"
        x, y = toast.region.offset
        with monkeypatch.context() as patch:
            patch.setattr(app.screen, "_refresh_layout", lambda *_, **__: None)
            app.clear_notifications()
            while toast.parent is not None:
                await asyncio.sleep(0)
            assert app.screen.get_widget_at(x, y)[0] is toast, "it is on screen still"
            for kind in (events.MouseDown, events.MouseMove, events.MouseUp):
                app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
            await pilot.pause(0)
        assert app.unforeseen is None
    app.engine.stop()


async def test_what_is_on_screen_already_is_said_in_its_place_and_not_below_it() -> None:
    app = Explorer(Engine(EngineOptions()), Start("demo"))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        said: dict[Toast, Region] = {}
        for _ in range(3):
            press(app, "D")
            await until(pilot, lambda: any(each not in said and each.region for each in app.screen.query(Toast)))
            (toast,) = app.screen.query(Toast)
            said[toast] = toast.region
        assert len(set(said.values())) == 1
        app.notify("something else")
        await until(pilot, lambda: len(app.screen.query(Toast)) == 2)
    app.engine.stop()


async def test_a_click_on_what_another_view_takes_the_place_of_leaves_the_focus() -> None:
    async with explorer("demo", head="L0H0") as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        ranks, place = app.views.ranks.table, app.views.ranks.table.region
        app.views.go_to("overview")
        assert app.screen.get_widget_at(place.x + 2, place.y + 2)[0] is ranks, "it is on screen still"
        app.screen._forward_event(
            events.MouseDown(None, place.x + 2, place.y + 2, 0, 0, 1, False, False, False, place.x + 2, place.y + 2)
        )
        assert app.focused is app.views.overview.map
        await settle(pilot)
        assert app.focused is app.views.overview.map


async def test_a_head_that_the_model_has_not_is_none_of_its_own() -> None:
    async with explorer("demo", head="L0H0") as (app, _):
        asked = [Head("decoder", 3, 7), Head("decoder", 3), Head("decoder", 3, 8), Head("decoder", 4, 0)]
        assert [app.conductor.has(head) for head in asked] == [True, True, False, False]


async def test_a_view_that_has_gone_is_not_painted_beneath_another_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beneath a menu a screen is painted as it was laid out, though its views make place for another model's."""
    async with explorer("demo", head="L0H0") as (app, pilot):
        await type_keys(pilot, "1")
        screen = app.screen
        block = app.screen.query(SpectrumBlock).first()
        region = block.region
        monkeypatch.setattr(screen, "_refresh_layout", lambda *_, **__: None)
        await app.views.spectra.remove()
        assert block in screen._compositor.visible_widgets, "it is laid out still"
        line = screen._compositor.render_strips()[region.y]
        assert line.crop(region.x, region.right).text.isspace()
    assert app.unforeseen is None
