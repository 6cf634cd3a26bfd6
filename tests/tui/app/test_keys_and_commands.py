"""Keys and commands do what their descriptions say, or say in one line why not."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from engine.values.attention import PooledBlock
from engine.values.outline import HOW_TO_COMPARE
from tests.conftest import TinyModel
from tests.tui.explorer import active, active_table, explorer, notices, press, see, title, type_keys, until
from tui.app.explorer import Explorer
from tui.drawing.readout import weight_readout
from tui.screens.export_screen import ExportScreen
from tui.views.compare_view import ComparePane

TEXT = "the cat sat on the mat"


def ids(app: Explorer) -> set[str | None]:
    """Give the ids of the keys that work now, which the help lists."""
    return {each.binding.id for each in app.screen.active_bindings.values()}


async def test_enter_is_listed_only_where_a_row_leads_somewhere() -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (app, pilot):
        leading = {key: {"table.choose"} for key in "457"}
        for key in (*"24567", "unbound:app.weights"):
            await press(pilot, key)
            assert ids(app) & {"table.choose", "table.token"} == leading.get(key, set()), key
        await see(pilot, "4", "enter", says="L1H0 is already selected")
        for name in ("table.token", "lens.choose"):
            await press(pilot, "8")
            assert ids(app) & {"table.choose", "table.token", "lens.choose"} == {name}
        await see(pilot, "enter", view="contributions")
        no_head = "this row has no head; select one in the tree"
        await see(pilot, "slash", *"part = MLP", "enter", "enter", says=no_head)


async def test_compared_heads_take_all_room_and_no_mean_and_say_so(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L1H2", size=(160, 50)) as (app, pilot):
        await press(pilot, "P", "right_square_bracket", "C", "z")
        pane = active(app, ComparePane)
        assert pane.region.width == 160
        await press(pilot, "z")
        assert 0 < app.main.tree_widget.region.width < pane.region.x
        await see(pilot, "a", foot="compare shows single heads")
        await see(pilot, "unbound:app.tree", "C", title="compare spectra")
        assert app.focused is pane.graph
        await see(pilot, "C", "unbound:app.baseline", title="compare maps", foot="only spectra show chance")
        await press(pilot, "3")
        assert "mean" not in title(app)


async def test_the_key_of_several_views_focuses_the_shown_one_and_then_shows_the_next() -> None:
    async with explorer("demo", text=TEXT) as (_, pilot):
        shown_by = {"8": ("predictions", "lens"), "w": ("overview", "heads"), "T": ("text", "attention")}
        for key, (first, second) in shown_by.items():
            await see(pilot, "1", key, view=first, focus="view")
            await see(pilot, "unbound:app.tree", key, view=first, focus="view")
            await see(pilot, "unbound:app.tree", key, key, view=second)
        await see(pilot, "1", "T", "ctrl+end", focus="view")
        await see(pilot, "1", "A", "ctrl+end", focus="view", selected="L0H7")
        await see(pilot, "ctrl+home", selected="L0H0")
        await see(pilot, "1", "x", "w", "enter", view="spectra")  # and not the cell of a map


async def test_the_key_of_several_views_returns_to_the_last_one() -> None:
    async with explorer("demo", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w", "/", *"head = 3", "enter")
        pane = active_table(app)
        await until(pilot, lambda: pane.counts == (4, 32))
        await see(pilot, "j", "enter", "3", "1", "w", view="heads", focus="view", text="w Map")
        assert pane.counts == (4, 32)
        assert pane.grid.cursor[0] == 1
        await see(pilot, "w", "1", "w", view="overview", text="w Table")
        await see(pilot, "8", "8", "1", "8", view="lens")
        await see(pilot, "8", "8", view="predictions")
        await press(pilot, "1", ":", *"lens", "enter")
        await see(pilot, "1", ":", *"predictions", "enter", view="predictions")  # a name means that view alone


async def test_moving_the_focus_between_views_is_no_step_of_the_history(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, size=(160, 50), head="L0H0") as (_, pilot):
        await press(pilot, "1", "colon", *"L0H3", "enter")
        await see(pilot, "colon", *"L1H1", "enter", view="spectra")
        monkeypatch.setattr("tui.state.places.REST", 0.0)  # every place counts from now on
        await press(pilot, "tab", "tab", "tab")
        await see(pilot, "H", selected="L0H3")


async def test_the_prompt_runs_commands_of_the_view() -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (_, pilot):
        await see(pilot, "4", "unbound:app.tree", "colon", *"filter", "enter", focus="prompt")
        await see(pilot, "escape", "unbound:app.tree", "colon", *"sort", "enter", focus="view")


@pytest.mark.parametrize("width", range(16, 60))
def test_the_readout_of_a_difference_has_its_number_however_narrow_it_is(width: int) -> None:
    block = PooledBlock(range(3, 4), range(12, 13), -0.25, (3, 12), -0.25, (0.75, 0.5))
    line = weight_readout(block, ("<|start|>",) * 20, ("<|start|>",) * 20, width)
    assert "-0.2500" in line.replace("−", "-")
    assert cell_len(line) <= width
    assert re.search(r"\bq(?:uery)? ?3\b", line)
    assert re.search(r"\bk(?:ey)? ?12\b", line)


async def test_the_prompt_takes_a_view_with_a_place_an_epsilon_and_a_filter(tiny_model: TinyModel) -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (app, pilot):
        await see(pilot, "colon", *"ranks L2", "enter", view="ranks", title="ranks layer 2")
        await see(pilot, "colon", *"spectra 3.1", "enter", title="spectra L3H1")
        await press(pilot, "colon", *"epsilon 0.07", "enter")
        assert title(app).endswith("ε 0.07")
        await press(pilot, "plus")
        assert title(app).endswith("ε 0.1")
        for wrong in ("epsilon", "epsilon much", "epsilon 1", "epsilon 0"):
            said = "ε is the share of the energy left out: between 0 and 1"
            await see(pilot, "colon", *wrong, "enter", text=said)
            await press(pilot, "escape")
        await see(pilot, "colon", *"spectra L9H1", "enter", text="no attention in layer 9")
        await see(pilot, "escape", "colon", *"ov_energy_rank < 25", "enter", view="heads")
        left, rows = active_table(app).counts
        assert 0 < left < rows
        await press(pilot, "colon", *"export", "enter")
        assert isinstance(app.screen, ExportScreen)


async def test_the_prompt_completes_measures_heads_and_commands_without_a_key() -> None:
    async with explorer("demo", head="L1H0") as (app, pilot):
        for typed, completed in (
            ("measure qk_st", "measure qk_stable_rank"), ("l2h", "L2H0"), ("l2h1", "L2H1"), ("weig", "weights")
        ):  # fmt: skip
            await type_keys(pilot, "colon", *typed, "tab")
            assert app.main.prompt.input.value == completed
            await type_keys(pilot, "escape")
        await see(pilot, "colon", *"measure stable_rank", "enter", view="spectra")
        assert app.session.shown.measure == "stable_rank", "the tree shows it"
        await see(pilot, "colon", *"induction", "enter", view="overview", title="overview induction")
        for typed, said in (
            ("measure rank", "measure takes one name: "),
            ("zoom in", "zoom takes no more words; leave out 'in'"),
            ("theme", "no such theme; tab completes the name"),
        ):
            await see(pilot, "colon", *typed, "enter", text=said)
            await type_keys(pilot, "escape")
        await see(pilot, "colon", *"weights", "enter", view="weights")
        await press(pilot, "colon", *"changes", "enter")
        assert notices(app)[-1] == HOW_TO_COMPARE
        await type_keys(pilot, "colon", *"check", "enter")
        await until(pilot, lambda: len(app.screen_stack) > 1)
