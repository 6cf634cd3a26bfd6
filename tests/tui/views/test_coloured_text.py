"""The sentence as coloured text: its weights and its cursor are the map's, its colours few and told apart."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.cells import cell_len

from engine.values.attention import MapLines
from tests.conftest import TinyModel
from tests.exporting import written
from tests.opening import no_hurry, open_reader
from tests.own_maps import eager_maps
from tests.tui.explorer import active, copied, explorer, press, press_slowly, screen_text, see, shown, shown_map, until
from tests.tui.painted import good_terminal
from tests.tui.views.test_long_sentences import CONTEXT
from tests.tui.views.test_long_sentences import TEXT as LONG
from tui.app.explorer import Explorer
from tui.drawing.levels import levels_of
from tui.drawing.readout import largest_weights
from tui.drawing.text import flow
from tui.views.text_view import TextPane
from tui.widgets.small_maps import SmallMaps

TEXT = "the cat sat on the mat"

Map = NDArray[np.float32]


def lines_of(app: Explorer) -> MapLines:
    lines = active(app, TextPane).shown
    assert lines is not None
    return lines


def assert_are_of(lines: MapLines, weights: Map, token: int) -> None:
    """Compare a token's row and column with those of a map that the model itself returns."""
    assert lines.query == lines.key == token
    np.testing.assert_allclose(lines.row, weights[token], rtol=0, atol=1e-5)
    np.testing.assert_allclose(lines.column, weights[:, token], rtol=0, atol=1e-5)


async def test_row_and_column_are_the_maps_and_both_cursors_move_together(tiny_model: TinyModel) -> None:
    folder = tiny_model("gpt2")
    layers = eager_maps(folder, open_reader(folder).read(TEXT, no_hurry).ids)[""]
    last = len(layers[0][0]) - 1
    async with explorer(folder, text=TEXT, head="L1H2", size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, "T")
        heatmap = app.views.attention.heatmap
        assert app.views.attention.display  # beside it
        for keys, query, weights in (
            ("", last, layers[1][2]), ("gg", 0, layers[1][2]), ("G", last, layers[1][2]),
            ("h left l", last - 1, layers[1][2]), ("[", last - 1, layers[1][1]), ("{", last - 1, layers[0][1]),
            ("a", last - 1, layers[0].mean(0)), ("g g right", 1, layers[0].mean(0)),
        ):  # fmt: skip
            await press_slowly(pilot, *keys.split())
            lines, pane = lines_of(app), active(app, TextPane)
            assert_are_of(lines, weights, query)
            assert heatmap.cursor[0] == query
            np.testing.assert_allclose(shown_map(app).values, weights, rtol=0, atol=1e-5)
            expected = levels_of(lines.row, "linear", lines.largest, pane.keys.ink.levels)
            assert pane.keys._levels.tolist() == expected.tolist()
            assert shown(pane.readout_line).startswith(f"token {query} of ")
            assert not shown(pane.keys_line).startswith(str(query)), "it is said once"
            assert f"{lines.row.max():.3f}" in shown(pane.keys_line)
        await press_slowly(pilot, "3", "j", "j", "j")  # the map's own cursor
        assert heatmap.cursor[0] == 4
        await press_slowly(pilot, "T")
        assert lines_of(app).query == 4
        await press_slowly(pilot, "s")
        assert heatmap.scale == "log"
        assert "log" in shown(active(app, TextPane).legend_line)
        await see(pilot, "T", view="attention")


async def test_a_small_terminal_has_both_texts_and_enter_follows_the_one_with_the_focus(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text=LONG[:150], size=(80, 16)) as (app, pilot):
        await press_slowly(pilot, "T", "j", "l")
        pane = active(app, TextPane)
        assert pane.keys.size.height == pane.queries.size.height > 2
        await press_slowly(pilot, "tab")
        assert app.focused is pane.queries
        lines = lines_of(app)
        await press_slowly(pilot, "enter")
        assert lines_of(app).query == int(np.argmax(lines.column))
        await press_slowly(pilot, "pageup", "pagedown", "k", "up", "down", "home", "end")
        assert lines_of(app).query == len(lines.query_tokens) - 1
        await see(pilot, "escape", view="attention")


