"""The labels along both axes of an attention map, and the room they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from tui.drawing.text import clusters, downwards, fit, in_ascii, label

CELL_WIDTH = 2
"""Columns per cell: two make it nearly square, and hold any character of a label."""

_HIGHEST_HEADER = 6
_HIGHEST_MARK = 2
"""Setting off a line takes two escape sequences; with six lines they would be most of what a move writes."""

_WIDEST_TOKEN = 16
_CORNERS = ("query ↓ key →", "q ↓ k →", "")
_LEAST_TOKEN = 4
"""Columns that a token must have beside its index; with fewer the index is left out."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The labels of a map, laid out for a pane.

    Attributes
    ----------
    rows : label of each query, index and token, ``gutter`` cells wide.
    columns : label of each key, ``header`` lines of two cells, written downwards and ending in the last.
    marks : how many lines, the last ones, of each column's label are set off under the cursor.
    gutter, header : width of the row labels and height of the column labels.
    corner : says what runs along the axes; it stands in the last line of the header, ``gutter`` cells wide.
    """

    rows: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    marks: tuple[int, ...]
    gutter: int
    header: int
    corner: str


def lay_out(
    query_tokens: Sequence[str], key_tokens: Sequence[str], width: int, height: int, *, ascii_only: bool = False
) -> Axes:
    """Give the labels at most a quarter of the pane's height, and a quarter of its width or a little more.

    Parameters
    ----------
    query_tokens, key_tokens : the texts along both axes, as the model reads them.
    width, height : of the pane in cells.
    ascii_only : whether the labels may hold nothing but ASCII.
    """
    queries = [label(token, ascii_only=ascii_only) for token in query_tokens]
    keys = [label(token, ascii_only=ascii_only) for token in key_tokens]
    heights = [sum(1 for _ in clusters(key)) for key in keys]

    header = min(max(heights, default=1), _HIGHEST_HEADER, max(1, (height + 2) // 4))
    index = len(str(max(len(queries) - 1, 0)))
    room = max(width // 4, min(12, width // 2)) - 1
    token = min(max((cell_len(query) for query in queries), default=1), _WIDEST_TOKEN)
    with_index = room >= index + 1 + min(token, _LEAST_TOKEN)
    token = max(1, min(token, room - index - 1 if with_index else room))
    rows = [fit(query, token, align="right", ascii_only=ascii_only) + " " for query in queries]
    if with_index:
        rows = [f"{number:>{index}} {row}" for number, row in enumerate(rows)]
    gutter = token + 1 + (index + 1 if with_index else 0)
    corners = [in_ascii(corner) if ascii_only else corner for corner in _CORNERS]
    return Axes(
        rows=tuple(rows),
        columns=tuple(tuple(downwards(key, header, ascii_only=ascii_only)) for key in keys),
        marks=tuple(min(needed, header, _HIGHEST_MARK) for needed in heights),
        gutter=gutter,
        header=header,
        corner=next(fit(text, gutter) for text in corners if len(text) < gutter or not text),
    )
