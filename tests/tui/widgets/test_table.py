"""The table of any size: what is seen of it, every key, the mouse, sorting, and rows that are left out."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from engine.values.filters import Filter, parse_filter
from engine.values.table import Cell
from tests.tui.painted import PaintedApp, press, resize
from tui.drawing.numbers import fit_number
from tui.widgets.table_columns import Columns, fit_columns
from tui.widgets.table_grid import TableGrid, sort_places

WALKS = {
    "j": (6, "second"), "down": (6, "second"), "k": (4, "second"), "up": (4, "second"), "h": (5, "first"),
    "left": (5, "first"), "home": (5, "first"), "l": (5, "third"), "right": (5, "third"), "gg": (0, "second"),
    "ctrl+home": (0, "second"), "pageup": (0, "second"), "G": (39, "second"), "ctrl+end": (39, "second"),
    "end": (5, "name"), "pagedown": (13, "second"), "gg k home h h h": (0, "head"), "G j end l": (39, "name"),
}  # fmt: skip
"""Keys, and to which row and column they lead from the sixth row's second number."""


async def test_every_key_moves_the_cursor_where_it_says() -> None:
    async with table_of(rows(40)) as (app, pilot):
        for keys, place in WALKS.items():
            await pilot.press("gg", "home", "l", *["j"] * 5)
            assert (app.grid.row, app.grid.column) == (rows(40)[5], "second")
            await press(pilot, *keys.split())
            assert app.grid.row is not None
            assert (app.grid.row[1], app.grid.column) == place, keys
            assert f"H{place[0]} " in app.text(), "the cursor's row is in view"


async def test_a_column_sorts_down_then_up_then_not_and_the_first_row_is_shown() -> None:
    made = rows(10)
    async with table_of(made) as (app, pilot):
        await pilot.press("l", "l", "j", "j")
        for expected, sign in (
            (sorted(made, key=lambda row: -float(str(row[3]))), "third▾"),
            (sorted(made, key=lambda row: float(str(row[3]))), "third▴"),
            (made, "third"),
        ):
            await press(pilot, "o")
            assert in_order(app) == expected
            assert app.grid.row == expected[0]
            await press(pilot, "G")
            assert f"{sign} " in app.picture.line(0)


async def test_new_rows_keep_the_sort_order_and_a_new_table_has_none() -> None:
    async with table_of(rows(10)) as (app, pilot):
        await press(pilot, "o", *"jj")
        app.grid.show(COLUMNS, rows(12), 1)
        await press(pilot)
        assert [row[1] for row in in_order(app)] == list(range(11, -1, -1))
        assert app.grid.cursor[0] == 2, "the cursor stays on its line"
        app.grid.show(("a", "b"), [(1, 2), (3, 4)], 0)
        await press(pilot)
        assert in_order(app) == [(1, 2), (3, 4)]
        assert app.picture.line(0).split() == ["a", "b"]


async def test_a_filter_keeps_the_sort_order_and_the_cursors_row_even_when_it_hides_it() -> None:
    made = rows(10)
    async with table_of(made) as (app, pilot):
        await press(pilot, "l", "l", "o", *"jjj")
        place = app.grid.place
        assert place is not None
        kept = sorted({0, 3, 4, place, 9})
        await narrow_to(pilot, of_rows(made, kept))
        assert app.grid.place == place
        assert in_order(app) == sorted((made[place] for place in kept), key=lambda row: -float(str(row[3])))
        for kept in ([1 if place > 1 else 2], []):
            await narrow_to(pilot, of_rows(made, kept))
        await narrow_to(pilot)
        assert app.grid.place == place, "which the filter had hidden"
        await narrow_to(pilot, of_rows(made, [3, 9]))
        await pilot.press("G", "k")
        went_to = app.grid.place
        await narrow_to(pilot)
        assert app.grid.place == went_to, "a person went there"
        await narrow_to(pilot, of_rows(made, []))
        await pilot.press("j", "o", "G")
        assert in_order(app) == []
        await narrow_to(pilot)
        assert len(in_order(app)) == len(made)


