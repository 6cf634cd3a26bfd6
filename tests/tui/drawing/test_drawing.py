"""What is drawn with: levels, colours, curves, labels and legends. Pure functions, exact answers."""

from __future__ import annotations

import math
import unicodedata
import warnings

import numpy as np
import pytest
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from tests.tui.painted import NASTY, contrast_ratio
from tui.drawing.levels import NOT_FINITE, Ink, Levels, Scale, ValueScale, bounds_of, legend, levels_of
from tui.drawing.map_layout import lay_out, lay_out_blocks
from tui.drawing.plots import (
    LINE,
    SIGNS,
    Curve,
    Mark,
    column_of,
    draw_plot,
    index_line,
    line_colours,
    read_value,
    row_of,
    scale_of_curve,
    ticks_of,
)
from tui.drawing.ramps import lightness, ramp
from tui.drawing.text import ROOM, escape_text, fit, label, stack_text
from tui.drawing.token_spelling import SUBSCRIPTS
from tui.toolkit.line_filters import ascii_cells

BACKGROUNDS = sorted(
    {
        Color.parse(theme.to_color_system().generate()[surface]).rgb
        for theme in BUILTIN_THEMES.values()
        if not theme.ansi
        for surface in ("background", "surface", "panel")
    }
)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_values_that_are_not_finite_have_their_own_level_and_raise_no_warning(scale: Scale) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        levels = levels_of(np.array([np.nan, np.inf, -np.inf, -1.0, 0.5]), scale, 0.5, 16)
        assert levels_of(np.zeros((2, 3)), scale, 0.0, 16).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert levels[:4].tolist() == [NOT_FINITE] * 3 + [0]
    assert levels[4] > 0


@pytest.mark.parametrize("scale", ["linear", "log", "root"])
@pytest.mark.parametrize("count", [8, 16])
def test_every_bound_is_the_least_weight_of_its_level(scale: Scale, count: int) -> None:
    bounds = bounds_of(scale, 0.37, count)
    assert levels_of(np.array(bounds[:-1]), scale, 0.37, count).tolist() == list(range(count))


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("color_system", ["truecolor", "256"])
def test_lightness_goes_one_way_from_every_background(background: tuple[int, int, int], color_system: str) -> None:
    colours = ramp(background, color_system)
    assert len(colours) == 16
    assert colours[0].triplet == background
    steps = np.diff(lightness(np.array([colour.triplet for colour in colours])))
    dark = lightness(np.array(background)) < 50
    assert (steps > 0).all() if dark else (steps < 0).all()
    if color_system == "truecolor":
        assert np.abs(steps).max() < 1.2 * np.abs(steps).min()
    else:
        assert len({colour.downgrade(ColorSystem.EIGHT_BIT).number for colour in colours}) == 16


def test_lightness_is_that_of_the_standard() -> None:
    assert lightness(np.array([[0, 0, 0], [255, 255, 255], [119, 119, 119]])) == pytest.approx(
        [0, 100, 50.03], abs=0.01
    )


@pytest.mark.parametrize("ink", list(Ink))
@pytest.mark.parametrize("width", [33, 40, 60, 100])
def test_the_legend_keeps_to_the_width_by_leaving_words_and_numbers_out(ink: Ink, width: int) -> None:
    text = legend(Levels("log", 0.5, ink), [Style()] * 16, width)
    assert text.cell_len <= width
    assert text.plain.endswith((" 1", " 1 = the maximum"))
    assert all(cell in text.plain for cell in ink.cells if ink is not Ink.COLOUR)


def curve(*values: float, baseline: list[float] | None = None, matrix: str = "QK") -> Curve:
    return Curve(matrix, np.array(values, dtype=float), None if baseline is None else np.array(baseline), "")


