"""The table of any size: every key, the mouse, sorting, and rows that are left out."""

from __future__ import annotations

import math

import pytest

from engine.values.filters import parse_filter
from engine.values.table import Cell
from tests.tui.painted import good_terminal
from tests.tui.widgets.table_grids import TableApp, arranged, of_rows, ordered, painted, rows, show
from tui.widgets import table_arrangement
from tui.widgets.table_grid import TableGrid


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)


@pytest.fixture(params=["at once", "beside the loop"])
async def arranging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tables arranged as small ones are, then as large ones are."""
    if request.param == "beside the loop":
        monkeypatch.setattr(table_arrangement, "AT_ONCE", -1)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        (["j"], (6, "second")),
        (["down"], (6, "second")),
        (["k"], (4, "second")),
        (["up"], (4, "second")),
        (["h"], (5, "first")),
        (["left"], (5, "first")),
        (["l"], (5, "third")),
        (["right"], (5, "third")),
        (["gg"], (0, "second")),
        (["ctrl+home"], (0, "second")),
        (["G"], (39, "second")),
        (["ctrl+end"], (39, "second")),
        (["home"], (5, "first")),
        (["end"], (5, "name")),
        (["pagedown"], (13, "second")),
        (["pageup"], (0, "second")),
        (["gg", "k", "home", "h", "h", "h"], (0, "head")),
        (["G", "j", "end", "l"], (39, "name")),
    ],
)
async def test_every_key_moves_the_cursor_where_it_says(keys: list[str], place: tuple[int, str]) -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, rows(40))
        await pilot.press("l", *["j"] * 5)
        assert (app.grid.row, app.grid.column) == (rows(40)[5], "second")
        await pilot.press(*keys)
        await pilot.pause()
        assert app.grid.row is not None
        assert (app.grid.row[1], app.grid.column) == place
        assert f"H{place[0]} " in painted(app), "the cursor's row is in view"
        app.assert_nothing_is_stale()


@pytest.mark.usefixtures("arranging")
async def test_a_column_sorts_down_then_up_then_as_the_rows_came_and_the_first_row_is_shown() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        made = rows(10)
        app = await show(pilot, made)
        await pilot.press("l", "l", "j", "j")
        for expected, sign in (
            (sorted(made, key=lambda row: -float(str(row[3]))), "third▾"),
            (sorted(made, key=lambda row: float(str(row[3]))), "third▴"),
            (made, "third"),
        ):
            await pilot.press("o")
            await arranged(pilot)
            assert ordered(app) == expected
            assert app.grid.row == expected[0]
            await pilot.press("G")
            assert f"{sign} " in app.picture.line(0)
            app.assert_nothing_is_stale()


@pytest.mark.usefixtures("arranging")
async def test_new_rows_are_sorted_as_the_old_ones_and_other_columns_are_not() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, rows(10))
        await pilot.press("o")
        await arranged(pilot)
        assert [row[1] for row in ordered(app)] == list(range(9, -1, -1))
        await show(pilot, rows(12))
        assert [row[1] for row in ordered(app)] == list(range(11, -1, -1))
        app.grid.show(("a", "b"), [(1, 2), (3, 4)], 0)
        await arranged(pilot)
        assert ordered(app) == [(1, 2), (3, 4)]
        assert app.picture.line(0).split() == ["a", "b"]


@pytest.mark.usefixtures("arranging")
async def test_only_the_rows_that_are_kept_are_shown_and_sorted_and_the_cursor_stays_on_its_row() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        made = rows(10)
        app = await show(pilot, made)
        await pilot.press("l", "l", "o")
        await arranged(pilot)
        await pilot.press(*"jjj")
        row = app.grid.row
        assert row is not None
        kept = sorted({0, 3, 4, made.index(tuple(row)), 9})
        app.grid.narrow(of_rows(made, kept))
        await arranged(pilot)
        assert app.grid.row == row
        assert ordered(app) == sorted((made[place] for place in kept), key=lambda row: -float(str(row[3])))
        assert painted(app).count("word") == len(kept)
        app.assert_nothing_is_stale()
        app.grid.narrow(of_rows(made, []))
        await arranged(pilot)
        await pilot.press("j", "o", "G")
        assert app.grid.place is None
        assert ordered(app) == []
        app.grid.narrow(None)
        await arranged(pilot)
        assert len(ordered(app)) == len(made)
        app.assert_nothing_is_stale()


async def test_missing_cells_are_last_whichever_way_a_column_is_sorted() -> None:
    made: list[tuple[Cell, ...]] = [("a", ""), ("b", 2.0), ("c", math.nan), ("d", 5), ("e", math.inf)]
    async with TableApp().run_test(size=(40, 9)) as pilot:
        app = await show(pilot, [], 1)
        app.grid.show(("head", "value"), made, 1)
        await pilot.press("l", "o")
        assert [row[0] for row in ordered(app)] == ["e", "d", "b", "a", "c"]
        await pilot.press("o")
        assert [row[0] for row in ordered(app)] == ["b", "d", "e", "a", "c"]


async def test_the_mouse_chooses_cells_and_sorts_by_names() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, rows(10))
        third = app.picture.line(0).index("third")
        await pilot.click(TableGrid, offset=(third + 1, 4))
        assert (app.grid.row, app.grid.column) == (rows(10)[3], "third")
        assert app.chosen == []
        await pilot.click(TableGrid, offset=(third + 1, 4))
        await pilot.pause()
        assert app.chosen == [rows(10)[3]], "the second click does what Enter does"
        await pilot.click(TableGrid, offset=(third + 1, 0))
        assert ordered(app)[0][3] == 9


async def test_enter_says_which_row_was_chosen() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, rows(10))
        await pilot.press("j", "enter")
        await pilot.pause()
        assert app.chosen == [rows(10)[1]]


async def test_a_message_stands_in_place_of_rows_and_no_key_fails_then() -> None:
    async with TableApp().run_test(size=(40, 7)) as pilot:
        app = await show(pilot, rows(10))
        app.grid.show_message("press i and type a sentence")
        await pilot.pause()
        assert "press i and type a sentence" in painted(app)
        await pilot.press("j", "l", "G", "end", "o", "enter", "pagedown")
        await pilot.click(TableGrid, offset=(2, 2))
        assert app.grid.row is None
        assert app.chosen == []
        app.assert_nothing_is_stale()


@pytest.mark.usefixtures("arranging")
async def test_what_a_filter_compares_comes_first_with_its_chance_and_goes_back_to_its_place() -> None:
    names = ("part", *(f"m{n}{end}" for n in range(30) for end in ("", "_chance")))
    made: list[tuple[Cell, ...]] = [(f"H{row}", *(100.0 * row + n for n in range(60))) for row in range(20)]
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, [])
        app.grid.show(names, made, 1)
        await arranged(pilot)
        assert app.grid.columns == names
        app.grid.narrow(parse_filter("m9 > 300 and m20_chance < 1500 and part != H4", names))
        await arranged(pilot)
        assert app.grid.columns[:6] == ("part", "m9", "m9_chance", "m20", "m20_chance", "m0")
        assert sorted(app.grid.columns) == sorted(names), "none is lost"
        assert app.picture.line(0).split()[:5] == ["part", "m9", "chance", "m20", "chance"]
        assert app.picture.line(1).split()[:5] == ["H3", "318.0", "319.0", "340.0", "341.0"]
        assert [row[0] for row in ordered(app)] == ["H3", *(f"H{row}" for row in range(5, 15))]
        assert app.grid.column == "m9", "the cursor is where it is said what decides"
        assert app.grid.row is not None
        assert app.grid.row[:5] == ("H3", 318.0, 319.0, 340.0, 341.0)
        await pilot.press("l", "l")
        assert app.grid.column == "m20"
        app.grid.narrow(None)
        await arranged(pilot)
        assert app.grid.columns == names
        assert app.grid.column == "m20"
        assert " m20 " in app.picture.line(0), "the cursor's column stays in view"


@pytest.mark.usefixtures("arranging")
async def test_a_row_is_found_again_that_a_filter_left_out_for_a_while() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app, made = await show(pilot, rows(40)), rows(40)
        await pilot.press(*["j"] * 7)
        for kept in ([1, 2, 3], [], [20]):
            app.grid.narrow(of_rows(made, kept))
            await arranged(pilot)
        app.grid.narrow(of_rows(made, [3, 7, 9]))
        await arranged(pilot)
        assert app.grid.place == 7
        app.grid.narrow(of_rows(made, [3, 9]))
        await arranged(pilot)
        await pilot.press("j")
        app.grid.narrow(None)
        await arranged(pilot)
        assert app.grid.place == 9, "a person went there"
