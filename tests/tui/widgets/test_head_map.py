"""What the overview draws: cells, their scale, and how values are spread."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from textual.pilot import Pilot

from engine.values.outline import LayerOutline
from engine.values.views import VIEWS
from tests.tui.painted import PaintedApp
from tui.drawing.levels import Scale, scale_of
from tui.drawing.measure_map import MeasureMap, lay_out_heads
from tui.state.overview_measures import MEASURES
from tui.widgets.head_map import HeadMap


def layers(count: int, heads: int) -> tuple[LayerOutline, ...]:
    return tuple(LayerOutline("decoder", number, heads, heads, 64, 64, 64, 64, 8, 8, "") for number in range(count))


def random_map(model: tuple[LayerOutline, ...], known: int) -> MeasureMap:
    """Make values of which so many are known."""
    order = {head: place for place, head in enumerate(head for layer in model for head in layer.head_names())}
    values = np.random.default_rng(0).normal(size=len(order)) ** 2
    cells = tuple(float(value) if place < known else None for place, value in enumerate(values))
    return MeasureMap("ov_stable_rank", order, cells)


@asynccontextmanager
async def head_map_of(model: tuple[LayerOutline, ...], shown: MeasureMap) -> AsyncIterator[tuple[HeadMap, Pilot[None]]]:
    """Show a map of a model's heads in an application of its own."""
    drawn = HeadMap()
    async with PaintedApp(drawn).painted((58, 16)) as pilot:
        drawn.open(model)
        drawn.show(shown, scale_of(shown.finite, "linear", False))
        yield drawn, pilot


def test_cells_are_as_large_as_fit_and_many_heads_scroll() -> None:
    model = layers(126, 128)
    for size, cells in (((400, 200), (2, 1)), ((800, 300), (6, 2)), ((140, 60), (1, 1)), ((57, 16), (1, 1))):
        grid = lay_out_heads(model, *size, is_narrow_told=True)
        assert (grid.width, grid.height) == cells
        assert len(grid.lines) == 126 * cells[1]
    assert lay_out_heads(model, 57, 16, is_narrow_told=False).width == 2
    one = lay_out_heads(layers(1, 1), 57, 16, is_narrow_told=True)
    assert (one.width, one.height, one.header(0)) == (54, 16, (f"{0:<54}", range(1)))


def test_no_number_of_a_head_is_cut() -> None:
    for heads in (12, 32):
        grid = lay_out_heads(layers(heads, heads), 2 * heads + 4, heads, is_narrow_told=True)
        assert grid.width == 2
        for cursor in range(heads):
            line, marked = grid.header(cursor)
            assert line[marked.start : marked.stop] == str(cursor)
            for number in re.finditer(r"\d+", line):
                head = int(number[0])
                assert number.start() == 2 * head, f"{line!r} with the cursor on {cursor}"
    assert grid.header(31)[0].endswith("26  28    31")


async def test_each_cell_has_the_colour_of_its_value_and_a_click_goes_to_it() -> None:
    shown = random_map(layers(12, 12), 100)
    async with head_map_of(layers(12, 12), shown) as (drawn, pilot):
        await pilot.pause()
        grid, scale = drawn.grid, scale_of(shown.finite, "linear", False)
        assert scale is not None
        levels = scale.levels(shown.values, drawn.ink, len(drawn.level_styles))
        for place in range(1, 100):  # the cursor is on the first
            left = grid.gutter + place % 12 * grid.width
            (segment,) = drawn.render_line(1 + place // 12).crop(left, left + 1)
            assert segment.style is not None
            assert segment.style.bgcolor == drawn.level_styles[levels[place]].bgcolor
        for at, expected in (((grid.gutter + 7 * grid.width, 1 + 4), (4, 7)), ((1, 1 + 9), (9, 7))):
            await pilot.click(drawn, offset=at)
            assert drawn.cursor == expected


@pytest.mark.parametrize("wanted", ["linear", "log"])
def test_every_value_is_in_one_bar_of_the_histogram(wanted: Scale) -> None:
    for values in (np.array([3.0, 3.0, 7.0]), np.random.default_rng(0).normal(size=500) ** 2, np.array([5.0])):
        scale = scale_of(values, wanted, False)
        assert scale is not None
        for columns in (1, 7, 40):
            bins = scale.bins(columns, len(values))
            assert 1 <= bins <= columns
            places = scale.bin_of(np.sort(values), bins)
            assert 0 <= places[0] <= places[-1] < bins
            assert (np.diff(places) >= 0).all()


def test_the_measures_are_the_numeric_columns_of_the_table() -> None:
    told = {"stack", "layer", "head", "label", "note"}
    numeric = {name for name in VIEWS["heads"].columns if name not in told and not name.endswith("_chance")}
    assert set(MEASURES) == numeric
