"""Large arrays of zeros that take memory only where something else is written into them."""

from __future__ import annotations

import math
import mmap
import sys

import numpy as np
from numpy.typing import NDArray


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
