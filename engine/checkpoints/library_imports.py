"""Imports of torch and transformers: one thread at a time, and in the explorer without Python's collector.

Two threads that import parts of transformers at once may each come to wait for a module that the other one is in the
midst of; Python then hands out a module that is not finished, which is kept for good by whoever imported it.

Of the 360,000 objects that both libraries make, the collector's full pass takes 0.2 to 0.4 s, in which no key is
answered (a gap of the event loop may take 50 ms). So the explorer, whose process is its own, has it paused while they
are imported, and has what they made left alone from then on (measured: gaps of 0.5 s and 0.3 s without, 0.1 s with).

``import torch`` spends part of its time in the dynamic linker with Python's global lock held. A function called through
ctypes runs without that lock, and an import that comes later finds the library there; so the explorer maps it first.

In a notebook or a script nothing of this is done.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import TracebackType

_TORCH_LIBRARIES = (("libtorch_global_deps", os.RTLD_GLOBAL), ("libtorch_cpu", os.RTLD_LOCAL))
"""In the order in which ``import torch`` loads them; the first makes its symbols known to all that follow."""


class Importing:
    """A context in which a library may be imported for the first time; one thread at a time is in it.

    Attributes
    ----------
    spares_event_loop : whether Python's collector is paused meanwhile and leaves what was imported alone, and torch's
        libraries are mapped first; set before anything is imported.
    """

    def __init__(self) -> None:
        self.spares_event_loop = False
        self._lock = threading.RLock()
        self._depth = 0
        self._before: tuple[bool, int] = (False, 0)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and self.spares_event_loop:
            self._before = gc.isenabled(), len(sys.modules)
            gc.disable()
            _map_torch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth == 1 and self.spares_event_loop:
            was_enabled, modules = self._before
            if len(sys.modules) > modules:
                gc.freeze()
            if was_enabled:
                gc.enable()
        self._depth -= 1
        self._lock.release()


def _map_torch() -> None:
    """Map torch's libraries while other threads go on; what cannot be mapped is left to ``import torch``."""
    found = None if "torch" in sys.modules else importlib.util.find_spec("torch")
    if os.name != "posix" or found is None or found.origin is None:
        return
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    for name, mode in _TORCH_LIBRARIES:
        for path in (Path(found.origin).parent / "lib").glob(f"{name}.*"):  # .so, or .dylib
            dlopen(os.fsencode(path), os.RTLD_LAZY | mode)


IMPORTING = Importing()
"""Entered wherever torch or transformers, or a part of them, may be imported for the first time."""
