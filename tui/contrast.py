"""What is written can be read: every letter, mark and line stands out from what is behind it, under every theme."""

from __future__ import annotations

import re
from functools import lru_cache

from rich.color import Color as Ink
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.filter import LineFilter

from tui.sent_colours import Rgb, seen

LETTERS = 4.5
"""The least contrast of text, from 1 to 21 (WCAG 2.1, success criterion 1.4.3)."""

MARKS = 3.0
"""The least contrast of a mark, such as a cursor (success criterion 1.4.11)."""

LINES = 2.2
"""The least contrast of lines that show how things hang together, such as the tree's: they are seen, and not first."""

BETWEEN_WORDS = "│"
"""What stands between two tokens, which are not told apart where it is not read."""

STEPS = 32
"""Steps on the way from a colour to black or white: so few that hardly more colours are sent than the theme has."""

TITLES = 6.0
"""The least contrast of black or white on a title: words are a little nearer to it than that, some of them more."""

GROUNDS = ("background", "surface", "panel")
"""The theme's variables for what is behind cursors and bars."""

CHANCE = 0.2
"""How much of the colour of letters there is in that of the area that chance fills behind bars."""

CURSOR, BARS, TITLE = "success", "primary", "block-cursor-background"
"""The theme's variables for the cursor and its names, for bars, and for what is behind a title or a line of a list."""

THUMBS, TROUGH = ("scrollbar", "scrollbar-hover", "scrollbar-active"), "scrollbar-background"
"""The theme's variables for what is moved in a bar that scrolls, and for what is behind it."""

_IS_EDGE = re.compile(r"[\s─_‾¯]*").fullmatch
"""Whether a text is of a plot's line alone, of which each cell has one of several heights."""

_IS_LINES = re.compile(r"[\s─-╿]*").fullmatch
"""Whether a text is of lines alone that join things, or go around them."""

_IS_DRAWN = re.compile(r"[\s─-▟⠀-⣿]*").fullmatch
"""Whether a text is drawn with alone: lines, blocks and dots, whose colours say something of their own."""

_IS_MARKS = re.compile(r"[\s─-▟⠀-⣿_‾¯]*").fullmatch
"""Whether a text is of marks alone, which are not read; a dot or a colon is, which may be a key or a token."""


def contrast(ink: Rgb, ground: Rgb) -> float:
    """Compute the contrast of two colours, from 1 to 21, whichever is in front.

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


@lru_cache(4096)
def standing_out(ink: Rgb, grounds: tuple[Rgb, ...], least: float, color_system: str | None = "truecolor") -> Rgb:
    """Make a colour darker or lighter, as little as will do, until it stands out from all that is behind it.

    Parameters
    ----------
    ink : the colour; it stays where it stands out.
    grounds : what is behind it.
    least : the contrast that it is to have; where neither black nor white has it, the better one is given.
    color_system : of the terminal: what stands out is what it shows of the colours.
    """
    behind = [seen(ground, color_system) for ground in grounds]

    def least_of(colour: Rgb) -> float:
        return min(contrast(seen(colour, color_system), ground) for ground in behind)

    best = ink
    for step in range(STEPS + 1):
        best = max((_mixed(ink, end, step / STEPS) for end in ((0, 0, 0), (255, 255, 255))), key=least_of)
        if least_of(best) >= least:
            break
    return best


def _mixed(ink: Rgb, end: Rgb, share: float) -> Rgb:
    """Go a part of the way from one colour to another."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(ink, end, strict=True))
    return red, green, blue


def with_clear_colours(variables: dict[str, str], color_system: str | None = "truecolor") -> dict[str, str]:
    """Give a theme's variables with a cursor, bars and titles that stand out; each keeps one colour everywhere.

    Letters are made to stand out where they are drawn; a title that hardly carries any is made darker or lighter. Bars
    and the cursor stand out from the area of chance, too, before which they are drawn.

    Parameters
    ----------
    variables : of the theme.
    color_system : of the terminal, which may show one colour in the place of several.
    """
    names = (CURSOR, BARS, TITLE, TROUGH, "foreground", *GROUNDS, *THUMBS)
    try:
        colours = {name: Color.parse(variables[name]) for name in names}
    except (ColorParseError, KeyError):
        return variables
    if any(each.ansi is not None for each in colours.values()):
        return variables
    rgb = {name: each.rgb for name, each in colours.items()}
    behind = tuple(dict.fromkeys(rgb[name] for name in GROUNDS))
    chance = _mixed(rgb["background"], rgb["foreground"], CHANCE)
    cursor = standing_out(rgb[CURSOR], behind, LETTERS, color_system)
    clear = {
        CURSOR: standing_out(cursor, (*behind, chance), MARKS, color_system),
        BARS: standing_out(rgb[BARS], (*behind, chance), MARKS, color_system),
        TITLE: standing_out(rgb[TITLE], (colours[TITLE].get_contrast_text(1.0).rgb,), TITLES, color_system),
        **{name: standing_out(rgb[name], (rgb[TROUGH],), MARKS, color_system) for name in THUMBS},
    }
    return variables | {name: Color(*each).hex for name, each in clear.items()}


@lru_cache(4096)
def _changed(style: Style, least: float, color_system: str | None) -> Style | None:
    """Change the colour of letters that do not stand out; None where they do, or where colours are the terminal's."""
    ink, ground = style.color, style.bgcolor
    if ink is None or ground is None or ink.triplet is None or ground.triplet is None:
        return None
    clear = standing_out(tuple(ink.triplet), (tuple(ground.triplet),), least, color_system)
    return None if clear == tuple(ink.triplet) else style + Style(color=Ink.from_rgb(*clear))


class Legible(LineFilter):
    """Sends no letter that hardly stands out from what is behind it, however the theme mixes its colours.

    Parameters
    ----------
    color_system : of the terminal, such as ``256``: how few colours there are decides which ones it shows.
    """

    def __init__(self, color_system: str | None) -> None:
        super().__init__()
        self._color_system = color_system

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Change the colours of letters, of marks and of lines, where they are too much alike."""
        return [self._legible(each) for each in segments]

    def _legible(self, segment: Segment) -> Segment:
        """Give a segment whose letters, marks or lines stand out; nearly all do as they are."""
        style = segment.style
        if style is None or _changed(style, LETTERS, self._color_system) is None:
            return segment
        least = least_contrast(segment.text)
        changed = None if least is None else _changed(style, least, self._color_system)
        return segment if changed is None else Segment(segment.text, changed, segment.control)


def least_contrast(text: str) -> float | None:
    """Give the least contrast that a text is to have; None for what is drawn, whose colours say something."""
    if text == BETWEEN_WORDS:
        return LETTERS
    if text.isspace():
        return None
    if _IS_EDGE(text):
        return MARKS
    if _IS_LINES(text):
        return LINES
    if _IS_DRAWN(text):
        return None
    return MARKS if _IS_MARKS(text) else LETTERS


@lru_cache(8)
def legible(color_system: str | None) -> Legible:
    """Give what makes letters stand out on a terminal; always the same one, by which the toolkit knows its lines."""
    return Legible(color_system)
