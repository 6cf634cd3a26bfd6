"""Weights written as numbers in the cells of a map, on the colours of their levels."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

from rich.color import Color, ColorType
from rich.style import Style

from tui.drawing.axes import CELL_WIDTH
from tui.drawing.ramps import Rgb

WIDTH = 5
"""Columns of a cell that holds a weight: four characters, and a blank that keeps neighbours apart."""

_LEAST = 0.00095
"""What is smaller would have no digit behind the point of its own, of three."""

NEXT_TO_NOTHING = "~0"
"""What is not zero, but smaller than what four characters can say."""

_INKS: tuple[tuple[Rgb, int], ...] = (((0, 0, 0), 16), ((255, 255, 255), 231))
"""Black and white, and their numbers in the palette of 256 colours."""


def figure(value: float, *, is_signed: bool) -> str:
    """Write a weight in four characters, or a difference of two in as many behind its sign; nothing where it is zero.

    Three digits behind the point; of what is smaller than they can say, the first digit and its power of ten. What is
    smaller than 1e-9 is next to nothing.

    Examples
    --------
    >>> [figure(each, is_signed=False) for each in (0.4268, 0.9997, 0.0014, 0.00042, 3e-12, 0.0, float("nan"))]
    ['.427', '1.00', '.001', '4e-4', '~0', '', '?']
    >>> [figure(each, is_signed=True) for each in (0.4268, -0.9997, -0.005, 0.00042, -1e-12)]
    ['+.427', '-1.00', '-.005', '+4e-4', '~0']
    """
    if not isfinite(value):
        return "?"
    if not value:
        return ""
    size, sign = abs(value), ("-" if value < 0 else "+") if is_signed else ""
    if size < _LEAST:
        digit, power = f"{size:.0e}".split("e")
        return f"{sign}{digit}e{int(power)}" if int(power) > -10 else NEXT_TO_NOTHING
    return sign + (f"{size:.2f}" if round(size, 3) >= 1 else f"{size:.3f}".removeprefix("0"))


def cell_width(*, is_numbered: bool = True, is_signed: bool = False) -> int:
    """Count the columns of a map's cells: a number takes more than a colour, and a difference one more for its sign."""
    return WIDTH + is_signed if is_numbered else CELL_WIDTH


def in_cell(text: str, width: int) -> str:
    """Put a number at the right of its cell, before the blank that ends it."""
    return f"{text:>{width - 1}} "


@lru_cache(maxsize=32)
def figure_styles(styles: tuple[Style, ...], faint: Style) -> tuple[Style, ...]:
    """Give the levels' colours an ink that can be read on them, black or white; numbers on the lowest one are faint.

    Parameters
    ----------
    styles : of each level, by its background; one alone is what all numbers are written with.
    faint : how labels are written, on the background that the lowest level has.
    """
    if len(styles) == 1:
        return styles
    plain = [each.bgcolor for each in styles]
    return tuple(
        style + Style(color=faint.color if ground == faint.bgcolor else _ink_on(ground))
        for style, ground in zip(styles, plain, strict=True)
    )


def _ink_on(ground: Color | None) -> Color | None:
    """Choose black or white, whichever stands out more, from the palette that a colour is of."""
    if ground is None:
        return None
    behind = ground.get_truecolor()
    rgb, number = max(_INKS, key=lambda each: contrast(each[0], (behind.red, behind.green, behind.blue)))
    return Color.from_ansi(number) if ground.type is ColorType.EIGHT_BIT else Color.from_rgb(*rgb)


def contrast(ink: Rgb, ground: Rgb) -> float:
    """Compute the contrast of two colours, from 1 to 21, whichever is in front (WCAG 2.1, success criterion 1.4.3).

    Examples
    --------
    >>> contrast((0, 0, 0), (255, 255, 255)), round(contrast((119, 119, 119), (255, 255, 255)), 2)
    (21.0, 4.48)
    """
    dark, light = sorted((_luminance(ink), _luminance(ground)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(rgb: Rgb) -> float:
    """Compute the relative luminance of an sRGB colour, from 0 to 1."""
    shares = (each / 255 for each in rgb)
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
