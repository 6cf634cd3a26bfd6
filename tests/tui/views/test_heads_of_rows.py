"""Keys about a head mean the row's in a table of heads; and what finds or fits nothing says so."""

from __future__ import annotations

import pytest

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, filter_table, foot, press, screen_text, shown, titled, until
from tui.app.explorer import Explorer
from tui.views.text_view import TextPane

TEXT = "the cat sat on the mat"


def pinned(app: Explorer) -> str:
    return " ".join(sorted(map(str, app.session.shown.pins)))


def selected(app: Explorer) -> str:
    return str(app.session.shown.selected)


async def test_keys_pin_export_and_show_the_head_of_the_row(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w")
        await press(pilot, "j", "j", "P")
        assert (pinned(app), selected(app)) == ("L0H2", "L0H0")
        assert foot(app).startswith("L0H2 pinned; C compares")
        await press(pilot, "j", "P")
        assert foot(app).startswith("L0H2, L0H3 pinned")
        await press(pilot, "P")
        assert foot(app).startswith("L0H3 unpinned; L0H2 still pinned")
        await press(pilot, "e")
        assert "matrices of L0H3" in screen_text(app)
        await press(pilot, "escape", ":", *"off", "enter")
        assert app.session.shown.off.heads == (Head("decoder", 0, 3),)
        await press(pilot, "space", "3")
        assert shown(app.views.active.title_line).startswith("attention L0H3")
        await press(pilot, "H")
        assert (app.views.active.view, selected(app)) == ("heads", "L0H0")


@pytest.mark.parametrize(("keys", "view"), [("2", "ranks"), ("T", "text"), (":att\n", "attention"), ("w", "overview")])
async def test_every_way_to_a_view_shows_the_head_of_the_row(keys: str, view: str, tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w")
        await press(pilot, "G", "k", *("enter" if key == "\n" else key for key in keys))
        assert (app.views.active.view, selected(app)) == (view, "L1H2")


async def test_the_next_head_follows_the_row_and_the_views_own_key_selects_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, "7")
        await press(pilot, "j", "7")
        assert selected(app) == "L0H0"
        await press(pilot, "]")
        assert (selected(app), str(active_table(app).head_here)) == ("L0H2", "L0H2")
        await press(pilot, "j", "unbound:app.tree", "3")
        assert selected(app) == "L0H2", "the tree has the keys"


async def test_only_the_active_view_says_that_its_filter_hides_a_head(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT, size=(160, 50)) as (app, pilot):
        await press(pilot, *"2/head = 0", "enter")
        for key in ("1", "3", "ww"):
            await press(pilot, *key, "]")
            assert "the filter hides the rows" not in screen_text(app)
        await press(pilot, "2", "[")
        assert "the filter hides the rows" in screen_text(app)


@pytest.mark.parametrize("way", ["ww", "7", "2"])
async def test_stepping_goes_through_heads_that_a_filter_hides(tiny_model: TinyModel, way: str) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, *way)
        await filter_table(pilot, "head = 0 or head = 3")
        for key, head in ("]", "L0H1"), ("]", "L0H2"), ("]", "L0H3"), ("[", "L0H2"), ("[", "L0H1"):
            await press(pilot, key)
            assert selected(app) == head
            is_said = f"the filter hides the rows of {head}" in screen_text(app)
            assert is_said is (head != "L0H3")
        await press(pilot, "3")
        assert shown(app.views.active.title_line).startswith("attention L0H1"), "the one that the titles name"
        await press(pilot, way[-1])
        await filter_table(pilot, "head = 3")
        found = app.views.row_head
        assert found in (Head("decoder", 0, 3), Head("decoder", 1, 3))
        await press(pilot, "3")
        assert shown(app.views.active.title_line).startswith(f"attention {found}"), "a new filter chooses its row"


