"""Large tensors of a sentence by themselves in memory, each given back the moment nobody holds it.

The GNU C library puts whatever takes less than 32 MiB side by side into one heap. Of a sentence that is nearly every
tensor, and those few that are kept, the attention modules' inputs, lie between those that are gone, so that the room of
the latter stays taken: up to half as much again as is held. Spectra are computed with the heap as it is, where memory
that is used again at once costs less than new memory.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from engine.values.attention import AT_ONCE

APART = 2**20
"""Bytes from which a tensor is put by itself."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What ``mallopt`` calls the bytes free at the heap's end from which they are given back, and those for `APART`."""

HEAP_MOST = 2**25
"""The most that the library itself ever puts into the heap, which it comes to by and by."""

_LOCK = threading.Lock()
_users = [0]


@contextmanager
def large_tensors_apart(tokens: int) -> Iterator[None]:
    """Put large tensors by themselves for a while, where a sentence is long and the C library lets one choose."""
    if tokens**2 <= AT_ONCE:
        yield
        return
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(more: int) -> None:
    """Count who wants them apart; the first and the last change it, of sentences that are read in between."""
    library = _library()
    if library is None:
        return
    with _LOCK:
        _users[0] += more
        if more > 0 and _users[0] == 1:
            library.malloc_trim(0)  # what lies free in the heap, and is now not used again
            library.mallopt(MMAP_THRESHOLD, APART)
        elif _users[0] == 0:
            library.mallopt(MMAP_THRESHOLD, HEAP_MOST)
            library.mallopt(TRIM_THRESHOLD, 2 * HEAP_MOST)


@cache
def _library() -> Any:
    """Find the GNU C library; None on systems that have another."""
    try:
        library = ctypes.CDLL(None)
        return library if library.mallopt and library.malloc_trim else None
    except (AttributeError, OSError, TypeError):
        return None
