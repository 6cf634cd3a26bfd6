"""The heatmap of more tokens than there are cells: pooled, zoomed, walked, and asked for piece by piece."""

from __future__ import annotations

import numpy as np
import pytest
from textual.pilot import Pilot

from engine.mathematics.pooling import pool
from engine.values.attention import AttentionMap, MapWindow
from tests.tui.painted import good_terminal
from tests.tui.widgets.heatmaps import HeatmapApp, attention, show
from tui.widgets.heatmap import Heatmap
from tui.widgets.large_map import LargeMap


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)


def block_of(app: HeatmapApp) -> int:
    assert app.heatmap.pooled is not None
    return app.heatmap.pooled.window.block


def cells_seen(app: HeatmapApp) -> tuple[int, int]:
    rows, columns = app.heatmap.query_one("HeatmapCanvas").window  # type: ignore[attr-defined]
    return len(rows), len(columns)


async def test_a_long_map_opens_whole_and_a_short_one_weight_by_weight() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(100))
        assert block_of(app) == 1
        await show(pilot, attention(200))
        assert block_of(app) == 16
        assert cells_seen(app) == (13, 13)
        assert not app.heatmap.query_one("HeatmapCanvas").show_vertical_scrollbar
        assert app.heatmap.legend(60).plain.startswith("max of 16×16  log ≤1e-4")
        app.assert_nothing_is_stale()


async def test_a_map_of_many_tokens_begins_on_the_logarithmic_scale_unless_another_was_chosen() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        scales = [(await show(pilot, attention(tokens))).heatmap.scale for tokens in (64, 65, 64)]
        assert scales == ["linear", "log", "linear"]
        app = await show(pilot, attention(65))
        app.heatmap.toggle_scale()
        assert app.heatmap.scale == "linear"
        await show(pilot, attention(200))
        assert app.heatmap.scale == "linear", "which is what was chosen"


async def test_labels_of_blocks_are_their_first_query_and_key() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(200, tokens=[f"t{number}" for number in range(200)]))
        lines = [app.picture.line(row) for row in range(20)]
        assert [line.split()[:2] for line in lines[4:7]] == [["0", "t0"], ["16", "t16"], ["32", "t32"]]
        first = lines[4].index("[]")
        header = ["".join(lines[row][first + 2 * column] for row in range(4)).strip() for column in range(13)]
        assert header == [str(16 * column) for column in range(13)]


async def test_zooming_in_goes_to_the_largest_weight_and_out_to_the_whole() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        shown = attention(200)
        app = await show(pilot, shown)
        heatmap = app.heatmap
        heatmap.move_to(120, 70)
        assert heatmap.pooled is not None
        place = heatmap.pooled.at(120 // 16, 70 // 16).place
        assert heatmap.readout().startswith(f"max {shown.weights[place]:.4f}  mean ")
        assert f" at {place[0]} " in heatmap.readout()
        assert "queries 112–127, keys 64–79" in heatmap.readout()
        sizes = []
        for key in (".", ">", "full_stop", "greater_than_sign", "."):
            await pilot.press(key)
            await pilot.pause()
            sizes.append(block_of(app))
            app.assert_nothing_is_stale()
            assert heatmap.cursor == place
            assert sum("[]" in app.picture.line(row) for row in range(20)) == 1
        assert sizes == [8, 4, 2, 1, 1]
        assert heatmap.readout().endswith(f"{shown.weights[place]:.4f}")
        assert heatmap.readout().startswith(f"query {place[0]} ")
        sizes = []
        for key in (",", "<", "comma", "less_than_sign", ","):
            await pilot.press(key)
            await pilot.pause()
            sizes.append(block_of(app))
        assert sizes == [2, 4, 8, 16, 16]
        assert heatmap.cursor == place
        app.assert_nothing_is_stale()


async def test_one_key_changes_between_the_whole_map_and_single_weights() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(100))
        for size in (8, 1, 8):
            await pilot.press("f")
            await pilot.pause()
            assert block_of(app) == size
        await pilot.press(".", "f")
        await pilot.pause()
        assert block_of(app) == 8
        await show(pilot, attention(10))
        for key in ("f", ",", "."):
            await pilot.press(key)
            assert block_of(app) == 1
        app.assert_nothing_is_stale()


async def test_cells_show_the_largest_weight_or_the_mean() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        shown = attention(200)
        app = await show(pilot, shown)
        block = shown.weights[16:32, :16]
        await pilot.press("down")
        assert app.moves[-1] == (16, 0, float(block.max()))
        await pilot.press("p")
        await pilot.pause()
        assert app.heatmap.legend(60).plain.startswith("mean of 16×16")
        assert app.moves[-1][2] == pytest.approx(float(block.mean(dtype=np.float64)), rel=1e-5)
        assert f"mean {block.mean():.4f}" in app.heatmap.readout()
        app.assert_nothing_is_stale()
        await pilot.press("p")
        assert app.heatmap.legend(60).plain.startswith("max of 16×16")


@pytest.mark.parametrize(
    ("keys", "cursor"),
    [
        (["down"], (96, 83)), (["right"], (83, 96)), (["up"], (64, 83)), (["gg"], (0, 83)), (["G"], (199, 83)),
        (["end"], (83, 199)), (["home"], (83, 0)), (["pagedown"], (192, 83)), (["G", "end", "down"], (199, 199)),
        (["ctrl+left"], (83, 0)),
    ],
)  # fmt: skip
async def test_keys_move_by_cells(keys: list[str], cursor: tuple[int, int]) -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(200))
        app.heatmap.move_to(83, 83)
        await pilot.press(*keys)
        await pilot.pause()
        assert app.heatmap.cursor == cursor
        app.assert_nothing_is_stale()