async def test_keys_for_a_row_say_that_no_row_matches(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        for keys in ("ww", "2"):
            await press(pilot, *keys, *"/layer > 9", "enter")
            for key in ("space", "enter"):
                await press(pilot, key)
                assert foot(app).startswith("no row matches; / changes the filter"), f"{key} in {keys}"
                await press(pilot, "j")


async def test_keys_do_not_act_on_the_first_row_after_sorting(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w")
        for keys in ("oo", "jo", "lo", "l"):
            await press(pilot, *keys)
            if active_table(app).head_here != app.session.shown.selected:
                assert str(app.views.target_head) == "L1H0", keys
        await press(pilot, "j")
        row = str(active_table(app).head_here)
        await press(pilot, "k", "j", "3")
        assert shown(app.views.active.title_line).startswith(f"attention {row}")


async def test_heads_that_feed_the_selected_one_can_be_pinned_but_stay_unselected(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0", text=TEXT) as (app, pilot):
        await press(pilot, "5")
        await press(pilot, "j", "P")
        feeding = str(active_table(app).head_here)
        assert feeding.startswith("L0")
        assert (pinned(app), selected(app)) == (feeding, "L1H0")
        await press(pilot, "3")
        assert selected(app) == "L1H0"
        assert foot(app).startswith(f"L1H0 is still selected; Enter in composition selects {feeding}")
        await press(pilot, "5", "A")
        assert (app.views.active.view, selected(app)) == ("maps", "L1H0")
        assert "still selected" not in foot(app), "which is no news"
        await press(pilot, "5", "]")
        assert selected(app) == "L1H1"
        await press(pilot, "j", "A")
        assert foot(app).startswith("L1H1 is still selected; ")


async def test_messages_about_rows_name_the_stack_where_there_are_several(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5"), head="decoder.L1H0", text=TEXT) as (app, pilot):
        await press(pilot, "5")
        row = active_table(app).head_here
        await press(pilot, "3")
        said = f"decoder L1H0 is still selected; Enter in composition selects decoder {row}"
        assert foot(app) == said


async def test_keys_act_on_the_first_row_of_a_ranking_only_after_a_move(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), head="L1H3", text=TEXT) as (app, pilot):
        await press(pilot, "9")
        await press(pilot, "gg", "j")
        row = str(active_table(app).head_here)
        await press(pilot, "k")
        first = str(active_table(app).head_here)
        assert first != row
        await press(pilot, "3")
        assert selected(app) == first
    async with explorer(tiny_model("llama", with_head=True), head=row, text=TEXT) as (app, pilot):
        await press(pilot, "9")
        await press(pilot, "3")
        assert selected(app) == row
        assert foot(app).startswith(f"{row} is still selected; Enter in ablation selects {first}")


async def test_keys_copy_and_pin_the_row_of_ranks_that_a_filter_left(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0") as (app, pilot):
        await press(pilot, "2", *"/matrix = OV and L0H2", "enter", "Y")
        await until(pilot, lambda: app.clipboard.startswith("L0H2\t"))
        assert app.clipboard.count("\t") == 6
        await press(pilot, "P")
        assert (pinned(app), selected(app)) == ("L0H2", "L0H0")
        await press(pilot, *"/stable_rank < 0", "enter")
        assert "no row matches; / changes the filter, esc shows all rows" in screen_text(app)
        assert "0 of " in titled(app.views.active.title_line)
        await press(pilot, "P")
        assert foot(app).startswith("L0H2, L0H0 pinned"), "without a row it is what is selected"
        await press(pilot, "escape")
        assert "no row matches" not in screen_text(app)


async def test_turning_the_text_moves_the_focus_and_switches_no_head(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0", text=TEXT, size=(100, 40)) as (app, pilot):
        await press(pilot, "3", "T")
        pane = app.views.active
        assert isinstance(pane, TextPane)
        assert pane.keys.display
        assert pane.queries.display
        assert "⏎ Largest" in foot(app)
        for focused, said in ((pane.queries, "that looks at it most"), (pane.keys, "that it looks at most")):
            await press(pilot, "unbound:text.turn")
            assert app.focused is focused
            assert foot(app).startswith(f"Enter goes to the token {said}")
        assert app.session.shown.off.heads == ()


async def test_with_the_model_selected_keys_do_not_act_on_the_first_row(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await press(pilot, "unbound:app.tree", "home", "2")
        await press(pilot, "e")
        assert "matrices of the model" in screen_text(app)
        await press(pilot, "escape", "4")
        assert app.session.shown.selected is None
        await press(pilot, "j", "e")
        assert "matrices of L0H1" in screen_text(app)


async def test_the_key_that_switches_a_rows_head_is_offered_only_if_it_has_one(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, "9")
        assert "space Off" in foot(app)
        await press(pilot, "space", "j", "k")
        assert "token" in active_table(app).grid.columns
        assert "space Off" not in foot(app)
        await press(pilot, "space")
        assert foot(app) == "this row has no head; select one in the tree"
        await press(pilot, "O", "j")
        assert "space Off" in foot(app)
