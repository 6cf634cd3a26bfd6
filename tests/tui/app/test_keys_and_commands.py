"""Keys and commands do what their descriptions say, or say in one line why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from engine.values.attention import PooledBlock
from engine.values.heads import Head
from engine.values.outline import HOW_TO_COMPARE
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, foot, notices, press, screen_text, shown, type_keys, until
from tui.app.explorer import Explorer
from tui.drawing.readout import difference_readout
from tui.screens.export_screen import ExportScreen
from tui.screens.sentences_screen import SentencesScreen
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
        await press(pilot, "4", "enter")
        assert foot(app) == "L1H0 is already selected"
        for name in ("table.token", "lens.choose"):
            await press(pilot, "8")
            assert ids(app) & {"table.choose", "table.token", "lens.choose"} == {name}
        await press(pilot, "enter")
        assert app.views.active.view == "contributions"
        await press(pilot, "slash", *"part = MLP", "enter", "enter")
        assert foot(app) == "this row has no head; select one in the tree"
        await press(pilot, "escape", "2", "slash", *"head = 3", "enter")
        assert "table.choose" in ids(app)  # the filter has left a line that is not selected
        await press(pilot, "enter")
        assert app.session.shown.selected == Head("decoder", 1, 3)


async def test_compared_heads_take_all_room_and_no_mean_and_say_so(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L1H2", size=(160, 50)) as (app, pilot):
        await press(pilot, "P", "right_square_bracket", "C", "z")
        pane = app.views.active
        assert isinstance(pane, ComparePane)
        assert pane.region.width == 160
        await press(pilot, "z")
        assert 0 < app.main.tree_widget.region.width < pane.region.x
        await press(pilot, "a")
        assert foot(app).startswith("compare shows single heads")
        await press(pilot, "unbound:app.tree", "C")
        assert shown(pane.title_line).startswith("compare spectra")
        assert app.focused is pane.graph
        await press(pilot, "C", "unbound:app.baseline")
        assert shown(pane.title_line).startswith("compare maps")
        assert foot(app).startswith("only spectra show chance")
        await press(pilot, "3")
        assert "mean" not in shown(app.views.attention.title_line)


async def test_the_key_of_several_views_focuses_the_shown_one_and_then_shows_the_next() -> None:
    async with explorer("demo", text=TEXT) as (app, pilot):
        shown_by = {"8": ("predictions", "lens"), "w": ("overview", "heads"), "T": ("text", "attention")}
        for key, (first, second) in shown_by.items():
            await press(pilot, "1", key)
            for _ in range(2):
                assert app.views.active.view == first
                assert app.views.active.has_focus_within
                await press(pilot, "unbound:app.tree", key)
            await press(pilot, key)
            assert app.views.active.view == second
        for key in ("T", "A"):
            await press(pilot, "1", key, "ctrl+end")
            assert app.views.active.has_focus_within
        assert str(app.session.shown.selected) == "L0H7"
        await press(pilot, "ctrl+home")
        assert str(app.session.shown.selected) == "L0H0"
        await press(pilot, "1", "x", "w", "enter")
        assert app.views.active.view == "spectra"  # and not the cell of a map


async def test_the_key_of_several_views_returns_to_the_last_one() -> None:
    async with explorer("demo", text=TEXT) as (app, pilot):
        await press(pilot, "w", "w", "/", *"head = 3", "enter")
        pane = active_table(app)
        await until(pilot, lambda: pane.counts == (4, 32))
        await press(pilot, "j", "enter", "3", "1", "w")
        assert app.views.active is pane
        assert pane.has_focus_within
        assert pane.counts == (4, 32)
        assert pane.grid.cursor[0] == 1
        assert "w Map" in foot(app)
        await press(pilot, "w", "1", "w")
        assert app.views.active.view == "overview"
        assert "w Table" in foot(app)
        await press(pilot, "8", "8", "1", "8")
        assert app.views.active.view == "lens"
        await press(pilot, "8", "8")
        assert app.views.active.view == "predictions"
        await press(pilot, "1", ":", *"lens", "enter", "1", ":", *"predictions", "enter")
        assert app.views.active.view == "predictions", "a name means that view alone"


async def test_moving_the_focus_between_views_is_no_step_of_the_history(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, size=(160, 50), head="L0H0") as (app, pilot):
        await press(pilot, "1", "colon", *"L0H3", "enter")
        await press(pilot, "colon", *"L1H1", "enter")
        assert app.views.active.view == "spectra"
        monkeypatch.setattr("tui.state.places.REST", 0.0)  # every place counts from now on
        await press(pilot, "tab", "tab", "tab")
        await press(pilot, "H")
        assert app.session.shown.selected == Head("decoder", 0, 3)


async def test_keys_with_nothing_to_do_say_so_in_a_line() -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (app, pilot):
        for key, said in (
            ("unbound:app.by_mean", "no head is off; space switches one off, now by its mean"),
            ("O", "all heads are on"),
        ):
            await press(pilot, key)
            assert foot(app) == said
        await press(pilot, "1", "unbound:app.tree", "gg")
        await until(pilot, lambda: app.session.shown.selected is None)
        title = shown(app.views.spectra.title_line)
        assert title == "spectra the model"
        assert "Scale" not in foot(app)
        for key, said in (
            ("s", "nothing on screen has a scale; "),
            ("unbound:app.baseline", "only spectra of a head or a layer show chance; choose one"),
            ("unbound:app.distance", "QK at a distance needs "),
        ):
            await press(pilot, key)
            assert foot(app).startswith(said)
        assert shown(app.views.spectra.title_line) == title
        await press(pilot, *":L1H0", "enter", "1")
        assert "  log  ε 0.01" in shown(app.views.spectra.title_line)
        assert "s Scale" in foot(app)
        await press(pilot, "3")
        for key, said in (
            (">", "each cell is a single weight"),
            ("<", "the whole map is in view"),
            ("unbound:heatmap.fit", "the whole map is in view; each cell is a single weight"),
            ("unbound:heatmap.pooling", "each cell is a single weight"),
        ):
            await press(pilot, key)
            assert foot(app) == said
        await press(pilot, "i", "ctrl+u", *("a b " * 40), "enter")
        assert foot(app).startswith("< Zoom out")
        await press(pilot, "unbound:heatmap.fit")
        assert foot(app).startswith("> Zoom  ⏎ Largest")


async def test_a_forgotten_sentence_is_brought_back_to_its_place(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text="one") as (app, pilot):
        for text in ("two", "three"):
            await press(pilot, "i", "ctrl+u", *text, "enter")
        before = app.sentences.listed
        await press(pilot, "S", "u")
        assert foot(app) == "there is no forgotten sentence to bring back"
        await press(pilot, "j")
        assert isinstance(app.screen, SentencesScreen)
        assert "u Bring back" not in foot(app)
        await press(pilot, "d", "d")
        assert len(app.sentences.listed) == len(before) - 2
        assert "u Bring back" in foot(app)
        await press(pilot, "question_mark")
        assert "Bring back the last" in screen_text(app)
        await press(pilot, "escape", "u", "u")
        assert app.sentences.listed == before
        assert "u Bring back" not in foot(app)


async def test_the_prompt_opens_a_model_and_runs_commands_of_the_view(tiny_model: TinyModel, tmp_path: Path) -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (app, pilot):
        await press(pilot, "4", "unbound:app.tree", "colon", *"filter", "enter")
        assert app.focused is app.main.prompt.input
        await press(pilot, "escape", "unbound:app.tree", "colon", *"sort", "enter")
        assert app.views.active.has_focus_within
        await press(pilot, "escape", "colon", *f"open {tiny_model('gpt2')}", "enter")
        assert "gpt2" in screen_text(app).splitlines()[0]
        await press(pilot, "colon", *f"open {tmp_path}", "enter")
        assert len(app.screen_stack) == 2
        assert str(tmp_path) in screen_text(app)


@pytest.mark.parametrize("width", range(16, 60))
def test_the_readout_of_a_difference_has_its_number_however_narrow_it_is(width: int) -> None:
    block = PooledBlock(range(3, 4), range(12, 13), -0.25, (3, 12), -0.25, (0.75, 0.5))
    line = difference_readout(block, ("<|start|>",) * 20, ("<|start|>",) * 20, width)
    assert "-0.2500" in line.replace("−", "-")
    assert cell_len(line) <= width
    assert re.search(r"\bq(?:uery)? ?3\b", line)
    assert re.search(r"\bk(?:ey)? ?12\b", line)


async def test_the_prompt_takes_a_view_with_a_place_an_epsilon_and_a_filter(tiny_model: TinyModel) -> None:
    async with explorer("demo", text=TEXT, head="L1H0") as (app, pilot):
        await press(pilot, "colon", *"ranks L2", "enter")
        assert app.views.active.view == "ranks"
        assert shown(app.views.ranks.title_line).startswith("ranks layer 2")
        await press(pilot, "colon", *"spectra 3.1", "enter")
        assert shown(app.views.spectra.title_line).startswith("spectra L3H1")
        await press(pilot, "colon", *"epsilon 0.07", "enter")
        assert shown(app.views.spectra.title_line).endswith("ε 0.07")
        await press(pilot, "plus")
        assert shown(app.views.spectra.title_line).endswith("ε 0.1")
        for wrong in ("epsilon", "energy much", "epsilon 1", "ε 0"):
            await press(pilot, "colon", *wrong, "enter")
            assert "ε is the share of the energy left out: between 0 and 1" in screen_text(app)
            await press(pilot, "escape")
        await press(pilot, "colon", *"spectra L9H1", "enter")
        assert "no attention in layer 9" in screen_text(app)
        await press(pilot, "escape", "colon", *"ov_energy_rank < 25", "enter")
        table = active_table(app)
        assert table.view == "heads"
        assert 0 < table.counts[0] < table.counts[1]
        await press(pilot, "colon", *"export", "enter")
        assert isinstance(app.screen, ExportScreen)


async def test_the_prompt_completes_measures_heads_and_commands_without_a_key() -> None:
    async with explorer("demo", head="L1H0") as (app, pilot):
        for typed, completed in (
            ("measure qk_st", "measure qk_stable_rank"),
            ("l2h", "L2H0"),
            ("l2h1", "L2H1"),
            ("weig", "weights"),
        ):
            await type_keys(pilot, "colon", *typed, "tab")
            assert app.main.prompt.input.value == completed
            await type_keys(pilot, "escape")
        await press(pilot, "colon", *"measure stable_rank", "enter")
        assert (app.session.shown.measure, app.session.shown.view) == ("stable_rank", "spectra"), "the tree shows it"
        await press(pilot, "colon", *"induction", "enter")
        assert (app.session.shown.overview, app.session.shown.view) == ("induction", "overview")
        await type_keys(pilot, "colon", *"measure rank", "enter")
        assert "measure takes one name: " in foot(app)
        await type_keys(pilot, "escape")
        for typed, said in (
            ("zoom in", "zoom takes no more words; leave out 'in'"),
            ("theme", "theme needs a name; tab completes it"),
        ):
            await press(pilot, "colon", *typed, "enter")
            assert said in screen_text(app), typed
            await type_keys(pilot, "escape")
        await press(pilot, "colon", *"weights", "enter")
        assert app.session.shown.view == "weights"
        await press(pilot, "colon", *"changes", "enter")
        assert notices(app) == [HOW_TO_COMPARE]
        await type_keys(pilot, "colon", *"check", "enter")
        await until(pilot, lambda: len(app.screen_stack) > 1)
