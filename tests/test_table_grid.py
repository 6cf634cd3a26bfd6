"""The table of any size: every key, the mouse, sorting, scrolling under names that stay, and any text in its cells."""

from __future__ import annotations

import math
import re

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot

from engine.values.filters import Filter
from engine.values.tables import Cell
from tests.painted import PaintedApp, good_terminal
from tui.numbers import short
from tui.widgets import table_arrangement
from tui.widgets.table_columns import Columns
from tui.widgets.table_grid import TableGrid

COLUMNS = ("head", "first", "second", "third", "fourth", "name")


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    good_terminal(monkeypatch)


class TableApp(PaintedApp):
    """A table and nothing else."""

    def __init__(self, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.grid = TableGrid(ascii_only=ascii_only)
        self.chosen: list[tuple[Cell, ...]] = []

    def compose(self) -> ComposeResult:
        yield self.grid

    def on_mount(self) -> None:
        self.grid.focus()

    def on_table_grid_chosen(self, message: TableGrid.Chosen) -> None:
        self.chosen.append(tuple(self.grid.row or ()))


def rows(count: int) -> list[tuple[Cell, ...]]:
    """Make rows whose columns rise, fall, and go up and down."""
    return [(f"H{n}", n, -n / 2, (n * 7) % count, 1e-6 * n, f"word {n}") for n in range(count)]


def ordered(app: TableApp) -> list[tuple[Cell, ...]]:
    """Give the rows as they stand on the screen."""
    return [tuple(app.grid.rows[place]) for place in app.grid.order]


def painted(app: TableApp) -> str:
    """Give everything that is on the terminal."""
    return "\n".join(app.picture.line(row) for row in range(app.size.height))


def of_rows(made: list[tuple[Cell, ...]], kept: list[int]) -> Filter:
    """Make a filter that leaves some of the rows."""
    names = {made[place][0] for place in kept}
    return Filter("some", lambda row: row[0] in names, frozenset())


@pytest.fixture(params=["at once", "beside the loop"])
async def arranging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tables arranged as small ones are, then as large ones are."""
    if request.param == "beside the loop":
        monkeypatch.setattr(table_arrangement, "AT_ONCE", -1)


async def arranged(pilot: Pilot[None]) -> None:
    """Wait until the rows are in order and drawn."""
    assert isinstance(pilot.app, TableApp)
    await pilot.pause()
    while not pilot.app.grid.is_arranged:
        await pilot.pause(0.005)
    await pilot.pause()


async def show(pilot: Pilot[None], made: list[tuple[Cell, ...]], frozen: int = 1) -> TableApp:
    app = pilot.app
    assert isinstance(app, TableApp)
    app.grid.show(COLUMNS, made, frozen)
    await arranged(pilot)
    return app


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


@pytest.mark.parametrize("width", range(24, 34))
async def test_numbers_at_the_right_edge_are_whole_or_left_out(width: int) -> None:
    app = TableApp()
    async with app.run_test(size=(width, 8)) as pilot:
        app.grid.show(("head", "rank", "effective"), [(f"H{n}", 28.12, 13.25) for n in range(40)], 1)
        await pilot.pause()
        for row in range(1, 7):
            numbers = " ".join(painted(app).splitlines()[row].split()[1:])
            assert set(re.findall(r"[\d.]+", numbers)) <= {"28.12", "13.25"}


async def test_names_stay_at_the_left_and_at_the_top_while_the_rest_scrolls() -> None:
    async with TableApp().run_test(size=(30, 8)) as pilot:
        app = await show(pilot, rows(40))
        await pilot.press("G", "end")
        await pilot.pause()
        assert app.picture.line(0).startswith("head")
        assert "name" in app.picture.line(0)
        assert "first" not in app.picture.line(0)
        assert app.picture.line(6).startswith("H39")
        assert "word 39" in app.picture.line(6)
        app.assert_nothing_is_stale()


@pytest.mark.usefixtures("arranging")
async def test_a_column_sorts_down_then_up_then_as_the_rows_came_and_the_first_row_is_shown() -> None:
    async with TableApp().run_test(size=(60, 9)) as pilot:
        made = rows(10)
        app = await show(pilot, made)
        await pilot.press("l", "l", "j", "j")
        for expected, sign in (
            (sorted(made, key=lambda row: -float(row[3])), "third▾"),
            (sorted(made, key=lambda row: float(row[3])), "third▴"),
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
        assert ordered(app) == sorted((made[place] for place in kept), key=lambda row: -float(row[3]))
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


async def test_a_long_name_takes_two_lines_and_chance_is_called_that_beside_its_measure() -> None:
    columns = ("head", "qk_identity_distance", "qk_identity_distance_chance", "x_chance")
    async with TableApp().run_test(size=(60, 6)) as pilot:
        app = await show(pilot, [])
        app.grid.show(columns, [("H0", 0.5, 0.25, 1.0), ("H1", 0.75, 0.25, 2.0)], 1)
        await pilot.press("home", "o")
        await pilot.pause()
        assert app.picture.line(0).split() == ["qk_identity_"]
        assert app.picture.line(1).split() == ["head", "distance▾", "chance", "x_chance"]
        assert app.picture.line(2).split() == ["H1", "0.75", "0.25", "2"]
        await pilot.click(TableGrid, offset=(app.picture.line(1).index("x_chance"), 3))
        assert (app.grid.row, app.grid.column) == (("H0", 0.5, 0.25, 1.0), "x_chance")
        app.assert_nothing_is_stale()


async def test_of_a_long_table_no_number_and_no_name_is_cut() -> None:
    made: list[tuple[Cell, ...]] = [(f"H{n}", n, 0.5 * n, "") for n in range(2000)]
    made[1500] = ("the longest name", 123456789, -1.2345e-5, "far down")
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, [])
        app.grid.show(("head", "whole", "real", "text"), made, 1)
        app.grid.narrow(of_rows(made, [1500]))
        await pilot.pause()
        assert app.picture.line(1).split() == ["the", "longest", "name", "123456789", "-1.2e-05", "far", "down"]


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


@pytest.mark.parametrize("size", [(12, 3), (1, 1), (200, 50)])
async def test_any_size_shows_what_fits(size: tuple[int, int]) -> None:
    async with TableApp().run_test(size=size) as pilot:
        app = await show(pilot, rows(30))
        await pilot.press("G", "end", "home", "gg")
        await pilot.pause()
        app.assert_nothing_is_stale()


async def test_what_a_token_holds_does_no_harm() -> None:
    nasty = ["[bold]x[/]", "a\nb", "\x1b[31mred", "日本語" * 20, "e\u0301", "👩\u200d💻"]
    async with TableApp().run_test(size=(60, 9)) as pilot:
        app = await show(pilot, [])
        app.grid.show(("token",), [(text,) for text in nasty], 0)
        await pilot.pause()
        assert "[bold]x[/]" in painted(app)
        assert "a\\nb" in painted(app)
        assert "\\x1b[31mred" in painted(app)
        app.assert_nothing_is_stale()


async def test_in_ascii_everything_is_ascii() -> None:
    async with TableApp(ascii_only=True).run_test(size=(60, 9)) as pilot:
        app = await show(pilot, rows(30))
        app.grid.show(("σ", "name"), [(math.inf, "café 中")], 1)
        await pilot.press("o")
        await pilot.pause()
        assert painted(app).isascii()


@pytest.mark.parametrize("width", range(20, 60, 3))
async def test_no_number_is_cut_where_a_column_does_not_fit(width: int) -> None:
    made: list[tuple[Cell, ...]] = [("H0", -0.12345, 98765.0, 0.00013579, -2.4680e-7, "word")]
    whole = {short(cell) for cell in made[0] if isinstance(cell, float)}
    async with TableApp().run_test(size=(width, 6)) as pilot:
        app = await show(pilot, made)
        for _ in range(len(COLUMNS)):
            line = app.picture.line(1)
            cells = [word for word in line.split() if any(letter.isdigit() for letter in word)]
            assert cells[0] == "H0"
            assert all(cell in whole for cell in cells[1:]), line
            await pilot.press("l")
            await pilot.pause()


def test_tokens_are_cut_only_where_numbers_behind_them_would_not_fit_and_a_sign_has_a_cell() -> None:
    made = Columns.of(("token", "projection"), [[" considerable"], [-0.1234]], 0, str)
    assert made.fitted(27, "").widths == (13, 10)
    assert made.fitted(26, "").widths == (8, 10)
    assert made.fitted(40, "projection").widths == (13, 11)
