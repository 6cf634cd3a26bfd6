"""The line that explains a heatmap's levels with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from tui.drawing.levels import Ink, Scale, bounds_of
from tui.drawing.ticks import brief


def legend(scale: Scale, largest: float, ink: Ink, colours: Sequence[Style], width: int, pooled: str = "") -> Text:
    """Show every level in order, lowest first, between the weights that bound groups of levels.

    Parameters
    ----------
    scale, largest : as in `tui.drawing.levels.levels_of`.
    ink, colours : what the levels look like; colours are used with `Ink.COLOUR` only.
    width : cells there are; words, then inner numbers, at last some of the levels are left out where they do not fit.
    pooled : what a cell is, where it is more than one weight: ``max of 16×16``.

    Examples
    --------
    >>> legend("linear", 0.8, Ink.SHADES, (), 72).plain
    'linear 0    ░ 0.2 ░░░▒ 0.4 ▒▒▒▓ 0.6 ▓▓██ 0.8 = largest weight of the map'
    >>> legend("log", 0.8, Ink.SHADES, (), 75).plain
    'log ≤1e-4    ░ 0.001 ░░░▒ 0.01 ▒▒▒▓ 0.1 ▓▓██ 1 = largest there can be'
    >>> legend("log", 0.8, Ink.SHADES, (), 30).plain
    'log ≤1e-4    ░░░░▒▒▒▒▓▓▓██ 1'
    >>> legend("linear", 0.8, Ink.SHADES, (), 15).plain
    '0  ░░▒▒▓██ 0.8'
    >>> legend("linear", 0.0, Ink.SHADES, (), 30).plain
    'no weight above 0'
    """
    if scale == "linear" and not largest:
        return Text("no weight above 0", no_wrap=True)
    groups = 4 if ink.levels % 4 == 0 else 2
    for parts, words in ((groups, True), (groups, False), (1, True), (1, False)):
        text = _assemble(scale, largest, ink, colours, parts, words, pooled)
        if text.cell_len <= width:
            return text
    return _with_fewer_levels(scale, largest, ink, colours, width)


def _with_fewer_levels(scale: Scale, largest: float, ink: Ink, colours: Sequence[Style], width: int) -> Text:
    """Write the two ends of the scale with as many levels between them as there is room for, the highest among them."""
    low, *_, high = bounds_of(scale, largest, ink.levels)
    text = Text()
    for step in (1, 2, 4):
        text = Text(f"{brief(low)} ", no_wrap=True)
        for level in range(step - 1, ink.levels, step):
            text.append(" " if ink is Ink.COLOUR else ink.cells[level], colours[level] if ink is Ink.COLOUR else None)
        text.append(f" {brief(high)}")
        if text.cell_len <= width:
            break
    return text


def _assemble(
    scale: Scale, largest: float, ink: Ink, colours: Sequence[Style], parts: int, words: bool, pooled: str
) -> Text:
    """Write the legend with a number after each part of the levels, with or without words."""
    bounds = bounds_of(scale, largest, ink.levels)
    text = Text(
        f"{pooled}{'  ' if pooled else ''}{scale} {'≤' if scale == 'log' else ''}{brief(bounds[0])}", no_wrap=True
    )
    size = ink.levels // parts
    for start in range(0, ink.levels, size):
        text.append(" ")
        for level in range(start, start + size):
            if ink is Ink.COLOUR:
                text.append(" ", colours[level])  # one column will do: there are sixteen
            else:
                text.append(ink.cells[level])
        text.append(f" {brief(bounds[start + size])}")
    if words:
        largest_here = " = largest of the map" if pooled else " = largest weight of the map"
        text.append(largest_here if scale == "linear" else " = largest there can be")
    return text
