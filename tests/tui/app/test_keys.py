"""The line of keys shows what works, and keys that every screen has do the same on each."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from tests.conftest import TinyModel
from tests.tui.explorer import explorer, hold, screen_text, settle, type_keys
from tui.app.explorer import Explorer


@pytest.mark.parametrize(
    ("columns", "way", "wanted"),
    [
        (80, ["escape"], "⏎ Open  tab Next panel  [ ] Head  i Sentence  : Go to  space Off  ? Help  q Quit"),
        (80, ["3"], "⏎ Largest  a Mean  x Explain  tab Next panel  [ ] Head  ? Help  q Quit"),
        (80, ["2"], "m Measure  + - ε  / Filter  o Sort  tab Next panel  [ ] Head  ? Help  q Quit"),
        (40, ["escape"], "⏎ Open  z All room  ? Help  q Quit"),
    ],
)
async def test_the_line_of_keys_fits_and_says_what_matters(
    tiny_model: TinyModel, columns: int, way: list[str], wanted: str
) -> None:
    async with explorer(tiny_model("llama"), text="the cat", size=(columns, 24)) as (app, pilot):
        await pilot.press(*way)
        await settle(pilot)
        line = screen_text(app).splitlines()[-1]
        assert line.rstrip() == wanted
        await pilot.resize_terminal(160, 24)
        await pilot.pause()
        wide = screen_text(app).splitlines()[-1]
        assert "e Export" in wide
        assert set(wanted.split()) <= set(wide.split())
        assert list(app.foot_keys) == ["app.help", "app.quit"]


async def test_a_second_distance_while_the_first_is_worked_out_changes_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        free = hold(app)
        await type_keys(pilot, "unbound:app.distance", "unbound:app.distance", "unbound:app.distance")
        free.set()
        await settle(pilot)
        assert "Δ = 0" in screen_text(app)
        await pilot.press("unbound:app.distance")
        await settle(pilot)
        assert "Δ" not in screen_text(app).splitlines()[1]


async def test_the_line_of_keys_shows_what_works_in_the_view_the_field_or_the_box(tiny_model: TinyModel) -> None:
    in_views = {
        "A": "⏎ Large map  tab Next panel",
        "T": "⏎ Largest  tab Next panel",
        "P C": "C Maps, difference  P Pin",
        "w": "⏎ Go in  m Measure  . Matrix  / Find  w Table",
    }
    in_boxes = {
        "slash": "⏎ Show it  tab Complete  esc Leave",
        "escape 4 slash": "⏎ Filter  tab Complete  esc All rows",
        "escape i": "⏎ Read it  esc Back  ↑ Earlier  ^u Clear  ^r Find",
        "escape e": "⏎ Write  → Format  tab Name  esc Back",
        "tab": "⏎ Write  tab Name  esc Back",
        "escape escape S": "⏎ Show  / Find  d Forget  esc Back",
        "escape question_mark": "/ Search  esc Close",
        "/": "⏎ Keep  esc All keys",
        "escape escape B": "⏎ Open  esc Leave  tab Complete  ↓ Next  ↑ Before  f1 Help",
        "escape ctrl+p": "⏎ Do it  esc Back",
    }
    async with explorer(tiny_model("llama"), text="the cat", head="L0H0") as (app, pilot):
        shown = {}
        for keys in (*in_views, *in_boxes, "escape"):
            await pilot.press(*keys.split())
            await settle(pilot)
            shown[keys] = screen_text(app).splitlines()[-1].rstrip()
        for keys, wanted in in_views.items():
            assert shown[keys].startswith(wanted)
            assert shown[keys].endswith("? Help  q Quit")
        assert {keys: shown[keys] for keys in in_boxes} == in_boxes
        assert shown["escape"] == "⏎ Select  r Columns  / Filter  o Sort  tab Next panel  [ ] Head  ? Help  q Quit"


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+c"])
async def test_control_keys_leave_too(tiny_model: TinyModel, key: str) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await pilot.press(key)
        assert app._exit


async def test_control_c_leaves_the_line_that_is_typed_into_and_not_the_program(tiny_model: TinyModel) -> None:
    def is_typing(app: Explorer) -> bool:
        return isinstance(app.focused, Input)

    async with explorer(tiny_model("llama")) as (app, pilot):
        for keys in (
            "i ctrl+u",
            "w slash",
            "w slash",
            "slash",
            "colon",
            "question_mark slash",
            "S slash",
            "B",
            "ctrl+p",
        ):
            await pilot.press(*keys.split(), "a")
            assert is_typing(app), keys
            if keys not in ("slash", "colon", "ctrl+p"):
                await pilot.press("shift+left", "ctrl+c")
                assert app.clipboard == "a", keys
                assert is_typing(app), keys
                app.copy_to_clipboard("")
                await pilot.press("right")
            await pilot.press("ctrl+c")
            await settle(pilot)
            assert not is_typing(app), keys
            await pilot.press("escape", "unbound:app.tree")
        assert len(app.screen_stack) == 1


async def test_tab_goes_through_the_tree_and_the_views_and_never_into_a_field(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="the cat", size=(160, 50)) as (app, pilot):
        views = (app.views.spectra.graph, app.views.ranks.table, app.views.attention.heatmap)
        await pilot.press("unbound:app.tree", "3")
        for turn in ((app.main.tree_widget, *views), (app.main.tree_widget, *views)):
            for widget in turn:
                await pilot.press("tab")
                assert app.focused is widget
        await pilot.press("i", "tab")
        assert app.focused is app.main.tree_widget


async def test_where_nothing_can_be_suspended_ctrl_z_does_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        before = screen_text(app)
        await pilot.press("ctrl+z")
        await pilot.pause()
        assert screen_text(app) == before
        await pilot.press("i", "ctrl+z")
        await pilot.pause()
        assert app.focused is app.main.sentence_input
