"""The line that explains a map's levels with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from tui.drawing.levels import Ink, Levels, bounds_of
from tui.drawing.numbers import brief


def legend(levels: Levels, colours: Sequence[Style], width: int, pooled: str = "") -> Text:
    """Show every level in order, lowest first, between the weights that bound groups of levels.

    Of differences they stand between the largest decrease and the largest increase. Words, then inner numbers, at last
    some of the levels are left out where they do not fit.

    Parameters
    ----------
    levels : of the map.
    colours : the style of each level; used with `Ink.COLOUR` only.
    width : cells there are.
    pooled : what a cell is, where it is more than one weight: ``max of 16×16``.

    Examples
    --------
    >>> linear, log = Levels("linear", 0.8, Ink.SHADES), Levels("log", 0.8, Ink.SHADES)
    >>> legend(linear, (), 72).plain
    'linear 0    ░ 0.2 ░░░▒ 0.4 ▒▒▒▓ 0.6 ▓▓██ 0.8 = largest weight of the map'
    >>> legend(log, (), 75).plain
    'log ≤1e-4    ░ 0.001 ░░░▒ 0.01 ▒▒▒▓ 0.1 ▓▓██ 1 = largest there can be'
    >>> legend(log, (), 30).plain
    'log ≤1e-4    ░░░░▒▒▒▒▓▓▓██ 1'
    >>> legend(linear, (), 15).plain
    '0  ░░▒▒▓██ 0.8'
    >>> legend(Levels("linear", 0.0, Ink.SHADES), (), 30).plain
    'no weight above 0'
    >>> signed = Levels("linear", 0.8, Ink.SHADES, is_signed=True)
    >>> [legend(signed, (), width).plain for width in (72, 18)]
    ['linear -0.8 -█-▓-▒-░ 0 +░+▒+▓+█ +0.8 = difference', '-0.8 -█ 0 +█ +0.8']
    """
    if not levels.largest and (levels.is_signed or levels.scale == "linear"):
        return Text("no difference" if levels.is_signed else "no weight above 0", no_wrap=True)
    before = f"{pooled}{'  ' if pooled else ''}{levels.scale} "
    texts = (_signed if levels.is_signed else _unsigned)(levels, colours, before, " of the map" if pooled else "")
    return next((text for text in texts if text.cell_len <= width), texts[-1])


def _unsigned(levels: Levels, colours: Sequence[Style], before: str, of: str) -> list[Text]:
    """Write the levels of weights in groups with numbers between them, or between both ends alone; longest first."""
    ink, scale = levels.ink, levels.scale
    bounds = bounds_of(scale, levels.largest, ink.levels)
    low, high = brief(bounds[0]), brief(bounds[-1])
    words = f" = largest{of or ' weight of the map'}" if scale == "linear" else " = largest there can be"
    begin = f"{before}{'≤' if scale == 'log' else ''}{low}"

    def assemble(groups: int, words: str = "") -> Text:
        text, size = Text(begin, no_wrap=True), ink.levels // groups
        for start in range(0, ink.levels, size):
            text.append(" ")
            for level in range(start, start + size):
                _append(text, levels, colours, level, ink.cells[level])
            text.append(f" {brief(bounds[start + size])}")
        return text.append(words)

    texts = [assemble(4, words), assemble(4), assemble(1, words), assemble(1)]
    for step in (1, 2, 4):
        text = Text(f"{low} ", no_wrap=True)
        for level in range(step - 1, ink.levels, step):
            _append(text, levels, colours, level, ink.cells[level])
        texts.append(text.append(f" {high}"))
    return texts


def _signed(levels: Levels, colours: Sequence[Style], before: str, of: str) -> list[Text]:
    """Write the levels of differences on both sides of zero, or those at both ends alone; longest first."""
    top = brief(1.0 if levels.scale == "log" else levels.largest)

    def assemble(begin: str, words: str = "", step: int = 1) -> Text:
        text = Text(f"{begin}-{top} ", no_wrap=True)
        for level in range(0, 2 * levels.steps + 1, step):
            if level == levels.steps:
                text.append(" 0 ")
            else:
                _append(text, levels, colours, level, levels.cells[level])
        return text.append(f" +{top}{words}")

    return [assemble(before, " = difference"), assemble(before), assemble(""), assemble("", step=levels.steps)]


def _append(text: Text, levels: Levels, colours: Sequence[Style], level: int, glyphs: str) -> None:
    """Write one level: one column of its colour, or its characters."""
    if levels.ink is Ink.COLOUR:
        text.append(" ", colours[level])
    else:
        text.append(glyphs)
