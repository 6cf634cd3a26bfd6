"""The focus is always on something visible."""

from __future__ import annotations

import pytest
from textual import events

from tests.conftest import TinyModel
from tests.tui.app.test_switching_models import change_to
from tests.tui.explorer import click, explorer, mouse_event, opening_screen, press, resize, see, type_keys
from tests.tui.invariants import disagreements


async def test_the_view_gets_the_focus_when_the_tree_is_hidden() -> None:
    async with explorer("demo", size=(200, 60)) as (app, pilot):
        await see(pilot, "z", "unbound:app.tree", focus="tree")  # there is room for it beside a view that is zoomed
        await resize(pilot, 100, 30)
        assert not app.main.tree_widget.display
        assert app.views.overview.map.has_focus
        assert not list(disagreements(app))
        before = app.views.overview.map.head
        await type_keys(pilot, "right")
        assert app.views.overview.map.head != before, "the keys are the view's"
        await see(pilot, "escape", focus="tree")  # which that shows


async def test_the_focused_view_is_active_at_once_and_stays_on_a_smaller_screen() -> None:
    async with explorer("demo", head="L0H0", text="the cat", size=(160, 50)) as (app, pilot):
        await press(pilot, "1")
        app.screen.set_focus(app.views.attention.heatmap)
        assert app.views.active is app.views.attention
        await resize(pilot, 80, 24)
        assert app.focused is app.views.attention.heatmap
        assert not list(disagreements(app))


async def test_a_click_outside_the_screen_keeps_the_focus() -> None:
    async with explorer("demo") as (app, pilot):
        await type_keys(pilot, "unbound:app.tree")
        await click(pilot, 192, 1)
        assert app.focused is app.main.tree_widget
    async with opening_screen() as (app, pilot, screen):
        for kind in (events.MouseDown, events.MouseUp):
            app.post_message(mouse_event(kind, 192, 1))
        await pilot.pause()
        assert screen.focused is screen.field


async def test_a_model_without_the_zoomed_view_focuses_another_view(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), other=tiny_model("llama")) as (app, pilot):
        await see(pilot, "unbound:app.changes", "z", view="changes")
        await change_to(pilot, tiny_model("gpt2"))
        assert not app.main.tree_widget.display
        assert not list(disagreements(app))


@pytest.mark.parametrize("size", [(40, 12), (160, 50)])
async def test_the_focus_follows_the_shown_view_but_stays_in_the_tree(size: tuple[int, int]) -> None:
    async with explorer("demo", size=size) as (app, pilot):
        await press(pilot, "4")
        for view in ("overview", "spectra", "directions", "attention"):
            app.views.go_to(view, takes_focus=False)
            await see(pilot, view=view, focus="view")
        app.main.action_tree()
        app.views.go_to("ranks", takes_focus=False)
        await see(pilot, view="ranks", focus="tree")
