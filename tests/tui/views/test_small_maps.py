"""All heads of a layer as small maps: the engine's own numbers, the tree beside them, one large map."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from engine.mathematics.attention import pool
from engine.values.attention import MapName, MapQuery, MapWindow
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.exporting import written
from tests.tui.explorer import explorer, notices, resize, screen_text, see, shown, title, until
from tests.tui.painted import PaintedApp, good_terminal
from tests.tui.views.test_comparing import TEXT, heads_of, press
from tests.tui.widgets.heatmaps import map_of
from tui.drawing.map_layout import Tiles
from tui.export.clipboard import NOTHING
from tui.widgets.small_maps import SmallMaps


@pytest.mark.parametrize(("model", "layer"), [("llama", "L1"), ("t5", "cross.L0")])
async def test_small_maps_are_those_of_the_engine(tiny_model: TinyModel, model: str, layer: str) -> None:
    async with explorer(tiny_model(model), text=TEXT, head=f"{layer}H0") as (app, pilot):
        await see(pilot, "A", view="maps")
        name, maps = app.session.shown.selected, heads_of(app).maps
        assert name is not None
        weights = app.engine.attention(TEXT, name.stack, name.layer).result().weights
        assert sorted(maps.maps) == list(range(len(weights)))
        assert maps.largest == float(weights.max())
        for number, expected in enumerate(weights):
            window = MapWindow(maps._tiles.block, range(99), range(99))
            asked = app.engine.pooled(MapQuery(TEXT, MapName(name.stack, name.layer, number)), window).result()
            np.testing.assert_array_equal(maps.maps[number].values, asked.values)
            if window.block == 1:
                np.testing.assert_array_equal(asked.values, expected)


async def test_the_tree_follows_the_small_maps_and_they_follow_the_tree(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        await press(pilot, "P A")
        await see(pilot, *"llh", selected="L0H1")
        pane, under_cursor = heads_of(app), app.main.tree_widget.cursor_node
        assert under_cursor is not None
        assert under_cursor.data == Head("decoder", 0, 1)
        assert "H0*" in screen_text(app).split("maps layer")[1]
        await see(pilot, *"llhl", selected="L0H3")  # keys that come fast all count
        assert pane.maps.cursor == 3
        await see(pilot, *"gg", selected="L0H0")
        await see(pilot, *"G]", slowly=True, selected="L1H0", titled="maps layer 1 · 4 heads")
        weights = app.engine.attention(TEXT, "decoder", 1).result().weights
        await press(pilot, "e", "v")
        rows = written(folder, "*-L1-heads-attention.csv")
        assert [float(row["weight"]) for row in rows] == weights.ravel().tolist()
        x, y = pane.maps._tiles.origin(2)
        await pilot.click(pane.maps, offset=(x + 1, y + 1))
        await see(pilot, selected="L1H2")
        await see(pilot, "enter", view="attention")
        await see(pilot, "A", "unbound:app.tree", "h", selected="L1")
        assert heads_of(app).maps.cursor is None
        await see(pilot, *"gg", text="choose a layer or a head")


async def test_another_sentence_has_small_maps_of_its_own(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L0H0") as (app, pilot):
        await press(pilot, "A")
        await press(pilot, "i", "ctrl+u", *"acat", "enter")
        weights = app.engine.attention("acat", "decoder", 0).result().weights
        drawn = heads_of(app).maps.maps
        np.testing.assert_array_equal([drawn[number].values for number in sorted(drawn)], weights)
        await press(pilot, "e", "v")
        rows = written(folder, "*-L0-heads-attention.csv")
        assert [float(row["weight"]) for row in rows] == weights.ravel().tolist()


async def test_a_large_terminal_shows_the_head_under_the_cursor_beside_the_small_maps(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, size=(160, 50)) as (app, pilot):
        await press(pilot, "A", "l")
        pane, attention = heads_of(app), app.views.attention
        assert min(pane.region.width, attention.region.width) > 40
        assert shown(attention.title_line).startswith("attention L0H1")
        x, y = pane.maps._tiles.origin(3)
        for view in ("maps", "attention"):  # one click goes to the head
            await pilot.click(pane.maps, offset=(x + 1, y + 1))
            await see(pilot, view=view, text=" attention L0H3")
            assert pane.region.width > 40, "the small maps stay beside the large one"
        await press(pilot, "1")
        assert pane.region.width == 0


async def test_all_maps_are_copied_but_nothing_of_a_single_one(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, head="L1H2") as (app, pilot):
        weights = app.engine.attention(TEXT, "decoder", 1).result().weights
        await press(pilot, "A", "unbound:app.copy_view")
        assert len(app.clipboard.splitlines()) == 1 + weights.size
        await press(pilot, "Y")
        assert notices(app) == [NOTHING]


def assert_the_map_under_the_cursor_is_whole_and_every_name_has_its_map(maps: SmallMaps) -> None:
    """Look at the lines that are painted."""
    lines = [maps.render_line(y).text for y in range(maps.size.height)]
    names = [y for y, line in enumerate(lines) if re.match(r"H\d", line)]
    assert maps.cursor is not None
    (top,) = (y for y in names if re.search(rf"\bH{maps.cursor}\b", lines[y]))
    assert top + maps._tiles.pitch[1] <= len(lines), "it is in view to its last line"
    assert names[0] == 0, "no map is without its name"
    assert names[-1] + 1 < len(lines), "and no name without its map"


async def test_the_title_counts_maps_and_the_one_under_the_cursor_is_in_view() -> None:
    async with explorer("demo", text=TEXT, head="L0H2", size=(40, 12)) as (app, pilot):
        await see(pilot, "A", titled="maps L0 · 3 of 8 heads")
        maps = heads_of(app).maps
        await until(pilot, lambda: maps._tiles.origin(2)[1] - maps.scroll_offset.y in range(maps.size.height))
        await see(pilot, "l", titled="maps L0 · 4 of 8 heads")
        for key in ["g", "g", "z", "l", "l", "l", "l", "l", "l", "l", "k", "k", "k"]:
            await press(pilot, key)
            assert_the_map_under_the_cursor_is_whole_and_every_name_has_its_map(maps)
        await press(pilot, "z")
        await resize(pilot, 80, 24)
        assert title(app) == "maps layer 0 · 8 heads"


@pytest.mark.parametrize(("no_color", "seen"), [("", "▀?   "), ("1", "█?█  ")])
async def test_both_halves_of_a_cell_mark_nan(no_color: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    maps = SmallMaps()
    async with PaintedApp(maps).run_test(size=(20, 6)):
        map = map_of([[0.0, np.nan, 1.0], [1.0, 0.0, 1.0]], keys="cde")
        maps.show(Tiles(1, 1, 5, 1, 1, 1, 1, 2), ("H0",), {0: pool(map, MapWindow(1, range(2), range(3)))})
        assert maps.render_line(1).text[:5] == seen


async def test_a_small_map_opens_its_heads_map_even_after_a_mean(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT, head="L1H0", size=(80, 24)) as (app, pilot):
        await see(pilot, *"3aAll", "enter", slowly=True, title="attention L1H2")
        assert app.views.attention.shown_name == MapName("decoder", 1, 2)