def test_the_log_scale_goes_down_to_a_power_of_ten_over_at_most_six_equally_high_decades() -> None:
    for values, baseline, foot in (
        ((30.0, 2.0, 0.5), None, 0.1), ((30.0, 2.0, 0.1), None, 0.1), ((3.0, 2.0), [5.0, 0.05], 0.01),
    ):  # fmt: skip
        assert scale_of_curve(curve(*values, baseline=baseline), "log").low == pytest.approx(foot)
    span = scale_of_curve(curve(3.0, 1e-12, 0.0), "log")
    assert 1e-6 < span.low / span.high <= 1e-5
    assert span.heights(np.array([3.0, 1e-12, 0.0])).tolist() == [1.0, 0.0, 0.0]
    assert scale_of_curve(curve(100.0, 1.0), "log").heights(np.array([100.0, 10.0, 1.0])) == pytest.approx([1, 0.5, 0])


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(
    "values",
    [[1.0], [0.0], [0.0] * 9, [2.0] * 9, [1e-300, 1e-305], [5e-324], [1e300, 1e30, 1e-300], [math.nan, 1.0],
     [math.inf, 2.0], [math.nan], [-1.0, -2.0], list(np.linspace(9, 0, 8192))],
)  # fmt: skip
def test_no_value_breaks_a_plot(scale: Scale, values: list[float]) -> None:
    strange = curve(*values, baseline=values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        span = scale_of_curve(strange, scale)
        plot = draw_plot(strange, span, 20, 3, cursor=len(values) - 1)
        at = [row_of(tick, span, 3) for tick in ticks_of(span, 3)]
        text = read_value(strange, len(values) - 1)
    assert plot.characters.shape == plot.marks.shape == (3, 20)
    assert all(len(character) == 1 for character in plot.characters.flat)
    assert all(0 <= row < 3 for row in at)
    assert text.startswith(f"QK σ{str(len(values)).translate(SUBSCRIPTS)} = ")
    assert "nan %" not in text


def drawn(plot_of: Curve, width: int, rows: int) -> list[str]:
    plot = draw_plot(plot_of, scale_of_curve(plot_of, "linear"), width, rows)
    return ["".join(row) for row in plot.characters]


def test_a_curve_shows_each_value_above_the_lower_edge_and_has_no_gap_however_steep_it_is() -> None:
    assert drawn(curve(8.0, 7.0, 4.0, 1.0), 2, 2) == ["⠑⡄", " ⢱"]
    assert drawn(curve(8.0, 8.0, 1.0, 1.0), 2, 2) == ["⠉⡆", " ⣇"]
    assert drawn(curve(1000.0, 1.0, 0.0, 0.0, 0.0, 0.0), 3, 1) == ["⢱  "]
    assert drawn(curve(0.0, 0.0), 3, 1) == ["   "]


def test_chance_never_hides_the_values() -> None:
    values = np.linspace(16, 1, 16)
    for offset in (-3.0, -0.3, 0.0, 0.3, 3.0):
        spectrum = Curve("Q", values, np.clip(values + offset, 0, 16), "")
        scale = ValueScale(0.0, 16.0)
        both, bare = (draw_plot(spectrum, scale, 16, 2, baseline=baseline) for baseline in (True, False))
        at = bare.marks == Mark.VALUE
        assert (both.characters[at] == bare.characters[at]).all()
        assert ((both.marks == Mark.VALUE) == at).all()


def test_a_rank_below_the_full_one_is_a_thin_line_with_its_number() -> None:
    values = np.array([8.0, 8.0, 8.0, 8.0, 1.0, 1.0, 1.0, 1.0])
    assert drawn(Curve("Q", values, None, "", cut=4), 8, 3) == ["⠉⠉⠉⠱⡀   ", "  4┊⡇   ", "   ┊⠸⠤⠤⠤"]
    assert "┊" not in "".join(drawn(Curve("Q", values, None, "", cut=8), 8, 3))


def test_ticks_are_round_fit_and_stand_apart() -> None:
    for span in (ValueScale(0.0, 7.3), *(ValueScale(10.0**low, 7.3, "log") for low in (0, -1, -4))):
        for rows in (2, 3, 5, 8, 13, 40):
            ticks = ticks_of(span, rows)
            at = [row_of(tick, span, rows) for tick in ticks]
            assert at == sorted(set(at))
            assert 2 <= len(ticks) <= rows


@pytest.mark.parametrize(("count", "width"), [(1, 9), (8, 9), (32, 40), (64, 12), (5120, 70), (5120, 9)])
def test_numbers_of_values_stand_below_them_and_none_is_cut(count: int, width: int) -> None:
    line = index_line(count, width)
    numbers = [int(each) for each in line.split()]
    assert len(line) == width
    assert (numbers[0], numbers[-1]) == (1, count)
    assert numbers == sorted(set(numbers))
    for number in numbers[1:-1]:
        start = f"{line} ".index(f" {number} ") + 1
        assert start <= column_of(number - 1, count, width) < start + len(str(number))


@pytest.mark.parametrize("token", NASTY)
def test_labels_hold_no_control_character_and_no_half_of_a_surrogate_pair_and_have_their_width(token: str) -> None:
    for text in (escape_text(token), label(token), fit(escape_text(token), 7), *stack_text(label(token), 6, 2)):
        assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        text.encode("utf-8")
    for width in (0, 1, 2, 3, 5, 8):
        assert cell_len(fit(label(token), width)) == cell_len(fit(label(token), width, align="right")) == width
    for height in (0, 1, 2, 6):
        assert [cell_len(line) for line in stack_text(label(token), height, 2)] == [2] * height


@pytest.mark.parametrize("joiner", ["\u200d", "\ufe0e", "\ufe0f", "\U0001f3fb", "\U0001f3ff"])
def test_a_lone_joiner_or_skin_tone_is_escaped_and_a_lone_mark_gets_a_circle(joiner: str) -> None:
    assert escape_text("\u0301x") == "◌\u0301x"
    escaped = joiner.encode("unicode_escape").decode()
    assert escape_text(joiner) == label(joiner) == escaped
    assert escape_text(f" {joiner}{joiner}") == f" {escaped}", "the second has what it belongs to"
    assert escape_text(f"\U0001f44d{joiner}") == "\U0001f44d"


@pytest.mark.parametrize("text", ["हि", "हिन्दी", "ि", "কো", "हींa"])
def test_a_spacing_mark_has_its_own_cell(text: str) -> None:
    shown = escape_text(text)
    marks = sum(unicodedata.category(each) == "Mc" for each in text)
    letters = sum(unicodedata.category(each)[0] == "L" for each in text) or 1  # a lone mark stands on a circle
    assert cell_len(shown) == letters + marks
    assert escape_text(shown) == shown
    assert shown.replace(ROOM, "").removeprefix("◌") == text
    assert len(ascii_cells(shown)) == cell_len(shown)
    for width in range(1, 8):
        kept = fit(shown, width).rstrip("… ")
        assert shown.startswith(kept), "no letter is parted from the room of its marks"
        assert kept.count(ROOM) == sum(unicodedata.category(each) == "Mc" for each in kept)


@pytest.mark.parametrize(
    ("queries", "height", "cell", "label"),
    [
        (1, 4, 2, ["to"]),
        (1, 5, 2, ["t ", "o ", "k ", "… "]),
        (1, 60, 2, ["t ", "o ", "k ", "e ", "n ", "i ", "z ", "… "]),
        (1, 6, 3, ["tok", "en…"]),
        (1, 7, 3, [" t ", " o ", " k ", " e ", " n ", " … "]),
        (17, 18, 2, ["to"]),
        (17, 17, 2, ["to", "k…"]),
    ],
)
def test_column_labels_are_read_down_where_room_is_left(queries: int, height: int, cell: int, label: list[str]) -> None:
    axes = lay_out(["tokenization"] * queries, ["tokenization", "a"], 80, height, cell)
    assert axes.column(0) == tuple(label)
    assert axes.column(1)[-1].strip() == "a", "a shorter label ends at the cells"


def test_the_index_gives_way_where_the_pane_is_narrow() -> None:
    tokens = ["attention"] * 1000
    assert lay_out(tokens, tokens, 80, 24).row(7).startswith("  7 ")
    narrow = lay_out(tokens, tokens, 14, 24)
    assert narrow.row(7) == "atten… "
    assert narrow.gutter == 7


@pytest.mark.parametrize(("height", "seen"), [(4, ["0", "64", "…", "…"]), (12, ["0", "64", "128", "192"])])
def test_no_index_is_shown_in_part(height: int, seen: list[str]) -> None:
    tokens = ["a"] * 250
    axes = lay_out_blocks(tokens, tokens, 64, 40, height)
    assert ["".join(column).replace(" ", "") for column in map(axes.column, range(axes.columns))] == seen


def test_every_line_is_drawn_at_its_height_and_none_hides_another() -> None:
    random = np.random.default_rng(0)
    rows, count = 12, 40
    values = [np.sort(random.random(count))[::-1] for _ in range(4)]
    values.append(values[0].copy())
    lines = tuple((str(number), each) for number, each in enumerate(values))
    plot = draw_plot(Curve("Q", values[0], None, "", lines, is_drawn=False), ValueScale(0.0, 1.0), count, rows)
    shown = dict.fromkeys(range(len(lines)), 0)
    for (row, column), mark in np.ndenumerate(plot.marks):
        if mark == Mark.BLANK:
            continue
        number, foot = int(mark) - LINE, (rows - 1 - row) / rows
        high, low = values[number][[max(column - 1, 0), min(column + 1, count - 1)]]
        assert foot <= high
        assert low <= foot + 1 / rows
        shown[number] += plot.characters[row, column] == SIGNS[number]
    assert all(shown.values()), "each has its sign somewhere, even one that runs along another"


@pytest.mark.parametrize("background", [(18, 18, 18), (40, 42, 54), (224, 224, 224), (255, 255, 255)])
def test_colours_of_lines_stand_out_and_are_as_many_as_signs(background: tuple[int, int, int]) -> None:
    colours = line_colours(background)
    assert len(set(colours)) == len(SIGNS)
    assert min(contrast_ratio(colour, background) for colour in colours) >= 3, "WCAG 2.1 for what is not text"
