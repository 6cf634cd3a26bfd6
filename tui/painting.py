"""What the terminal shows, so that of every update only what differs is sent.

The toolkit sends whole regions: of a tree whose cursor moves, of a map of which some cells change, of a screen on which
the focus moves on. Over a slow line that is what a person waits for. What is sent are whole segments, that is cells of
one style that were written together, such as a word or a number: moving the cursor past a few cells takes more bytes
than sending them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

GAP = 8
"""Cells that are as they should be and are sent all the same, where skipping them would take a move of the cursor."""

_UNKNOWN = "\0"
"""What stands for a cell of which nothing is known; no cell that is painted is like it."""

_NARROW = re.compile(
    r"[ -~\0\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2070-\u209f"
    r"\u2190-\u22ff\u2500-\u25ff\u2800-\u28ff]*"
).fullmatch
"""Whether every character of a text is certain to take one cell, whatever follows it."""

Piece = tuple[int, int, Strip]
"""Row, column, and what is painted there."""


class Painted:
    """The cells of the terminal as they were last painted."""

    def __init__(self) -> None:
        self._lines: list[Strip] = []

    def forget(self) -> None:
        """Know nothing of the terminal any more, such as when it has another size or was in other hands."""
        self._lines = []

    def differences(self, update: ChopsUpdate | LayoutUpdate) -> Iterator[Piece]:
        """Give what an update changes, and remember it."""
        if isinstance(update, LayoutUpdate):
            pieces = [(y, 0, Strip.join(line)) for y, line in enumerate(update.strips)]
            width, height = update.region.right, len(pieces)
        else:
            pieces = list(_pieces(update))
            width, height = update.chop_ends[0][-1] if update.chop_ends else 0, len(update.chops)
        if len(self._lines) != height or any(line.cell_length != width for line in self._lines[:1]):
            self._lines = [Strip([Segment(_UNKNOWN * width)], width) for _ in range(height)]
        for y, x, strip in pieces:
            before = self._lines[y]
            end = x + strip.cell_length
            runs = list(_differing(before.crop(x, end), strip))
            if runs:
                self._lines[y] = Strip.join([before.crop(0, x), strip, before.crop(end)]).simplify()
            for start, stop in runs:
                yield y, x + start, strip.crop(start, stop)


class Repaint(CompositorUpdate):
    """An update that sends what differs from what is painted, found out when it is sent."""

    def __init__(self, painted: Painted, update: ChopsUpdate | LayoutUpdate) -> None:
        self._painted = painted
        self._update = update

    @property
    def area(self) -> int:
        """How many cells the toolkit would send."""
        if isinstance(self._update, LayoutUpdate):
            return self._update.region.area
        return sum(x2 - x1 for _, x1, x2 in self._update.spans)

    def render_segments(self, console: Console) -> str:
        """Write the pieces, each after a move of the cursor."""
        return "".join(
            Control.move_to(x, y).segment.text + strip.render(console)
            for y, x, strip in self._painted.differences(self._update)
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for y, x, strip in self._painted.differences(self._update):
            yield Control.move_to(x, y).segment
            yield from strip


def _pieces(update: ChopsUpdate) -> Iterator[Piece]:
    """List what an update paints, as it cuts it itself."""
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < x2 and end > x1:
                yield y, x, strip if end <= x2 else strip.crop(0, x2 - x)


def _differing(before: Strip, after: Strip) -> Iterator[tuple[int, int]]:
    """Find the runs of cells whose segments differ; of strips with wide or joined characters all cells, or none."""
    if before == after:
        return
    if not (_NARROW(after.text) and _NARROW(before.text)):
        yield 0, after.cell_length
        return
    old = _cells(before)
    start = stop = place = 0
    for text, style, _ in after:
        end = place + len(text)
        if old[place:end] != [(character, style) for character in text]:
            if place - stop > GAP and stop > start:
                yield start, stop
                start = place
            start = place if stop == start else start
            stop = end
        place = end
    if stop > start:
        yield start, stop


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    """List the characters with the style of each."""
    return [(character, style) for text, style, _ in strip for character in text]
