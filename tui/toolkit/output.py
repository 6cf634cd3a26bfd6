"""Sends to the terminal only the cells that differ from the last frame.

Textual writes whole regions: every line of a tree whose cursor moves, all of a map in which two cells change. Over a
slow line that is what a person waits for. It has no public place between its compositor and the terminal, so that the
two kinds of update of `textual._compositor` are taken apart here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from tui.drawing.text import clusters

GAP = 4
"""Cells that are as they should be and are sent all the same, as a move of the cursor over them takes more bytes.

That is where they are styled like what is sent before or behind them; another style takes more than the move.
"""

RESET = "\x1b[0m"
"""Has a terminal write without style (ECMA-48, 8.3.117)."""

Cell = tuple[str, str]
"""A character and the codes of its style. The further cells of a wide character have none."""

Piece = tuple[int, int, list[Cell]]
"""Row, first column, and the cells that stand there."""

UNKNOWN: Cell = ("\0", "")
"""Stands for a cell of which nothing is known."""

_takes_one_cell_each = re.compile(
    r"[ -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2070-\u209f"
    r"\u2190-\u22ff\u232b\u23ce\u2400-\u2426\u2500-\u25ff\u2800-\u28ff]*"
).fullmatch
"""Whether each character of a text takes one cell on every terminal, whatever follows it."""

_words = re.compile(r"[\w.]+|[^\w.]").finditer
"""Goes through the words and numbers of a text, and what stands between them character by character."""


class LastFrame:
    """The cells of the terminal as they were sent last.

    Parameters
    ----------
    on_gap : called where only a part of the screen is sent, and of the rest nothing is known.
    """

    def __init__(self, on_gap: Callable[[], object] = lambda: None) -> None:
        self._lines: list[list[Cell]] = []
        self._on_gap = on_gap

    def forget(self) -> None:
        """Know nothing of the terminal any more, as when it has another size or was in other hands."""
        self._lines = []

    def difference(self, update: ChopsUpdate | LayoutUpdate, console: Console) -> str:
        """Write what an update changes, and remember it."""
        pieces = list(_pieces(update, COLOR_SYSTEMS[console.color_system or "truecolor"]))
        if isinstance(update, LayoutUpdate):
            width, height = update.region.right, len(update.strips)
        else:
            width, height = (update.chop_ends[0][-1] if update.chop_ends else 0), len(update.chops)
        if len(self._lines) != height or any(len(line) != width for line in self._lines[:1]):
            self._lines = [[UNKNOWN] * width for _ in range(height)]
            if isinstance(update, ChopsUpdate):
                self._on_gap()
        changes: list[Piece] = []
        for row, column, cells in pieces:
            before = self._lines[row][column : column + len(cells)]
            changes += [(row, column + start, cells[start:stop]) for start, stop in _differing(before, cells)]
            self._lines[row][column : column + len(cells)] = cells
        return _written(changes)


class Difference(CompositorUpdate):
    """An update of which only what differs is sent. That is found when it is sent: some updates never are."""

    def __init__(self, frame: LastFrame, update: ChopsUpdate | LayoutUpdate) -> None:
        self._frame = frame
        self._update = update

    def render_segments(self, console: Console) -> str:
        """Write what differs."""
        return self._frame.difference(self._update, console)


def only_difference(frame: LastFrame, update: object) -> object:
    """Give what is sent of an update to the screen; anything else is sent as it is."""
    return Difference(frame, update) if isinstance(update, ChopsUpdate | LayoutUpdate) else update


def _pieces(update: ChopsUpdate | LayoutUpdate, system: ColorSystem) -> Iterator[Piece]:
    """List what an update paints."""
    if isinstance(update, LayoutUpdate):
        for row, strips in enumerate(update.strips):
            yield row, 0, _cells(Strip.join(strips), system)
        return
    for row, left, right in update.spans:
        for end, (column, strip) in zip(update.chop_ends[row], update.chops[row].items(), strict=False):
            if strip is not None and column < right and end > left:
                yield row, column, _cells(strip, system)


def _cells(strip: Strip, system: ColorSystem) -> list[Cell]:
    """List the cells of a strip."""
    cells: list[Cell] = []
    for text, style, _ in strip:
        codes = "" if style is None else Strip.render_ansi(style, system)
        if _takes_one_cell_each(text):
            cells += [(character, codes) for character in text]
            continue
        for cluster, width in clusters(text):
            if width:
                cells += [(cluster, codes), *[("", codes)] * (width - 1)]
            elif cells:  # joined to what stands before it
                before, other = cells.pop()
                cells.append((before + cluster, other))
    return cells


def _differing(before: list[Cell], after: list[Cell]) -> list[tuple[int, int]]:
    """Find the runs of cells that differ, and of a word or a number all of it.

    Where any cell was, or is, part of a wide character, all are one run.
    """
    if before == after:
        return []
    if not _takes_one_cell_each("".join(text for text, _ in (*before, *after) if text != UNKNOWN[0])):
        return [(0, len(after))]
    runs: list[tuple[int, int]] = []
    for word in _words("".join(text for text, _ in after)):
        start, stop = word.span()
        if before[start:stop] != after[start:stop]:
            last = runs[-1][1] if runs else 0
            beside = {after[max(last - 1, 0)][1], after[start][1]}
            is_near = start - last <= GAP and {codes for _, codes in after[last:start]} <= beside
            runs.append((runs.pop()[0] if runs and is_near else start, stop))
    return runs


def _written(changes: list[Piece]) -> str:
    """Write cells, each run at its place and each style once where it begins; the terminal is left without style."""
    parts: list[str] = []
    now = ""
    for row, column, cells in changes:
        parts.append(f"\x1b[{row + 1};{column + 1}H")
        is_in_place = True
        for place, (text, codes) in enumerate(cells, column):
            if not text:
                continue
            if not is_in_place:
                parts.append(f"\x1b[{place + 1}G")
            if codes != now:
                parts.append(f"\x1b[0;{codes}m" if codes else RESET)
                now = codes
            parts.append(text)
            is_in_place = bool(_takes_one_cell_each(text))  # terminals disagree how wide some characters are
    return "".join((*parts, RESET)) if parts else ""
