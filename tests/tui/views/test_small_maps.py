"""All heads of a layer as small maps: the engine's own numbers, the tree beside them, one large map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.mathematics.attention import pool
from engine.values.attention import MapWindow
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.exporting import written
from tests.tui.explorer import explorer, press, screen_text, see
from tests.tui.views.test_comparing import TEXT, heads_of


@pytest.mark.parametrize(("model", "layer"), [("llama", "L1"), ("t5", "cross.L0")])
async def test_small_maps_are_those_of_the_engine(tiny_model: TinyModel, model: str, layer: str) -> None:
    async with explorer(tiny_model(model), text=TEXT, head=f"{layer}H0") as (app, pilot):
        await see(pilot, "A", view="maps")
        name, maps = app.session.shown.selected, heads_of(app).maps
        assert name is not None
        asked = app.engine.attention(TEXT, name.stack, name.layer).result()
        assert sorted(maps.maps) == list(range(len(asked.weights)))
        assert maps.largest == float(asked.weights.max())
        window = MapWindow(maps._tiles.block, range(99), range(99))
        for number, drawn in maps.maps.items():
            np.testing.assert_array_equal(drawn.values, pool(asked.select(number), window).values)


async def test_the_small_maps_follow_tree_and_sentence_and_the_tree_them(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT) as (app, pilot):
        await press(pilot, *"PA")
        await see(pilot, *"llh", selected="L0H1")
        pane, under_cursor = heads_of(app), app.main.tree_widget.cursor_node
        assert under_cursor is not None
        assert under_cursor.data == Head("decoder", 0, 1)
        assert "H0*" in screen_text(app).split("maps layer")[1]
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
        await press(pilot, "A", "i", "ctrl+u", *"acat", "enter")
        weights = app.engine.attention("acat", "decoder", 1).result().weights
        drawn = pane.maps.maps
        np.testing.assert_array_equal([drawn[number].values for number in sorted(drawn)], weights)
        await see(pilot, "unbound:app.tree", *"gg", text="choose a layer or a head")
