"""Which of the 256 colours of a terminal is sent in the place of a colour."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product
from math import hypot

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as Ground
from textual.color import rgb_to_lab
from textual.filter import LineFilter

Rgb = tuple[int, int, int]
Lab = tuple[float, float, float]

CUBE = (0, 95, 135, 175, 215, 255)
"""How much of red, green and blue the colours 16 to 231 have, in all combinations; behind them are 24 greys."""

FIRST_GREY, GREYS = 232, 24


@lru_cache(maxsize=8192)
def nearest(colour: Rgb) -> int:
    """Find the one of the 256 colours that is most like a colour to the eye (by CIE 1994, which keeps hues).

    Rich rounds red, green and blue one by one, which makes navy of a dark grey that is a little blue.

    Examples
    --------
    >>> nearest((36, 47, 56)), nearest((0, 135, 215)), nearest((253, 246, 227))
    (236, 32, 255)
    """
    at = [sum(value > (low + high) // 2 for low, high in pairwise(CUBE)) for value in colour]
    around = [sorted({max(step - 1, 0), step, min(step + 1, 5)}) for step in at]
    grey = (sum(colour) // 3 - 8) // 10
    numbers = [16 + 36 * red + 6 * green + blue for red, green, blue in product(*around)]
    numbers += [FIRST_GREY + min(max(grey + step, 0), GREYS - 1) for step in (-1, 0, 1, 2)]
    wanted = _lab(colour)
    return min(numbers, key=lambda number: _square_of_difference(wanted, _lab(of_palette(number))))


def of_palette(number: int) -> Rgb:
    """Give one of the 256 colours but for the first sixteen, which terminals have in their own way."""
    if number >= FIRST_GREY:
        grey = 8 + 10 * (number - FIRST_GREY)
        return grey, grey, grey
    number -= 16
    return CUBE[number // 36], CUBE[number // 6 % 6], CUBE[number % 6]


@lru_cache(maxsize=8192)
def _lab(colour: Rgb) -> Lab:
    """Place a colour where distances are as the eye sees them."""
    lab = rgb_to_lab(Ground(*colour))
    return lab.L, lab.a, lab.b


def _square_of_difference(colour: Lab, other: Lab) -> float:
    """Compute the square of how different a colour looks to another one: in lightness, chroma and hue."""
    chroma = hypot(*colour[1:])
    in_chroma = chroma - hypot(*other[1:])
    in_hue = (colour[1] - other[1]) ** 2 + (colour[2] - other[2]) ** 2 - in_chroma**2
    lightness = (colour[0] - other[0]) ** 2
    return lightness + (in_chroma / (1 + 0.045 * chroma)) ** 2 + in_hue / (1 + 0.015 * chroma) ** 2


class NearestColour(LineFilter):
    """Sends in the place of each colour the most alike of the 256 that there are."""

    def apply(self, segments: list[Segment], background: Ground) -> list[Segment]:
        """Change the colours of all that has some."""
        return [
            Segment(text, style if style is None else _in_palette(style), control) for text, style, control in segments
        ]


@lru_cache(maxsize=8192)
def _in_palette(style: Style) -> Style:
    """Give a style with colours of the palette alone."""
    ink, ground = (
        None if each is None or each.triplet is None else Color.from_ansi(nearest(tuple(each.triplet)))
        for each in (style.color, style.bgcolor)
    )
    return style if ink is None and ground is None else style + Style(color=ink, bgcolor=ground)
