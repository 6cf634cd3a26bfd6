"""How a weight becomes one of a few levels, and what tells the levels apart on the terminal at hand."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Scale = Literal["linear", "log"]

NOT_FINITE = 255
"""The level of a weight that is NaN or infinite."""

ABSENT = 253
"""Stands in place of a level where the weight has not come yet."""

LOG_FLOOR = 1e-4
"""The log scale runs from here to one; whatever is smaller has the lowest level."""

LINEAR_UP_TO = 64
"""Keys up to which a map begins on the linear scale; of more, an even share of attention is less than 1/64.

That is a quarter of the first of 16 levels: most of what heads do would be drawn as nothing.
"""

_ROUNDING = 1e-6
"""Of a level: keeps a weight that is itself a bound, such as 0.001 on the log scale, from falling below it."""


def usual_scale(keys: int) -> Scale:
    """Give the scale that a map of so many keys begins on.

    Examples
    --------
    >>> usual_scale(20), usual_scale(200)
    ('linear', 'log')
    """
    return "linear" if keys <= LINEAR_UP_TO else "log"


class Ink(Enum):
    """What tells one level from another: the colour of the background, or two characters of its own."""

    COLOUR = ("  ",) * 16
    SHADES = ("  ", " ░", "░░", "░▒", "▒▒", "▒▓", "▓▓", "██")

    @property
    def cells(self) -> tuple[str, ...]:
        """The two characters of each level's cell, lowest first; a coloured level is blank on its colour.

        Colour has 16 levels: more would double a redraw's bytes and be told apart by nobody. Shades have 8, so that on
        the log scale a decade is two levels.
        """
        cells: tuple[str, ...] = self.value
        return cells

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.cells)


def choose_ink(color_system: str | None, *, no_color: bool, ansi: bool) -> Ink:
    """Choose what the terminal can carry.

    Parameters
    ----------
    color_system : of the application's console: ``truecolor``, ``256``, ``standard`` (16 colours), or None.
    no_color : whether ``NO_COLOR`` is set; Textual then turns colours to grey, or drops them under an ANSI theme.
    ansi : whether the theme leaves the colours to the terminal; no ramp can be mixed from colours that nobody knows.
    """
    if color_system in ("truecolor", "256") and not no_color and not ansi:
        return Ink.COLOUR
    return Ink.SHADES


def levels_of(weights: NDArray[Any], scale: Scale, largest: float, count: int) -> NDArray[np.uint8]:
    """Sort weights into ``count`` equally wide levels of [0, largest], or of the logarithm of [1e-4, 1].

    A bound between two levels belongs to the upper one. Weights below the scale have level 0, those above it the top
    level, and those that are not finite `NOT_FINITE`.

    Examples
    --------
    >>> levels_of(np.array([0.0, 0.24, 0.25, 0.5, 1.0, np.nan]), "linear", 1.0, 4).tolist()
    [0, 0, 1, 2, 3, 255]
    >>> levels_of(np.array([0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0]), "log", 1.0, 4).tolist()
    [0, 0, 1, 2, 3, 3]
    """
    finite = np.isfinite(weights)
    values = np.where(finite, weights, 0.0).astype(np.float64)
    if scale == "log":
        height = 1.0 - np.log10(np.maximum(values, LOG_FLOOR)) / np.log10(LOG_FLOOR)
    else:
        height = values / largest if largest > 0 else np.zeros_like(values)
    level = np.clip(np.floor(height * count + _ROUNDING), 0, count - 1)
    return np.where(finite, level, NOT_FINITE).astype(np.uint8)


def bounds_of(scale: Scale, largest: float, count: int) -> list[float]:
    """List the ``count + 1`` bounds of the levels, from the bottom of the scale to its top.

    Examples
    --------
    >>> bounds_of("linear", 0.8, 4)
    [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]
    """
    steps = [step / count for step in range(count + 1)]
    if scale == "log":
        return [LOG_FLOOR ** (1.0 - step) for step in steps]
    return [step * max(largest, 0.0) for step in steps]