async def test_the_mouse_picks_a_block() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(200))
        edge = app.picture.line(4).index("[]")
        await pilot.click(offset=(edge + 2 * 3 + 1, 4 + 5))
        assert app.heatmap.cursor == (80, 48)
        await pilot.click(offset=(2, 4 + 2))
        assert app.heatmap.cursor == (32, 48)
        await pilot.click(offset=(edge + 2 * 6, 1))
        assert app.heatmap.cursor == (32, 96)
        app.assert_nothing_is_stale()


async def test_another_head_is_looked_at_in_the_same_way() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(200))
        app.heatmap.move_to(120, 70)
        await pilot.press(".", ".", "p")
        cursor = app.heatmap.cursor
        await show(pilot, attention(200, seed=1))
        assert (block_of(app), app.heatmap.cursor) == (4, cursor)
        assert app.heatmap.legend(60).plain.startswith("mean of 4×4")
        app.assert_nothing_is_stale()


async def test_a_map_that_is_shown_whole_stays_whole_in_another_pane() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(200))
        for size, block in (((150, 48), 6), ((40, 12), 24), ((60, 20), 16)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.pause()
            assert block_of(app) == block
            app.assert_nothing_is_stale()
        await pilot.press(".")
        await pilot.resize_terminal(150, 48)
        await pilot.pause()
        assert block_of(app) == 8


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (20, 5), (40, 8), (150, 45)])
async def test_any_pane_holds_a_long_map(size: tuple[int, int]) -> None:
    async with HeatmapApp(ascii=True).run_test(size=size) as pilot:
        app = await show(pilot, attention(300))
        await pilot.press("G", ".", "end", ".", "f", "k", "p", ",", "ctrl+right", "f")
        await pilot.pause()
        app.assert_nothing_is_stale()
        assert "".join(app.picture.line(row) for row in range(size[1])).isascii()


# A map whose weights are elsewhere


class Elsewhere:
    """Answers what a heatmap asks for when it is told to."""

    def __init__(self, app: HeatmapApp, shown: AttentionMap) -> None:
        self.app = app
        self.shown = shown
        self.asked: list[MapWindow] = []
        self.large = LargeMap(shown.name, shown.query_tokens, shown.key_tokens, self.asked.append)

    def answer(self) -> None:
        self.app.heatmap.receive(pool(self.shown, self.asked[-1]))


def heatmap_of(pilot: Pilot[None]) -> tuple[HeatmapApp, Heatmap]:
    assert isinstance(pilot.app, HeatmapApp)
    return pilot.app, pilot.app.heatmap


async def test_of_a_large_map_only_what_is_in_view_and_around_it_is_asked_for() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app, heatmap = heatmap_of(pilot)
        far = Elsewhere(app, attention(3000))
        heatmap.show_large(far.large)
        (wanted,) = far.asked
        assert (wanted.block, len(wanted.rows), len(wanted.columns)) == (192, 16, 16)
        far.answer()
        await pilot.pause()
        assert block_of(app) == 192
        assert len(far.asked) == 1
        heatmap.move_to(1500, 700)
        await pilot.press("f")
        assert block_of(app) == 192
        wanted = far.asked[-1]
        assert wanted.block == 1
        assert len(wanted.rows) * len(wanted.columns) < 10_000
        far.answer()
        await pilot.pause()
        cursor = heatmap.cursor
        assert heatmap.readout().startswith(f"query {cursor[0]} ")
        assert float(heatmap.readout().split()[-1]) == pytest.approx(float(far.shown.weights[cursor]), rel=5e-3)
        app.assert_nothing_is_stale()
        before = len(far.asked)
        for _ in range(60):
            await pilot.press("right")
            if len(far.asked) > before:
                before = len(far.asked)
                far.answer()
            await pilot.pause()
            assert app.moves[-1] == (*heatmap.cursor, float(far.shown.weights[heatmap.cursor]))
        app.assert_nothing_is_stale()


async def test_what_has_not_come_yet_is_blank_and_then_painted() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app, heatmap = heatmap_of(pilot)
        far = Elsewhere(app, attention(3000))
        heatmap.show_large(far.large)
        far.answer()
        await pilot.press("f")
        far.answer()
        await pilot.press("G", "end")
        await pilot.pause()
        assert heatmap.cursor == (2999, 2999)
        assert heatmap.readout() == ""
        app.assert_nothing_is_stale()
        far.answer()
        await pilot.pause()
        assert float(heatmap.readout().split()[-1]) == pytest.approx(float(far.shown.weights[2999, 2999]), rel=5e-3)
        app.assert_nothing_is_stale()


async def test_an_answer_about_another_map_is_not_shown() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app, heatmap = heatmap_of(pilot)
        one, other = Elsewhere(app, attention(600)), Elsewhere(app, attention(600, seed=1))
        heatmap.show_large(one.large)
        one.answer()
        heatmap.show_large(other.large)
        one.answer()
        assert heatmap.pooled is not None
        assert heatmap.pooled.name == one.shown.name
        other.answer()
        assert heatmap.pooled.name == other.shown.name
        heatmap.show_message("no map")
        other.answer()
        assert heatmap.pooled is None


async def test_a_long_sentences_map_begins_on_the_logarithmic_scale_until_another_is_chosen() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app, heatmap = heatmap_of(pilot)
        far = Elsewhere(app, attention(3000))
        scales = []
        heatmap.show_large(far.large)
        far.answer()
        await pilot.pause()
        scales.append(heatmap.scale)
        heatmap.show(attention(10))
        scales.append(heatmap.scale)
        heatmap.show_large(far.large)
        heatmap.toggle_scale()
        scales.append(heatmap.scale)
        far.answer()
        scales.append(heatmap.scale)
        assert scales == ["log", "linear", "linear", "linear"]
