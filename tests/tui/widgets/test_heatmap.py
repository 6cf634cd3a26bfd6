"""The attention heatmap as a terminal shows it: many sizes, all kinds of terminals and tokens."""

from __future__ import annotations

import numpy as np
import pytest
from rich.cells import cell_len

from engine.mathematics.pooling import pool
from engine.values.attention import AttentionMap, MapName, MapWindow, VisibleKeys
from tests.tui.painted import NASTY, good_terminal
from tests.tui.widgets.heatmaps import CURSOR_STYLE, HeatmapApp, attention, rgb, show
from tui.drawing.levels import Ink
from tui.drawing.ramps import ramp
from tui.drawing.readout import of_block
from tui.widgets.heatmap import Heatmap


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)


# What is drawn


async def test_labels_stand_on_both_axes_and_the_cells_between_them() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(4))
        picture = app.picture
        assert [picture.line(row).rstrip() for row in range(9)] == [
            "          q b",
            "          u r",
            "        T i o f",
            "        h c w o",
            "q ↓ k → e k n x",
            "0   The []",
            "1 quick",
            "2 brown",
            "3   fox",
        ]


async def test_every_cell_has_the_colour_of_its_level() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        shown = attention(4)
        app = await show(pilot, shown)
        colours = ramp(app.heatmap.background_colors[1].rgb, "truecolor")
        largest = float(shown.weights.max())
        for query in range(4):
            for key in range(4):
                if (query, key) != (0, 0):
                    level = min(int(shown.weights[query, key] / largest * 16), 15)
                    for column in (8 + 2 * key, 9 + 2 * key):
                        assert app.picture.cells[5 + query, column][0] == " "
                        assert rgb(app.picture.style(5 + query, column)) == colours[level].triplet


async def test_equal_neighbours_are_one_run() -> None:
    async with HeatmapApp().run_test(size=(100, 20)) as pilot:
        flat = AttentionMap(MapName("decoder", 0, 0), ("a",) * 30, ("b",) * 30, np.zeros((30, 30), dtype=np.float32))
        app = await show(pilot, flat)
        strip = app.heatmap.query_one("HeatmapCanvas").render_line(5)
        assert max(cell_len(segment.text) for segment in strip) == 60


async def test_the_log_scale_shows_what_the_linear_one_cannot() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        weights = np.array([[0.5, 0.99, 0.01], [0, 1, 0]], dtype=np.float32)
        app = await show(pilot, AttentionMap(MapName("cross", 0, 0), ("a", "b"), ("c", "d", "e"), weights))
        background = app.heatmap.background_colors[1].rgb
        row, column = 1, app.picture.line(1).index("[") + 4
        assert rgb(app.picture.style(row, column)) == background
        app.heatmap.toggle_scale()
        await pilot.pause()
        assert app.heatmap.scale == "log"
        assert rgb(app.picture.style(row, column)) == ramp(background, "truecolor")[8].triplet
        app.assert_nothing_is_stale()


async def test_the_labels_of_the_cursors_row_and_column_are_set_off() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(10))
        await pilot.press("down", "down", "down", "right", "right")
        await pilot.pause()
        set_off = {cell for cell, (_, style) in app.picture.cells.items() if style.startswith("1;7;")}
        label = {(5 + 3, column) for column in range(7)}
        column = {(row, 8 + 2 * 2 + half) for row in (3, 4) for half in (0, 1)}
        cell = {(5 + 3, 8 + 2 * 2), (5 + 3, 8 + 2 * 2 + 1)}
        assert set_off == label | column | cell


