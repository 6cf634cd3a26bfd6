"""Large tensors of a long sentence by themselves in memory, each given back as soon as nobody holds it.

The GNU C library puts whatever takes less than 32 MiB side by side into one heap. Of a sentence that is nearly every
tensor, and the few that stay lie between those that are gone, whose memory is not given back: reading a sentence and
looking at a layer then take up to 1.6 times that layer's maps instead of less than one
(``tests/test_long_reading.py``). Spectra are computed with the heap as it is, where memory that is used again at once
costs less than new memory.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.values.attention import AT_ONCE

APART = 2**20
"""Bytes from which a tensor is put by itself."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What ``mallopt`` calls the free bytes at the heap's end from which they are given back, and those for `APART`."""

HEAP_MOST = 2**25
"""The most that the library itself ever puts into the heap, which it comes to by and by."""


@contextmanager
def large_tensors_apart(tokens: int) -> Iterator[None]:
    """Put large tensors by themselves for a while, where a sentence is long and the C library lets one choose."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" and tokens**2 > AT_ONCE else None
    if not hasattr(library, "malloc_trim"):  # another system's, or another C library
        yield
        return
    library.malloc_trim(0)  # what lies free in the heap, and is now not used again
    library.mallopt(MMAP_THRESHOLD, APART)
    try:
        yield
    finally:
        library.mallopt(MMAP_THRESHOLD, HEAP_MOST)
        library.mallopt(TRIM_THRESHOLD, 2 * HEAP_MOST)
