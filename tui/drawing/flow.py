"""Tokens as flowing text: which stands where, when lines end at the edge of a pane."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from tui.drawing.text import clusters

_ESCAPE = re.compile(r"\\(?:[nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
"""What stands for a character that cannot be seen."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A token on a line, or a part of one that is longer than a line.

    Attributes
    ----------
    token : its number.
    text : what of it stands here.
    x, width : its first cell, and how many it takes without the gap that follows.
    ends : whether the token ends here, so that a gap follows.
    """

    token: int
    text: str
    x: int
    width: int
    ends: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """Tokens broken into lines.

    Attributes
    ----------
    lines : the pieces of each.
    begins : by token, the line that it begins on.
    """

    lines: tuple[tuple[Piece, ...], ...]
    begins: tuple[int, ...]

    def token_at(self, x: int, y: int) -> int | None:
        """Find the token at a cell; a gap belongs to the token before it, and what is behind a line to none."""
        if not 0 <= y < len(self.lines):
            return None
        line = self.lines[y]
        return next((piece.token for piece in reversed(line) if piece.x <= x), None)

    def step(self, token: int, down: int) -> int:
        """Find the token that stands nearest above or below another one, so many lines away; at an edge the same."""
        begin = self.begins[token]
        y = min(max(begin + down, 0), len(self.lines) - 1)
        if y == begin:
            return token
        middle = next(piece.x + piece.width / 2 for piece in self.lines[begin] if piece.token == token)
        return min(self.lines[y], key=lambda piece: abs(piece.x + piece.width / 2 - middle)).token


def flow(labels: Sequence[str], width: int, gap: int) -> Flow:
    """Break tokens into lines of ``width`` cells, between tokens; one that is longer than a line is broken itself.

    An escape in it is not, where it fits on a line.

    Parameters
    ----------
    labels : what stands for each token, harmless.
    gap : cells that are left free after each.

    Examples
    --------
    >>> [[piece.text for piece in line] for line in flow(["The", " cat", " sat"], 9, 1).lines]
    [['The', ' cat'], [' sat']]
    """
    width = max(width, gap + 2)
    lines: list[list[Piece]] = [[]]
    begins: list[int] = []
    x = 0
    for token, label in enumerate(labels):
        wide = cell_len(label)
        if x and x + wide + gap > width:
            lines.append([])
            x = 0
        begins.append(len(lines) - 1)
        if wide + gap <= width:
            lines[-1].append(Piece(token, label, x, wide, ends=True))
            x += wide + gap
            continue
        part, used = "", 0
        for unit, cells in _units(label, width - gap):
            if used + cells + gap > width:
                lines[-1].append(Piece(token, part, 0, used, ends=False))
                lines.append([])
                part, used = "", 0
            part, used = part + unit, used + cells
        lines[-1].append(Piece(token, part, 0, used, ends=True))
        x = used + gap
    return Flow(tuple(map(tuple, lines)), tuple(begins))


def _units(label: str, width: int) -> Iterator[tuple[str, int]]:
    r"""Yield what of a token stays together, and its cells: characters with their marks, and escapes that fit.

    Examples
    --------
    >>> [unit for unit, _ in _units("a\\u200db", 6)], [unit for unit, _ in _units("\\x1b", 3)]
    (['a', '\\u200d', 'b'], ['\\', 'x', '1', 'b'])
    """
    end = 0
    for escape in _ESCAPE.finditer(label):
        if len(escape[0]) <= width:
            yield from clusters(label[end : escape.start()])
            yield escape[0], len(escape[0])
            end = escape.end()
    yield from clusters(label[end:])
