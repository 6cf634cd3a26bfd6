"""The attention heatmap as a terminal shows it: sizes, terminals, tokens, the cursor and zoom."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from rich.style import Style
from textual.events import MouseScrollDown

from engine.mathematics.attention import pool
from engine.values.attention import MapWindow, VisibleKeys
from tests.tui.painted import NASTY, press, resize
from tests.tui.widgets.heatmaps import CURSOR_STYLE, attention, heatmap_of, keep_cells_small, map_of, rgb, show
from tui.drawing.levels import Ink
from tui.drawing.ramps import ramp
from tui.drawing.readout import block_readout
from tui.toolkit.line_filters import ascii_cells
from tui.widgets.heatmap import Heatmap


@pytest.fixture(autouse=True)
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_cells_small(monkeypatch)


async def test_every_cell_has_the_colour_of_its_level_between_the_labels_and_the_legend_explains_it() -> None:
    async with heatmap_of(attention(4)) as (app, pilot):
        assert [app.picture.line(row).rstrip() for row in range(9)] == [
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
        for query, key in islice(np.ndindex(4, 4), 1, None):  # the cursor is on the first
            for column in (8 + 2 * key, 9 + 2 * key):
                assert app.picture.cells[5 + query, column][0] == " "
                assert rgb(app.picture.style(5 + query, column)) == app.colour_of(query, key)
        legend, colours = app.heatmap.legend(100), ramp(app.heatmap.background_colors[1].rgb, "truecolor")
        assert legend.plain.endswith("1 = largest weight of the map")
        assert [Style.parse(str(span.style)).bgcolor for span in legend.spans] == list(colours)
        await show(pilot, scale="log")
        assert app.heatmap.legend(100).plain.endswith("1 = the maximum")


async def test_the_labels_of_the_cursors_row_and_column_are_highlighted() -> None:
    async with heatmap_of(attention(10)) as (app, pilot):
        await press(pilot, "down", "down", "down", "right", "right")
        set_off = {cell for cell, (_, style) in app.picture.cells.items() if style.startswith("1;7;")}
        row, left = len("quick") + 3, 8 + 2 * 2
        label, cell = {(row, column) for column in range(7)}, {(row, left), (row, left + 1)}
        assert set_off == label | cell | {(line, left + half) for line in range(len("quick")) for half in (0, 1)}


@pytest.mark.parametrize(
    ("environment", "ascii_only", "ink"),
    [
        ({"COLORTERM": "", "TERM": "xterm"}, False, Ink.SHADES),
        ({"COLORTERM": "", "TERM": "xterm"}, True, Ink.SHADES),
        ({"NO_COLOR": "1"}, False, Ink.SHADES),
        ({"NO_COLOR": "1"}, True, Ink.SHADES),
        ({"COLORTERM": "", "TERM": "xterm-256color"}, False, Ink.COLOUR),
        ({}, True, Ink.COLOUR),
    ],
)
async def test_every_level_has_its_own_look_on_every_terminal(
    environment: dict[str, str], ascii_only: bool, ink: Ink, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    steps = np.linspace(0, 1, ink.levels + 1, dtype=np.float32)[None, 1:]
    weights = np.vstack([np.zeros_like(steps), steps - 0.5 / ink.levels, steps])
    shown = map_of(weights, "abc", "x" * ink.levels)
    async with heatmap_of(shown, size=(80, 20), ascii=ascii_only) as (app, _):
        left = app.picture.line(1).index("[")
        places = range(left, left + 2 * ink.levels, 2)
        looks = [(app.picture.line(2)[place : place + 2], app.picture.style(2, place)) for place in places]
        assert len(set(looks)) == ink.levels
        if ink is not Ink.COLOUR:
            cells = map(ascii_cells, ink.cells) if ascii_only else ink.cells
            assert [characters for characters, _ in looks] == list(cells)
        if ascii_only:
            assert app.text().replace("\n", "").isascii()


async def test_the_readout_names_query_key_and_weight() -> None:
    async with heatmap_of(map_of([[1.0, 0.0], [0.12341, 1e-7]], (" sat", "x"), (" cat", ""))) as (app, pilot):
        heatmap = app.heatmap
        assert heatmap.readout() == 'query 0 " sat" → key 0 " cat"  1.0000'
        heatmap.move_to(1, 0)
        assert heatmap.readout() == 'query 1 "x" → key 0 " cat"  0.1234'
        heatmap.move_to(1, 1)
        assert heatmap.readout(40) == 'query 1 "x" → key 1 ""  1.00e-07'
        assert Heatmap().readout() == ""
        weights = [[1.0, 0, 0, 0], [1.0, 0, 0, 0], [0.5, 0, 0.5, 0], [0.25] * 4]
        causal = map_of(weights, "abcd", "abcd", VisibleKeys(np.zeros(4, np.int64), np.arange(4)))
        await show(pilot, causal)
        said = []
        for cell in ((0, 1), (1, 1), (2, 1), (2, 3)):
            app.heatmap.move_to(*cell)
            said.append(app.heatmap.readout().partition("  ")[2].partition("   ")[0])
        assert said == ["masked", "0.0000  chance 0.5000", "0.0000  chance 0.3333", "masked"], "0 where a key is seen"
        app.heatmap.move_to(2, 2)
        assert [app.heatmap.readout(width) for width in (90, 62, 50, 44, 28, 20)] == [
            'query 2 "c" → key 2 "c"  0.5000  chance 0.3333   ⏎ 0 "a" 0.50  2 "c" 0.50',
            'q 2 "c" → k 2 "c"  0.50  ⏎ 0 "a" 0.50  2 "c" 0.50  chance 0.33',
            'q 2 "c" → k 2 "c"  0.50  ⏎ 0 "a" 0.50  chance 0.33',
            'q 2 "c" → k 2 "c"  0.5000  chance 0.3333',
            'q 2 "c" → k 2 "c"  0.5000',
            "0.5000  q 2 k 2",
        ]
    block = pool(causal, MapWindow(2, range(2), range(2))).at(0, 1)
    assert block_readout(block, "abcd", "abcd", 60) == "masked  queries 0–1, keys 2–3"


async def test_resizing_keeps_the_cursor_in_view() -> None:
    async with heatmap_of(attention(60), size=(150, 45)) as (app, pilot):
        app.heatmap.move_to(38, 50)
        for size in ((40, 8), (80, 24), (30, 10)):
            await resize(pilot, *size)
            assert sum("[]" in app.picture.line(row, 0, size[0]) for row in range(size[1])) == 1
            assert app.heatmap.cursor == (38, 50)


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_any_token_is_shown_literally_and_shifts_nothing(ascii_only: bool) -> None:
    async with heatmap_of(attention(len(NASTY), tokens=NASTY), size=(100, 40), ascii=ascii_only) as (app, pilot):
        text = app.text()
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
            (edge,) = (x for (y, x), cell in cells.items() if cell == ("[", CURSOR_STYLE) and cells[y, x + 1][0] == "]")
            edges.append(edge)
        assert len(set(edges)) == 1
        await press(pilot, "unbound:heatmap.numbers", "down")


async def test_weights_that_are_not_finite_are_marked_and_do_not_spoil_the_scale() -> None:
    weights = [[0.1, np.nan, np.inf, 0.5], [-np.inf, 0.5, 0.5, 0.5]]
    async with heatmap_of(map_of(weights, keys="cdef")) as (app, pilot):
        assert "????" in app.picture.line(1)
        assert app.heatmap.legend(100).plain.endswith("0.5 = largest weight of the map")
        await pilot.press("right")
        assert app.heatmap.readout().endswith('  nan   ⏎ 3 "f" 0.50  0 "c" 0.10')
        await show(pilot, map_of([[np.nan]], "a", "b"))
        await show(pilot, scale="log")


async def test_without_a_map_a_message_is_shown_in_the_middle_and_keys_do_nothing() -> None:
    async with heatmap_of(attention(30), size=(40, 9)) as (app, pilot):
        app.heatmap.show_message("type a [sentence]: press i")
        await pilot.press("down", "G", "end", "pagedown")
        await pilot.click(offset=(10, 5))
        await pilot.pause()
        assert app.picture.line(4).strip() == "type a [sentence]: press i"
        assert [app.picture.line(row).strip() for row in (0, 3, 5, 8)] == [""] * 4
        assert app.heatmap.readout() == ""
        await show(pilot, attention(30))
        assert app.heatmap.cursor == (0, 0)
        assert set(app.said) == {"no map yet"}


WALKS = {
    "down": (6, 5), "j": (6, 5), "up": (4, 5), "k": (4, 5), "left": (5, 4), "h": (5, 4), "right": (5, 6), "l": (5, 6),
    "home": (5, 0), "ctrl+left": (5, 0), "end": (5, 59), "ctrl+right": (5, 29), "ctrl+right ctrl+left": (5, 5),
    "ctrl+home": (0, 5), "gg": (0, 5), "pageup": (0, 5), "ctrl+end": (59, 5), "G": (59, 5), "pagedown": (19, 5),
    "G end down right": (59, 59), "gg home up left": (0, 0),
}  # fmt: skip
"""Keys, and where they lead from the sixth query and key of sixty."""

WALKS_BY_CELLS = {
    "down": (96, 83), "right": (83, 96), "up": (64, 83), "gg": (0, 83), "G": (199, 83), "end": (83, 199),
    "home": (83, 0), "pagedown": (192, 83), "G end down": (199, 199), "ctrl+left": (83, 0),
}  # fmt: skip
"""Where they lead where a cell stands for sixteen queries and keys."""


@pytest.mark.parametrize(("tokens", "start", "block", "walks"), [(60, 5, 1, WALKS), (200, 83, 16, WALKS_BY_CELLS)])
async def test_every_key_moves_the_cursor_where_it_says(
    tokens: int, start: int, block: int, walks: dict[str, tuple[int, int]]
) -> None:
    shown = attention(tokens)
    async with heatmap_of(shown, size=(60, 18)) as (app, pilot):
        for keys, place in walks.items():
            app.heatmap.move_to(start, start)
            app.moves.clear()
            await press(pilot, *keys.split())
            assert app.heatmap.cursor == place, keys
            cell = tuple(slice(at // block * block, (at // block + 1) * block) for at in place)
            assert app.moves[-1] == (*place, float(shown.weights[cell].max())), keys
            assert app.text().count("[]") == 1, keys


async def test_the_mouse_puts_the_cursor_on_a_cell_a_row_or_a_column() -> None:
    async with heatmap_of(attention(10)) as (app, pilot):
        app.set_focus(None)
        header = len("quick")
        places = {(8 + 2 * 3 + 1, header + 7): (7, 3), (2, header + 2): (2, 3), (8 + 2 * 6, 1): (2, 6)}
        nowhere = dict.fromkeys([(2, 1), (50, 8), (10, 19)], (2, 6))
        for offset, cursor in (places | nowhere).items():
            await pilot.click(offset=offset)
            assert app.heatmap.cursor == cursor
            assert app.focused is app.heatmap


async def test_the_wheel_scrolls_and_leaves_the_cursor_and_labels_stay_at_the_edges() -> None:
    async with heatmap_of(attention(60), size=(61, 20)) as (app, pilot):
        await pilot._post_mouse_events([MouseScrollDown], widget=app.heatmap, offset=(20, 10))
        await pilot.pause()
        assert app.heatmap.cursor == (0, 0)
        assert app.picture.line(2).startswith(" 2 brown")
        assert "[]" not in app.text()
        app.assert_nothing_is_stale()
        await press(pilot, "right")
        assert app.picture.line(2).startswith(" 0   The")
        await press(pilot, "G", "end")
        assert app.picture.line(18).startswith("59     .")
        header = [app.picture.line(row) for row in range(2)]
        cell = app.picture.line(18).index("[]")
        assert [line[cell - 2 : cell + 2] for line in header] == ["do  ", "g . "]


async def test_a_long_map_opens_whole_on_the_log_scale_and_a_short_one_weight_by_weight() -> None:
    async with heatmap_of(size=(60, 18)) as (app, pilot):
        for tokens, scale in ((64, "linear"), (65, "log"), (64, "linear"), (100, "log")):
            await show(pilot, attention(tokens))
            assert (app.block, app.heatmap.scale) == (1, scale)
        await show(pilot, attention(200))
        assert (app.block, *map(len, app.heatmap.window)) == (16, 13, 13)
        assert not app.heatmap.show_vertical_scrollbar
        assert app.heatmap.legend(60).plain.startswith("max of 16×16  log ≤1e-4")
        await show(pilot, scale="linear")
        assert app.heatmap.scale == "linear", "a person's choice comes first"


async def test_zooming_in_goes_to_the_largest_weight_and_out_to_the_whole() -> None:
    shown = attention(200)
    async with heatmap_of(shown, size=(60, 18)) as (app, pilot):
        heatmap = app.heatmap
        heatmap.move_to(120, 70)
        place = app.pooled.at(120 // 16, 70 // 16).place
        mean = shown.weights[112:128, 64:80].mean()
        assert heatmap.readout().startswith(f"max {shown.weights[place]:.4f}  mean {mean:.4f}")
        assert f" at {place[0]} " in heatmap.readout()
        assert "queries 112–127, keys 64–79" in heatmap.readout()
        sizes = []
        for key in (">", "greater_than_sign", ">", ">", ">"):
            await press(pilot, key)
            sizes.append(app.block)
            assert heatmap.cursor == place
            assert app.text().count("[]") == 1
            assert heatmap.legend(60).plain.startswith(f"max of {app.block}×{app.block}") is (app.block > 1)
        assert sizes == [8, 4, 2, 1, 1]
        assert f"  {shown.weights[place]:.4f}" in heatmap.readout()
        assert heatmap.readout().startswith(f"query {place[0]} ")
        sizes = []
        for key in ("<", "less_than_sign", "<", "<", "<", *["unbound:heatmap.fit"] * 3):
            await press(pilot, key)
            sizes.append(app.block)
        assert sizes == [2, 4, 8, 16, 16, 1, 16, 1]
        await press(pilot, "<", "<")
        cursor = heatmap.cursor
        await show(pilot, attention(200, seed=1))
        assert (app.block, heatmap.cursor) == (4, cursor), "another head is shown like this one"
        await show(pilot, attention(10))
        await press(pilot, "unbound:heatmap.fit", "<", ">")
        assert app.block == 1
        assert app.said[-1] == "each cell is a single weight"


async def test_a_map_that_is_shown_whole_stays_whole_in_another_pane() -> None:
    async with heatmap_of(attention(200), size=(60, 18)) as (app, pilot):
        for size, block in (((150, 48), 6), ((40, 12), 24), ((60, 18), 16)):
            await pilot.resize_terminal(*size)
            for _ in range(100):  # a busy machine lays out late
                await pilot.pause(0.01)
                if app.block == block:
                    break
            assert app.block == block
            app.assert_nothing_is_stale()
        await pilot.press(">")
        await resize(pilot, 150, 48)
        assert app.block == 8


async def test_the_cursor_starts_at_the_last_querys_largest_weight_and_stays_where_the_user_moves_it() -> None:
    maps = [attention(10, seed=seed) for seed in range(3)]
    async with heatmap_of() as (app, pilot):
        for shown in maps:
            app.draw(shown)
            assert app.heatmap.cursor == (9, int(shown.weights[9].argmax()))
        await pilot.press("up")
        app.heatmap.move_to(7, 4)
        await show(pilot, maps[0])
        assert app.moves[-1] == (7, 4, float(maps[0].weights[7, 4])), "as on the map before"
        for shown in (attention(12), attention(6)):
            await show(pilot, shown)
            last = len(shown.weights) - 1
            assert app.heatmap.cursor == (last, int(shown.weights[last].argmax())), "anew in another sentence"


async def test_a_word_is_found_at_its_first_token() -> None:
    tokens = ("The", " do", "g", " saw", "", " d", "og", "##s")
    async with heatmap_of(attention(len(tokens), tokens=tokens)) as (app, _):
        assert app.heatmap.found("dog") == (1, 5)
        assert app.heatmap.found("Dogs ") == (5,)
        assert app.heatmap.found("g") == (2, 6)
        assert app.heatmap.found("") == app.heatmap.found("cat") == ()
