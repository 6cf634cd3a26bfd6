"""How singular values become bars, and how plots share a pane."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from tui.drawing.curves import Curve, Span, columns_of, columns_under, read_value, span_of
from tui.drawing.grid import Grid, choose_grid
from tui.drawing.levels import Scale
from tui.drawing.plots import (
    ASCII_PLOT,
    COLOUR_PLOT,
    SHADE_PLOT,
    UNDER_CURSOR,
    Mark,
    PlotGlyphs,
    draw_plot,
    with_cursor,
)
from tui.drawing.spelling import SUBSCRIPTS


def curve(*values: float, baseline: list[float] | None = None, matrix: str = "QK") -> Curve:
    return Curve(matrix, np.array(values, dtype=float), None if baseline is None else np.array(baseline), "")


def test_the_log_scale_reaches_down_to_the_power_of_ten_below_the_smallest_value() -> None:
    assert span_of(curve(30.0, 2.0, 0.5), "log").foot == pytest.approx(0.1)
    assert span_of(curve(30.0, 2.0, 0.1), "log").foot == pytest.approx(0.1)
    with_chance = span_of(curve(3.0, 2.0, baseline=[5.0, 0.05]), "log")
    assert with_chance.top == 5.0
    assert with_chance.foot == pytest.approx(0.01)


def test_the_log_scale_ends_within_six_decades_and_zeros_stand_at_its_foot() -> None:
    span = span_of(curve(3.0, 1e-12, 0.0), "log")
    assert 5 <= span.decades <= 6
    assert span.heights(np.array([3.0, 1e-12, 0.0])).tolist() == [1.0, 0.0, 0.0]


def test_equal_decades_are_equally_high() -> None:
    assert span_of(curve(100.0, 1.0), "log").heights(np.array([100.0, 10.0, 1.0])) == pytest.approx([1, 0.5, 0])


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("glyphs", [COLOUR_PLOT, SHADE_PLOT, ASCII_PLOT])
@pytest.mark.parametrize(
    "values",
    [[1.0], [0.0], [0.0] * 9, [2.0] * 9, [1e-300, 1e-305], [5e-324], [1e300, 1e30, 1e-300], [math.nan, 1.0],
     [math.inf, 2.0], [math.nan], list(np.linspace(9, 0, 8192))],
)  # fmt: skip
def test_no_value_breaks_a_plot(scale: Scale, glyphs: PlotGlyphs, values: list[float]) -> None:
    strange = curve(*values, baseline=values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        span = span_of(strange, scale)
        columns = columns_of(len(values), 20)
        plot = draw_plot(strange, span, columns, 3, baseline=True, glyphs=glyphs)
        text = read_value(strange, len(values) - 1)
    assert plot.characters.shape == plot.marks.shape == (3, len(columns))
    assert all(len(character) == 1 for character in plot.characters.flat)
    assert text.startswith(f"QK σ{str(len(values)).translate(SUBSCRIPTS)} = ")
    assert "nan %" not in text


def test_sampled_columns_keep_the_first_and_the_last_value() -> None:
    columns = columns_of(8192, 60)
    assert (columns[0], columns[-1], len(columns)) == (0, 8191, 60)
    assert (np.diff(columns) > 0).all()


def test_fewer_values_than_columns_get_equally_wide_bars() -> None:
    assert columns_of(12, 40).tolist() == np.repeat(np.arange(12), 3).tolist()
    assert columns_of(1, 40).tolist() == [0] * 4
    assert columns_of(5, 0).tolist() == []


def test_every_value_has_a_column_and_every_column_leads_back_to_its_value() -> None:
    for count, width in ((3, 30), (64, 22), (64, 64), (1000, 7)):
        columns = columns_of(count, width)
        for index in range(count):
            under = columns_under(index, columns)
            assert len(under) > 0
            assert len({int(columns[column]) for column in under}) == 1
        for column, index in enumerate(columns):
            assert column in columns_under(int(index), columns)


def lines(plot_of: Curve, rows: int, glyphs: PlotGlyphs = COLOUR_PLOT, *, baseline: bool = True) -> list[str]:
    columns = np.arange(len(plot_of.values))
    plot = draw_plot(plot_of, span_of(plot_of, "linear"), columns, rows, baseline=baseline, glyphs=glyphs)
    return ["".join(row) for row in plot.characters]


def test_bars_are_drawn_in_eighths_over_as_many_rows_as_there_are() -> None:
    assert lines(curve(8.0, 7.0, 4.0, 1.0), 1) == ["█▇▄▁"]
    assert lines(curve(8.0, 6.0, 4.0, 1.0), 2) == ["█▄  ", "███▂"]


def test_a_value_above_the_lower_edge_is_never_drawn_as_nothing() -> None:
    assert lines(curve(1000.0, 1.0, 0.0), 2) == ["█  ", "█▁ "]


def test_chance_is_told_from_the_bars_without_colour() -> None:
    spectrum = curve(8.0, 4.0, 0.0, baseline=[6.0, 6.0, 6.0])
    assert lines(spectrum, 2, SHADE_PLOT) == ["─░░", "██░"]
    assert lines(spectrum, 2, ASCII_PLOT) == ["-..", "##."]
    assert lines(spectrum, 2, SHADE_PLOT, baseline=False) == ["█  ", "██ "]


def test_chance_never_hides_the_top_of_a_bar() -> None:
    values = np.linspace(16, 1, 16)
    for offset in (-3.0, -0.3, 0.0, 0.3, 3.0):
        spectrum = Curve("Q", values, np.clip(values + offset, 0, 16), "")
        columns = np.arange(16)
        drawn = draw_plot(spectrum, Span(16.0, 0.0), columns, 2, baseline=True, glyphs=COLOUR_PLOT)
        bare = draw_plot(spectrum, Span(16.0, 0.0), columns, 2, baseline=False, glyphs=COLOUR_PLOT)
        tops = np.isin(bare.characters, list("▁▂▃▄▅▆▇"))
        assert (drawn.characters[tops] == bare.characters[tops]).all()
        bars = np.isin(drawn.marks, (Mark.BAR, Mark.BAR_BEFORE_CHANCE, Mark.CHANCE_OVER_BAR))
        assert (bars == (bare.marks == Mark.BAR)).all()


def test_the_cursor_marks_the_bar_from_its_top_and_in_a_high_plot_its_foot() -> None:
    low = draw_plot(curve(8.0, 4.0), Span(8.0, 0.0), np.arange(2), 4, baseline=False, glyphs=SHADE_PLOT)
    marked = with_cursor(low, range(1, 2), SHADE_PLOT)
    assert ["".join(row) for row in marked.characters] == ["█ ", "█│", "█▒", "█▒"]
    assert (marked.marks >= UNDER_CURSOR).tolist() == [[False, False], [False, True], [False, True], [False, True]]
    high = draw_plot(curve(8.0, 4.0), Span(8.0, 0.0), np.arange(2), 16, baseline=False, glyphs=SHADE_PLOT)
    rows = np.flatnonzero(with_cursor(high, range(1, 2), SHADE_PLOT).marks[:, 1] >= UNDER_CURSOR)
    assert rows.tolist() == [7, 8, 9, 15]


def test_a_value_reads_with_its_energy_and_what_chance_gives() -> None:
    spectrum = curve(2.0, 1.0, 1.0, baseline=[1.5, 1.25, 1.0])
    assert read_value(spectrum, 0) == "QK σ₁ = 2 · energy 66.67 % · cumulative 66.67 % · chance 1.5"
    assert read_value(spectrum, 2) == "QK σ₃ = 1 · energy 16.67 % · cumulative 100.00 % · chance 1"
    assert read_value(curve(0.0, 0.0), 1) == "QK σ₂ = 0"
    assert read_value(curve(1e200, 1e200), 0) == "QK σ₁ = 1e200 · energy 50.00 % · cumulative 50.00 %"


# The grid of plots


@pytest.mark.parametrize(
    ("width", "height", "grid"),
    [
        (56, 16, Grid(2, 3)),
        (60, 28, Grid(2, 3)),
        (100, 24, Grid(2, 3)),
        (40, 8, Grid(2, 3)),
        (90, 8, Grid(3, 2)),
        (30, 40, Grid(1, 6)),
        (20, 5, None),
        (0, 0, None),
    ],
)
def test_six_plots_share_a_pane(width: int, height: int, grid: Grid | None) -> None:
    assert choose_grid(6, width, height) == grid


@pytest.mark.parametrize("grid", [Grid(1, 6), Grid(2, 3), Grid(3, 2)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_every_plot_has_a_place_and_is_walked_to_once(grid: Grid, count: int) -> None:
    assert sorted(grid.places(count)) == list(range(count))
    assert sorted(grid.walk(count)) == list(range(count))