async def test_the_mouse_points_at_tokens(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text=TEXT) as (app, pilot):
        await press_slowly(pilot, "T")
        keys = active(app, TextPane).keys
        await until(pilot, lambda: len(keys._flow.lines[0]) > 4)  # it has been laid out
        line = keys._flow.lines[0]
        await pilot.click(keys, offset=(line[4].x + 1, 0))
        await see(pilot, view="text")
        assert lines_of(app).query == 4
        largest = int(np.argmax(lines_of(app).row))
        assert largest != 4
        await pilot.click(keys, offset=(line[4].x + 1, 0))
        await see(pilot, view="text")
        assert lines_of(app).query == largest, "as Enter"


async def test_a_long_sentences_row_and_column_come_from_the_engine(tiny_model: TinyModel) -> None:
    folder = tiny_model("llama", max_position_embeddings=CONTEXT)
    layers = eager_maps(folder, open_reader(folder).read(LONG, no_hurry).ids)[""]
    async with explorer(folder, text=LONG, head="L1H2") as (app, pilot):
        await see(pilot, "3", text="T: as text")
        for keys, weights in (("T G h", layers[1][2]), ("]", layers[1][3]), ("a", layers[1].mean(0))):
            await press_slowly(pilot, *keys.split())
            assert_are_of(lines_of(app), weights, CONTEXT - 2)
            assert lines_of(app).largest == pytest.approx(float(weights.max()), abs=1e-5)


