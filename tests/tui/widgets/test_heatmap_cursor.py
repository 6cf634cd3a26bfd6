"""The cursor of the attention heatmap: every key, the mouse, scrolling, and what a move writes."""

from __future__ import annotations

import pytest
from textual.events import MouseScrollDown

from tests.tui.painted import good_terminal
from tests.tui.widgets.heatmaps import HeatmapApp, attention, show
from tui.widgets.heatmap import Heatmap


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)


# The cursor


@pytest.mark.parametrize(
    ("keys", "cursor"),
    [
        (["down"], (6, 5)),
        (["j"], (6, 5)),
        (["up"], (4, 5)),
        (["k"], (4, 5)),
        (["left"], (5, 4)),
        (["h"], (5, 4)),
        (["right"], (5, 6)),
        (["l"], (5, 6)),
        (["home"], (5, 0)),
        (["end"], (5, 59)),
        (["ctrl+home"], (0, 5)),
        (["gg"], (0, 5)),
        (["ctrl+end"], (59, 5)),
        (["G"], (59, 5)),
        (["pagedown"], (18, 5)),
        (["pageup"], (0, 5)),
        (["ctrl+right"], (5, 29)),
        (["ctrl+left"], (5, 0)),
        (["ctrl+right", "ctrl+left"], (5, 5)),
        (["G", "end", "down", "right"], (59, 59)),
        (["gg", "home", "up", "left"], (0, 0)),
    ],
)
async def test_every_key_moves_the_cursor_where_it_says(keys: list[str], cursor: tuple[int, int]) -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        shown = attention(60)
        app = await show(pilot, shown)
        app.heatmap.move_to(5, 5)
        app.moves.clear()
        await pilot.press(*keys)
        await pilot.pause()
        assert app.heatmap.cursor == cursor
        assert app.moves[-1] == (*cursor, float(shown.weights[cursor]))
        assert sum("[]" in app.picture.line(row) for row in range(20)) == 1
        app.assert_nothing_is_stale()


async def test_every_binding_can_be_remapped_and_says_what_it_does() -> None:
    bindings = [binding for binding in Heatmap.BINDINGS if not isinstance(binding, tuple)]
    assert len({binding.id for binding in bindings}) == len(Heatmap.BINDINGS)
    assert all(binding.id and binding.id.startswith("heatmap.") and binding.description for binding in bindings)


async def test_the_mouse_puts_the_cursor_on_a_cell_a_row_or_a_column() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(10))
        app.set_focus(None)
        await pilot.click(offset=(8 + 2 * 3 + 1, 5 + 7))
        assert app.heatmap.cursor == (7, 3)
        assert app.focused is app.heatmap
        await pilot.click(offset=(2, 5 + 2))
        assert app.heatmap.cursor == (2, 3)
        await pilot.click(offset=(8 + 2 * 6, 1))
        assert app.heatmap.cursor == (2, 6)
        for nowhere in ((2, 1), (50, 8), (10, 18)):
            await pilot.click(offset=nowhere)
            assert app.heatmap.cursor == (2, 6)
        app.assert_nothing_is_stale()


async def test_the_wheel_scrolls_and_leaves_the_cursor() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(60))
        canvas = app.heatmap.query_one("HeatmapCanvas")
        await pilot._post_mouse_events([MouseScrollDown], widget=canvas, offset=(20, 10))
        await pilot.pause()
        assert app.heatmap.cursor == (0, 0)
        assert app.picture.line(5).startswith(" 2 brown")
        assert "[]" not in "".join(app.picture.line(row) for row in range(20))
        app.assert_nothing_is_stale()
        await pilot.press("right")
        await pilot.pause()
        assert app.picture.line(5).startswith(" 0   The")
        app.assert_nothing_is_stale()


@pytest.mark.parametrize("width", [60, 61])
async def test_labels_stay_at_the_edges_while_the_map_scrolls(width: int) -> None:
    async with HeatmapApp().run_test(size=(width, 20)) as pilot:
        app = await show(pilot, attention(60))
        await pilot.press("G", "end")
        await pilot.pause()
        assert app.picture.line(18).startswith("59     .")
        header = [app.picture.line(row) for row in range(5)]
        cell = app.picture.line(18).index("[]")
        assert header[4][cell] == "."
        assert [line[cell - 2] for line in header] == [" ", " ", "d", "o", "g"]
        app.assert_nothing_is_stale()


async def test_stepping_from_map_to_map_keeps_the_cursor_where_it_fits() -> None:
    async with HeatmapApp().run_test(size=(60, 20)) as pilot:
        app = await show(pilot, attention(10))
        app.heatmap.move_to(7, 4)
        other = attention(10, seed=1)
        await show(pilot, other)
        assert app.heatmap.cursor == (7, 4)
        assert app.moves[-1] == (7, 4, float(other.weights[7, 4]))
        app.assert_nothing_is_stale()
        await show(pilot, attention(6, 3))
        assert app.heatmap.cursor == (5, 2)
        app.assert_nothing_is_stale()


async def test_a_move_in_256_colours_writes_less_than_500_bytes_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "")
    async with HeatmapApp().run_test(size=(80, 24)) as pilot:
        app = await show(pilot, attention(30, causal=False))
        app.heatmap.toggle_scale()
        app.heatmap.move_to(4, 10)
        await pilot.pause()
        for key in ["right"] * 9 + ["down"] * 3 + ["left"] * 9 + ["up"] * 3:
            app.written = 0
            await pilot.press(key)
            await pilot.pause()
            assert 0 < app.written < 500, (key, app.heatmap.cursor)


async def test_another_map_is_painted_only_where_it_differs() -> None:
    async with HeatmapApp().run_test(size=(80, 24)) as pilot:
        app = await show(pilot, attention(30))
        await pilot.pause()
        app.written = 0
        await show(pilot, app.heatmap.map)
        assert app.written == 0
        await show(pilot, attention(30, seed=1))
        assert 0 < app.written < 10_000
        app.assert_nothing_is_stale()
