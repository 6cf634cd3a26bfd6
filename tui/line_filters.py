"""What every line goes through before it is painted: colours taken out of it, and all that is not ASCII."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from tui.drawing.text import clusters, in_ascii

_BOXES = str.maketrans(
    {
        **dict.fromkeys("─━═╌╍┄┅┈┉▁▔‾⎺⎽╶╴╸╺", "-"),
        **dict.fromkeys("│┃║╎╏┆┇┊┋▏▎▍▌▐▕┤├╵╷", "|"),
        **dict.fromkeys("┌┐└┘╭╮╰╯┏┓┗┛╔╗╚╝┬┴┼╋╠╣╦╩╬", "+"),
        **dict.fromkeys("▂▃▄▅▆▇█▀▉▊▋■▓", "#"),
        **dict.fromkeys("░▒", ":"),
        **dict.fromkeys("▶▸►▷→⇒›»", ">"),
        **dict.fromkeys("◀◂◄←⇐‹«", "<"),
        **dict.fromkeys("▼▾▿↓⏷", "v"),
        **dict.fromkeys("▲▴△↑⇑", "^"),
        **dict.fromkeys("•●◦○∙⋅", "*"),
        "·": "|",
        **dict.fromkeys("–—−‐‑", "-"),
        **dict.fromkeys("‘’′", "'"),
        **dict.fromkeys("“”″", '"'),
        "≤": "<", "≥": ">", "×": "x", "…": "~", "␣": "_", "∅": "0", "⏎": "<", "⋮": ":", "√": "r", "‖": "|",
        "σ": "s", "Σ": "S", "ε": "e", "λ": "l", "Δ": "D", "α": "a", "β": "b", "μ": "u", "π": "p", "θ": "t",
    }
)  # fmt: skip
"""What an ASCII terminal shows for signs that are drawn with; each takes one cell, as the sign does."""


@lru_cache(4096)
def ascii_cells(text: str) -> str:
    """Write text in ASCII so that it takes as many cells as before.

    Examples
    --------
    >>> ascii_cells("╭─ σ₁ → café 中 ─╮")
    '+- s1 > cafe ?? -+'
    """
    cells = []
    for cluster, width in clusters(text):
        plain = in_ascii(cluster.translate(_BOXES)[:1])[:width]
        cells.append(plain.ljust(width, "?"))
    return "".join(cells)


@lru_cache(4096)
def _without_colour(style: Style) -> Style:
    """Keep what a style has beside its colours: bold, reverse and so on."""
    return style.without_color


class Colourless(LineFilter):
    """Sends no colour at all, as ``NO_COLOR`` asks for."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Take the colours out of a line."""
        return [
            Segment(text, None if style is None else _without_colour(style), control)
            for text, style, control in segments
        ]


class AsciiOnly(LineFilter):
    """Sends nothing but ASCII, whatever a widget draws."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace what is not ASCII by as many cells of it."""
        return [
            each if each.text.isascii() else Segment(ascii_cells(each.text), each.style, each.control)
            for each in segments
        ]
