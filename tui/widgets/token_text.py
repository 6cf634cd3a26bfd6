"""The tokens of a sentence: as flowing text coloured by weights, with a cursor; and in one line while it is typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from engine.values.attention import Sentence
from engine.values.errors import EngineError
from tui.drawing.levels import NOT_FINITE, Ink
from tui.drawing.ramps import legible_styles
from tui.drawing.text import Flow, Piece, escape_text, fit, flow
from tui.drawing.token_spelling import token_strip
from tui.toolkit.application import sends_ascii_only
from tui.toolkit.keys import lines_of, paging_bindings
from tui.toolkit.messages import Notice
from tui.widgets.scroll_area import ItemArea, least_scroll


class TokenText(ItemArea):
    """Paints each token with a bar behind it; without colours, the glyphs of its level stand before the bar.

    In ASCII, where glyphs look like text, they stand in brackets in place of the bar.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Token before", show=False, id="text.left"),
        Binding("right,l", "move(1)", "Next token", show=False, id="text.right"),
        Binding("up,k", "line(-1)", "Line above", show=False, id="text.up"),
        Binding("down,j", "line(1)", "Line below", show=False, id="text.down"),
        *paging_bindings("text"),
        Binding("gg,home,ctrl+home", "edge(False)", "First token", show=False, id="text.first"),
        Binding("G,end,ctrl+end", "edge(True)", "Last token", show=False, id="text.last"),
    ]
    DEFAULT_CSS = """
    TokenText { padding: 0 1; }
    """

    @dataclass
    class Moved(Message):
        """The user moves the cursor to another token."""

        text: TokenText
        token: int

    def __init__(self) -> None:
        super().__init__(name="text")
        self._labels: tuple[str, ...] = ()
        self._special: frozenset[int] = frozenset()
        self._levels: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)
        self._cells: tuple[str, ...] = ()
        self._styles: tuple[Style, ...] = ()
        self._flow: Flow = flow((), 80, 1)
        self.cursor: int = 0

    def show(
        self,
        labels: tuple[str, ...],
        special: frozenset[int],
        levels: NDArray[np.uint8],
        cells: tuple[str, ...],
        styles: tuple[Style, ...],
        cursor: int,
    ) -> None:
        """Paint tokens.

        Parameters
        ----------
        special : numbers of the special tokens.
        levels : of the tokens' weights.
        cells, styles : what tells the levels apart, as in a map.
        """
        self._labels, self._special, self._levels = labels, special, levels
        self._cells, self._styles, self.cursor = cells, styles, cursor
        self.on_resize()

    def show_message(self, message: str) -> None:
        """Show a message in place of the tokens, or nothing."""
        self.message = message
        self.show((), frozenset(), np.zeros(0, dtype=np.uint8), (), (), 0)

    def count_lines(self, labels: tuple[str, ...], width: int, most: int) -> int | None:
        """Count the lines that all tokens take in a pane; None if they are more than ``most``."""
        lines = len(flow(labels, width - 3, self._gap).lines)
        return lines if lines <= most else None

    @property
    def _gap(self) -> int:
        """Cells after a token: the bar or brackets, and the glyphs of its level."""
        return 1 if self.ink is Ink.COLOUR else 4 if sends_ascii_only(self.app) else 3

    def on_resize(self) -> None:
        """Break the tokens into lines, beside a column for the scrollbar, so that they stay when it appears."""
        width = max(self.size.width - 1, 0)
        self._flow = flow(self._labels, width, self._gap)
        self.virtual_size = Size(width, len(self._flow.lines) if self._labels else 0)
        self.refresh()
        self.reveal()

    def reveal(self) -> None:
        """Scroll as little as possible to bring the cursor into view."""
        height = self.size.height
        if not self._labels or not height:
            return
        y = self._flow.begins[self.cursor]
        self.scroll_at_once(0, least_scroll(self.scroll_offset.y, height, range(y, y + 1)))

    def render_line(self, y: int) -> Strip:
        """Paint one line."""
        plain = self.get_component_rich_style("area--label")
        blank = Style(bgcolor=plain.bgcolor)
        width = self.size.width
        row = y + self.scroll_offset.y
        if not self._labels and self.message:
            return self.message_line(y, plain)
        if not self._labels or not 0 <= row < len(self._flow.lines):
            return Strip.blank(width, blank)
        segments = (Segment(text, style) for text, style in self._styled_texts(self._flow.lines[row], plain))
        return Strip(Segment.simplify(segments)).adjust_cell_length(width, blank)

    def _styled_texts(self, line: Sequence[Piece], plain: Style) -> Iterator[tuple[str, Style]]:
        token_style, has_colours = self.get_component_rich_style("area--cell"), len(self._styles) > 1
        for piece in line:
            level = int(self._levels[piece.token])
            coloured = has_colours and level != NOT_FINITE
            style = legible_styles(self._styles, token_style.color)[level] if coloured else token_style
            if piece.token in self._special and not coloured:  # on colours their brackets do, which costs no bytes
                style += Style(bold=True)
            is_here = piece.token == self.cursor
            yield piece.text, self.get_component_rich_style("area--cursor") if is_here else style
            if piece.ends:
                glyphs = "" if has_colours else "??" if level == NOT_FINITE else self._cells[level]
                ends = f"[{glyphs}]" if glyphs and sends_ascii_only(self.app) else f"{glyphs}│"
                yield ends, plain if not glyphs.strip() else token_style

    def item_at(self, x: int, y: int) -> int | None:
        """Return the token at a column and a line."""
        return self._flow.token_at(x, y)

    def go(self, number: int) -> None:
        """Ask for the cursor to move to the nearest token; tell the user where there are no tokens."""
        token = min(max(number, 0), len(self._labels) - 1)
        if not self._labels:
            self.post_message(Notice("no text yet"))
        elif token != self.cursor:
            self.post_message(self.Moved(self, token))

    def action_move(self, step: int) -> None:
        """Move by tokens."""
        self.go(self.cursor + step)

    def action_line(self, step: int) -> None:
        """Move by lines, to the nearest token."""
        self.go(self._flow.step(self.cursor, step) if self._labels else 0)

    def action_page(self, pages: float) -> None:
        """Move by the lines in view, less one."""
        self.action_line(lines_of(pages, self.size.height - 1))

    def action_edge(self, last: bool) -> None:
        """Move to the first or last token."""
        self.go(len(self._labels) - 1 if last else 0)


class TokenLine(Widget, can_focus=False):
    """Shows the tokens while a sentence is typed, over the line above it, so that nothing else moves."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    TokenLine {
        layer: over;
        dock: bottom;
        height: 1;
        margin: 0 0 2 0;
        padding: 0 1;
        display: none;
        background: $boost;
        text-wrap: nowrap;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: Sentence | EngineError | None = None
        self._at = 0

    def show(self, found: Sentence | EngineError | None, at: int) -> None:
        """Show the tokens near a place of the text, or the error instead; None shows an empty line."""
        self._found, self._at = found, at
        self.refresh()

    def render(self) -> Text:
        """Write the tokens."""
        width = self.content_size.width
        if isinstance(self._found, EngineError):
            return Text(fit(escape_text(str(self._found)), width), "italic", no_wrap=True)
        if self._found is None:
            return Text("")
        return token_strip(self._found, width, at=self._at)
