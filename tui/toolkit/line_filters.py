"""Filters that every line passes before it is painted.

They remove what terminals do not draw alike, and where asked for, colours, or all but ASCII.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from math import hypot
from unicodedata import normalize

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as Ground
from textual.color import rgb_to_lab
from textual.filter import LineFilter

from tui.drawing.text import ROOM, clusters


def _of_dots(dots: int) -> str:
    """Return the ASCII sign for a cell of eight dots: a dot in one column, a line, or a steep line.

    Examples
    --------
    >>> [_of_dots(dots) for dots in (0x01, 0x40, 0x09, 0x12, 0xC0, 0x47)]
    ["'", '.', '"', '-', '_', '|']
    """
    rows = [row for row, both in enumerate((0x09, 0x12, 0x24, 0xC0)) if dots & both]
    if not rows:
        return " "
    middle = (rows[0] + rows[-1]) / 2
    if len(rows) > 2:
        return "|"
    if not dots & 0x47 or not dots & 0xB8:
        return "'" if middle < 1.5 else "."
    return '"' if middle < 1 else "-" if middle < 2.5 else "_"


_IN_ASCII = str.maketrans(
    {
        **{chr(0x2800 + dots): _of_dots(dots) for dots in range(256)},
        **dict.fromkeys("─━═╌╍┄┅┈┉▔‾⎺⎽╶╴╸╺–—−‐‑", "-"),
        **dict.fromkeys("│┃║╎╏┆┇┊┋▏▎▍▌▐▕┤├╵╷·", "|"),
        **dict.fromkeys("┌┐└┘╭╮╰╯┏┓┗┛╔╗╚╝┬┴┼╋╠╣╦╩╬", "+"),
        **dict.fromkeys("▁▂▃", "_"),
        **dict.fromkeys("▄▅▆▒", "="),
        **dict.fromkeys("▇█▀▉▊▋■▮", "#"),
        "▯": ".",
        **dict.fromkeys("▶▸►▷→⇒›»⏎", ">"),
        **dict.fromkeys("◀◂◄←⇐‹«", "<"),
        **dict.fromkeys("▼▾▿↓⏷", "v"),
        **dict.fromkeys("▲▴↑⇑", "^"),
        **dict.fromkeys("•∙◦⋅░", "."),
        **dict.fromkeys("‘’′", "'"),
        **dict.fromkeys("“”″", '"'),
        "▓": "*", "●": "o", "◆": "@", "○": "O", "△": "A", "□": "%", "◇": "&", "≤": "<", "≥": ">", "×": "x", "…": "~",
        "⋮": "~", "␣": "_", "∅": "-", "√": "r", "‖": "|", "∩": "&", "∞": "?", "σ": "s", "Σ": "S", "ε": "e", "λ": "l",
        "Δ": "D", "α": "a", "β": "b", "μ": "u", "π": "p", "θ": "t", "ρ": "r", ROOM: " ",
    }
)  # fmt: skip
"""ASCII signs for drawing characters; each takes one cell, as the original does."""

_CUT_BEFORE = re.compile(r"(?<!\S)…(?=\S)")
"""An ellipsis before a text: in ASCII a path that begins with ``~`` would be in the home folder."""

_UNSETTLED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f"
    r"\ud800-\udfff\ufe0e\ufe0f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U00013438\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff\U000e0001\U000e0020-\U000e007f]"
)
"""Characters that control the terminal, join or select pictures, colour skin, or turn the writing direction."""


@lru_cache(4096)
def safe_cells(text: str) -> str:
    """Replace what terminals disagree on, keeping the number of cells that Textual counts.

    Examples
    --------
    >>> safe_cells("a \U0001f468\u200d\U0001f469\u200d\U0001f467 b"), safe_cells("\u2764\ufe0fc")
    ('a 👨 b', '❤ c')
    """
    cells, before, taken = [], "", 0
    for cluster, _ in clusters(text):
        before += cluster
        width = cell_len(before) - taken  # 0 for what is joined to the picture before it
        taken += width
        kept = _UNSETTLED.sub("", cluster) if width else ""
        cells.append(kept + " " * (width - cell_len(kept)))
    return "".join(cells)


@lru_cache(4096)
def ascii_cells(text: str) -> str:
    """Replace all but ASCII, keeping the number of cells.

    Examples
    --------
    >>> ascii_cells("╭─ σ₁ → café 中 ─╮")
    '+- s1 > cafe ?? -+'
    >>> ascii_cells("…/models/gpt2 write tok…")
    '</models/gpt2 write tok~'
    """
    cells = []
    for cluster, width in clusters(_CUT_BEFORE.sub("<", text)):
        base = normalize("NFKD", cluster.translate(_IN_ASCII))[:1]
        cells.append((base if base.isascii() else "?")[:width].ljust(width, "?"))
    return "".join(cells)


@lru_cache(4096)
def _without_colour(style: Style) -> Style:
    return style.without_color


class SafeCharacters(LineFilter):
    """Sends no control characters, and none whose width terminals disagree on.

    Every cell passes here, whether its text came from the user, a model's files, or a library's error; so it need not
    be escaped before.
    """

    def apply(self, segments: list[Segment], background: Ground) -> list[Segment]:
        """Replace unsafe characters in a line."""
        return [
            each
            if each.text.isprintable() and (each.text.isascii() or not _UNSETTLED.search(each.text))
            else Segment(safe_cells(each.text), each.style, each.control)
            for each in segments
        ]


class Colourless(LineFilter):
    """Sends no colours, for ``NO_COLOR``."""

    def apply(self, segments: list[Segment], background: Ground) -> list[Segment]:
        """Remove the colours of a line."""
        return [
            Segment(text, None if style is None else _without_colour(style), control)
            for text, style, control in segments
        ]


class AsciiOnly(LineFilter):
    """Sends only ASCII."""

    def apply(self, segments: list[Segment], background: Ground) -> list[Segment]:
        """Replace all but ASCII in a line."""
        return [
            each if each.text.isascii() else Segment(ascii_cells(each.text), each.style, each.control)
            for each in segments
        ]


Rgb = tuple[int, int, int]
Lab = tuple[float, float, float]

FIXED = range(16, 256)
"""Those of the 256 colours that are the same on every terminal."""


@lru_cache(maxsize=8192)
def nearest(colour: Rgb) -> int:
    """Return which of the 256 colours looks most like a colour (by CIE 1994, which keeps hues).

    Rich rounds red, green and blue separately, which turns a bluish dark grey into navy.

    Examples
    --------
    >>> nearest((36, 47, 56)), nearest((0, 135, 215)), nearest((253, 246, 227))
    (236, 32, 255)
    """
    wanted = _lab(colour)
    return min(FIXED, key=lambda number: _square_of_difference(wanted, _lab_of(number)))


@cache
def _lab_of(number: int) -> Lab:
    return _lab(Color.from_ansi(number).get_truecolor())


def _lab(colour: Rgb) -> Lab:
    lab = rgb_to_lab(Ground(*colour))
    return lab.L, lab.a, lab.b


def _square_of_difference(colour: Lab, other: Lab) -> float:
    """Compute the square of the difference of two colours in lightness, chroma and hue."""
    chroma = hypot(*colour[1:])
    in_chroma = chroma - hypot(*other[1:])
    in_hue = (colour[1] - other[1]) ** 2 + (colour[2] - other[2]) ** 2 - in_chroma**2
    lightness = (colour[0] - other[0]) ** 2
    return lightness + (in_chroma / (1 + 0.045 * chroma)) ** 2 + in_hue / (1 + 0.015 * chroma) ** 2


class NearestColour(LineFilter):
    """Sends the most similar of the 256 colours in place of each colour."""

    def apply(self, segments: list[Segment], background: Ground) -> list[Segment]:
        """Replace the colours of a line."""
        return [
            Segment(text, style if style is None else _in_palette(style), control) for text, style, control in segments
        ]


@lru_cache(maxsize=8192)
def _in_palette(style: Style) -> Style:
    ink, ground = (
        None if each is None or each.triplet is None else Color.from_ansi(nearest(tuple(each.triplet)))
        for each in (style.color, style.bgcolor)
    )
    return style if ink is None and ground is None else style + Style(color=ink, bgcolor=ground)
