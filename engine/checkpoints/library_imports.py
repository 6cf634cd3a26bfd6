"""Imports of torch and transformers: one thread at a time, and in the explorer without Python's collector.

Two threads that import parts of transformers at once may each come to wait for a module that the other one is in the
midst of; Python then hands out a module that is not finished, which is kept for good by whoever imported it.

Of the 360,000 objects that both libraries make, the collector's full pass takes 0.2 to 0.4 s, in which no key is
answered (a gap of the event loop may take 50 ms). So the explorer, whose process is its own, has it paused while they
are imported, and has what they made left alone from then on (measured: gaps of 0.5 s and 0.3 s without, 0.1 s with). In
a notebook or a script nothing of this is done.
"""

from __future__ import annotations

import gc
import sys
import threading
from types import TracebackType


class Importing:
    """A context in which a library may be imported for the first time; one thread at a time is in it.

    Attributes
    ----------
    spares_collector : whether Python's collector is paused meanwhile, and leaves what was imported alone.
    """

    def __init__(self) -> None:
        self.spares_collector = False
        self._lock = threading.RLock()
        self._depth = 0
        self._before: tuple[bool, int] = (False, 0)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and self.spares_collector:
            self._before = gc.isenabled(), len(sys.modules)
            gc.disable()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth == 1 and self.spares_collector:
            was_enabled, modules = self._before
            if len(sys.modules) > modules:
                gc.freeze()
            if was_enabled:
                gc.enable()
        self._depth -= 1
        self._lock.release()


IMPORTING = Importing()
"""Entered wherever torch or transformers, or a part of them, may be imported for the first time."""
