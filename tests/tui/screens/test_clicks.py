"""A click moves the cursor, and a second click there does what Enter does."""

from __future__ import annotations

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.events import Click, MouseDown, MouseMove, MouseScrollDown, MouseUp
from textual.screen import ModalScreen

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import (
    click,
    explorer,
    line_of,
    mouse_event,
    press,
    screen_text,
    type_keys,
)
from tui.app.main_screen import MainScreen
from tui.widgets.menu import Menu


async def test_a_second_click_goes_into_the_head_to_the_rows_head_and_opens_a_layer(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await press(pilot, "4")
        grid = app.views.active.query_one("TableGrid").region
        for head in (0, 1):
            await click(pilot, grid.x + 2, grid.y + 3)
            assert app.session.shown.selected == Head("decoder", 0, head)
        await press(pilot, "3")
        row = line_of(app, " H2")
        await click(pilot, 7, row)
        assert (app.session.shown.selected, app.views.active.view) == (Head("decoder", 0, 2), "attention")
        assert app.focused is app.main.tree_widget
        await click(pilot, 7, row)
        assert app.views.active.has_focus_within
        row = line_of(app, "▶ L1")
        await click(pilot, 6, row)
        assert app.session.shown.selected == Head("decoder", 1)
        assert "▶ L1" in screen_text(app)
        await click(pilot, 6, row)
        assert "▼ L1" in screen_text(app)
        await click(pilot, 3, row)
        assert "▶ L1" in screen_text(app), "the arrow does so at once"


async def test_a_click_on_a_line_that_has_gone_since_does_nothing() -> None:
    class Filled(App[None]):
        def compose(self) -> ComposeResult:
            yield Menu("one", "two")

    async with Filled().run_test() as pilot:
        menu = pilot.app.query_one(Menu)
        for line in (1, 2):
            style = Style(meta={"option": line})
            menu.post_message(Click(menu, 1, line, 0, 0, 1, False, False, False, 1, line, style))
            await pilot.pause()
            assert menu.highlighted == 1


async def test_a_click_beside_a_menu_closes_it_and_does_nothing_else(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", size=(170, 50)) as (app, pilot):
        for key in ("e", "S", "question_mark"):
            await press(pilot, "1", key)
            assert isinstance(app.screen, ModalScreen)
            before, (menu, *_) = app.screen, app.screen.children
            await click(pilot, menu.region.x + 4, menu.region.y)
            assert app.screen is before, "its frame is no place beside it"
            await click(pilot, 2, 5)
            assert len(app.screen_stack) == 1
            assert app.session.shown.selected == Head("decoder", 0, 0)


async def test_a_mouse_on_a_removed_widget_is_no_error(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat") as (app, pilot):
        await press(pilot, "3")
        heatmap = app.views.attention.heatmap
        at = (heatmap.region.x + 2, heatmap.region.y + 2)
        under = app.screen.get_widget_at(*at)[0]
        assert heatmap in under.ancestors_with_self
        monkeypatch.setattr(MainScreen, "_refresh_layout", lambda *given, **named: None)
        await heatmap.remove()
        for kind in (MouseMove, MouseDown, MouseUp, MouseScrollDown):
            assert app.screen.get_widget_at(*at)[0] is under, "which a model that takes its place may leave so"
            app.post_message(mouse_event(kind, *at))
            await pilot.pause()
            assert app.unexpected_error is None


async def test_a_click_on_an_unpainted_view_is_no_error(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat") as (app, pilot):
        monkeypatch.setattr(MainScreen, "_compositor_refresh", lambda screen: None)
        await type_keys(pilot, "right_square_bracket")
        for key in ("1", "4", "A", "3", "C"):
            await press(pilot, key)
            area = app.views.active.region
            assert area.area
            await click(pilot, area.x + area.width // 2, area.y + area.height // 2)
            assert app.unexpected_error is None
