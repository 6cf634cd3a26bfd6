"""What the terminal shows, so that of every update only what differs is sent.

The toolkit sends whole regions: of a tree whose cursor moves, of a map of which some cells change, of a screen on which
the focus moves on. Over a slow line that is what a person waits for. What is sent are the cells that differ, and of a
word or a number all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.segment import ControlType, Segment
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from tui.drawing.text import ends_apart
from tui.pen import PLAIN, RESET, VERBATIM, Look, Run, Terminal, looks, written
from tui.scrolling import find_scroll

GAP = 3
"""Cells that are as they should be and are sent all the same, where skipping them would take a move of the cursor."""

LONG = 400
"""Bytes of an update from which on it is looked for what lines only move."""

WORTH_A_SCROLL = 0.7
"""What part of the bytes may be left where lines move."""

IN_PASSING = 2
"""Characters that stay where they are and may move with their lines all the same, until they are sent again."""

Cell = tuple[str, Look]
"""A character and how it looks; of a piece that is sent as it is, the first cell has all of it."""

_UNKNOWN: Cell = ("\0", VERBATIM)
"""What stands for a cell of which nothing is known; no cell that is painted is like it."""

_BEHIND: Cell = ("", VERBATIM)
"""What stands for the further cells of a piece that is sent as it is."""

_NARROW = re.compile(
    r"[ -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2070-\u209f"
    r"\u2190-\u22ff\u232b\u23ce\u2400-\u2426\u2500-\u25ff\u2800-\u28ff]*"
).fullmatch
"""Whether every character of a text is certain to take one cell, whatever follows it."""

_IS_OF_A_WORD = re.compile(r"[\w.]").match
"""Whether a character belongs to a word or a number."""

Piece = tuple[int, int, Strip]
"""Row, column, and what is painted there."""


class Painted:
    """The cells of the terminal as they were last painted, and how it writes since.

    Parameters
    ----------
    erases : whether the terminal erases cells in the colour that is behind letters.
    """

    def __init__(self, *, erases: bool = False) -> None:
        self._erases = erases
        self._lines: list[list[Cell]] = []
        self._look: Look | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything has been painted since all was forgotten."""
        return bool(self._lines)

    def forget(self) -> None:
        """Know nothing of the terminal any more, such as when it has another size or was in other hands."""
        self._lines, self._look = [], None

    def written(self, update: ChopsUpdate | LayoutUpdate, console: Console) -> str:
        """Write what an update changes, and remember it."""
        if isinstance(update, LayoutUpdate):
            pieces = [(y, 0, Strip.join(line)) for y, line in enumerate(update.strips)]
            width, height = update.region.right, len(pieces)
        else:
            pieces = list(_pieces(update))
            width, height = update.chop_ends[0][-1] if update.chop_ends else 0, len(update.chops)
        if len(self._lines) != height or any(len(line) != width for line in self._lines[:1]):
            self._lines = [[_UNKNOWN] * width for _ in range(height)]
        terminal = Terminal(width, self._erases)
        system = COLOR_SYSTEMS[console.color_system or "truecolor"]
        shown, self._lines = self._lines, [*self._lines]
        runs: list[Run] = []
        for y, x, strip in pieces:
            end = x + strip.cell_length
            before, after = self._lines[y][x:end], _cells(strip, system, console)
            if before != after:
                self._lines[y] = [*self._lines[y][:x], *after, *self._lines[y][end:]]
                runs += _changes(y, x, before, after)
        if not runs:
            return ""
        begin, look = (RESET, PLAIN) if self._look is None else ("", self._look)
        sent, self._look = written(runs, terminal, look)
        if len(sent) >= LONG:
            scrolled, look = self._scrolled_from(shown, terminal, look)
            if scrolled and len(scrolled) < len(sent) * WORTH_A_SCROLL:
                sent, self._look = scrolled, look
        return begin + sent

    def _scrolled_from(self, shown: list[list[Cell]], terminal: Terminal, look: Look) -> tuple[str, Look]:
        """Write what the terminal is to show by moving lines first of what it shows; nothing where that is no use."""
        scroll = find_scroll(shown, self._lines)
        if scroll is None or any(_UNKNOWN in line for line in self._lines[scroll.top : scroll.bottom + 1]):
            return "", look
        moved = scroll.applied(shown, _UNKNOWN)
        if sum(map(_blinking, shown, moved, self._lines)) > IN_PASSING:
            return "", look
        runs: list[Run] = []
        for y, (before, after) in enumerate(zip(moved, self._lines, strict=True)):
            if before != after:
                for start, stop in _sent_alike(after):
                    runs += _changes(y, start, before[start:stop], after[start:stop])
        sent, look = written(runs, terminal, look)
        return scroll.codes + sent, look


class Repaint(CompositorUpdate):
    """An update that sends what differs from what is painted, found out once, when it is sent."""

    def __init__(self, painted: Painted, update: ChopsUpdate | LayoutUpdate) -> None:
        self._painted = painted
        self._update = update
        self._written: str | None = None

    @property
    def area(self) -> int:
        """How many cells the toolkit would send."""
        if isinstance(self._update, LayoutUpdate):
            return self._update.region.area
        return sum(x2 - x1 for _, x1, x2 in self._update.spans)

    def render_segments(self, console: Console) -> str:
        """Write what differs."""
        if self._written is None:
            self._written = self._painted.written(self._update, console)
        return self._written

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.render_segments(console), None, [(ControlType.CURSOR_MOVE_TO, 0, 0)])


