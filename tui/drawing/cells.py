"""A row of a map's cells as segments: neighbours that look alike are one, which is what a redraw costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style

from tui.drawing.ramps import Rgb, ramp

CURSOR = 254
"""Stands in place of a level for the cell under the cursor."""


def merged_cells(
    levels: NDArray[np.uint8],
    glyphs: Sequence[str],
    styles: Sequence[Style],
    others: Mapping[int, tuple[str, Style]],
    figures: Sequence[str] = (),
) -> Iterator[Segment]:
    """Write cells.

    Parameters
    ----------
    levels : of each cell, or what stands in place of one.
    glyphs : the characters of each level, lowest first.
    styles : the style of each level, or the one that all of them have.
    others : by what stands in place of a level, and is none itself, its characters and style.
    figures : what is written in each cell in place of its level's characters, if anything.

    Examples
    --------
    >>> [segment.text for segment in merged_cells(np.array([0, 1, 1, CURSOR]), ("  ", "##"), (Style(),) * 2,
    ...                                           {CURSOR: ("[]", Style())})]
    ['  ', '####', '[]']
    """
    if not len(levels):
        return
    runs = levels if len(styles) > 1 else np.where(np.isin(levels, list(others)), levels, 0)
    bounds = [0, *(np.flatnonzero(runs[1:] != runs[:-1]) + 1).tolist(), len(runs)]
    for start, end in pairwise(bounds):
        kind = int(runs[start])
        if kind in others:
            text, style = others[kind]
            yield Segment(text * (end - start), style)
        else:
            texts = figures[start:end] if figures else (glyphs[level] for level in levels[start:end])
            yield Segment("".join(texts), styles[kind])


@lru_cache(maxsize=32)
def background_styles(background: Rgb, color_system: str, palette: str) -> tuple[Style, ...]:
    """Make a style of each colour of the ramp, the same objects every time, so that their escape codes are cached."""
    return tuple(Style(bgcolor=colour) for colour in ramp(background, color_system, palette))


@lru_cache(maxsize=32)
def in_pairs(styles: tuple[Style, ...]) -> tuple[Style, ...]:
    """Give the levels two by two one style; nobody tells two of sixteen neighbours apart that do not touch.

    The styles of the lowest and the highest level stay, and the others are as even steps between them as there are.

    Examples
    --------
    >>> [style.bgcolor.number for style in in_pairs(tuple(Style(bgcolor=f"color({n})") for n in range(16)))]
    [0, 0, 2, 2, 4, 4, 6, 6, 9, 9, 11, 11, 13, 13, 15, 15]
    """
    pairs = len(styles) // 2
    return tuple(styles[round(level // 2 * (len(styles) - 1) / (pairs - 1))] for level in range(2 * pairs))
