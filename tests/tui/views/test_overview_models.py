"""The overview of models of other shapes, and on terminals of other sizes."""

from __future__ import annotations

import re

import pytest
from textual.geometry import Size

from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.tui.explorer import explorer, screen_text, settle, shown
from tests.tui.views.test_overview import TEXT, column, on_map, readout
from tui.panes.table import TablePane
from tui.widgets.histogram import Histogram

HYBRID = {
    "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 9,
    "expert_layer_offset": 8, "mamba_d_state": 4, "mamba_dt_rank": 4,
}  # fmt: skip


async def test_stacks_stand_one_below_the_other(tiny_model: TinyModel) -> None:
    model = tiny_model("t5", with_head=True)
    async with explorer(model) as (app, pilot):
        text = screen_text(app)
        assert text.index(" encoder ") < text.index(" decoder ") < text.index(" cross ")
        await pilot.press("w", "G", "end")
        await settle(pilot)
        last = app.views.overview.map.head
        assert last is not None
        assert last.stack == "cross"
        assert app.session.shown.selected == last
        assert readout(app).startswith("cross L2H3 = ")
        await pilot.press("slash", *"qk_symmetry", "enter")
        await settle(pilot)
        expected = column(model, "qk_symmetry")
        assert on_map(app) == expected
        assert expected[last] == ""
        assert "empty: not defined across stacks" in readout(app)
        assert "×" in screen_text(app)
        await pilot.press("4")
        await settle(pilot)
        circuits = app.views.active
        assert isinstance(circuits, TablePane)
        circuits.go_to_column("qk_symmetry")
        await settle(pilot)
        assert shown(circuits.readout_line) == "L2H3  qk_symmetry is empty: not defined across stacks"


async def test_layers_with_other_numbers_of_heads_are_rows_of_other_lengths(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("laguna", num_attention_heads_per_layer=[4, 8], head_dim=8)) as (app, pilot):
        await pilot.press("w", "j", "end")
        assert app.views.overview.map.head == Head("decoder", 1, 7)
        await pilot.press("k")
        assert app.views.overview.map.head == Head("decoder", 0, 3)
        assert all(isinstance(cell, int) for cell in on_map(app).values())


async def test_layers_that_have_no_attention_are_no_rows(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("jamba", **HYBRID)) as (app, pilot):
        layers = [head.layer for head in on_map(app)]
        assert set(layers) == {1, 3}
        await pilot.press("w")
        assert readout(app).startswith(f"L{layers[0]}H0 = ")


async def test_what_cannot_be_had_says_why(tiny_copy: TinyModel) -> None:
    folder = tiny_copy("llama")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    async with explorer(folder, text=TEXT) as (app, pilot):
        await pilot.press("w", "slash", *"entropy", "enter")
        await settle(pilot)
        assert set(on_map(app).values()) == {""}
        assert "tokenizer" in shown(app.views.overview.explanation_line)


async def test_on_a_large_terminal_it_stands_where_tables_do_and_the_weights_follow(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), size=(160, 50)) as (app, pilot):
        views = app.views
        assert views.overview.region.width > 40
        assert views.spectra.region.width > 40
        assert [views.overview.display, views.attention.display] == [True, False]
        await pilot.press("w", "j", "l")
        await settle(pilot)
        assert "L1H1" in shown(views.spectra.title_line)
        await pilot.press("3")
        await settle(pilot)
        assert [views.overview.display, views.attention.display] == [False, True]


@pytest.mark.parametrize("size", [(40, 12), (200, 60)])
async def test_ascii_alone_draws_with_ascii(tiny_model: TinyModel, size: tuple[int, int]) -> None:
    async with explorer(tiny_model("llama"), size=size, ascii_only=True) as (app, pilot):
        await pilot.press("w")
        await settle(pilot)
        pane = app.views.overview
        for widget in (pane.map, pane.histogram):
            region = widget.region
            assert region.height > 0
            lines = screen_text(app).splitlines()[region.y : region.bottom]
            assert all(line[region.x : region.right].isascii() for line in lines)


async def test_a_terminal_that_was_low_for_a_while_shows_the_same_again(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        before = screen_text(app)
        for height in (14, 24):
            await pilot.resize_terminal(80, height)
            await settle(pilot)
        assert screen_text(app) == before


async def test_on_the_smallest_terminal_the_measure_the_value_and_its_place_are_whole(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5"), size=(40, 12)) as (app, pilot):
        value = on_map(app)[Head("encoder", 0, 0)]
        screen = screen_text(app)
        assert " ov_energy_rank " in screen
        assert re.search(rf" {value} +chance [\d.]+ {{1,2}}\d+/\d+ ", screen), "chance and the place stand beside it"
        for key in "13567":
            await pilot.press(key)
            await settle(pilot)
            assert " encoder L0H0 " in screen_text(app).splitlines()[1], key


async def test_a_histogram_that_is_painted_before_it_is_told_of_its_size_has_one_scale(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with explorer(tiny_model("llama")) as (app, pilot):
        await settle(pilot)
        histogram = app.views.overview.histogram
        height = histogram.size.height
        assert height > 3
        before = [histogram.render_line(y).text for y in range(height)]
        with monkeypatch.context() as smaller:
            smaller.setattr(Histogram, "size", Size(histogram.size.width, 2))
            histogram._draw()
        assert [histogram.render_line(y).text for y in range(height)] == before
        assert sum("▴" in line for line in before) == 1
