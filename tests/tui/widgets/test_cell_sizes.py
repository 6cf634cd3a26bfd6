"""The cells of a map: larger ones where the whole map has room for them, halves of a line where it has too little."""

from __future__ import annotations

import pytest

from tests.tui.painted import press, resize
from tests.tui.widgets.heatmaps import attention, heatmap_of, rgb, show
from tui.drawing.map_layout import axes_of

FIT, NUMBERS = "unbound:heatmap.fit", "unbound:heatmap.numbers"


@pytest.fixture(autouse=True)
def new_axes() -> None:
    axes_of.cache_clear()


@pytest.mark.parametrize(
    ("tokens", "size", "cell", "lines", "header"),
    [
        (10, (40, 18), 2, 1, 5), (10, (44, 24), 3, 2, 2), (10, (44, 25), 3, 2, 5), (10, (50, 24), 4, 2, 1),
        (10, (120, 40), 9, 3, 1), (3, (200, 60), 17, 8, 1), (17, (60, 18), 2, 1, 1),
    ],
)  # fmt: skip
async def test_cells_are_the_largest_with_which_the_whole_map_is_in_view(
    tokens: int, size: tuple[int, int], cell: int, lines: int, header: int
) -> None:
    async with heatmap_of(attention(tokens), size=size) as (app, _):
        axes = app.heatmap._axes
        assert (axes.cell, axes.lines, axes.header) == (cell, lines, header)
        assert tuple(map(len, app.heatmap.window)) == (tokens, tokens)
        assert not app.heatmap.show_vertical_scrollbar


async def test_keys_are_read_across_from_four_columns_on_the_cursor_hides_no_cell_and_a_click_finds_each() -> None:
    async with heatmap_of(attention(10), size=(50, 24)) as (app, pilot):
        assert " ".join(app.picture.line(0).split()) == "q ↓ k → The qu… br… fox ju… ov… the la… dog ."
        app.heatmap.move_to(3, 2)
        await pilot.pause()
        gutter = app.heatmap._axes.gutter
        for row in (1 + 3 * 2, 1 + 3 * 2 + 1):
            assert app.picture.line(row)[gutter + 4 * 2 : gutter + 4 * 3] == "[  ]"
            assert rgb(app.picture.style(row, gutter + 4 * 2 + 1)) == app.colour_of(3, 2)
        assert app.picture.line(7).split()[:2] == ["3", "fox"]
        await press(pilot, "down", "right", "k")
        await pilot.click(offset=(gutter + 4 * 5 + 3, 1 + 2 * 7 + 1))
        assert app.heatmap.cursor == (7, 5)
        await show(pilot, attention(30))
        await press(pilot, FIT)
        await pilot.click(offset=(app.heatmap._axes.gutter + 5, 1 + 7))
        assert app.heatmap.cursor == (14, 5)


async def test_half_lines_bring_a_map_into_view_that_would_not_fit() -> None:
    async with heatmap_of(attention(29)) as (app, pilot):
        assert len(app.heatmap.window[0]) < 29, "until it is wanted whole"
        await pilot.press(FIT)
        app.heatmap.move_to(28, 3)
        await pilot.pause()
        for query, key in ((0, 0), (9, 4), (12, 12), (28, 20)):
            glyph, style = app.picture.cells[1 + query // 2, app.heatmap._axes.gutter + key]
            is_upper = glyph == "▀" and query % 2 == 0
            assert rgb(style.replace("38;", "48;", 1) if is_upper else style) == app.colour_of(query, key)
        assert app.picture.line(0).split()[-6:] == ["0", "5", "10", "15", "20", "25"]
        assert app.picture.line(15).split()[:2] == ["28", "dog"], "the last line has one row"
        await press(pilot, "k")
        assert app.picture.line(14).split()[:2] == ["27", "lazy"], "the label of the cursor's row, of two"


async def test_zooming_goes_from_half_lines_to_whole_lines_and_back() -> None:
    async with heatmap_of(attention(100)) as (app, pilot):
        looks = []
        for key in (FIT, ">", ">", ">", "<", "<", "<", NUMBERS):
            await press(pilot, key)
            looks.append((app.heatmap._axes.cell, app.block))
        assert looks == [(1, 3), (2, 3), (2, 1), (2, 1), (2, 2), (1, 3), (1, 3), (5, 12)]
        assert app.said == ["each cell is a single weight", "the whole map is in view"]


@pytest.mark.parametrize("size", [(1, 1), (5, 2), (40, 8), (150, 45)])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_any_map_is_walked_in_any_pane(size: tuple[int, int], ascii_only: bool) -> None:
    async with heatmap_of(size=size, ascii=ascii_only) as (_, pilot):
        for shape in ((1, 1), (3, 40), (300, 300)):
            await show(pilot, attention(*shape), "linear")
            await press(pilot, "G", "end", "k", "h", "gg", "j", "pagedown")
            await press(pilot, FIT, ">", NUMBERS, "<", NUMBERS, "ctrl+right", FIT)
            await resize(pilot, 60, 20)
            await show(pilot, attention(*shape, seed=1), "log")
            await resize(pilot, *size)
