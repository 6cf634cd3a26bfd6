"""Sends only the cells that differ from the last frame.

Textual writes whole regions: every line of a tree whose cursor moves, all of a map in which two cells change. It has no
public hook between compositor and terminal, so this module takes apart the two kinds of update of
`textual._compositor`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from tui.drawing.text import clusters

GAP = 4
"""Unchanged cells that are sent anyway because skipping them takes more bytes.

Only where their style is that of a neighbour: another style takes more bytes than the skip.
"""

RESET = "\x1b[0m"
"""Resets the style (ECMA-48, 8.3.117)."""

Cell = tuple[str, str]
"""A character and the codes of its style. The further cells of a wide character are empty."""

Piece = tuple[int, int, list[Cell]]
"""Row, first column, and cells."""

UNKNOWN: Cell = ("\0", "")
"""Stands for an unknown cell."""

_takes_one_cell_each = re.compile(
    r"[ -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2070-\u209f"
    r"\u2190-\u22ff\u232b\u23ce\u2400-\u2426\u2500-\u25ff\u2800-\u28ff]*"
).fullmatch
"""Matches a text of characters that take one cell on every terminal, whatever follows."""

_words = re.compile(r"[\w.]+|[^\w.]").finditer
"""Finds words and numbers, and what is between them character by character."""


class LastFrame:
    """The cells of the terminal as they were last sent.

    Parameters
    ----------
    on_gap : called when only a part of the screen is sent while the rest is unknown.
    """

    def __init__(self, on_gap: Callable[[], object] = lambda: None) -> None:
        self._lines: list[list[Cell]] = []
        self._on_gap = on_gap

    def forget(self) -> None:
        """Forget everything, as when the terminal is resized or another program has used it."""
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
            line, end = self._lines[row], column + len(cells)
            # Half of a wide character that a piece overwrites is left over on the terminal, as beside a toast.
            halves = [
                (row, kept, [(" ", line[kept][1])])
                for cut, kept in ((column, column - 1), (end, end))
                if 0 < cut < len(line) and not line[cut][0]
            ]
            changes += halves
            for _, kept, blank in halves:
                line[kept : kept + 1] = blank
            changes += [(row, column + start, cells[start:stop]) for start, stop in _find_runs(line[column:end], cells)]
            line[column:end] = cells
        return _encode(changes)


class Difference(CompositorUpdate):
    """An update that sends only what differs; that is computed on sending, as some updates are never sent."""

    def __init__(self, frame: LastFrame, update: ChopsUpdate | LayoutUpdate) -> None:
        self._frame = frame
        self._update = update

    def render_segments(self, console: Console) -> str:
        """Write what differs."""
        return self._frame.difference(self._update, console)


def only_difference(frame: LastFrame, update: Any) -> Any:
    """Wrap an update of the screen so that only what differs is sent; leave anything else."""
    return Difference(frame, update) if isinstance(update, ChopsUpdate | LayoutUpdate) else update


def _pieces(update: ChopsUpdate | LayoutUpdate, system: ColorSystem) -> Iterator[Piece]:
    if isinstance(update, LayoutUpdate):
        for row, strips in enumerate(update.strips):
            yield row, 0, _cells(Strip.join(strips), system)
        return
    for row, left, right in update.spans:
        for end, (column, strip) in zip(update.chop_ends[row], update.chops[row].items(), strict=False):
            if strip is not None and column < right and end > left:
                yield row, column, _cells(strip, system)


def _cells(strip: Strip, system: ColorSystem) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, _ in strip:
        codes = "" if style is None else Strip.render_ansi(style, system)
        if _takes_one_cell_each(text):
            cells += [(character, codes) for character in text]
            continue
        for cluster, width in clusters(text):
            if width:
                cells += [(cluster, codes), *[("", codes)] * (width - 1)]
            elif cells:  # joined to the cell before it
                before, other = cells.pop()
                cells.append((before + cluster, other))
    return cells


def _find_runs(before: list[Cell], after: list[Cell]) -> list[tuple[int, int]]:
    """Find the runs of cells that differ, extended to whole words and numbers.

    Where the line was unknown, or either line has wide characters, all of it is one run.
    """
    if before == after:
        return []
    if UNKNOWN in before or not _takes_one_cell_each("".join(text for text, _ in (*before, *after))):
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


def _encode(changes: list[Piece]) -> str:
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
            is_in_place = bool(_takes_one_cell_each(text))  # terminals disagree on some widths
    return "".join((*parts, RESET)) if parts else ""
