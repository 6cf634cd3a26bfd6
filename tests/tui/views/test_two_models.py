"""A second model in the explorer: opened and closed, the table of changes, and maps of differences."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.style import Style

from engine.values.attention import PooledMap
from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.views import CHANGES, Query
from tests.conftest import TinyModel
from tests.exporting import exported, written
from tests.opening import edited_weights, start_engine
from tests.tui.explorer import active, active_table, drawn_lines, explorer, press, see, shown, shown_map
from tests.tui.views.test_long_sentences import CONTEXT, TEXT
from tui.drawing.levels import Ink, Levels, legend
from tui.views.compare_view import ComparePane
from tui.views.text_view import TextPane

SENTENCE = "The cat sat on the mat."


@pytest.fixture
def pair(tiny_model: TinyModel, tmp_path: Path) -> tuple[Path, Path]:
    """Give a tiny GPT-2 and a copy in which head L1H3 scores the other way round and twice as strongly."""
    model = tiny_model("gpt2")
    other = Path(shutil.copytree(model, tmp_path / "finetuned"))
    with edited_weights(other) as tensors:
        tensors["h.1.attn.c_attn.weight"][:, 24:32] *= -2
    return model, other


async def test_v_lists_what_has_changed_and_enter_goes_there(pair: tuple[Path, Path]) -> None:
    model, other = pair
    async with explorer(model, size=(160, 50), head="L0H1", other=other) as (app, pilot):
        assert shown(app.main.top_line).startswith(f"{model.name} vs finetuned  gpt2 · 2 layers")
        await see(pilot, "unbound:app.changes", text=CHANGES.ranked_by[0])
        pane = active_table(app)
        rows = [tuple(row) for row in pane.shown or ()]
        assert rows == [tuple(row) for row in app.engine.table("changes", Query()).result()]
        assert [row[:3] for row in rows if float(str(row[3])) > 0] == [rows[0][:3]] == [("decoder", 1, "3")]
        assert (pane.grid.row or ())[:2] == (1, "3"), "what changed most is under the cursor"
        assert "larger of qk_ and ov_distance" in shown(pane.explanation_line)
        await see(pilot, "enter", selected="L1H3")


async def test_maps_of_differences_and_the_other_models_spectrum_are_drawn_and_written(
    pair: tuple[Path, Path], folder: Path
) -> None:
    model, other = pair
    async with explorer(model, head="L1H3", text=SENTENCE, other=other, ascii_only=True) as (app, pilot):
        both = app.engine.differences(SENTENCE, "decoder", 1).result()
        assert both.other is not None
        before, now = both.weights[3], both.other[3]
        await see(pilot, "D", view="attention", title="attention L1H3 · other model less this one")
        heatmap = app.views.attention.heatmap
        np.testing.assert_array_equal(shown_map(app).values, now - before)
        place = tuple(int(at) for at in np.unravel_index(np.abs(now - before).argmax(), before.shape))
        heatmap.move_to(*place)
        await see(pilot, text=f"{before[place]:.4f} to {now[place]:.4f}  {now[place] - before[place]:+.4f}")
        heatmap.move_to(0, 0)
        await see(pilot, text="+#" if now[place] > before[place] else "-#")  # the largest one has the largest sign
        await press(pilot, "e", "v")
        rows = written(folder, "*attention.csv")
        assert [float(row["weight_other"]) for row in rows] == now.ravel().tolist()
        await see(pilot, "[", title="attention L1H2 · other model less this one")
        assert not shown_map(app).values.any(), "it has not changed, nor has what it reads"
        await see(pilot, "D", no_text="this one")
        assert not shown_map(app).is_signed

        pane = app.views.spectra
        await press(pilot, "]", "1", *"jjl")
        assert (pane.graph.matrix, pane.graph.index) == ("QK", 2)
        own, theirs = (
            app.engine.spectra(Head("decoder", 1), False, of_other=each).result().spectra[3] for each in (False, True)
        )
        ratio = theirs["QK"].singular_values / own["QK"].singular_values
        np.testing.assert_allclose(ratio, 2.0, rtol=1e-9)  # the copy's queries are twice as large
        one, two = (each["QK"].singular_values[1] for each in (own, theirs))
        await see(pilot, text=f"QK s2 = {one:.4g} | other {two:.4g}")
        assert any("o" in line for line in drawn_lines(app, pane.graph))
        await press(pilot, "e", "v")
        rows = written(folder, f"*-vs-{other.name}-spectrum.csv")
        assert list(rows[0])[-1] == "singular_value_other"
        expected = [value for matrix in theirs.values() for value in matrix.singular_values.tolist()]
        assert [float(row["singular_value_other"]) for row in rows] == expected
        assert exported(model, "spectrum", "--head", "L1H3", "--vs", other) == rows


@pytest.mark.parametrize("ink", list(Ink))
def test_a_level_says_the_sign_and_the_size_alike_on_both_sides(ink: Ink) -> None:
    values = np.linspace(-1, 1, 401)
    signed = Levels("linear", 1.0, ink, is_signed=True)
    levels, cells = signed.of(values).astype(int), signed.cells
    assert (np.diff(levels) >= 0).all()
    assert (levels[0], levels[200], levels[-1]) == (0, len(cells) // 2, len(cells) - 1)
    assert (levels + levels[::-1] == len(cells) - 1).all()
    if ink is not Ink.COLOUR:
        assert len(set(cells)) == len(cells)
        assert {cell[0] for cell in cells} == {"-", " ", "+"}
    assert len(cells) <= 16
    assert legend(signed, (Style(),) * len(cells), 80).plain.endswith("+1 = difference")


@pytest.fixture
def long_pair(tiny_model: TinyModel, tmp_path: Path) -> tuple[Path, Path]:
    """Give a tiny Llama and a copy whose second layer asks the other way round and twice as strongly."""
    model = tiny_model("llama", max_position_embeddings=CONTEXT)
    other = Path(shutil.copytree(model, tmp_path / "finetuned"))
    with edited_weights(other) as tensors:
        tensors["layers.1.self_attn.q_proj.weight"] *= -2
    return model, other


def own_maps(folder: Path, off: Off = NOTHING_OFF) -> NDArray[np.float32]:
    """Give all maps of a model that nothing is compared with: (layers, heads, queries, keys)."""
    engine = start_engine(folder)
    layers = [engine.attention(TEXT, "decoder", layer, off=off).result().weights for layer in range(2)]
    assert layers[0].shape[1:] == (CONTEXT, CONTEXT)
    return np.stack(layers)


def assert_is_difference(pooled: PooledMap, before: NDArray[np.float32], now: NDArray[np.float32]) -> None:
    """Compare blocks with what is largest in size in the dense difference, with its sign."""
    dense, block = now - before, pooled.window.block
    largest = {}
    for row, column in itertools.product(pooled.window.rows, pooled.window.columns):
        part = dense[row * block : (row + 1) * block, column * block : (column + 1) * block]
        largest[row, column] = part.flat[np.abs(part).argmax()]
    np.testing.assert_allclose(pooled.values.ravel(), list(largest.values()), rtol=0, atol=1e-6)
    assert pooled.largest == pytest.approx(np.abs(dense).max(), abs=1e-6), "one scale for all of the map"


async def test_a_long_sentences_differences_are_those_of_the_models_and_heads(long_pair: tuple[Path, Path]) -> None:
    own, theirs = own_maps(long_pair[0]), own_maps(long_pair[1])
    without = own_maps(long_pair[0], Off((Head("decoder", 0, 1),)))
    async with explorer(long_pair[0], head="L1H2", text=TEXT, other=long_pair[1]) as (app, pilot):
        await press(pilot, "3", "D", "a", "a", "a")
        assert_is_difference(shown_map(app), own.mean((0, 1)), theirs.mean((0, 1)))
        await press(pilot, "unbound:heatmap.fit")
        assert shown_map(app).window.block == 1
        assert_is_difference(shown_map(app), own.mean((0, 1)), theirs.mean((0, 1)))
        await press(pilot, "a", ":", *"off L0H1", "enter")
        assert_is_difference(shown_map(app), own[1, 2], without[1, 2])
        await see(pilot, "T", view="text")
        lines = active(app, TextPane).shown
        assert lines is not None
        np.testing.assert_allclose(lines.row, (without - own)[1, 2, lines.query], rtol=0, atol=1e-6)
        np.testing.assert_allclose(lines.column, (without - own)[1, 2, :, lines.key], rtol=0, atol=1e-6)
        await press(pilot, ":", *"L1H0", "enter", "P", ":", *"L1H2", "enter", "C", "C", "C")
        (drawn,) = active(app, ComparePane).maps.heatmaps
        assert drawn.pooled is not None
        assert_is_difference(drawn.pooled, without[1, 0], without[1, 2])
