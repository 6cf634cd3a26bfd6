"""Pinned heads beside each other, and all heads of a layer as small maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.analysis.ranks import spectrum_table
from engine.values.attention import PooledMap
from engine.values.heads import Head
from tests.conftest import TinyModel
from tests.exporting import as_exported, written
from tests.tui.explorer import active, drawn_lines, explorer, notices, press, press_slowly, screen_text, see, shown
from tui.app.explorer import OPENING_SENTENCE, Explorer
from tui.drawing.plots import SIGNS
from tui.state.session import MOST_PINS, Side, how_to_pin
from tui.toolkit.line_filters import ascii_cells
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane

TEXT = "the cat sat on the mat"


def compared(app: Explorer, side: Side) -> ComparePane:
    pane = active(app, ComparePane)
    assert pane.side is side
    return pane


def drawn(pane: ComparePane) -> list[PooledMap]:
    """Give the maps that have come, in the order in which they stand beside each other."""
    return [each.pooled for each in pane.maps.heatmaps if each.pooled is not None]


def heads_of(app: Explorer) -> HeadsPane:
    return next(each for each in app.views.panes.values() if isinstance(each, HeadsPane))


async def test_p_marks_heads_in_the_tree_and_says_what_cannot_be_pinned(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("llama"), ascii_only=True) as (app, pilot):
        await see(pilot, "C", view="overview")
        assert notices(app) == [how_to_pin("P", "C")]
        await see(pilot, *"PjP", pinned="L0H0 L0H1", text="H0*")
        assert "H1*" in screen_text(app)
        await see(pilot, "P", pinned="L0H0", no_text="H1*")
        await see(pilot, *"j3]P{", pinned="L0H0 L0H3")
        await press(pilot, "unbound:app.tree", "h")
        app.clear_notifications()
        await press(pilot, "P")
        assert notices(app) == ["L0 is a layer, and only heads can be pinned; choose one of its heads, then press P"]
        *pins, other = [Head("decoder", layer, number) for layer in (0, 1) for number in range(4)]
        app.session.change(selected=other, pins=tuple(pins))
        await press(pilot, "P")
        assert f"{MOST_PINS} heads are pinned" in notices(app)[-1]


async def test_c_draws_the_spectra_of_all_pinned_heads_in_one_plot(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), ascii_only=True, size=(160, 50)) as (app, pilot):
        await press(pilot, *"P}]P[C")
        pane = compared(app, Side.SPECTRA)
        heads = [Head("decoder", 0, 0), Head("decoder", 1, 1), Head("decoder", 1, 0)]
        spectra = [app.engine.spectra(head.whole_layer, False).result().spectra[head.head] for head in heads]
        await press(pilot, *"jll")
        assert (pane.graph.matrix, pane.graph.index) == ("K", 3)
        said = [each["K"].singular_values[2] for each in spectra]
        names = [f"{sign} {head}" for sign, head in zip(SIGNS, heads, strict=False)]
        assert [f"{each.sign} {each.name}" for each in pane.values.entries] == names
        assert [float(each.value) for each in pane.values.entries] == pytest.approx(said, rel=1e-3)
        assert "chance of L1H0" in shown(pane.title_line)
        assert "chance" in shown(pane.readout_line)
        plot = "\n".join(drawn_lines(app, pane.graph))
        assert all(ascii_cells(sign) in plot for sign in SIGNS[:3])
        await see(pilot, "unbound:app.baseline", no_text=screen_text(app))
        await press(pilot, "e", "v")
        rows = written(folder, "*-L0H0-L1H1-L1H0-spectrum.csv")
        assert rows == as_exported(spectrum_table([matrix for each in spectra for matrix in each.values()]))


async def test_maps_stand_side_by_side_on_one_scale_with_one_cursor(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("llama"), text=TEXT, size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, *"P}PCC")
        pane = compared(app, Side.MAPS)
        weights = [app.engine.attention(TEXT, "decoder", layer).result().weights[0] for layer in (0, 1)]
        maps = pane.maps.heatmaps
        for pooled, expected in zip(drawn(pane), weights, strict=True):
            np.testing.assert_array_equal(pooled.values, expected)
            assert pooled.largest == max(float(each.max()) for each in weights)
        last = len(weights[0]) - 1
        assert [each.cursor for each in maps] == [(last, int(weights[0][last].argmax()))] * 2, "that of the first"
        await press(pilot, "gg", "home", *"jjjl")
        assert [each.cursor for each in maps] == [(3, 1), (3, 1)]
        said = [float(each.value) for each in pane.values.entries]
        assert said == pytest.approx([float(each[3, 1]) for each in weights], rel=5e-3), "small ones too"
        await see(pilot, readout="L0H0: query 3")
        await see(pilot, "tab", "j", readout="L1H0: query 4")
        assert [each.cursor for each in maps] == [(4, 1), (4, 1)], "each of the maps leads while it has the focus"
        await press(pilot, "e", "v")
        rows = written(folder, "*-L0H0-L1H0-attention.csv")
        assert [float(row["weight"]) for row in rows] == [*weights[0].ravel().tolist(), *weights[1].ravel().tolist()]
        await press(pilot, "]")
        titles = [shown(each.title_line) for each in pane.maps._cells if each.display]
        assert titles == ["● L0H0", "▲ L1H0", "■ L1H1"]


async def test_a_difference_is_the_selected_map_less_the_first_pinned_one(tiny_model: TinyModel, folder: Path) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT) as (app, pilot):
        await press_slowly(pilot, *"PCCC")
        pane = compared(app, Side.DIFFERENCE)
        await see(pilot, text="a difference needs two heads; go to another one than L0H0")
        await see(pilot, "]", text="L0H1 less L0H0")
        weights = app.engine.attention(TEXT, "decoder", 0).result().weights
        (pooled,) = drawn(pane)
        assert pooled.is_signed
        np.testing.assert_array_equal(pooled.values, weights[1] - weights[0])
        await press(pilot, "e", "v")
        rows = written(folder, "*-L0H1-less-L0H0-difference.csv")
        assert {(row["head"], row["other_head"]) for row in rows} == {("0", "1")}
        differences = np.array([float(row["difference"]) for row in rows]).reshape(weights[0].shape)
        np.testing.assert_allclose(differences, weights[1].astype(float) - weights[0], atol=1e-12)
        await see(pilot, "}", text="L1H1 less L0H0")
        await see(pilot, *"P{[", text="L1H1 less L0H0")  # of the first one pinned, the last one pinned
        await press(pilot, "C")
        compared(app, Side.SPECTRA)


async def test_heads_of_other_stacks_are_compared_but_have_no_difference(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5"), text=TEXT, head="encoder.L0H0", size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, "P", "unbound:app.tree", *"GllPC")
        pane = compared(app, Side.SPECTRA)
        assert [each.name for each in pane.values.entries] == ["encoder L0H0", "cross L2H0"]
        await press(pilot, "C")
        shapes = [each.values.shape for each in drawn(pane)]
        maps = [app.engine.attention(TEXT, *place).result() for place in (("encoder", 0), ("cross", 2))]
        assert shapes == [each.weights[0].shape for each in maps]
        assert maps[0].query_tokens != maps[1].query_tokens
        said = "the maps have different tokens, so there is no difference"
        await see(pilot, "C", text=said)


async def test_maps_beside_each_other_share_the_labels_of_their_queries() -> None:
    async with explorer("demo", text=OPENING_SENTENCE, head="L0H0") as (app, pilot):
        await press(pilot, *"P]P]CC")
        maps = compared(app, Side.MAPS).maps.heatmaps
        assert [each._axes.gutter > 0 for each in maps] == [True, False, False]
        for keys in ((), ("end",), ("home",)):
            await press(pilot, *keys)
            assert len({each.window[1].start for each in maps}) == 1, "all show the same keys"