class WithoutCursor:
    """An update behind which the terminal's cursor stays where it is; the toolkit takes it away from its own."""

    def __init__(self, update: Repaint) -> None:
        self._update = update

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._update.__rich_console__(console, options)


def _pieces(update: ChopsUpdate) -> Iterator[Piece]:
    """List what an update paints, as it cuts it itself, but that none of it is cut within a wide character."""
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < x2 and end > x1:
                yield y, x, strip if end <= x2 or not _NARROW(strip.text) else strip.crop(0, x2 - x)


def _cells(strip: Strip, system: ColorSystem, console: Console) -> list[Cell]:
    """List the cells of a strip; one with wide or joined characters, or with a link, is to be sent as it is."""
    if not strip.cell_length:
        return []
    if not _NARROW(strip.text) or any(style is not None and style.link for _, style, _ in strip):
        return [cell for piece in _apart(strip) for cell in _verbatim(piece, console)]
    cells: list[Cell] = []
    for text, style, _ in strip:
        letter, blank = looks(style, system)
        cells += [(character, blank if character == " " else letter) for character in text]
    return cells


def _apart(strip: Strip) -> Iterable[Strip]:
    """Cut a strip where terminals may disagree how wide it is up to there, so that what follows is put in its place."""
    ends = [end for end in ends_apart(strip.text) if end < strip.cell_length]
    return strip.divide([*ends, strip.cell_length]) if ends else (strip,)


def _verbatim(piece: Strip, console: Console) -> Iterator[Cell]:
    """Give the cells of a piece that is sent as it is."""
    yield piece.render(console), VERBATIM
    yield from [_BEHIND] * (piece.cell_length - 1)


def _blinking(shown: list[Cell], moved: list[Cell], after: list[Cell]) -> int:
    """Count the characters of a line that are to stay, and are others once lines have moved; free lines are new."""
    if moved[0] == _UNKNOWN:
        return 0
    cells = zip(shown, moved, after, strict=True)
    return sum(new[0] not in (" ", "") and old == new and between != new for old, between, new in cells)


def _changes(row: int, column: int, before: list[Cell], after: list[Cell]) -> Iterator[Run]:
    """Give what changes between cells of a line, which are all sent as they are or none."""
    if before != after:
        for start, stop in _differing(before, after):
            yield from _runs(row, column + start, after[start:stop])


def _sent_alike(cells: list[Cell]) -> Iterator[tuple[int, int]]:
    """Cut a line where a piece that is sent as it is begins or ends."""
    start = 0
    for place in range(1, len(cells)):
        text, look = cells[place]
        if (look is VERBATIM) != (cells[start][1] is VERBATIM) or (look is VERBATIM and text):
            yield start, place
            start = place
    yield start, len(cells)


def _differing(before: list[Cell], after: list[Cell]) -> Iterator[tuple[int, int]]:
    """Find the runs of cells that differ; where any is, or was, part of what is sent as it is, all are one run."""
    if after[0][1] is VERBATIM or any(look is VERBATIM for _, look in before):
        yield 0, len(after)
        return
    start = stop = 0
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new or place < stop:
            continue
        first, last = (place, place + 1) if new[0] == " " else _word(after, place)
        if 0 < stop < first and not _is_bridged(after, stop, first):
            yield start, stop
            stop = 0
        start, stop = start if stop else first, last
    if stop:
        yield start, stop


def _is_bridged(cells: list[Cell], stop: int, first: int) -> bool:
    """Say whether cells that are as they should be are few and look as those before them."""
    look = cells[stop - 1][1]
    return first - stop <= GAP and all(_joined(look, other) is not None for _, other in cells[stop:first])


def _word(cells: list[Cell], place: int) -> tuple[int, int]:
    """Find where the word begins and ends that a cell is of; the cell alone if it is of none."""
    start, stop = place, place + 1
    if _IS_OF_A_WORD(cells[place][0]):
        look = cells[place][1]
        while start > 0 and cells[start - 1][1] == look and _IS_OF_A_WORD(cells[start - 1][0]):
            start -= 1
        while stop < len(cells) and cells[stop][1] == look and _IS_OF_A_WORD(cells[stop][0]):
            stop += 1
    return start, stop


def _runs(row: int, column: int, cells: list[Cell]) -> Iterator[Run]:
    """Join neighbours of one look."""
    text, look = cells[0]
    if look is VERBATIM:
        yield from (Run(row, column + at, piece, look) for at, (piece, _) in enumerate(cells) if piece)
        return
    for character, other in cells[1:]:
        joined = look if other is look else _joined(look, other)
        if joined is None:
            yield Run(row, column, text, look)
            column += len(text)
            text, look = character, other
        else:
            text, look = text + character, joined
    yield Run(row, column, text, look)


def _joined(look: Look, other: Look) -> Look | None:
    """Find a look that serves for both."""
    if look == other or (look[:2] == other[:2] and other.ink is None):
        return look
    return other if look[:2] == other[:2] and look.ink is None else None
