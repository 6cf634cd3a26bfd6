"""Keys about a head mean the row's in a table of heads; and what finds or fits nothing says so."""

from __future__ import annotations

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, filter_table, press, screen_text, see
from tui.app.explorer import Explorer

TEXT = "the cat sat on the mat"


def row_head(app: Explorer) -> str:
    return str(active_table(app).head_here)


async def test_keys_pin_export_and_show_the_head_of_the_row(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (_, pilot):
        await press(pilot, "w", "w")
        await see(pilot, *"jjP", pinned="L0H2", selected="L0H0", foot="L0H2 pinned; C compares")
        await see(pilot, *"jP", foot="L0H2, L0H3 pinned")
        await see(pilot, "P", foot="L0H3 unpinned; L0H2 still pinned")
        await see(pilot, "e", text="matrices of L0H3")
        await see(pilot, "escape", ":", *"off", "enter", off="L0H3")
        await see(pilot, "space", "3", title="attention L0H3")
        await see(pilot, "H", view="heads", selected="L0H0")


async def test_every_way_to_a_view_shows_the_head_of_the_row(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        for keys, view in (("2", "ranks"), ("T", "text"), ([*":att", "enter"], "attention"), ("w", "overview")):
            app.session.change(selected=Head("decoder", 0, 0))
            await press(pilot, *":heads", "enter")
            await see(pilot, "G", "k", *keys, view=view, selected="L1H2")


async def test_the_next_head_follows_the_row_and_the_views_own_key_selects_nothing(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, "7")
        await see(pilot, "j", "7", selected="L0H0")
        await see(pilot, "]", selected="L0H2")
        assert row_head(app) == "L0H2"
        await see(pilot, "j", "unbound:app.tree", "3", selected="L0H2")  # the tree has the keys


async def test_stepping_goes_through_heads_that_a_filter_hides(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (app, pilot):
        await press(pilot, *"ww")
        await filter_table(pilot, "head = 0 or head = 3")
        for key, head in ("]", "L0H1"), ("]", "L0H2"), ("]", "L0H3"), ("[", "L0H2"), ("[", "L0H1"):
            await see(pilot, key, selected=head)
            is_said = f"the filter hides the rows of {head}" in screen_text(app)
            assert is_said is (head != "L0H3")
        await see(pilot, "3", title="attention L0H1")  # the one that the titles name
        await press(pilot, "w")
        await filter_table(pilot, "head = 3")
        head = row_head(app)
        assert head in ("L0H3", "L1H3")
        await see(pilot, "3", title=f"attention {head}")


async def test_keys_for_a_row_say_that_no_row_matches(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", text=TEXT) as (_, pilot):
        await press(pilot, *"ww/layer > 9", "enter")
        for key in ("space", "enter"):
            await see(pilot, key, foot="no row matches; / changes the filter")
            await press(pilot, "j")


async def test_keys_do_not_act_on_the_first_row_after_sorting(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w")
        for keys in ("oo", "jo", "lo", "l"):
            await press(pilot, *keys)
            assert "L1H0" in (row_head(app), str(app.views.target_head)), keys
        await press(pilot, "j")
        row = row_head(app)
        await see(pilot, "k", "j", "3", title=f"attention {row}")


async def test_heads_that_feed_the_selected_one_can_be_pinned_but_stay_unselected(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H0", text=TEXT) as (app, pilot):
        await press(pilot, "5")
        await press(pilot, "j")
        feeding = row_head(app)
        assert feeding.startswith("L0")
        await see(pilot, "P", pinned=feeding, selected="L1H0")
        await see(pilot, "3", selected="L1H0")
        await see(pilot, "5", "]", selected="L1H1")
        await see(pilot, "j", "A", view="maps", selected="L1H1")


async def test_keys_act_on_the_first_row_of_a_ranking_only_after_a_move(tiny_model: TinyModel) -> None:
    model = tiny_model("llama", with_head=True)
    async with explorer(model, head="L1H3", text=TEXT) as (app, pilot):
        await press(pilot, "9")
        await press(pilot, "gg", "j")
        row = row_head(app)
        await press(pilot, "k")
        first = row_head(app)
        assert first != row
        await see(pilot, "3", selected=first)
    async with explorer(model, head=row, text=TEXT) as (_, pilot):
        await press(pilot, "9")
        await see(pilot, "3", selected=row)


async def test_with_the_model_selected_keys_do_not_act_on_the_first_row(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (_, pilot):
        await press(pilot, "unbound:app.tree", "home", "2")
        await see(pilot, "e", text="matrices of the model")
        await see(pilot, "escape", "4", selected="None")
        await see(pilot, "j", "e", text="matrices of L0H1")


async def test_the_key_that_switches_a_rows_head_is_offered_only_if_it_has_one(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), head="L0H0", text=TEXT) as (app, pilot):
        await see(pilot, "9", text="space Off")
        await see(pilot, "space", "j", "k", no_text="space Off")
        assert "token" in active_table(app).grid.columns
        await see(pilot, "space", says="this row has no head; select one in the tree")
        await see(pilot, "O", "j", text="space Off")
