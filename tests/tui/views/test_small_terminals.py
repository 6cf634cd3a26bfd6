"""On the smallest terminal nothing sticks together, and words give way to numbers and names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, filter_table, press, resize, screen_text, see, shown, until


async def test_tree_and_titles_on_the_smallest_terminal(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", num_attention_heads=16), head="L1H2", size=(40, 12)) as (app, pilot):
        await press(pilot, "2")
        body = screen_text(app).splitlines()[1:-2]
        assert app.main.tree_widget.show_vertical_scrollbar
        assert {line[app.main.tree_widget.region.right] for line in body} == {" "}, "air between the tree and the table"
        await see(pilot, "1", titled="spectra L1H2  ε 0.01")
        await see(pilot, "unbound:app.distance", titled="L1H2 Δ = 0  ε 0.01")


async def test_the_tree_is_narrow_on_a_narrow_terminal_and_a_key_hides_it(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L0H0", size=(40, 12)) as (app, pilot):
        tree = app.main.tree_widget
        await see(pilot, "2", text="z All room")
        assert tree.size.width <= 40 * 0.36
        assert "L0" in screen_text(app).splitlines()[3][:14]
        await see(pilot, "z", text="z Share room")
        assert not tree.display
        await press(pilot, "z")
        await resize(pilot, 62, 24)
        assert tree.outer_size.width == 21


async def test_a_long_path_shows_the_end_of_the_files_name(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder" / "in a folder" / "of a folder"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    async with explorer(tiny_model("llama"), head="L0H0", size=(40, 12)) as (app, pilot):
        await press(pilot, "1")
        await pilot.press("e")
        for _ in range(3):  # as it is offered, while it is typed, and in the list again
            await until(pilot, lambda: bool(re.search(r"\S-spectrum.csv *$", screen_text(app), re.MULTILINE)))
            await pilot.press("tab")


@pytest.mark.parametrize("size", [(20, 5), (39, 12), (40, 11)])
async def test_only_the_message_is_drawn_on_a_terminal_that_is_too_small(size: tuple[int, int]) -> None:
    async with explorer("demo", size=(40, 12)) as (app, pilot):
        await press(pilot, "i", "c", "a", "t")
        await pilot.resize_terminal(*size)
        alone = ["attn-tui", "needs", "a", "terminal", "of", "40", "×", "12"]
        await until(pilot, lambda: screen_text(app).split() == alone)
        await pilot.press("s", "escape", "colon")
        await pilot.pause()
        assert screen_text(app).split() == alone
        await pilot.press("escape")
        await pilot.resize_terminal(40, 12)
        await until(pilot, lambda: "needs a terminal" not in screen_text(app))


async def test_every_filtered_view_shows_the_key_that_clears_the_filter() -> None:
    async with explorer("demo", head="L1H0", text="Mia saw a fox", size=(40, 12)) as (app, pilot):
        for key, condition in ("6", "side = key"), ("5", "kind = q"), ("unbound:app.weights", "bytes > 0"):
            await see(pilot, key, no_text="esc All rows")
            await filter_table(pilot, condition)
            assert re.search(r"esc All rows .*\? Help  q Quit$", screen_text(app).rstrip()), key
            await see(pilot, "escape", no_text="esc All rows")
        await press(pilot, "3", "x")
        await see(pilot, *"/kind = content", "enter", text="esc All rows")


async def test_a_terms_number_and_chance_come_before_their_explanation() -> None:
    async with explorer("demo", head="L1H0", text="Mia saw a fox", size=(40, 12)) as (app, pilot):
        await press(pilot, "3", "x")
        pane = active_table(app)
        row = dict(zip(pane.grid.all_columns, pane.grid.whole_row or (), strict=True))
        value, chance = row["value"], row["value_chance"]
        assert isinstance(value, float)
        assert isinstance(chance, float)
        assert pane.grid.column == "value"
        said = re.match(r"(\S+)  chance (\S+)  ", shown(pane.explanation_line))
        assert said is not None, shown(pane.explanation_line)
        assert float(said[1]) == pytest.approx(value, rel=1e-3)
        assert float(said[2]) == pytest.approx(chance, rel=1e-3)
        assert shown(pane.readout_line).startswith("sum ")


async def test_a_column_that_names_each_rows_own_head_is_hidden(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama", with_head=True), text="Mia saw a fox", size=(160, 50)) as (app, pilot):
        await press(pilot, "9")
        pane = active_table(app)
        await until(pilot, lambda: pane.counts == (8, 8))
        await see(pilot, no_text="more column")
        assert "off" not in pane.grid.columns
        assert "off" in pane.table_on_screen().columns, "in a file it stands for itself"
        await press(pilot, *":off L0H1 L0H2", "enter")
        assert set(pane.table_on_screen().frame["off"]) == {"L0H1 L0H2"}
        assert "off" in pane.grid.columns


async def test_a_cut_hint_for_the_sentence_ends_in_an_ellipsis(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), size=(40, 12)) as (app, pilot):
        for width, end in ((40, r"\w*…"), (60, "reads it")):
            await resize(pilot, width, 12)
            assert re.fullmatch(f"sentence i: type a sentence, Enter {end}", screen_text(app).splitlines()[-2].strip())
