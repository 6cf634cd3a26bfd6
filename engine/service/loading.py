"""Loading heavy libraries beside a living screen.

Three things would hold the screen up. ``import torch`` spends part of its time in the dynamic linker with Python's
global lock held; a C function called through ctypes runs without the lock, and an import that comes later finds the
library there. While hundreds of modules are made, Python's collector goes again and again through everything there is,
some tenths of a second at a time. And a thread that imports transformers for seconds does nothing else meanwhile.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBRARIES = ("libtorch_global_deps", "libtorch_cpu")
"""In the order in which ``import torch`` loads them; the first makes its symbols known to all that follow."""

_SUFFIXES = (".so", ".dylib")


def preload_torch() -> threading.Thread | None:
    """Begin to map torch's library, unless torch is there, and return at once.

    What cannot be mapped is left to ``import torch``, which says why.

    Returns
    -------
    thread : the thread at work, or None where there is nothing to do, or this way of loading is not known.
    """
    found = None if "torch" in sys.modules else importlib.util.find_spec("torch")
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


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's collector still while modules are loaded, and from ever going through them again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def load_beside(load: Callable[[], object], breathe: Callable[[], None]) -> None:
    """Import something on another thread, and let the calling one do more urgent work until it is there.

    Parameters
    ----------
    load : imports; what it raises is raised here.
    breathe : called again and again; when it raises, what is being imported goes on being imported.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            load()
        except BaseException as error:  # handed on to the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, name="imports", daemon=True)
    thread.start()
    while thread.is_alive():
        breathe()
        thread.join(0.01)
    if failures:
        raise failures[0]
