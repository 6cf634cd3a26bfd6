"""Imports of torch and transformers: one thread at a time, and in the explorer without Python's collector.

If two threads import parts of transformers at once, each may wait for a module that the other is importing. Python then
returns an unfinished module, which the importing module keeps.

Both libraries make 360,000 objects, and a full pass of the collector over them takes 0.2 to 0.4 s, in which no key is
answered (a gap of the event loop may take 50 ms). So the explorer, which owns its process, pauses the collector during
the imports and freezes what they made (measured: gaps of 0.5 s and 0.3 s without, 0.1 s with).

``import torch`` spends part of its time in the dynamic linker, holding Python's global lock. A function called through
ctypes does not hold it, and a later import finds the library loaded; so the explorer loads it first.

None of this is done in a notebook or a script.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import TracebackType

from engine.values.progress import IMPORTING_TORCH, IMPORTING_TRANSFORMERS, Progress, Tell, tell_nobody

_TORCH_LIBRARIES = (("libtorch_global_deps", os.RTLD_GLOBAL), ("libtorch_cpu", os.RTLD_LOCAL))
"""In the order in which ``import torch`` loads them; the first exports its symbols to the others."""


class ImportLock:
    """A context for the first import of a library, for one thread at a time.

    Attributes
    ----------
    spares_event_loop : whether to pause Python's collector, freeze what was imported, and load torch's libraries first;
        set it before anything is imported.
    tell : called every second, on a thread of its own, with what is being imported and for how long.
    """

    def __init__(self) -> None:
        self.spares_event_loop = False
        self.tell: Tell = tell_nobody
        self._has_ended = threading.Event()
        self._lock = threading.RLock()
        self._depth = 0
        self._before: tuple[bool, int] = (False, 0)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and self.tell is not tell_nobody:
            self._has_ended = threading.Event()
            threading.Thread(target=self._tell_seconds, args=(self._has_ended,), daemon=True).start()
        if self._depth == 1 and self.spares_event_loop:
            self._before = gc.isenabled(), len(sys.modules)
            gc.disable()
            _map_torch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth == 1:
            self._has_ended.set()
        if self._depth == 1 and self.spares_event_loop:
            was_enabled, modules = self._before
            if len(sys.modules) > modules:
                gc.freeze()
            if was_enabled:
                gc.enable()
        self._depth -= 1
        self._lock.release()

    def _tell_seconds(self, has_ended: threading.Event) -> None:
        told, modules, seconds = "", len(sys.modules), 0
        while not has_ended.wait(1.0):
            seconds += 1
            is_growing, modules = len(sys.modules) > modules, len(sys.modules)
            torch = sys.modules.get("torch")
            is_there = torch is not None and not getattr(torch.__spec__, "_initializing", False)
            if is_growing or not is_there:
                told = IMPORTING_TRANSFORMERS if is_there else IMPORTING_TORCH
                self.tell(Progress(told, seconds, 0, "seconds"))
        if told:
            self.tell(Progress(told, 1, 1, "seconds"))


def _map_torch() -> None:
    """Load torch's libraries without holding Python's lock; ``import torch`` loads what fails here."""
    import ctypes  # which the first frame does not wait for

    found = None if "torch" in sys.modules else importlib.util.find_spec("torch")
    if os.name != "posix" or found is None or found.origin is None:
        return
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    for name, mode in _TORCH_LIBRARIES:
        for path in (Path(found.origin).parent / "lib").glob(f"{name}.*"):  # .so, or .dylib
            dlopen(os.fsencode(path), os.RTLD_LAZY | mode)


IMPORT_LOCK = ImportLock()
"""Enter it wherever torch or transformers, or a part of them, may be imported for the first time."""
