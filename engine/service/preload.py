"""Map torch's library into memory while Python does other work.

``import torch`` spends part of its time in the dynamic linker with Python's global lock held, and nothing on screen
moves meanwhile. A C function called through ctypes runs without the lock; an import that comes later finds the library
there.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from pathlib import Path

_LIBRARIES = ("libtorch_global_deps", "libtorch_cpu")
"""In the order in which ``import torch`` loads them; the first makes its symbols known to all that follow."""

_SUFFIXES = (".so", ".dylib")


def preload_torch() -> threading.Thread | None:
    """Begin to map torch's library, and return at once.

    What cannot be mapped is left to ``import torch``, which says why.

    Returns
    -------
    thread : the thread at work, or None where this way of loading is not known.
    """
    found = importlib.util.find_spec("torch")
    if os.name != "posix" or found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "lib"
    present = [folder / f"{name}{suffix}" for name in _LIBRARIES for suffix in _SUFFIXES]
    thread = threading.Thread(target=_map, args=([path for path in present if path.exists()],), daemon=True)
    thread.start()
    return thread


def _map(libraries: list[Path]) -> None:
    """Open libraries one after the other."""
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    for number, path in enumerate(libraries):
        dlopen(os.fsencode(path), os.RTLD_LAZY | (os.RTLD_GLOBAL if number == 0 else os.RTLD_LOCAL))