@pytest.mark.parametrize(
    ("environment", "ascii_only", "ink"),
    [
        ({"COLORTERM": "", "TERM": "xterm"}, False, Ink.SHADES),
        ({"COLORTERM": "", "TERM": "xterm"}, True, Ink.ASCII),
        ({"NO_COLOR": "1"}, False, Ink.SHADES),
        ({"NO_COLOR": "1"}, True, Ink.ASCII),
        ({"COLORTERM": "", "TERM": "xterm-256color"}, False, Ink.COLOUR),
        ({}, True, Ink.COLOUR),
    ],
)
async def test_every_level_has_its_own_look_on_every_terminal(
    environment: dict[str, str], ascii_only: bool, ink: Ink, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with HeatmapApp(ascii=ascii_only).run_test(size=(80, 20)) as pilot:
        steps = np.linspace(0, 1, ink.levels + 1, dtype=np.float32)[None, 1:]
        weights = np.vstack([np.zeros_like(steps), steps - 0.5 / ink.levels, steps])
        keys = ("x",) * ink.levels
        app = await show(pilot, AttentionMap(MapName("decoder", 0, 0), ("a", "b", "c"), keys, weights))
        left = app.picture.line(1).index("[")
        looks = [
            (app.picture.line(2)[left + 2 * level : left + 2 * level + 2], app.picture.style(2, left + 2 * level))
            for level in range(ink.levels)
        ]
        assert len(set(looks)) == ink.levels
        if ink is not Ink.COLOUR:
            assert [characters for characters, _ in looks] == list(ink.cells)
        if ascii_only:
            assert "".join(app.picture.line(row) for row in range(20)).isascii()


async def test_an_ansi_theme_gives_every_level_a_glyph_and_the_other_themes_their_ramp() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        shown = attention(6)
        app = await show(pilot, shown)
        app.theme = "ansi-dark"
        await pilot.pause()
        await pilot.pause()
        assert "░" in app.picture.line(10)
        app.assert_nothing_is_stale()
        app.theme = "textual-light"
        await pilot.pause()
        await pilot.pause()
        app.assert_nothing_is_stale()
        used = {rgb(app.picture.style(row, column)) for row in range(6, 11) for column in range(8, 20)}
        assert used <= {colour.triplet for colour in ramp(app.heatmap.background_colors[1].rgb, "truecolor")}
        assert "░" not in app.picture.line(10)


# The readout and the legend


async def test_the_readout_names_query_key_and_weight() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        weights = np.array([[1, 0], [0.12341, 1e-7]], dtype=np.float32)
        app = await show(pilot, AttentionMap(MapName("decoder", 0, 0), (" sat", "x"), (" cat", ""), weights))
        heatmap = app.heatmap
        assert heatmap.readout() == 'query 0 " sat" → key 0 " cat"  1.0000'
        heatmap.move_to(1, 0)
        assert heatmap.readout() == 'query 1 "x" → key 0 " cat"  0.1234'
        heatmap.move_to(1, 1)
        assert heatmap.readout() == 'query 1 "x" → key 1 ""  1.00e-07'
        assert Heatmap(ascii=True).readout() == ""
        weights = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0.5, 0, 0.5, 0], [0.25] * 4], dtype=np.float32)
        visible = VisibleKeys(np.zeros(4, np.int64), np.arange(4))
        causal = AttentionMap(MapName("decoder", 0, 0), tuple("abcd"), tuple("abcd"), weights, None, visible)
        app = await show(pilot, causal)
        said = []
        for cell in ((0, 1), (1, 1), (2, 1), (2, 3)):
            app.heatmap.move_to(*cell)
            said.append(app.heatmap.readout().partition("  ")[2])
        assert said == ["masked", "0.0000  chance 0.5000", "0.0000  chance 0.3333", "masked"], "0 where a key is seen"
        app.heatmap.move_to(2, 2)
        assert [app.heatmap.readout(width) for width in (62, 60, 44, 28, 27, 20)] == [
            'query 2 "c" → key 2 "c"  0.5000  chance 0.3333',
            'q 2 "c" → k 2 "c"  0.5000  chance 0.3333',
            'q 2 "c" → k 2 "c"  0.5000  chance 0.3333',
            'q 2 "c" → k 2 "c"  0.5000',
            'q 2 "c" → k 2 "c"  0.5000',
            "0.5000  q 2 k 2",
        ]
    block = pool(causal, MapWindow(2, range(2), range(2))).at(0, 1)
    assert [of_block(block, "abcd", "abcd", width) for width in (60, 20)] == [
        "masked  queries 0–1, keys 2–3",
        "masked  q 0–1 k 2–3",
    ]


async def test_the_readout_cuts_long_tokens_to_the_width_and_keeps_the_weight() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(1, tokens=["a" * 100]))
        readout = app.heatmap.readout(50)
        assert cell_len(readout) <= 50
        assert readout.endswith("  1.0000")
        assert "…" in readout


async def test_the_legend_has_the_colours_of_the_map_and_the_meaning_of_the_highest() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(4))
        legend = app.heatmap.legend(100)
        assert legend.plain.endswith("1 = largest weight of the map")
        assert len(legend.spans) == 16
        app.heatmap.toggle_scale()
        assert app.heatmap.legend(100).plain.endswith("1 = largest there can be")


