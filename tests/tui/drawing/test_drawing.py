"""What the heatmap draws with: levels, colours and their legend. Pure functions, exact answers."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from tui.drawing.legend import legend
from tui.drawing.levels import NOT_FINITE, Ink, Scale, bounds_of, choose_ink, levels_of
from tui.drawing.ramps import lightness, ramp
from tui.drawing.ticks import brief

BACKGROUNDS = sorted(
    {
        Color.parse(theme.to_color_system().generate()[surface]).rgb
        for theme in BUILTIN_THEMES.values()
        if not theme.ansi
        for surface in ("background", "surface", "panel")
    }
)


# Levels


def test_linear_levels_share_the_range_up_to_the_largest_weight_equally() -> None:
    weights = np.array([0.0, 0.049, 0.05, 0.4, 0.79, 0.8], dtype=np.float32)
    assert levels_of(weights, "linear", 0.8, 16).tolist() == [0, 0, 1, 8, 15, 15]


def test_four_log_levels_make_a_decade_and_a_bound_belongs_to_the_level_above() -> None:
    weights = np.array([0.0, 1e-9, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 2.0], dtype=np.float32)
    assert levels_of(weights, "log", 0.3, 16).tolist() == [0, 0, 0, 4, 8, 12, 15, 15]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_what_is_not_finite_has_a_level_of_its_own_and_warns_nobody(scale: Scale) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        levels = levels_of(np.array([np.nan, np.inf, -np.inf, -1.0, 0.5]), scale, 0.5, 16)
    assert levels[:3].tolist() == [NOT_FINITE] * 3
    assert levels[3] == 0
    assert levels[4] > 0


def test_a_map_of_zeros_has_only_the_lowest_level() -> None:
    assert levels_of(np.zeros((2, 3)), "linear", 0.0, 16).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("count", [8, 10, 16])
def test_every_bound_is_the_least_weight_of_its_level(scale: Scale, count: int) -> None:
    bounds = bounds_of(scale, 0.37, count)
    levels = levels_of(np.array(bounds[:-1]), scale, 0.37, count)
    assert levels.tolist() == list(range(count))


@pytest.mark.parametrize("ink", list(Ink))
def test_every_level_fills_two_columns_and_without_colour_no_two_look_alike(ink: Ink) -> None:
    assert all(cell_len(cell) == 2 for cell in ink.cells)
    assert ink is Ink.COLOUR or len(set(ink.cells)) == ink.levels
    assert ink is not Ink.ASCII or "".join(ink.cells).isascii()


@pytest.mark.parametrize(
    ("color_system", "no_color", "ansi", "ascii_only", "ink"),
    [
        ("truecolor", False, False, False, Ink.COLOUR),
        ("256", False, False, True, Ink.COLOUR),
        ("standard", False, False, False, Ink.SHADES),
        (None, False, False, False, Ink.SHADES),
        ("truecolor", True, False, False, Ink.SHADES),
        ("truecolor", False, True, False, Ink.SHADES),
        ("256", True, False, True, Ink.ASCII),
    ],
)
def test_colour_is_used_only_where_the_terminal_and_the_theme_carry_a_ramp(
    color_system: str | None, no_color: bool, ansi: bool, ascii_only: bool, ink: Ink
) -> None:
    assert choose_ink(color_system, no_color=no_color, ansi=ansi, ascii_only=ascii_only) is ink


# Colours


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("color_system", ["truecolor", "256"])
def test_lightness_goes_one_way_from_the_background_of_every_theme(
    background: tuple[int, int, int], color_system: str
) -> None:
    colours = ramp(background, color_system)
    assert len(colours) == 16
    assert colours[0].triplet == background
    steps = np.diff(lightness(np.array([colour.triplet for colour in colours])))
    dark = lightness(np.array(background)) < 50
    assert (steps > 0).all() if dark else (steps < 0).all()
    if color_system == "truecolor":
        assert np.abs(steps).max() < 1.2 * np.abs(steps).min()


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_all_sixteen_levels_survive_256_colours(background: tuple[int, int, int]) -> None:
    fallen = [colour.downgrade(ColorSystem.EIGHT_BIT).number for colour in ramp(background, "256")]
    assert len(set(fallen)) == 16


@pytest.mark.parametrize("background", [(0, 0, 0), (255, 255, 255), (119, 119, 119), (120, 120, 120), (0, 95, 0)])
def test_any_background_has_a_ramp(background: tuple[int, int, int]) -> None:
    for color_system in ("truecolor", "256"):
        assert len(ramp(background, color_system)) == 16


def test_lightness_is_that_of_the_standard() -> None:
    assert lightness(np.array([[0, 0, 0], [255, 255, 255], [119, 119, 119]])) == pytest.approx(
        [0, 100, 50.03], abs=0.01
    )


# Legend and numbers


def test_the_legend_says_what_the_highest_level_means() -> None:
    assert (
        legend("linear", 0.8, Ink.ASCII, (), 80).plain
        == "linear 0   ..::--== 0.4 ++**##%%@@ 0.8 = largest weight of the map"
    )
    assert legend("log", 0.8, Ink.ASCII, (), 80).plain.startswith("log <=1e-4   ..::--== 0.01 ++**##%%@@ 1")


def test_the_legend_shows_all_sixteen_colours_in_order() -> None:
    colours = [Style(bgcolor=colour) for colour in ramp((18, 18, 18), "truecolor")]
    text = legend("linear", 1.0, Ink.COLOUR, colours, 100)
    assert [span.style for span in text.spans] == colours


@pytest.mark.parametrize("ink", list(Ink))
@pytest.mark.parametrize("width", [33, 40, 60, 100])
def test_the_legend_keeps_to_the_width_by_leaving_words_and_numbers_out(ink: Ink, width: int) -> None:
    text = legend("log", 0.5, ink, [Style()] * 16, width)
    assert text.cell_len <= width
    assert text.plain.endswith((" 1", " 1 = largest there can be"))
    assert all(cell in text.plain for cell in ink.cells if ink is not Ink.COLOUR)


def test_brief_numbers_are_short_whatever_they_are() -> None:
    for value in (0.0, 1.0, 0.001, 3.14159, 99.97, 12345.6, 1e-300, 1e30, 9.99999e5, math.nan, math.inf):
        assert len(brief(value, 3)) <= 7
    assert brief(math.nan) == "nan"


def test_a_number_is_written_in_one_form_whichever_side_of_it_rounding_leaves_it() -> None:
    below, above = 0.001 - 1e-17, 0.001 + 1e-17
    assert below < 0.001 < above
    assert {brief(each, 3) for each in (0.00099999999, below, 0.001, above, 0.0010000001)} == {"0.001"}
    assert brief(0.00094, 2) == "9e-4"