@pytest.mark.parametrize(
    ("cells", "rising"),
    [
        ((math.nan, 2.0, "", 5, math.inf, None), [2.0, 5, math.inf]),
        (("2048x192", "all", "768x192", "", "10", "9", "192"), ["9", "10", "192", "768x192", "2048x192", "all"]),
    ],
)
def test_columns_sort_by_size_and_what_is_missing_comes_last(cells: Sequence[Cell], rising: list[Cell]) -> None:
    for is_descending, expected in ((False, rising), (True, rising[::-1])):
        ordered = [cells[place] for place in sort_places(range(len(cells)), cells, is_descending)]
        assert ordered[: len(rising)] == expected


async def test_the_mouse_and_enter_choose_rows_and_a_click_on_a_name_sorts() -> None:
    async with table_of(rows(10)) as (app, pilot):
        third = app.picture.line(0).index("third")
        await pilot.click(TableGrid, offset=(third + 1, 4))
        assert (app.grid.row, app.grid.column) == (rows(10)[3], "third")
        assert app.chosen == []
        await pilot.click(TableGrid, offset=(third + 1, 4))
        await pilot.pause()
        assert app.chosen == [rows(10)[3]]
        await press(pilot, "j", "enter")
        assert app.chosen[1:] == [rows(10)[4]], "Enter does what the second click does"
        await pilot.click(TableGrid, offset=(third + 1, 0))
        assert in_order(app)[0][3] == 9


async def test_a_long_name_takes_two_lines_and_chance_is_called_that_beside_its_measure() -> None:
    columns = ("head", "qk_identity_distance", "qk_identity_distance_chance", "x_chance")
    async with table_of([("H0", 0.5, 0.25, 1.0), ("H1", 0.75, 0.25, 2.0)], columns, size=(60, 6)) as (app, pilot):
        await press(pilot, "home", "o")
        assert app.picture.line(0).split() == ["QK", "identity"]
        assert app.picture.line(1).split() == ["head", "distance▾", "chance", "x", "chance"]
        assert app.picture.line(2).split() == ["H1", "0.7500", "0.2500", "2.000"]


@pytest.mark.parametrize("width", [14, 20, 27, 34, 48])
async def test_where_a_column_does_not_fit_no_number_is_cut_and_the_sign_of_sorting_shows(width: int) -> None:
    made: list[tuple[Cell, ...]] = [("H0", -0.12345, 98765.0, 0.00013579, -2.4680e-7, "word")]
    whole = {fit_number(cell, room, digits=2) for cell in made[0] if isinstance(cell, float) for room in range(3, 11)}
    assert all(any(float(text) == pytest.approx(cell, rel=0.05) for cell in made[0][1:5]) for text in whole - {"…"})
    async with table_of(made, size=(width, 6)) as (app, pilot):
        for _ in range(len(COLUMNS)):
            line = app.picture.line(1)
            cells = [word for word in line.split() if any(letter.isdigit() for letter in word)]
            assert cells[0] == "H0"
            assert all(cell in whole for cell in cells[1:]), line
            for sign in ("▾", "▴"):
                await press(pilot, "o")
                assert app.picture.line(1) == line
                assert app.picture.line(0).count(sign) == 1, app.picture.line(0)
            await press(pilot, "o", "l")


async def test_no_number_or_name_of_a_long_table_is_cut() -> None:
    made: list[tuple[Cell, ...]] = [(f"H{n}", n, 0.5 * n, "") for n in range(2000)]
    made[1500] = ("the longest name", 123456789, -1.2345e-5, "far down")
    async with table_of(made, ("head", "whole", "real", "text")) as (app, pilot):
        await narrow_to(pilot, of_rows(made, [1500]))
        assert app.picture.line(1).split() == ["the", "longest", "name", "123456789", "-1.234e-05", "far", "down"]


def test_tokens_are_cut_only_where_numbers_behind_them_would_not_fit() -> None:
    made = Columns.of(("token", "projection"), [[" considerable"], [-0.1234]], 0, str)
    assert fit_columns(made, 27).widths == (13, 10)
    assert fit_columns(made, 26).widths == (8, 10)
    lists = Columns.of(("term", "query_tokens", "key_tokens"), [["pair 1"], ["a|b" * 9], ["c|d" * 9]], 1, str)
    assert fit_columns(lists, 56).widths == (6, 14, 14)


