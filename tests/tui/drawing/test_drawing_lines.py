"""Lines over each other in one plot: each can be seen, in signs and in colours."""

from __future__ import annotations

import numpy as np
import pytest

from tui.drawing.curves import Curve, Line, Span
from tui.drawing.lines import LINE, MOST_LINES, draw_lines, line_colours
from tui.drawing.plots import ASCII_PLOT, COLOUR_PLOT, Mark


def test_every_line_is_drawn_at_its_height_and_none_hides_another() -> None:
    random = np.random.default_rng(0)
    rows, count = 12, 40
    values = [np.sort(random.random(count))[::-1] for _ in range(4)]
    values.append(values[0].copy())
    lines = tuple(Line(str(number), each) for number, each in enumerate(values))
    curve = Curve("Q", values[0], None, "", lines, has_bars=False)
    for glyphs in (ASCII_PLOT, COLOUR_PLOT):
        plot = draw_lines(curve, Span(1.0, 0.0), np.arange(count), rows, glyphs)
        shown = dict.fromkeys(range(len(lines)), 0)
        for (row, column), mark in np.ndenumerate(plot.marks):
            if mark == Mark.BLANK:
                assert plot.characters[row, column] == ""
                continue
            number, foot = int(mark) - LINE, (rows - 1 - row) / rows
            assert foot <= values[number][column] <= foot + 1 / rows
            shown[number] += plot.characters[row, column] == glyphs.signs[number]
        assert all(shown.values()), "each has its sign somewhere, even one that runs along another"
        every = {(row, column) for row, column in zip(*np.nonzero(plot.marks), strict=True)}
        expected = {(rows - int(np.ceil(each[column] * rows)), column) for each in values for column in range(count)}
        assert every == expected


@pytest.mark.parametrize("background", [(18, 18, 18), (40, 42, 54), (224, 224, 224), (255, 255, 255)])
def test_the_colours_of_lines_stand_out_from_the_background_and_are_as_many_as_signs(
    background: tuple[int, int, int],
) -> None:
    def luminance(rgb: tuple[int, int, int]) -> float:
        share = np.array(rgb) / 255
        linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    colours = line_colours(background)
    assert len(set(colours)) == MOST_LINES == len(COLOUR_PLOT.signs)
    behind = luminance(background)
    for colour in colours:
        low, high = sorted((luminance(colour), behind))
        assert (high + 0.05) / (low + 0.05) >= 3, "of what is no text, WCAG 2.1 asks for 3:1"
