"""Colours that are sent in fewer bytes: by their number, where the palette of 256 has them.

A colour takes up to nineteen bytes as red, green and blue, and eight as a number. What is behind letters, and what is
drawn, is sent so where it is exactly one of the palette, as a map's colours are even steps; letters are where the eye
does not tell the two colours.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as Ground
from textual.filter import LineFilter

from tui.contrast import contrast, least_contrast
from tui.sent_colours import Rgb, difference, nearest, of_palette

ALIKE = 1.5
"""How different colours may be that are taken for one (by CIE 1994); from about 2 on they are told apart."""

CHANGED_BY_PEOPLE = {*range(22), 232}
"""Numbers of which it is not certain what colours they are: those with names, and those that themes of shells take."""


@lru_cache(maxsize=8192)
def numbered(colour: Rgb, alike: float = 0.0) -> int | None:
    """Find the number of a colour, or of one that is almost the same; None where the palette has none.

    Examples
    --------
    >>> numbered((18, 18, 18)), numbered((160, 160, 160)), numbered((160, 160, 160), ALIKE), numbered((0, 0, 0))
    (233, None, 247, None)
    """
    number = nearest(colour)
    found = of_palette(number)
    is_it = found == colour if not alike else difference(found, colour) <= alike
    return number if is_it and number not in CHANGED_BY_PEOPLE else None


def as_sent(colour: Color) -> Color:
    """Give the colour that letters have on the terminal, where another one was asked for that is almost the same."""
    number = None if colour.triplet is None else numbered(colour.triplet, ALIKE)
    return colour if number is None else Color.from_ansi(number)


class Numbered(LineFilter):
    """Sends colours by their number where the palette of 256 has them."""

    def apply(self, segments: list[Segment], background: Ground) -> list[Segment]:
        """Change the colours of all that has some."""
        return [
            Segment(text, style if style is None else _numbered_style(style, least_contrast(text)), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=8192)
def _numbered_style(style: Style, least: float | None) -> Style:
    """Give a style with numbers for its colours; letters have at least a contrast, or the one that they have."""
    ink, ground = (
        None if each is None or each.triplet is None else each.triplet for each in (style.color, style.bgcolor)
    )
    behind = None if ground is None else numbered(ground)
    letters = None if ink is None else numbered(ink)
    if ink is not None and letters is None and least is not None and ground is not None:
        number = numbered(ink, ALIKE)
        if number is not None and contrast(of_palette(number), ground) >= min(least, contrast(ink, ground)):
            letters = number
    if behind is None and letters is None:
        return style
    return style + Style(
        color=None if letters is None else Color.from_ansi(letters),
        bgcolor=None if behind is None else Color.from_ansi(behind),
    )


NUMBERED = Numbered()
"""The one there is, by which the toolkit knows lines that have been through it."""