# What could go wrong


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (20, 5), (40, 8), (81, 24), (150, 45)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (100, 100)])
async def test_any_map_can_be_walked_in_any_pane(size: tuple[int, int], shape: tuple[int, int]) -> None:
    async with HeatmapApp().run_test(size=size) as pilot:
        app = await show(pilot, attention(*shape))
        await pilot.press("G", "end", "k", "h", "gg", "j", "home", "pagedown", "ctrl+right")
        await pilot.pause()
        app.assert_nothing_is_stale()
        app.heatmap.toggle_scale()
        await show(pilot, attention(*shape, seed=1))
        app.assert_nothing_is_stale()
        if size >= (40, 8):
            assert sum("[]" in app.picture.line(row) for row in range(size[1])) == 1


async def test_resizing_keeps_the_cursor_in_view() -> None:
    async with HeatmapApp().run_test(size=(150, 45)) as pilot:
        app = await show(pilot, attention(60))
        app.heatmap.move_to(38, 50)
        for size in ((40, 8), (80, 24), (30, 10)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert sum("[]" in app.picture.line(row, 0, size[0]) for row in range(size[1])) == 1
            assert app.heatmap.cursor == (38, 50)


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_any_token_is_shown_literally_and_shifts_nothing(ascii_only: bool) -> None:
    async with HeatmapApp(ascii=ascii_only).run_test(size=(100, 40)) as pilot:
        app = await show(pilot, attention(len(NASTY), tokens=NASTY))
        text = "\n".join(app.picture.line(row) for row in range(40))
        assert "[bold]" in text
        assert r"\x1b[31mred" in text
        assert ("日本語" in text) != ascii_only
        assert text.replace("\n", "").isascii() == ascii_only
        edges = []
        for query in range(len(NASTY)):
            app.heatmap.move_to(query, 2)
            await pilot.pause()
            assert app.heatmap.readout().isprintable()
            cells = app.picture.cells
            edges += [
                column
                for (row, column), cell in cells.items()
                if cell == ("[", CURSOR_STYLE) and cells[row, column + 1] == ("]", CURSOR_STYLE)
            ]
            assert len(edges) == query + 1
        assert len(set(edges)) == 1
        app.assert_nothing_is_stale()


async def test_weights_that_are_not_finite_are_marked_and_do_not_spoil_the_scale() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        weights = np.array([[0.1, np.nan, np.inf, 0.5], [-np.inf, 0.5, 0.5, 0.5]], dtype=np.float32)
        app = await show(pilot, AttentionMap(MapName("decoder", 0, 0), ("a", "b"), tuple("cdef"), weights))
        assert "????" in app.picture.line(1)
        assert app.heatmap.legend(100).plain.endswith("0.5 = largest weight of the map")
        await pilot.press("right")
        assert app.heatmap.readout().endswith("  nan")
        nothing = np.full((1, 1), np.nan, dtype=np.float32)
        await show(pilot, AttentionMap(MapName("decoder", 0, 0), ("a",), ("b",), nothing))
        app.heatmap.toggle_scale()
        await pilot.pause()
        app.assert_nothing_is_stale()


async def test_without_a_map_a_message_is_shown_in_the_middle_and_keys_do_nothing() -> None:
    async with HeatmapApp().run_test(size=(40, 9)) as pilot:
        app = await show(pilot, attention(30))
        app.heatmap.show_message("type a [sentence]: press i")
        await pilot.press("down", "G", "end", "pagedown")
        await pilot.click(offset=(10, 5))
        await pilot.pause()
        assert app.picture.line(4).strip() == "type a [sentence]: press i"
        assert [app.picture.line(row).strip() for row in (0, 3, 5, 8)] == [""] * 4
        assert app.heatmap.readout() == ""
        app.assert_nothing_is_stale()
        await show(pilot, attention(30))
        assert app.heatmap.cursor == (0, 0)
        await show(pilot, None)
        app.assert_nothing_is_stale()
        await show(pilot, AttentionMap(MapName("decoder", 0, 0), (), (), np.zeros((0, 0), dtype=np.float32)))
        assert app.heatmap.map is None


async def test_a_map_given_before_the_widget_is_on_the_screen_appears_with_it() -> None:
    app = HeatmapApp()
    app.heatmap.show(attention(4))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        assert app.picture.line(5).startswith("0   The []")
