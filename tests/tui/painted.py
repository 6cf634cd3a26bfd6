"""An application of one widget that keeps a picture of its output, as a terminal would show it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import RenderableType
from rich.style import Style as RichStyle
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tui.toolkit.line_filters import AsciiOnly
from tui.toolkit.output import Difference, LastFrame

NASTY = [
    "[bold]", "\x1b[31mred", "\x07\x9b", "日本語", "한국어", " café", "e\u0301", "", "  ", "\n", "\t",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f",
    "\u202eabc", "\u200b", "\ud800", "\u2028", "\u0301x", "\U0001f3fd", "\u00ad", "\x00", "\u0627", "a" * 60,
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\u093f",
]  # fmt: skip
"""Tokens with markup, escape sequences, wide, combining and spacing characters, joined emoji, half surrogates."""

_PIECE = re.compile(
    r"\x1b\[(?P<row>\d+)(;(?P<column>\d+))?H|\x1b\[(?P<to>\d+)G|\x1b\[(?P<style>[\d;]*)m|(?P<break>\n)|(?P<text>[^\x1b\n]+)"
)

_STYLE = re.compile(
    r"(?P<ink>38;2;\d+;\d+;\d+|38;5;\d+|39|3\d|9\d)|(?P<ground>48;2;\d+;\d+;\d+|48;5;\d+|4[0-79]|10\d)|\d+"
)
"""One code of a style; 49 and 39 are the terminal's own colours."""

SEEN_ON_BLANKS = {"4", "7", "9", "21"}
"""The attributes that show the colour of letters on a blank."""

_render_style = Strip.render_style


def _render_anew(style: RichStyle, text: str, color_system: ColorSystem) -> str:
    """Write a style without its cached codes, which are those of the terminal of an earlier test."""
    style._ansi = None
    return _render_style(style, text, color_system)


def good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test a terminal that can do everything."""
    monkeypatch.setattr(Strip, "render_style", staticmethod(_render_anew))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


def contrast_ratio(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """Compute the contrast ratio of two colours, from 1 to 21 (WCAG 2.1)."""

    def luminance(colour: tuple[int, int, int]) -> float:
        shares = [each / 255 for each in colour]
        red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


HALF = ("\N{REPLACEMENT CHARACTER}", "")
"""The rest of a wide character that was half overwritten: a blank, whose colour differs between terminals."""


@dataclass(frozen=True)
class Style:
    """The style of a cell: its attributes, and the codes of the colours of letter and background."""

    attributes: frozenset[str] = frozenset()
    ink: str = ""
    ground: str = ""

    def after(self, codes: str) -> Style:
        """Apply more codes."""
        now = self
        for code in _STYLE.finditer(codes or "0"):
            if code["ink"]:
                now = replace(now, ink="" if code[0] == "39" else code[0])
            elif code["ground"]:
                now = replace(now, ground="" if code[0] == "49" else code[0])
            elif code[0] == "0":
                now = Style()
            else:
                assert code[0] in {"1", "2", "3", "4", "5", "6", "7", "8", "9", "21"}, code[0]
                now = replace(now, attributes=now.attributes | {code[0]})
        return now

    def of(self, character: str) -> str:
        """Give the codes visible on a character; on a blank only the background, unless an attribute shows more."""
        if character == " " and not self.attributes & SEEN_ON_BLANKS:
            return self.ground
        return ";".join(each for each in (*sorted(self.attributes, key=int), self.ink, self.ground) if each)


class TerminalPicture:
    """What a terminal shows: for each cell its character and the codes of its style."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}
        self.style_now = Style()

    def write(self, data: str) -> None:
        """Show output; anything but text, styles and moves of the cursor is an error."""
        row = column = position = 0
        style = self.style_now
        while position < len(data):
            piece = _PIECE.match(data, position)
            assert piece is not None, f"unexpected output {data[position : position + 20]!r}"
            position = piece.end()
            if piece["row"]:
                row, column = int(piece["row"]) - 1, int(piece["column"] or 1) - 1
            elif piece["to"]:
                column = int(piece["to"]) - 1
            elif piece["style"] is not None:
                style = style.after(piece["style"])
            elif piece["text"]:
                for character in piece["text"]:
                    width = cell_len(character)
                    if width == 0:
                        before = self.cells[row, column - 1]
                        self.cells[row, column - 1] = (before[0] + character, before[1])
                    else:
                        self._cut_off(row, column, column + width)
                    for cell in range(width):
                        self.cells[row, column + cell] = (character if cell == 0 else "", style.of(character))
                    column += width
        self.style_now = style

    def _cut_off(self, row: int, start: int, stop: int) -> None:
        """Erase the rest of wide characters that are about to be half overwritten."""
        if self.cells.get((row, start), ("?",))[0] == "":
            self.cells[row, start - 1] = HALF
        if self.cells.get((row, stop), ("?",))[0] == "":
            self.cells[row, stop] = HALF

    def line(self, row: int, left: int = 0, right: int | None = None) -> str:
        """Give the text of one line."""
        columns = sorted(column for y, column in self.cells if y == row)
        return "".join(self.cells[row, column][0] for column in columns[left:right])

    def style(self, row: int, column: int) -> str:
        """Give the style of one cell, as the codes that were written."""
        return self.cells[row, column][1]


class PaintedApp(App[None]):
    """Shows one widget, and keeps a picture of its output."""

    def __init__(self, widget: Widget, *, ascii_only: bool = False) -> None:
        super().__init__()
        self.only = widget
        if ascii_only:
            self._filters.append(AsciiOnly())
        self.animation_level = "none"
        self.picture = TerminalPicture()
        self._last_frame = LastFrame()

    def compose(self) -> ComposeResult:
        yield self.only

    def on_mount(self) -> None:
        self.only.focus()

    @asynccontextmanager
    async def painted(self, size: tuple[int, int]) -> AsyncIterator[Pilot[None]]:
        """Run in a terminal; at the end nothing stale may be left on its screen."""
        async with self.run_test(size=size) as pilot:
            yield pilot
            await pilot.pause()
            self.assert_nothing_is_stale()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, ChopsUpdate | LayoutUpdate):
            self.picture.write(Difference(self._last_frame, renderable).render_segments(self.console))
        super()._display(screen, renderable)

    def text(self) -> str:
        """Everything on the screen."""
        return "\n".join(self.picture.line(row) for row in range(self.size.height))

    def assert_nothing_is_stale(self) -> None:
        """Compare what was painted bit by bit with the screen painted at once."""
        forget_lines(self.screen)
        whole = TerminalPicture()
        whole.write(self.screen._compositor.render_full_update().render_segments(self.console))
        different = [cell for cell in whole.cells if whole.cells[cell] != self.picture.cells.get(cell)]
        assert {cell: (whole.cells[cell], self.picture.cells.get(cell)) for cell in different} == {}


def forget_lines(screen: Screen[object]) -> None:
    """Have all lines painted again, also those that no widget has asked to repaint."""
    for each in screen.walk_children(Widget, with_self=True):
        each._styles_cache.clear()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, or none, and wait until all is painted; nothing stale may be left."""
    await pilot.press(*keys)
    await pilot.pause()
    assert isinstance(pilot.app, PaintedApp)
    pilot.app.assert_nothing_is_stale()


async def resize(pilot: Pilot[None], width: int, height: int) -> None:
    """Change the terminal's size, and wait until all is painted in it."""
    await pilot.resize_terminal(width, height)
    await pilot.pause()
