"""Pictures of a view, or of the screen below its boxes, as SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape, unescape

from rich.color import Color, blend_rgb
from rich.console import Console
from rich.segment import Segment, SegmentLines
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.screen import Screen
from textual.strip import Strip

from tui.toolkit.screen import painted

SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve"
 viewBox="{terminal_x} {terminal_y} {terminal_width} {terminal_height}">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{
font-family: "Fira Code", ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
font-variant-ligatures: none;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""The cells alone, without Rich's window and web font."""

DIM = 0.4
"""How far a dim colour is blended into the one behind it."""

UNKNOWN = TerminalTheme(
    (18, 18, 18),
    (224, 224, 224),
    [
        (0, 0, 0), (255, 107, 104), (120, 200, 90), (222, 184, 65), (110, 168, 254), (214, 138, 226), (80, 200, 210),
        (224, 224, 224),
    ],
    [
        (150, 150, 150), (255, 140, 136), (150, 225, 120), (245, 215, 110), (150, 195, 255), (232, 170, 242),
        (130, 225, 232), (255, 255, 255),
    ],
)  # fmt: skip
"""Replaces the unknown colours of a terminal: all but black are legible on it."""

_TEXT = re.compile(
    r'(?P<start><text [^>]*\b)x="(?P<x>[^"]*)"(?P<y>[^>]*)textLength="(?P<length>[^"]*)"(?P<end>[^>]*>)'
    r"(?P<letters>[^<]+)(?=</text>)"
)
_GROUND = re.compile(r'width="(?P<width>[^"]*)" height="(?P<height>[^"]*)" shape')
_PIECES = re.compile(
    r"(?<=[!-/:-@\[-`{-~])(?=[!-/:-@\[-`{-~])|(?<=0)(?=x)|(?<=w)(?=w)|(?=[⠀-⣿])|(?<=[⠀-⣿])|(?<=\xa0\xa0)(?=[^\xa0])"
)
"""Where a programming font joins characters, such as ``->`` into an arrow, or lacks the character; and after a gap."""


def svg_of(lines: Sequence[Strip], title: str) -> str:
    """Draw lines of cells, all of the same length, as SVG, each character in its cell."""
    console = Console(  # without colours: Rich would cache its codes in the styles of other terminals
        width=lines[0].cell_length, height=len(lines), file=io.StringIO(), force_terminal=True, record=True,
        legacy_windows=False, color_system=None,
    )  # fmt: skip
    console.print(SegmentLines([[_resolved(each) for each in line] for line in lines], new_lines=True))
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace("{", "{{").replace("}", "}}")
    return portable_svg(console.export_svg(title=title, code_format=SVG.replace("TITLE", escaped)))


def _resolved(segment: Segment) -> Segment:
    style = segment.style or Style()
    ink = (style.color or Color.default()).get_truecolor(UNKNOWN)
    ground = (style.bgcolor or Color.default()).get_truecolor(UNKNOWN, foreground=False)
    if style.reverse:
        ink, ground = ground, ink
    if style.dim:
        ink = blend_rgb(ink, ground, DIM)
    own = Style(color=Color.from_triplet(ink), bgcolor=Color.from_triplet(ground), reverse=False, dim=False)
    return Segment(segment.text, style + own)


def portable_svg(svg: str) -> str:
    """Change Rich's SVG so that browsers and programs that convert it draw the same cells.

    Each piece of text has a place of its own, without blanks at its start, since some programs ignore the length of a
    text and the style against ligatures, and drop such blanks. Each background reaches below the next ones, since some
    programs smooth the edges of cells, which would leave lines between them.
    """
    return _TEXT.sub(_apart, _GROUND.sub(_reach_further, svg))


def _reach_further(ground: re.Match[str]) -> str:
    return f'width="{float(ground["width"]) + 1:g}" height="{float(ground["height"]) + 1:g}" shape'


def _apart(text: re.Match[str]) -> str:
    letters, x = unescape(text["letters"]), float(text["x"])
    cell, pieces = float(text["length"]) / len(letters), []
    for piece in _PIECES.split(letters):
        if drawn := piece.lstrip("\xa0 "):
            start = x + cell * (len(piece) - len(drawn))
            length = f' textLength="{cell * len(drawn):g}"' if len(drawn) > 1 else ""
            pieces.append(f'<tspan x="{start:g}"{length}>{escape(drawn)}</tspan>')
        x += cell * len(piece)
    return f"{text['start']}{text['y']}{text['end']}{''.join(pieces)}"


def painted_screen(screen: Screen[object]) -> Sequence[Strip]:
    """Paint a screen without its notifications."""
    notices = list(screen.query("Toast"))
    for each in notices:
        each.visible = False
    try:
        return painted(screen)
    finally:
        for each in notices:
            each.visible = True
