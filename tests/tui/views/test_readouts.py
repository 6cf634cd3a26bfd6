"""What the lines say is what is there: titles, readouts, answers to a search, and words for keys."""

from __future__ import annotations

import re

import pytest

from engine.values.heads import Head
from engine.values.table import RANK_COLUMNS
from tests.conftest import TinyModel
from tests.tui.explorer import active_table, explorer, press, press_slowly, screen_text, settle, shown, until
from tui.drawing.readout import measure_readout
from tui.views.ranks_view import RanksPane

TEXT = "the cat sat on the mat"


async def test_ranks_name_the_stack_where_there_are_several(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5"), head="cross.L1H0") as (app, pilot):
        await press_slowly(pilot, "2")
        assert shown(app.views.ranks.title_line).startswith("ranks cross layer 1")


async def test_a_number_that_is_too_long_for_the_line_leaves_room_for_chance() -> None:
    async with explorer("demo", head="L0H0", size=(40, 12)) as (app, pilot):
        await press_slowly(pilot, "4")
        pane = active_table(app)
        pane.grid.go_to_column("qk_identity_distance")
        await settle(pilot)
        said = shown(pane.readout_line)
        assert re.fullmatch(r"L0H0  0\.\d{2,4} +chance \S+", said)
        assert len(said) <= pane.readout_line.size.width
        await press_slowly(pilot, "z")
        assert re.fullmatch(r"L0H0  0\.\d{4}  chance \S+", shown(pane.readout_line))


async def test_what_the_mask_hides_is_masked_in_the_rollout_too() -> None:
    async with explorer("demo", text=TEXT, head="L0H0") as (app, pilot):
        await press_slowly(pilot, "3", "a", "a", "a", "a", "g", "g", "right")
        assert app.views.attention.shown_name is not None
        assert app.views.attention.shown_name.is_rollout
        assert shown(app.views.attention.readout_line) == 'q 0 "<|start|>" → k 1 "t"  masked   ⏎ 0 "<|start|>" 1.00'


async def test_a_search_for_an_absent_label_does_not_promise_it(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2")) as (app, pilot):
        await press(pilot, "slash", *"induction")
        assert "no match; heads get labels when a sentence is read" in screen_text(app)
        await press_slowly(pilot, "escape", "i", *"cats", "enter")
        stores = app.main.stores
        assert stores is not None
        await until(pilot, lambda: stores.labels.is_known)
        assert "induction" not in stores.labels.by_head.values()
        await press_slowly(pilot, "escape", "slash", *"induction")
        assert "there is no head induction" in screen_text(app)
        assert "when a sentence is read" not in screen_text(app)


async def test_an_empty_label_is_explained_and_a_column_without_notes_is_hidden() -> None:
    async with explorer("demo", text=TEXT, head="L0H1") as (app, pilot):
        await press_slowly(pilot, "7")
        pane = active_table(app)
        pane.grid.go_to_column("label")
        await pilot.pause()
        assert shown(pane.readout_line) == "L0H1  label is empty: the head has no clear pattern"
        assert "note" not in pane.grid.columns


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 50)])
async def test_the_tree_title_names_the_measure_in_every_view(size: tuple[int, int]) -> None:
    async with explorer("demo", text=TEXT, head="L0H1", size=size) as (app, pilot):
        assert app.views.stores is not None
        head = Head("decoder", 0, 1)
        app.session.change(measure="energy_rank")
        rows = app.views.stores.spectra.measures([head], app.session.shown.epsilon)[head].values()
        for key, title, column in (
            ("3", "energy rank", "energy_rank"), ("m", "numerical rank", "numerical_rank"),
            ("1", "numerical rank", "numerical_rank"), ("m", "effective rank", "effective_rank"),
            ("w", "effective rank", "effective_rank"), ("m", "stable rank", "stable_rank"),
            ("m", "participation ratio", "participation_ratio"), ("m", "spectral norm", "spectral_norm"),
            ("unbound:app.previous_measure", "participation ratio", "participation_ratio"),
        ):  # fmt: skip
            await press_slowly(pilot, key)
            lines = [line[: app.main.tree_widget.region.right].rstrip() for line in screen_text(app).splitlines()]
            title_of_it = r" (.+?)(…?)( of QK,| QK) OV"
            framed = rf"╭─(?: heads ─+)?{title_of_it} ─+"  # on a large screen, without the word where it has no room
            named = re.fullmatch(framed if size[0] == 160 else title_of_it, lines[1])
            assert named is not None, "what the two columns are"
            assert title.startswith(named[1])
            assert named[1] == title or named[2]
            place = RANK_COLUMNS.index(column)
            numbers = [float(str(row[place])) for matrix in ("QK", "OV") for row in rows if row[3] == matrix]
            (said,) = [line.partition("H1 ")[2].split() for line in lines if "H1 " in line]
            assert len(said) == 2 or size[0] == 40
            digits = 0.05 if size[0] == 40 else 0.0005
            assert [float(each) for each in said] == pytest.approx(numbers[: len(said)], rel=digits)


async def test_the_tree_title_hides_and_comes_back_with_the_tree() -> None:
    async with explorer("demo", text=TEXT, head="L0H1") as (app, pilot):
        await press_slowly(pilot, "3", "z")
        assert "stable rank" not in screen_text(app)
        await press_slowly(pilot, "unbound:app.tree")
        assert screen_text(app).splitlines()[1].startswith(" stable rank QK OV ")


@pytest.mark.parametrize("width", range(9, 60))
def test_a_narrow_readout_of_a_measure_names_the_head_before_all_else(width: int) -> None:
    line = measure_readout("decoder L10H7", 29, 30.9, "4/32", "previous", width)
    assert len(line) <= width
    assert "L10H7" in line
    assert "29" in line


def test_each_column_that_a_filter_of_the_ranks_can_name_is_explained() -> None:
    assert all(RanksPane().explain_column(column) for column in RANK_COLUMNS)
