"""Large arrays of zeros that take memory only where something else is written into them."""

from __future__ import annotations

import math
import mmap
import sys

import numpy as np
from numpy.typing import NDArray

from engine.values.attention import AT_ONCE

ROW_PAGES = 4
"""Pages of memory from which on a row of one head's map gives those back that lie behind what its query sees."""


def heads_lie_together(heads: int, queries: int, keys: int) -> bool:
    """Say whether the maps of a layer are laid out so that the weights of all heads for a query and a key are one run.

    Memory comes in pages. A row of a short map has few of them, and most hold something that its query sees; with all
    heads' rows in one, about half of the pages are behind what the query sees. A single head is then read in steps,
    which costs more than memory gains where the rows are long by themselves, and where maps cross whole, to be gone
    through head by head while a person waits for a key.

    Examples
    --------
    >>> [heads_lie_together(12, tokens, tokens) for tokens in (512, 1024, 2**20)]
    [False, True, False]
    """
    is_short = keys * np.dtype(np.float32).itemsize < ROW_PAGES * mmap.PAGESIZE
    return heads > 1 and is_short and queries * keys > AT_ONCE


def maps_without_memory(shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Make room for a layer's maps (heads, queries, keys): zeros, laid out so that what a mask hides takes little.

    Examples
    --------
    >>> maps_without_memory((3, 1000, 1000)).strides
    (4, 12000, 12)
    """
    heads, queries, keys = shape
    if not heads_lie_together(heads, queries, keys):
        return zeros_without_memory(shape)
    return zeros_without_memory((queries, keys, heads)).transpose(2, 0, 1)


def zeros_without_memory(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Make an array of zeros that the operating system fills with memory page by page, where it is written.

    What is read before takes none. NumPy's own arrays ask for pages of two mebibytes, of which a row of a map would
    take all for the half that its mask lets it use.

    Examples
    --------
    >>> zeros_without_memory((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    numbers = math.prod(shape)
    size = max(1, numbers * np.dtype(np.float32).itemsize)
    if sys.platform == "win32":
        pages = mmap.mmap(-1, size)
    else:  # pages of a mapping that may be shared would be filled by reading them
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # of Linux, where pages may be large unasked
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.float32, numbers).reshape(shape)
