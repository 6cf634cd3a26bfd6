"""Loading heavy libraries beside a living screen.

Three things would hold the screen up. ``import torch`` spends part of its time in the dynamic linker with Python's
global lock held; a C function called through ctypes runs without the lock, and an import that comes later finds the
library there. While hundreds of modules are made, Python's collector goes again and again through everything there is,
some tenths of a second at a time. And a thread that imports transformers for seconds does nothing else meanwhile.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.values.errors import Superseded

_LIBRARIES = ("libtorch_global_deps", "libtorch_cpu")
"""In the order in which ``import torch`` loads them; the first makes its symbols known to all that follow."""

_SUFFIXES = (".so", ".dylib")

MANY = 10_000
"""Values that the collector goes through in a few milliseconds."""

Made = TypeVar("Made")


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
    import ctypes

    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    for number, path in enumerate(libraries):
        dlopen(os.fsencode(path), os.RTLD_LAZY | (os.RTLD_GLOBAL if number == 0 else os.RTLD_LOCAL))


def rest_collector() -> None:
    """Keep Python's collector still from the start of a program until `wake_collector`."""
    gc.disable()


def wake_collector() -> None:
    """Let Python's collector work on what is made from now on; what there is by now stays for good."""
    gc.freeze()
    gc.enable()


class KeptApart:
    """Keeps the collector from going again and again through what a large model's sweep leaves.

    Of many thousands of heads it would take longer than a screen may wait. Values hold no cycles, so that they go with
    the last that knows of them, whether the collector looks at them or not; what does is collected first.
    """

    def __init__(self) -> None:
        self._new = 0

    def add(self, values: int) -> None:
        """Count values that were made and stay."""
        self._new += values
        if self._new >= MANY and gc.isenabled():
            self._new = 0
            gc.collect()
            gc.freeze()


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's collector still while modules are loaded, and from ever going through them again."""
    was_enabled, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:
            gc.freeze()
        if was_enabled:
            gc.enable()


PUT_AWAY = "this has been put away"
"""What is said to whoever still waits for a thing that has been let go of."""


def _nothing_more() -> Any:
    """Stand for what made a thing that has been let go of."""
    raise RuntimeError(PUT_AWAY)


class Beside(Generic[Made]):
    """Something slow that is made once, on a thread of its own, while the one that needs it does more urgent work.

    Parameters
    ----------
    make : called once, when the thing is first waited for; what it raises is raised to everyone who waits.
    """

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._made: list[Made] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)
        self._beginning = threading.Lock()
        self._keeping = threading.Lock()
        self._is_forgotten = False

    def _run(self) -> None:
        """Make the thing; what was let go of meanwhile is not kept when it is there."""
        try:
            made = self._make()
        except BaseException as error:  # handed on to those who wait
            self._failure = error
            return
        with self._keeping:
            if not self._is_forgotten:
                self._made.append(made)

    @property
    def has_begun(self) -> bool:
        """Whether somebody has waited for the thing."""
        return self._thread.ident is not None

    @property
    def is_made(self) -> bool:
        """Whether the thing is there."""
        return bool(self._made)

    def forget(self) -> None:
        """Let go of the thing; nobody may wait for it again."""
        with self._keeping:
            self._is_forgotten = True
            self._made.clear()
            self._make = _nothing_more

    def wait(self, breathe: Callable[[], None]) -> Made:
        """Wait for the thing.

        Parameters
        ----------
        breathe : called again and again until it is there; when it raises, it goes on being made all the same.
        """
        with self._beginning:
            if not self.has_begun:
                self._thread.start()
        while self._thread.is_alive():
            breathe()
            self._thread.join(0.01)
        if self._failure is not None:
            raise self._failure
        with self._keeping:
            if self._is_forgotten:
                raise Superseded(PUT_AWAY)
            return self._made[0]


def _load_torch() -> None:
    """Import torch, its library first."""
    with collector_at_rest():
        mapping = preload_torch()
        if mapping is not None:
            mapping.join()
        importlib.import_module("torch")


torch_import = Beside(_load_torch)
"""Torch: whoever needs it waits for it before importing it."""
