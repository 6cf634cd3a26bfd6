"""The sentence as coloured text: its weights and its cursor are the map's, its colours few and told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.cells import cell_len

from tests.conftest import TinyModel
from tests.exporting import written
from tests.opening import no_hurry, open_reader
from tests.own_maps import eager_maps
from tests.tui.explorer import active, copied, explorer, press, press_slowly, see, shown, shown_map
from tests.tui.views.test_long_sentences import TEXT as LONG
from tui.app.explorer import Explorer
from tui.drawing.text import flow
from tui.views.text_view import MapLines, TextPane

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
            assert shown(pane.readout_line).startswith(f"token {query} of ")
            assert f"{lines.row.max():.3f}" in shown(pane.keys_line)
        await press_slowly(pilot, "3", "j", "j", "j")  # the map's own cursor
        assert heatmap.cursor[0] == 4
        await press_slowly(pilot, "T")
        assert lines_of(app).query == 4
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
        assert lines_of(app).query == len(lines.map.query_tokens) - 1
        await see(pilot, "escape", view="attention")


async def test_across_stacks_two_texts_have_a_cursor_each(tiny_model: TinyModel) -> None:
    async with explorer(tiny_model("t5"), text=TEXT, head="cross.L1H3") as (app, pilot):
        await see(pilot, "3", "gg", "home", "T", "l", "l", slowly=True, readout="token 2 of ")  # the keys' cursor moved
        await see(pilot, "tab", "l", slowly=True, readout="token 1 of ")
        pane = active(app, TextPane)
        attention, lines = shown_map(app), lines_of(app)
        assert (lines.query, lines.key) == (1, 2) == app.views.attention.heatmap.cursor
        np.testing.assert_array_equal(lines.row, attention.values[1])
        np.testing.assert_array_equal(lines.column, attention.values[:, 2])
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
