"""Colours of a map's levels: even steps of lightness, mixed for the theme's background and the terminal.

Differences run from blue through the background to orange. Letters on a level have a colour that can be read.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color, ColorType
from rich.style import Style

from tui.drawing.levels import Ink

Array = NDArray[np.floating[Any]]
Rgb = tuple[int, int, int]

# Stops of matplotlib's magma (Smith and van der Walt, 2015), an eighth of it apart from the second on: steady in
# lightness, and legible without red-green vision. The first is a little above black.
_MAGMA = ("#0b0924", "#1d1147", "#51127c", "#832681", "#b73779", "#e75263", "#fc8961", "#fec488", "#fcfdbf")

# The same walk through the colour cube of xterm's 256 colours, every one lighter than the one before. Left to Rich's
# rounding, magma would lose four of its sixteen levels and take turns between brown and pink.
_MAGMA_256 = (17, 18, 53, 54, 55, 90, 91, 126, 127, 162, 163, 198, 203, 204, 209, 210, 215, 216, 221, 222, 227, 228,
              229, 230, 231)  # fmt: skip

# Five colours, a quarter apart, of cividis (Nuñez, Anderton and Renslow, 2018), which looks the same with and without
# red-green vision; and the like in the palette of 256 colours.
_CIVIDIS = ("#00204d", "#414d6b", "#7c7b78", "#bcaf6f", "#ffea46")
_CIVIDIS_256 = (17, 18, 19, 24, 60, 242, 243, 244, 101, 245, 246, 247, 143, 144, 179, 185, 186, 221, 222, 227, 228,
                229, 230)  # fmt: skip

PALETTES = {"magma": (_MAGMA, _MAGMA_256), "cividis": (_CIVIDIS, _CIVIDIS_256)}
"""By name: the stops of a walk from dark to light, and the same walk in 256 colours."""

_OFF_BACKGROUND = 5.0
"""Least lightness between the background and a palette's first colour."""

_ENDS: dict[bool, tuple[Rgb, Rgb]] = {True: ((80, 170, 255), (255, 140, 50)), False: ((0, 60, 170), (180, 60, 0))}
"""Colours of the largest decrease and increase, blue and orange, on a dark background and on a light one."""

_ENDS_256 = {
    True: ((20, 25, 26, 32, 33, 39, 45), (88, 124, 130, 166, 172, 208, 214)),
    False: ((189, 153, 117, 75, 33, 26, 19), (224, 217, 216, 209, 202, 166, 130)),
}
"""The same walks away from the background in 256 colours."""

_FIRST_STEP = 0.2
"""Share of the way to the end of the first colour beside no difference, so that its side shows."""

_BLACK, _WHITE = Color.from_rgb(0, 0, 0), Color.from_rgb(255, 255, 255)

LEGIBLE = 4.5
"""Least contrast of letters with their background (WCAG 2.1, success criterion 1.4.3)."""


@lru_cache(maxsize=32)
def level_styles(
    background: Rgb, color_system: str, palette: str = "magma", *, is_signed: bool = False
) -> tuple[Style, ...]:
    """Return a style for each level; the same objects every time, so that their escape codes are cached."""
    colours = _signed_ramp(background, color_system) if is_signed else ramp(background, color_system, palette)
    return tuple(Style(bgcolor=colour) for colour in colours)


