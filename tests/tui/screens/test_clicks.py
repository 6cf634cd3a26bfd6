"""A click moves the cursor, and a second click there does what Enter does."""

from __future__ import annotations

from textual.screen import ModalScreen

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import click, explorer, line_of, press, screen_text
from tui.screens.help_screen import HelpScreen


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
        await click(pilot, screen_text(app).splitlines()[-1].index("? Help"), 23)  # in the line of keys
        assert isinstance(app.screen, HelpScreen)


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
