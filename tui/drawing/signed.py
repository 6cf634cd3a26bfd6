"""Differences of weights, which have a sign: their levels, glyphs and colours, and the line that explains them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.style import Style
from rich.text import Text

from tui.drawing.levels import NOT_FINITE, Ink, Scale, levels_of
from tui.drawing.ramps import Rgb, lightness
from tui.drawing.ticks import brief

_SIZES = {Ink.COLOUR: (" ",) * 8, Ink.SHADES: tuple(" ░▒▓█")}
"""By ink, what stands for the size of a difference, smallest first; beside it stands its sign."""

_ENDS: dict[bool, tuple[Rgb, Rgb]] = {True: ((80, 170, 255), (255, 140, 50)), False: ((0, 60, 170), (180, 60, 0))}
"""The colours of the largest decrease and increase, blue and orange, on a dark background and on a light one."""

_PALETTE = {
    True: ((20, 25, 26, 32, 33, 39, 45), (88, 124, 130, 166, 172, 208, 214)),
    False: ((189, 153, 117, 75, 33, 26, 19), (224, 217, 216, 209, 202, 166, 130)),
}
"""The same walks away from the background in the palette of 256 colours."""

_FIRST_STEP = 0.2
"""How far the first colour beside no difference is on the way to the end, so that its side can be seen."""


def steps_of(ink: Ink) -> int:
    """Count the levels on either side of no difference."""
    return len(_SIZES[ink]) - 1


def signed_levels(differences: NDArray[Any], scale: Scale, largest: float, ink: Ink) -> NDArray[np.uint8]:
    """Sort differences into levels: by their size as weights are, below and above the middle one by their sign.

    Examples
    --------
    >>> signed_levels(np.array([-1.0, -0.3, 0.0, 0.1, 0.5, 1.0, np.nan]), "linear", 1.0, Ink.SHADES).tolist()
    [0, 3, 4, 4, 6, 8, 255]
    """
    steps = steps_of(ink)
    sizes = levels_of(np.abs(differences), scale, largest, steps + 1)
    signed = np.where(np.nan_to_num(differences) < 0, steps - sizes.astype(int), steps + sizes.astype(int))
    return np.where(sizes == NOT_FINITE, NOT_FINITE, signed).astype(np.uint8)


def signed_cells(ink: Ink) -> tuple[str, ...]:
    """Give the two characters of each level's cell, from the largest decrease to the largest increase.

    Examples
    --------
    >>> signed_cells(Ink.SHADES)
    ('-█', '-▓', '-▒', '-░', '  ', '+░', '+▒', '+▓', '+█')
    """
    sizes = _SIZES[ink]
    if ink is Ink.COLOUR:
        return ("  ",) * (2 * len(sizes) - 1)
    return (*(f"-{size}" for size in reversed(sizes[1:])), "  ", *(f"+{size}" for size in sizes[1:]))


@lru_cache(maxsize=32)
def signed_styles(background: Rgb, color_system: str) -> tuple[Style, ...]:
    """Make a style for each level of `Ink.COLOUR`: from blue over the background to orange."""
    is_dark = float(lightness(np.array(background))) < 50
    sides = []
    for end, numbers in zip(_ENDS[is_dark], _PALETTE[is_dark], strict=True):
        if color_system == "256":
            sides.append([Color.from_ansi(number) for number in numbers])
        else:
            shares = np.linspace(_FIRST_STEP, 1.0, steps_of(Ink.COLOUR))[:, None]
            mixed = np.rint(np.array(background) * (1 - shares) + np.array(end) * shares)
            sides.append([Color.from_rgb(*map(int, rgb)) for rgb in mixed])
    falls, rises = sides
    return tuple(Style(bgcolor=colour) for colour in (*reversed(falls), Color.from_rgb(*background), *rises))


def signed_legend(
    scale: Scale, largest: float, ink: Ink, colours: Sequence[Style], width: int, pooled: str = ""
) -> Text:
    """Show every level in order between the largest decrease and the largest increase; words where they fit.

    Parameters
    ----------
    scale, largest : as in `signed_levels`.
    ink, colours : what the levels look like; colours are used with `Ink.COLOUR` only.
    width : cells there are.
    pooled : what a cell is, where it is more than one weight.

    Examples
    --------
    >>> signed_legend("linear", 0.8, Ink.SHADES, (), 72).plain
    'linear -0.8 -█-▓-▒-░ 0 +░+▒+▓+█ +0.8 = difference'
    >>> signed_legend("linear", 0.8, Ink.SHADES, (), 18).plain
    '-0.8 -█ 0 +█ +0.8'
    >>> signed_legend("linear", 0.0, Ink.SHADES, (), 72).plain
    'no difference'
    """
    if not largest:
        return Text("no difference", no_wrap=True)
    steps = steps_of(ink)
    top = 1.0 if scale == "log" else largest

    def assemble(before: str, behind: str = "", *, only_ends: bool = False) -> Text:
        text = Text(f"{before}-{brief(top)} ", no_wrap=True)
        for level, cell in enumerate(signed_cells(ink)):
            if only_ends and level % steps:
                continue
            if level == steps:
                text.append(" 0 ")
            elif ink is Ink.COLOUR:
                text.append(" ", colours[level])
            else:
                text.append(cell)
        return text.append(f" +{brief(top)}{behind}")

    before = f"{pooled}{'  ' if pooled else ''}{scale} "
    shortest = assemble("", only_ends=True)
    texts = (assemble(before, " = difference"), assemble(before), assemble(""))
    return next((text for text in texts if text.cell_len <= width), shortest)
