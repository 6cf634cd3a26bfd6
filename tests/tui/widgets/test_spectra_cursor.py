"""The cursor of the plots of singular values: every key, the mouse, and what a move writes."""

from __future__ import annotations

import pytest

from tests.tui.painted import good_terminal
from tests.tui.widgets.spectra_plots import SpectraApp, curves, show
from tui.widgets.spectra import SpectraView


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)


# The cursor


@pytest.mark.parametrize(
    ("keys", "matrix", "index"),
    [
        (["right"], "K", 13),
        (["l"], "K", 13),
        (["left"], "K", 11),
        (["h"], "K", 11),
        (["pagedown"], "K", 22),
        (["pageup"], "K", 2),
        (["pageup", "pageup"], "K", 1),
        (["home"], "K", 1),
        (["gg"], "K", 1),
        (["end"], "K", 64),
        (["G", "right"], "K", 64),
        (["up"], "Q", 12),
        (["k", "k"], "Q", 12),
        (["down"], "QK", 12),
        (["j", "j"], "V", 12),
        (["j"] * 9, "OV", 12),
    ],
)
async def test_every_key_moves_the_cursor_where_it_says(keys: list[str], matrix: str, index: int) -> None:
    async with SpectraApp().run_test(size=(80, 24)) as pilot:
        shown = curves()
        app = await show(pilot, shown)
        app.view.move_to("K", 12)
        await pilot.pause()
        assert (app.view.matrix, app.view.index) == ("K", 12)
        await pilot.press(*keys)
        await pilot.pause()
        assert (app.view.matrix, app.view.index) == (matrix, index)
        values = next(curve.values for curve in shown if curve.matrix == matrix)
        assert app.moves[-1] == (matrix, index, float(values[index - 1]))
        app.assert_nothing_is_stale()


@pytest.mark.parametrize(
    ("keys", "matrix", "index"), [(["l", "j", "l"], "K", 3), (["G", "h"], "Q", 63), (["pagedown", "j", "j"], "QK", 11)]
)
async def test_moves_wait_for_curves_that_are_to_come(keys: list[str], matrix: str, index: int) -> None:
    async with SpectraApp().run_test(size=(80, 24)) as pilot:
        app = await show(pilot, curves())
        app.view.show_message("no such head")
        await pilot.press("j", "j")
        app.view.show_message("computing …", is_waiting=True)
        await pilot.press(*keys)
        app.view.show_message("computing: 1 of 2", is_waiting=True)
        app.view.show(curves())
        await pilot.pause()
        assert (app.view.matrix, app.view.index) == (matrix, index)
        app.view.show(curves())
        assert (app.view.matrix, app.view.index) == (matrix, index), "moves are made once"
        app.assert_nothing_is_stale()


async def test_every_binding_can_be_remapped_and_says_what_it_does() -> None:
    bindings = [binding for binding in SpectraView.BINDINGS if not isinstance(binding, tuple)]
    assert len({binding.id for binding in bindings}) == len(SpectraView.BINDINGS)
    assert all(binding.id and binding.id.startswith("spectra.") and binding.description for binding in bindings)


async def test_in_a_wide_grid_down_is_down_too() -> None:
    async with SpectraApp().run_test(size=(90, 8)) as pilot:
        app = await show(pilot, curves())
        assert [line.split()[0::3] for line in app.text().splitlines() if "rank" in line] == [
            ["Q", "K", "QK"],
            ["V", "O", "OV"],
        ]
        await pilot.press("down")
        assert app.view.matrix == "V"
        await pilot.press("down")
        assert app.view.matrix == "K"


async def test_the_mouse_chooses_the_matrix_and_the_value() -> None:
    async with SpectraApp().run_test(size=(80, 24)) as pilot:
        app = await show(pilot, curves(8))
        left = app.picture.line(1).index("┤") + 1
        app.set_focus(None)
        await pilot.click(offset=(left + 4 * 3 + 1, 4))
        assert (app.view.matrix, app.view.index) == ("Q", 4)
        assert app.focused is app.view
        await pilot.click(offset=(40 + left + 4 * 7, 20))
        assert (app.view.matrix, app.view.index) == ("OV", 8)
        await pilot.click(offset=(3, 8))
        assert (app.view.matrix, app.view.index) == ("K", 8)
        await pilot.click(offset=(39, 4))
        assert (app.view.matrix, app.view.index) == ("Q", 8)
        await pilot.pause()
        app.assert_nothing_is_stale()


async def test_the_cursor_is_drawn_in_the_selected_plot_only() -> None:
    async with SpectraApp().run_test(size=(80, 24)) as pilot:
        app = await show(pilot, curves(8, baseline=False))
        await pilot.press("down", "right", "right")
        await pilot.pause()
        cursor = "38;2;78;191;113"
        at = {cell for cell, (_, style) in app.picture.cells.items() if cursor in style}
        left = app.picture.line(9).index("┤") + 1
        assert {column for row, column in at if row == 8} == {0, 1, 2}
        assert {column for row, column in at if row != 8} == set(range(left + 8, left + 12))
        assert {row for row, _ in at} <= set(range(8, 16))


async def test_stepping_from_head_to_head_keeps_the_matrix_and_the_index() -> None:
    async with SpectraApp().run_test(size=(80, 24)) as pilot:
        app = await show(pilot, curves())
        app.view.move_to("OV", 50)
        other = curves(seed=1)
        await show(pilot, other)
        assert (app.view.matrix, app.view.index) == ("OV", 50)
        assert app.moves[-1] == ("OV", 50, float(other[5].values[49]))
        app.assert_nothing_is_stale()
        await show(pilot, curves(12))
        assert app.view.index == 12
        app.view.show_message("reading")
        await show(pilot, curves())
        assert (app.view.matrix, app.view.index) == ("OV", 50)
        app.assert_nothing_is_stale()


async def test_a_move_paints_little_and_another_head_only_what_changes() -> None:
    async with SpectraApp().run_test(size=(56, 18)) as pilot:
        app = await show(pilot, curves())
        await pilot.pause()
        for key in ("right", "right", "pagedown", "end", "left"):
            app.written = 0
            await pilot.press(key)
            await pilot.pause()
            assert app.written < 1000, key
        app.written = 0
        await show(pilot, curves())
        assert app.written == 0
        await show(pilot, curves(seed=1))
        assert 0 < app.written < 10_000
        app.assert_nothing_is_stale()
