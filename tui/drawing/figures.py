"""Weights written as numbers in the cells of a map, on the colours of their levels."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

from rich.color import Color, ColorType
from rich.style import Style

from tui.contrast import contrast
from tui.drawing.ramps import Rgb

WIDTH = 5
"""Columns of a cell that holds a number: four characters, and a blank that keeps neighbours apart."""

_LEAST, _LEAST_SIGNED = 0.0005, 0.005
"""What is smaller would be all zeros with three digits, or with the two that there is room for behind a sign."""

_INKS: tuple[tuple[Rgb, int], ...] = (((0, 0, 0), 16), ((255, 255, 255), 231))
"""Black and white, and their numbers in the palette of 256 colours."""


def figure(value: float, *, is_signed: bool) -> str:
    """Write a weight, or a difference of two, in four characters; nothing where it is zero.

    Three digits behind the point, or two behind a sign. Of what is smaller than they can say, a weight is written by
    its first digit and its power of ten, or by that power alone, and a difference by its sign and power of ten, or by
    its sign and zero.

    Examples
    --------
    >>> [figure(each, is_signed=False) for each in (0.4268, 0.9997, 0.0005, 0.00042, 3e-12, 0.0, float("nan"))]
    ['.427', '1.00', '.001', '4e-4', 'e-12', '', '?']
    >>> [figure(each, is_signed=True) for each in (0.4268, -0.9997, -0.005, 0.00042, -1e-12)]
    ['+.43', '-1.0', '-.01', '+e-4', '-0']
    """
    if not isfinite(value):
        return "?"
    if not value:
        return ""
    size, sign = abs(value), ("-" if value < 0 else "+") if is_signed else ""
    if size < (_LEAST_SIGNED if is_signed else _LEAST):
        digit, power = f"{size:.0e}".split("e")
        if is_signed:
            return f"{sign}e{int(power)}" if int(power) > -10 else f"{sign}0"
        return f"{digit}e{int(power)}" if int(power) > -10 else f"e{int(power)}"
    if round(size, 2 if is_signed else 3) >= 1:
        return f"{sign}{size:.1f}" if is_signed else f"{size:.2f}"
    return sign + (f"{size:.2f}" if is_signed else f"{size:.3f}").removeprefix("0")


def in_cell(text: str) -> str:
    """Put a number at the right of its cell, before the blank that ends it."""
    return f"{text:>{WIDTH - 1}} "


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
    rgb, number = max(_INKS, key=lambda each: contrast(each[0], behind))
    return Color.from_ansi(number) if ground.type is ColorType.EIGHT_BIT else Color.from_rgb(*rgb)