def _signed_ramp(background: Rgb, color_system: str) -> tuple[Color, ...]:
    is_dark = float(lightness(np.array(background))) < 50
    sides = []
    for end, numbers in zip(_ENDS[is_dark], _ENDS_256[is_dark], strict=True):
        if color_system == "256":
            sides.append([Color.from_ansi(number) for number in numbers])
        else:
            shares = np.linspace(_FIRST_STEP, 1.0, len(Ink.COLOUR.signed_cells) // 2)[:, None]
            mixed = np.rint(np.array(background) * (1 - shares) + np.array(end) * shares)
            sides.append([Color.from_rgb(*map(int, rgb)) for rgb in mixed])
    falls, rises = sides
    return (*reversed(falls), Color.from_rgb(*background), *rises)


@lru_cache(maxsize=32)
def pair_levels(styles: tuple[Style, ...]) -> tuple[Style, ...]:
    """Give each pair of neighbouring levels one style, since nobody can tell neighbours apart at a distance.

    The lowest and the highest keep their styles; the others are spaced as evenly as possible.

    Examples
    --------
    >>> [style.bgcolor.number for style in pair_levels(tuple(Style(bgcolor=f"color({n})") for n in range(16)))]
    [0, 0, 2, 2, 4, 4, 6, 6, 9, 9, 11, 11, 13, 13, 15, 15]
    """
    pairs = len(styles) // 2
    return tuple(styles[round(level // 2 * (len(styles) - 1) / (pairs - 1))] for level in range(2 * pairs))


@lru_cache(maxsize=32)
def legible_styles(styles: tuple[Style, ...], usual: Color | None) -> tuple[Style, ...]:
    """Add a legible colour of letters to each level's background: the usual one where it has enough contrast.

    Each change of colour costs as many bytes as a word. Otherwise letters are black or white, whichever has more
    contrast, from the palette of the background.

    Parameters
    ----------
    styles : of each level, by its background.
    usual : colour of letters elsewhere; None, or a colour that only the terminal knows, is not used.
    """
    return tuple(style + Style(color=_ink_on(style.bgcolor or _BLACK, usual)) for style in styles)


def _ink_on(ground: Color, usual: Color | None) -> Color:
    if usual is not None and not usual.is_system_defined and contrast(usual, ground) >= LEGIBLE:
        return usual
    white_is_better = contrast(_WHITE, ground) > contrast(_BLACK, ground)
    if ground.type is ColorType.EIGHT_BIT:
        return Color.from_ansi(231 if white_is_better else 16)
    return _WHITE if white_is_better else _BLACK


def contrast(one: Color, other: Color) -> float:
    """Compute the contrast of two colours, from 1 to 21 (WCAG 2.1, success criterion 1.4.3).

    Examples
    --------
    >>> [round(contrast(colour, _WHITE), 2) for colour in (_BLACK, Color.from_rgb(119, 119, 119))]
    [21.0, 4.48]
    """
    dark, light = sorted(float(_luminance(np.array(each.get_truecolor()))) for each in (one, other))
    return (light + 0.05) / (dark + 0.05)


@lru_cache(maxsize=64)
def ramp(background: Rgb, color_system: str, palette: str = "magma") -> tuple[Color, ...]:
    """Mix a colour for each level of `Ink.COLOUR`, from the background to the far end of light or dark.

    Lightness changes by equal steps, so that levels keep their order in grey and to any eye. With 256 colours all
    levels differ, in steps about as even as the palette allows.

    Parameters
    ----------
    background : behind the map; level 0 has this colour.
    color_system : ``truecolor`` or ``256``.
    """
    stops, numbers = PALETTES[palette]
    path = _path(background, stops)  # (steps, 3)
    heights = lightness(path)
    targets = np.linspace(heights[0], heights[-1], Ink.COLOUR.levels)[1:]
    if color_system == "256":
        colours = _nearest_in_palette(targets, background, numbers)
    else:
        rising = np.argsort(heights, kind="stable")
        colours = np.stack([np.interp(targets, heights[rising], path[rising, c]) for c in range(3)], axis=1)
    return (Color.from_rgb(*background), *(Color.from_rgb(*map(int, rgb)) for rgb in np.rint(colours)))


def lightness(rgb: Array) -> Array:
    """Compute CIE L*, from 0 (black) to 100 (white), of sRGB colours (..., 3) with channels from 0 to 255."""
    luminance = _luminance(rgb)
    result: Array = np.where(luminance > (6 / 29) ** 3, 116 * np.cbrt(luminance) - 16, luminance * (29 / 3) ** 3)
    return result


def _luminance(rgb: Array) -> Array:
    """Compute the relative luminance, from 0 to 1, of sRGB colours (..., 3) with channels from 0 to 255."""
    share = np.asarray(rgb, dtype=np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    luminance: Array = linear @ np.array([0.2126729, 0.7151522, 0.0721750])
    return luminance


def _beyond_background(colours: Array, background: Rgb) -> Array:
    """Keep the colours clearly lighter than a dark background, or darker than a light one, nearest first."""
    start = float(lightness(np.array(background)))
    direction = 1 if start < 50 else -1
    kept: Array = colours[direction * (lightness(colours) - start) >= _OFF_BACKGROUND]
    return kept[::direction]


def _path(background: Rgb, stops: tuple[str, ...]) -> Array:
    """Interpolate in fine steps from the background along a palette."""
    colours = np.array([list(bytes.fromhex(stop[1:])) for stop in stops], dtype=np.float64)
    corners = np.vstack([background, _beyond_background(colours, background)])
    steps = np.linspace(0, len(corners) - 1, 400)
    return np.stack([np.interp(steps, range(len(corners)), corners[:, c]) for c in range(3)], axis=1)


def _nearest_in_palette(targets: Array, background: Rgb, walk: tuple[int, ...]) -> Array:
    """Choose the colour of the walk nearest to each lightness, or the next one where that is taken."""
    colours = np.array([Color.from_ansi(number).get_truecolor() for number in walk], dtype=np.float64)  # (colours, 3)
    cube, order = _beyond_background(colours, background), np.arange(len(targets))
    spare = len(cube) - len(targets)
    nearest = np.abs(lightness(cube) - targets[:, None]).argmin(axis=1)
    skipped = np.clip(np.maximum.accumulate(nearest - order), 0, spare)
    chosen: Array = cube[order + skipped]
    return chosen
