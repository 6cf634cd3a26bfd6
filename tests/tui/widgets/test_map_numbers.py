"""Weights written as numbers in the cells of the heatmap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.mathematics.attention import pool
from engine.values.attention import MapWindow, VisibleKeys
from tests.tui.painted import press
from tests.tui.widgets.heatmaps import HeatmapApp, attention, heatmap_of, keep_cells_small, map_of, rgb, show
from tui.drawing.cells import WIDTH, format_weight

NUMBERS = "unbound:heatmap.numbers"


@pytest.fixture(autouse=True)
def small_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_cells_small(monkeypatch)


def numbers(app: HeatmapApp, header: int, gutter: int, rows: int, columns: int) -> list[list[str]]:
    lines = [app.picture.line(header + row).ljust(gutter + WIDTH * columns) for row in range(rows)]
    return [[line[gutter + WIDTH * at : gutter + WIDTH * (at + 1)].strip() for at in range(columns)] for line in lines]


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_a_number_is_as_exact_as_its_characters_allow_and_a_difference_keeps_its_sign(sign: str) -> None:
    for value in (*np.geomspace(1e-44, 1.0, 300), *np.random.default_rng(0).random(300)):
        size = float(np.float32(value))
        written = format_weight(-size if sign == "-" else size, is_signed=bool(sign))
        assert len(written) <= WIDTH - 1 + len(sign)
        if written == "~0":
            assert value < 1e-9
        else:
            assert value > 9e-10
            assert written.startswith(sign)
            assert abs(float(written)) == pytest.approx(value, abs=0.0005001 if value >= 0.001 else value / 2)


async def test_cells_hold_their_weights_on_the_colours_of_their_levels_and_masked_ones_are_blank() -> None:
    shown = replace(attention(6), visible=VisibleKeys(np.zeros(6, np.int64), np.arange(6)))
    async with heatmap_of(shown, size=(80, 20)) as (app, pilot):
        await press(pilot, NUMBERS, "down", "down", "right")
        assert app.picture.line(0).rstrip() == "q ↓ k → The  qui… bro… fox  jum… over"
        for query, line in enumerate(numbers(app, 1, 8, 6, 6)):
            own = shown.weights[query, : query + 1].tolist()
            assert [float(each) for each in line[: query + 1]] == pytest.approx(own, abs=0.0005001)
            assert not any(line[query + 1 :])
        for query, key in ((3, 1), (3, 3), (4, 0)):
            for at in range(8 + WIDTH * key, 8 + WIDTH * (key + 1)):
                assert rgb(app.picture.style(1 + query, at)) == app.colour_of(query, key)


async def test_zero_is_written_nan_marked_and_a_difference_has_its_sign() -> None:
    async with heatmap_of(map_of([[0.0, 1.0], [np.nan, 0.25]]), size=(80, 20)) as (app, pilot):
        await press(pilot, NUMBERS, "down", "right")
        assert app.picture.line(1).split()[2:] == ["0", "1.00"], "no key is masked"
        assert app.picture.line(2).split()[2:] == ["?", ".250"]
        await show(pilot, replace(map_of([[1e-3, 5e-4], [2e-7, 1e-12]]), other=np.zeros((2, 2), dtype=np.float32)))
        assert app.picture.line(1).split()[2:] == ["-.001", "-5e-4"]
        assert app.picture.line(2).split()[2:] == ["-2e-7", "~0"]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_without_colours_numbers_stand_alone(ascii_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with heatmap_of(attention(4), size=(80, 20), ascii=ascii_only) as (app, pilot):
        for legend in ("linear 0", "weights as numbers", "linear 0"):
            assert app.heatmap.legend().plain.startswith(legend)
            assert set(app.text()).isdisjoint("░▒▓█*") is (legend == "weights as numbers")
            await press(pilot, NUMBERS)


async def test_blocks_hold_the_number_that_stands_for_them() -> None:
    shown = attention(200)
    async with heatmap_of(shown, size=(80, 20)) as (app, pilot):
        before = app.block
        await press(pilot, NUMBERS)
        assert app.block > before  # the whole map stays in view
        window = app.pooled.window
        expected = pool(shown, MapWindow(window.block, window.rows, window.columns)).values
        for row in range(1, 5):
            written = app.picture.line(1 + row).split()[2 : 2 + row + 1]
            assert [float(each) for each in written] == pytest.approx(list(expected[row, : row + 1]), abs=0.0006)
        await press(pilot, NUMBERS)
        assert app.block == before
