"""The ways back: escape, the history, and where focus and scrolling are then."""

from __future__ import annotations

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, press, screen_text, see, title


async def test_escape_removes_a_filter_before_it_goes_to_the_tree(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await see(pilot, "4", "slash", *"layer = 1", "enter", text="esc All rows")
        assert "layer = 1" in title(app)
        await see(pilot, "escape", focus="view", no_text="layer = 1")
        await see(pilot, focus="view", no_text="All rows")
        await see(pilot, "escape", focus="tree")


async def test_escape_goes_back_from_a_large_map_to_the_small_maps(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat sat", head="L0H0") as (_, pilot):
        await see(pilot, "A", "right", "enter", selected="L0H1", view="attention", text="esc Small maps")
        await see(pilot, "escape", selected="L0H1", view="maps", focus="view")
        await see(pilot, "escape", focus="tree")
        await see(pilot, "3", "escape", view="attention", focus="tree")  # it was not opened from the small maps now


async def test_enter_on_a_term_goes_to_its_cell_of_the_map_and_escape_back() -> None:
    async with explorer("demo", text="Mia saw a fox", head="L1H0") as (app, pilot):
        await press(pilot, "3")
        await press(pilot, "gg", "home", "down", "down", "a", "x")
        pane = active_table(app)
        await see(pilot, "down", "down", text="⏎ Its cell")
        await see(pilot, "enter", selected="L1H0", view="attention", focus="view", text="esc Terms")
        assert title(app).startswith("attention L1H0"), "and not the mean that was on screen"
        assert app.views.attention.cell == (2, 0)
        await see(pilot, "escape", view="explain", focus="view")
        assert pane.grid.cursor[0] == 2
        await see(pilot, "escape", view="attention", no_text="esc Terms")
        await see(pilot, "escape", focus="tree")


async def test_going_back_gives_the_keys_to_the_view_that_had_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.state.places.REST", 0.0)
    async with explorer("demo") as (_, pilot):
        await see(pilot, focus="tree")
        await see(pilot, "w", "w", view="heads")
        await see(pilot, "H", view="overview", focus="view")


@pytest.mark.parametrize("keys", ["8 j", "9 j space", "8 ctrl+d ctrl+d k k"])
async def test_a_table_shown_again_is_scrolled_as_before(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.state.places.REST", 0.0)
    async with explorer("demo", text="the cat sat", head="L0H0") as (app, pilot):
        await see(pilot, *keys.split(), slowly=True)
        pane, seen = active_table(app), screen_text(app).splitlines()[2:-3]
        await press(pilot, "3")
        assert not pane.grid.size, "it is not laid out"
        await press(pilot, "H")
        assert screen_text(app).splitlines()[2:-3] == seen


async def test_the_foot_offers_back_only_with_a_history() -> None:
    async with explorer("demo", head="L0H0", size=(160, 50)) as (_, pilot):
        await see(pilot, no_text="H Back")
        await see(pilot, "1", "colon", *"L1H3", "enter", "unbound:app.tree", text="H Back")
        await see(pilot, "H", "H", "H", no_text="H Back")
