"""The overview of all heads: the opening view, its cursor and measures, of any model on any terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.values.heads import Head, parse_head
from engine.values.table import CHANCE, Cell
from engine.values.views import HEADS, RANK_MEASURES, Query
from tests.conftest import TinyModel
from tests.exporting import exported
from tests.opening import open_on_thread, worked_out
from tests.tui.explorer import active_table, explorer, press, screen_text, see, settle, shown
from tui.app.explorer import OPENING_SENTENCE, Explorer
from tui.app.start import Start
from tui.drawing.numbers import short_number
from tui.state.overview_measures import GROUPS, MEASURES, by_spread, overview_fields

TEXT = "the cat sat on the mat and the cat sat"


def column(model: Path, measure: str, query: Query | None = None) -> dict[Head, Cell]:
    """Work out a column of the table of all heads beside the explorer."""
    table = worked_out(open_on_thread(model), "heads", query)
    place = table.columns.index(measure)
    return {
        Head(str(row[0]), int(str(row[1])), int(str(row[2]))): "" if row[place] is None else row[place] for row in table
    }


def on_map(app: Explorer) -> dict[Head, Cell | None]:
    drawn = app.views.overview.shown
    assert drawn is not None
    return dict(zip(drawn.order, drawn.cells, strict=True))


async def test_the_overview_opens_first_and_its_cursor_follows_the_tree_clicks_and_keys(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    async with explorer(model) as (app, pilot):
        expected = column(model, "qk_stable_rank")
        assert on_map(app) == expected
        first = expected[Head("decoder", 0, 0)]
        larger = sum(float(str(cell)) > float(str(first)) for cell in expected.values())
        of_first = f"L0H0 = {short_number(float(str(first)))}  "
        await see(pilot, view="overview", selected="L0H0", readout=of_first, text=f"# {larger + 1}/{len(expected)}")
        assert app.focused is app.main.tree_widget
        assert " × chance " in shown(app.views.overview.readout_line)
        await see(pilot, "j", "right_curly_bracket", readout="L1H1 = ")
        assert app.views.overview.map.head == Head("decoder", 1, 1), "the cursor follows the tree"
        await see(pilot, "enter", view="spectra")

        await press(pilot, "w")
        values = {head: float(str(cell)) for head, cell in expected.items()}
        listed = re.findall(r"(L\d+H\d+) +(\d+\.\d+)\b(?! *[=/])", screen_text(app).partition("largest")[2])
        said = {parse_head(name, ("decoder",)): float(value) for name, value in listed}
        assert said == pytest.approx({head: values[head] for head in said}, rel=0.001)
        assert len(said) >= 6, "half of the heads are among the largest, half among the smallest"
        last = list(said)[-1]
        line = next(at for at, each in enumerate(screen_text(app).splitlines()) if re.search(rf"\b{last} +\d", each))
        await pilot.click(offset=(screen_text(app).splitlines()[line].rindex(f"{last} "), line))
        await settle(pilot)
        assert app.views.overview.map.head == last

        await pilot.press("g", "g", "home")
        for keys, (layer, head) in (
            ("right l", (0, 2)), ("j down k h", (0, 1)), ("G end g g home", (0, 0)), ("pagedown l pageup", (0, 1)),
            ("G end", (1, 3)),
        ):  # fmt: skip
            await pilot.press(*keys.split())
            assert app.views.overview.map.head == Head("decoder", layer, head)
            await see(pilot, selected=f"L{layer}H{head}", readout=f"L{layer}H{head} ")
            assert app.views.overview.map.head == Head("decoder", layer, head)
        canvas, grid = app.views.overview.map, app.views.overview.map.grid
        assert grid is not None
        for view in ("overview", "spectra"):  # a second click goes in
            await pilot.click(canvas, offset=(grid.gutter + 2 * grid.width, 1 + grid.top(1)))
            await see(pilot, selected="L1H2", view=view)


async def test_a_head_that_is_asked_for_opens_with_spectra_and_w_and_enter_go_to_and_fro(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), head="L1H2") as (app, pilot):
        drawn = app.views.overview.map
        await see(pilot, view="spectra")
        await press(pilot, "w")
        assert (drawn.has_focus, drawn.head) == (True, Head("decoder", 1, 2))
        await see(pilot, "h", "enter", view="spectra", selected="L1H1")
        assert app.views.spectra.graph.has_focus
        await press(pilot, "]", "3", "w")
        assert drawn.head == Head("decoder", 1, 2)
        await see(pilot, "h", "enter", view="attention", selected="L1H1")  # the view of a head that was looked at last


async def test_the_numbers_of_each_group_are_those_of_the_table(tiny_model: TinyModel) -> None:
    model = tiny_model("llama", with_head=True)
    table = worked_out(open_on_thread(model), "heads", Query(text=TEXT))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table]
    async with explorer(model, text=TEXT) as (app, pilot):
        app.session.change(**overview_fields("qk_energy_rank"))
        await pilot.press("w", "m", "m", "unbound:app.previous_measure")
        for group in GROUPS.values():
            measure = group[1] if group[0] in RANK_MEASURES else group[0]
            await see(pilot, title=f"overview {measure}")
            assert list(on_map(app).values()) == [row[measure] for row in rows], measure
            assert " chance " in shown(app.views.overview.readout_line), measure
            await pilot.press("M")
        await see(pilot, "unbound:app.previous_measure", title=f"overview {MEASURES[-1]}")
        assert list(on_map(app).values()) == [row[MEASURES[-1]] for row in rows]


async def test_names_lead_to_measures_and_keys_to_another_epsilon_and_scale(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    async with explorer(model) as (app, pilot):
        app.session.change(**overview_fields("qk_energy_rank"))
        await see(pilot, "w", "m", "M", title="overview ov_numerical_rank")
        assert app.main.stores is not None
        spreading = by_spread(app.main.stores, app.session.shown)
        await see(pilot, *":measure ", "tab", "enter", title=f"overview {spreading[0]}")
        await see(pilot, *":V_condition_number", "enter", title="overview v_condition_number  log scale")
        assert app.focused is app.views.overview.map
        await see(pilot, *":measure nothing", "enter", text="there is no measure 'nothing'")
        await see(pilot, "escape", title="overview v_condition_number")
        assert shown(app.views.overview.explanation_line).endswith("strongest direction over the weakest")
        app.session.change(**overview_fields("ov_energy_rank"))
        await see(pilot, *["+"] * 4, title="overview ov_energy_rank  ε 0.2")
        assert on_map(app) == column(model, "ov_energy_rank", Query(epsilon=0.2))
        await see(pilot, "s", text="log scale")
        await see(pilot, *":qk_symmetry", "enter", "s", text="qk_symmetry has no log scale")


async def test_w_again_shows_the_table_and_enter_goes_into_the_head_of_a_row(tiny_model: TinyModel) -> None:
    async with explorer("demo", text=OPENING_SENTENCE) as (app, pilot):
        await see(pilot, "w", "w", view="heads")
        table = active_table(app)
        await press(pilot, *"/ov_energy_rank < 40 and induction > 0.5", "enter")
        assert [tuple(row[:4]) for row in table.table_on_screen()] == [("decoder", 1, "0", "induction")]
        await see(pilot, "enter", view="spectra", selected="L1H0")
        await press(pilot, "w")
        assert app.views.active is table, "which is what one came from"
        await see(pilot, "w", view="overview", readout="L1H0 ")


async def test_the_table_of_all_heads_uses_and_shows_the_epsilon_of_the_start(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama")
    async with explorer(folder, size=(160, 50), start=Start(str(folder), epsilon=0.4)) as (app, pilot):
        await press(pilot, "w", "w")
        pane = active_table(app)
        assert "ε 0.4" in shown(pane.title_line)
        assert pane.table_on_screen().columns == HEADS.default_columns
        for name, own in HEADS.sets.items():
            await press(pilot, "r")
            assert name in shown(pane.title_line)
            columns = ("stack", "layer", "head", "label", *own)
            assert pane.table_on_screen().columns == tuple(each for each in columns if not each.endswith(CHANCE))
        await press(pilot, "r")
        place = pane.table_on_screen().columns.index("q_energy_rank")
        assert pane.table_on_screen().columns == HEADS.columns
        found = {(int(str(row[1])), int(str(row[2]))): row[place] for row in pane.table_on_screen()}
        expected = exported(folder, "heads", "--energy", "0.4", "--columns", "all")
        assert found == {(int(row["layer"]), int(row["head"])): int(row["q_energy_rank"]) for row in expected}
        await press(pilot, *"r/q_energy_rank > 0", "enter")
        assert pane.grid.column == "q_energy_rank", "what a filter compares is shown, hidden before or not"
        assert {*pane.table_on_screen().columns} == {*HEADS.default_columns, "q_energy_rank"}
        await press(pilot, "escape", "slash", *"v_stable_rank", "enter")
        assert (pane.grid.column, pane.table_on_screen().columns) == ("v_stable_rank", HEADS.columns)


HYBRID = {
    "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 9,
    "expert_layer_offset": 8, "mamba_d_state": 4, "mamba_dt_rank": 4,
}  # fmt: skip


async def test_stacks_stand_one_below_the_other(tiny_model: TinyModel) -> None:
    model = tiny_model("t5", with_head=True)
    async with explorer(model) as (app, pilot):
        text = screen_text(app)
        assert text.index(" encoder ") < text.index(" decoder ") < text.index(" cross ")
        await see(pilot, "w", "G", "end", readout="cross L2H3 = ")
        last = Head("cross", 2, 3)
        assert app.views.overview.map.head == app.session.shown.selected == last
        await see(pilot, *":qk_symmetry", "enter", text="×")
        expected = column(model, "qk_symmetry")
        assert on_map(app) == expected
        assert expected[last] == ""
        assert "empty: undefined across stacks" in shown(app.views.overview.readout_line)


async def test_layers_with_other_numbers_of_heads_are_rows_of_other_lengths(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("laguna", num_attention_heads_per_layer=[4, 8], head_dim=8)) as (app, pilot):
        await pilot.press("w", "j", "end")
        assert app.views.overview.map.head == Head("decoder", 1, 7)
        await pilot.press("k")
        assert app.views.overview.map.head == Head("decoder", 0, 3)
        assert all(isinstance(cell, float) for cell in on_map(app).values())

    async with explorer(tiny_model("jamba", **HYBRID)) as (app, pilot):  # some of whose layers have no attention
        assert {head.layer for head in on_map(app)} == {1, 3}
        await see(pilot, "w", readout="L1H0 = ")


async def test_a_measure_that_cannot_be_computed_says_why(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    async with explorer(folder, text=TEXT) as (app, pilot):
        await press(pilot, "w", "colon", *"entropy", "enter")
        assert set(on_map(app).values()) == {""}
        assert "tokenizer" in shown(app.views.overview.explanation_line)