async def test_across_stacks_two_texts_have_a_cursor_each(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5"), text=TEXT, head="cross.L1H3") as (app, pilot):
        await see(pilot, "3", "gg", "home", "T", "l", "l", slowly=True, readout="token 2 of ")  # the keys' cursor moved
        await see(pilot, "tab", "l", slowly=True, readout="token 1 of ")
        pane = active(app, TextPane)
        attention, lines = shown_map(app), lines_of(app)
        assert (lines.query, lines.key) == (1, 2) == app.views.attention.heatmap.cursor
        assert attention.query_tokens != attention.key_tokens
        np.testing.assert_array_equal(lines.row, attention.values[1])
        np.testing.assert_array_equal(lines.column, attention.values[:, 2])
        assert "‹<s>›" in screen_text(app)  # what the decoder begins with
        assert (pane.keys.display, pane.queries.display) == (True, True)


@pytest.mark.parametrize(("model", "head"), [("bert", "encoder.L1H2"), ("t5", "cross.L1H3")])
async def test_keys_copy_the_weight_the_querys_row_or_the_map_and_write_it(
    tiny_model: TinyModel, folder: Path, model: str, head: str
) -> None:
    async with explorer(tiny_model(model), text=TEXT, head=head) as (app, pilot):
        await press(pilot, "T")  # there is nothing to copy before the weights have come
        await press_slowly(pilot, "l", "l", "y")
        lines = lines_of(app)
        assert copied(app) == [[str(lines.row[lines.key].item())]]
        await press_slowly(pilot, "Y")
        assert copied(app) == [[str(weight) for weight in lines.row.tolist()]]
        await press_slowly(pilot, "unbound:app.copy_view")
        names, *rows = copied(app)
        await press_slowly(pilot, "e", "v")
    own = [row for row in rows if row[names.index("query")] == str(lines.query)]
    assert [float(row[names.index("weight")]) for row in own] == lines.row.tolist()
    assert len(written(folder, "*L1*attention.csv")) == len(rows) == len(lines.row) * len(lines.column)


def test_lines_break_between_tokens_and_wide_characters_are_counted() -> None:
    labels = ["The", " 日本", "語", "é", " " + "長" * 12, "x", "∅"]
    for width in range(6, 40):
        for gap in (1, 3):
            broken = flow(tuple(labels), width, gap)
            assert ["".join(p.text for line in broken.lines for p in line if p.token == n) for n in range(7)] == labels
            for y, line in enumerate(broken.lines):
                x = 0
                for piece in line:
                    assert (piece.x, piece.width) == (x, cell_len(piece.text))
                    x += piece.width + (gap if piece.ends else 0)
                    assert broken.token_at(piece.x, y) == piece.token
                assert x <= max(width, gap + 2)
            for token in range(7):
                assert broken.begins[token] == next(
                    y for y, line in enumerate(broken.lines) if any(p.token == token for p in line)
                )
                assert broken.step(token, 0) == token
    assert flow((), 10, 1).token_at(0, 0) is None


async def test_the_smallest_terminal_shows_token_and_weight_in_full(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("gpt2"), text="the 中", head="L1H2", size=(40, 12)) as (app, pilot):
        await press_slowly(pilot, "3", "G", "end")
        weight, last = app.views.attention.heatmap.value, app.views.attention.heatmap.cursor[0]
        await see(pilot, text=f" {weight:.4f}  q {last} k {last} ")
        await see(pilot, "T", text=f' {last} "')
        await press(pilot, "escape")
        await pilot.resize_terminal(120, 30)
        await see(pilot, text=f'q {last} "中₃" → k {last} "中₃"  {weight:.2f}')
        await press(pilot, "A")
        small = app.query_one(SmallMaps).pooled
        assert small is not None
        assert small.query_tokens[-1] == small.key_tokens[-1] == "中₃"
        keys = ("unbound:app.tree", "P", "C", "C", "G", "end")
        await see(pilot, *keys, slowly=True, text='"中₃"')  # in the maps of pinned heads


@pytest.mark.parametrize("also", ["", " on the mat, and the cat sat"])
async def test_the_text_follows_the_map_on_screen_while_another_sentence_is_read(
    also: str, tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.state.store.PATIENCE", 60.0)  # so that the map stays, as it does for a moment
    async with explorer(tiny_model("gpt2"), text=f"the 中{also}", head="L1H2", size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, "T")
        before = lines_of(app).query_tokens
        monkeypatch.setattr(app.engine, "attention", lambda *_: Future())
        app.main.read("cat 中 on")
        await until(pilot, lambda: app.main.sentence_input.value == "cat 中 on")
        assert app.views.attention.heatmap.pooled is not None
        for key in ("home", "right", "end"):
            await pilot.press(key)
            assert lines_of(app).query_tokens == before
            assert "中₃" in screen_text(app)


async def test_text_has_half_the_maps_colours_and_reads_out_the_cursors_token(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_terminal(monkeypatch)
    async with explorer(tiny_model("gpt2"), text=TEXT, head="L1H2", size=(160, 50)) as (app, pilot):
        await press_slowly(pilot, "T", "g", "g", "l", "l", "l")
        pane, heatmap, lines = active(app, TextPane), app.views.attention.heatmap, lines_of(app)
        in_text, in_map = ({style.bgcolor for style in styles} for styles in (pane.keys._styles, heatmap._styles))
        assert (len(in_text), len(in_map)) == (8, 16)
        assert in_text <= in_map
        legend = pane.legend_line.shown
        assert {legend.get_style_at_offset(app.console, at).bgcolor for at in range(len(legend))} >= in_text
        said = f"token 3 of {len(lines.row)} · itself {lines.row[3]:.3f} · "
        assert said in shown(pane.readout_line)
        row = np.array([0.999, 0.0006, 0.0004], np.float32)
        named = largest_weights("looks at", "abc", row, 80, None)
        assert named == 'looks at 0 "a" 0.999, 1 "b" 0.001; together 1.000', "and not what would be written as nothing"
