"""The foot shows the working keys, and common keys do the same everywhere."""

from __future__ import annotations

from textual.widgets import Input

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, foot, press, resize, screen_text, see, type_keys


async def test_the_foot_fits_and_shows_the_main_keys(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat") as (app, pilot):
        assert list(app.foot_keys) == ["app.help", "app.quit"]
        for columns, key, keys in (
            (80, "escape", "⏎ Open  tab Next panel  [ ] Head  i Sentence  : Go to  space Off  ? Help  q Quit"),
            (40, "escape", "⏎ Open  z All room  ? Help  q Quit"),
            (80, "3", "⏎ Largest  a Mean  x Explain  tab Next panel  [ ] Head  ? Help  q Quit"),
            (80, "2", "m Measure  + - ε  o Sort  tab Next panel  [ ] Head  i Sentence  ? Help  q Quit"),
        ):
            await resize(pilot, columns, 24)
            await see(pilot, key, says=keys)
            await resize(pilot, 160, 24)
            assert "e Export" in foot(app)
            assert set(keys.split()) <= set(foot(app).split())


async def test_the_foot_shows_the_keys_of_the_view_the_field_or_the_box(tiny_model: TinyModel) -> None:
    in_views = {
        "A": "⏎ Large map  tab Next panel",
        "T": "⏎ Largest  tab Next panel",
        "P C": "C Maps, difference  P Pin",
        "w": "⏎ Go in  m Measure  M Matrix  / Find  w Table",
    }
    in_boxes = {
        "escape 4 i": "⏎ Read it  esc Back  ↑ Earlier  ^u Clear",
        "escape e": "⏎ Write  → Format  tab Name  esc Back  ? Help",
        "tab": "⏎ Write  tab Name  esc Back",
        "escape escape S": "⏎ Show  d Forget  esc Back  ? Help",
        "escape question_mark": "/ Search  esc Close",
        "/": "⏎ Keep  esc All keys",
        "escape escape B": "⏎ Open  esc Leave  tab List  ↓ Next  ↑ Before  f1 Help",
        "escape ctrl+p": "⏎ Do it  esc Back",
    }
    async with explorer(tiny_model("llama"), text="the cat", head="L0H0") as (app, pilot):
        shown = {}
        for keys in (*in_views, *in_boxes, "escape"):
            await press(pilot, *keys.split())
            shown[keys] = foot(app)
        for keys, wanted in in_views.items():
            assert shown[keys].startswith(wanted)
            assert shown[keys].endswith("? Help  q Quit")
        assert {keys: shown[keys] for keys in in_boxes} == in_boxes
        assert shown["escape"] == "⏎ Select  r Columns  / Filter  o Sort  tab Next panel  [ ] Head  ? Help  q Quit"


async def test_ctrl_c_leaves_a_field_and_not_the_program_and_copies_a_selection(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        for keys in ("i ctrl+u", "w slash", "w w slash", "slash", "colon", "? slash", "B", "ctrl+p"):
            await type_keys(pilot, *keys.split(), "a")
            field = app.focused
            assert isinstance(field, Input), keys
            if keys != "ctrl+p" and not app.main.prompt.display:
                await type_keys(pilot, "shift+left", "ctrl+c")
                assert (app.clipboard, app.focused) == ("a", field), keys
                app.copy_to_clipboard("")
                await type_keys(pilot, "right")
            await press(pilot, "ctrl+c")
            assert not isinstance(app.focused, Input), keys
            await type_keys(pilot, "escape", "unbound:app.tree")
        assert len(app.screen_stack) == 1


async def test_tab_goes_through_the_tree_and_the_views_and_never_into_a_field(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat", size=(160, 50)) as (app, pilot):
        views = (app.views.spectra.graph, app.views.ranks.grid, app.views.attention.heatmap)
        await type_keys(pilot, "unbound:app.tree", "3")
        for widget in (app.main.tree_widget, *views) * 2:
            await type_keys(pilot, "tab")
            assert app.focused is widget
        await see(pilot, "i", "tab", focus="tree")


async def test_ctrl_z_does_nothing_where_nothing_can_be_suspended(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        before = screen_text(app)
        await press(pilot, "ctrl+z")
        assert screen_text(app) == before
        await see(pilot, "i", "ctrl+z", focus="sentence")