def test_scrolling_never_starts_at_chance_if_its_measure_fits_too() -> None:
    names = ("head", *(f"m{n}{end}" for n in range(8) for end in ("", "_chance")))
    made = Columns.of(names, [["H0"], *([0.123456] for _ in names[1:])], 1, str)
    for room in range(made.edge + 2 * 10, made.starts[-1]):
        last = made.scrolled_width(room) - room
        for column in range(1, len(names)):
            for before in (0, last):
                left = min(made.scroll_to_column(column, before, room), last)
                seen = [names[each] for each, cells in made.in_view(left, room) if len(cells) == made.widths[each]]
                assert names[column] in seen
                assert not seen[1].endswith("_chance"), (room, column, before)


async def test_rows_do_not_move_while_columns_scroll() -> None:
    names = ("head", "a", "b", "a_rather_long_name", "c")
    made: list[tuple[Cell, ...]] = [(f"H{n}", *(n + 0.123456 for _ in range(4))) for n in range(20)]
    async with table_of(made, names, size=(24, 10)) as (app, pilot):
        for keys, title in (("", "a"), ("jjj", "a"), ("ll", "a rather")):
            await press(pilot, *keys)
            assert app.picture.line(1).split()[0] == "head"
            assert title in app.picture.line(1 if title == "a" else 0)
            rows = [app.picture.line(line).split()[0] for line in range(2, 9)]
            assert rows == [f"H{n}" for n in range(len(rows))]


async def test_resizing_keeps_the_cursor_in_view_and_starts_with_a_whole_column() -> None:
    names = ("stack", "layer", "head", *(f"q.measure_{n}_of_many" for n in range(12)))
    made: list[tuple[Cell, ...]] = [("decoder", 1, "all", *(n + 0.123456 for n in range(12)))]
    async with table_of(made, names, 3, size=(25, 6)) as (app, pilot):
        await pilot.press(*["l"] * 7)
        for width in (25, 40, 58, 23, 81, 25):
            await resize(pilot, width, 6)
            lines = [app.picture.line(place)[:width] for place in range(3)]  # what was beyond stays in the picture
            line = next(line for line in lines if "…oder" in line or "decoder" in line)
            assert line.split()[1:3] == ["1", "all"]
            assert re.fullmatch(r"\d+\.123", line.split()[3]), line
            assert "7.123" in line


COLUMNS = ("head", "first", "second", "third", "fourth", "name")


class TableApp(PaintedApp):
    """A table and nothing else, with a list of the rows that were chosen."""

    def __init__(self) -> None:
        self.grid = TableGrid()
        super().__init__(self.grid)
        self.chosen: list[tuple[Cell, ...]] = []

    def on_table_grid_chosen(self, message: TableGrid.Chosen) -> None:
        self.chosen.append(tuple(self.grid.row or ()))


def rows(count: int) -> list[tuple[Cell, ...]]:
    """Make rows whose columns rise, fall, and go up and down."""
    return [(f"H{n}", n, -n / 2, (n * 7) % count, 1e-6 * n, f"word {n}") for n in range(count)]


def in_order(app: TableApp) -> list[tuple[Cell, ...]]:
    return [tuple(app.grid.rows[place]) for place in app.grid.order]


def of_rows(made: list[tuple[Cell, ...]], kept: list[int]) -> Filter:
    """Make a filter that leaves some of the rows, by their first cell."""
    words = [f"part = '{made[place][0]}'" for place in kept]
    return parse_filter(" or ".join(words) or "part = 'none'", ("part",))


async def narrow_to(pilot: Pilot[None], kept: Filter | None = None) -> None:
    """Leave the rows that a filter lets through, or all."""
    assert isinstance(pilot.app, TableApp)
    pilot.app.grid.narrow(kept)
    await press(pilot)


@asynccontextmanager
async def table_of(
    made: Sequence[tuple[Cell, ...]],
    names: tuple[str, ...] = COLUMNS,
    frozen: int = 1,
    *,
    size: tuple[int, int] = (60, 9),
) -> AsyncIterator[tuple[TableApp, Pilot[None]]]:
    """Show a table in an application of its own."""
    app = TableApp()
    async with app.painted(size) as pilot:
        app.grid.show(names, made, frozen)
        await press(pilot)
        yield app, pilot
