"""Colours for the levels of a map: even steps of lightness, mixed for the theme's background and the terminal."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color

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
"""By name, the stops of a walk from dark to light, and the same walk in the palette of 256 colours."""

_OFF_BACKGROUND = 5.0
"""Lightness by which the first colour of the map must differ from the background."""


@lru_cache(maxsize=64)
def ramp(background: Rgb, color_system: str, palette: str = "magma") -> tuple[Color, ...]:
    """Mix a colour for each level of `Ink.COLOUR`, from the background away to the far end of light or dark.

    Lightness changes by the same amount from each level to the next, so that they keep their order in grey and to any
    eye. With 256 colours every level is one of the palette's own, all different, the steps as even as it has.

    Parameters
    ----------
    background : what is behind the map; level 0 has this colour.
    color_system : ``truecolor`` or ``256``.
    palette : one of `PALETTES`.
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
    share = np.asarray(rgb, dtype=np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    luminance = linear @ np.array([0.2126729, 0.7151522, 0.0721750])
    result: Array = np.where(luminance > (6 / 29) ** 3, 116 * np.cbrt(luminance) - 16, luminance * (29 / 3) ** 3)
    return result


def _ahead(colours: Array, background: Rgb) -> Array:
    """Keep the colours that are clearly off the background, on its far side, nearest first."""
    start = float(lightness(np.array(background)))
    direction = 1 if start < 50 else -1
    kept: Array = colours[direction * (lightness(colours) - start) >= _OFF_BACKGROUND]
    return kept[::direction]


def _path(background: Rgb, stops: tuple[str, ...]) -> Array:
    """Walk in fine steps from the background into a palette."""
    colours = np.array([list(bytes.fromhex(stop[1:])) for stop in stops], dtype=np.float64)
    corners = np.vstack([background, _ahead(colours, background)])
    steps = np.linspace(0, len(corners) - 1, 400)
    return np.stack([np.interp(steps, range(len(corners)), corners[:, c]) for c in range(3)], axis=1)


def _nearest_in_palette(targets: Array, background: Rgb, walk: tuple[int, ...]) -> Array:
    """Choose one of the walk's colours for each lightness, in order and none twice, by least squares.

    ``cost`` holds, for every colour, the least sum of squares over the levels so far if this level gets that colour;
    the level before then has one of the colours before.
    """
    colours = np.array([Color.from_ansi(number).get_truecolor() for number in walk], dtype=np.float64)  # (colours, 3)
    cube = _ahead(colours, background)
    if len(cube) < len(targets):  # a background of middle grey: some colours twice rather than none
        return cube.take(np.rint(np.linspace(0, len(cube) - 1, len(targets))).astype(int), axis=0)
    misses = (lightness(cube)[None, :] - targets[:, None]) ** 2  # (levels, colours)
    in_order = np.triu(np.ones((len(cube), len(cube)), dtype=bool), k=1)  # (from, to)
    cost, origins = misses[0], []
    for miss in misses[1:]:
        sums = np.where(in_order, cost[:, None], np.inf)
        origins.append(sums.argmin(axis=0))
        cost = sums.min(axis=0) + miss
    chosen = [int(cost.argmin())]
    for origin in reversed(origins):
        chosen.append(int(origin[chosen[-1]]))
    return cube.take(chosen[::-1], axis=0)
