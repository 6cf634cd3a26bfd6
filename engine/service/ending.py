"""The end of a program that used an engine, with threads that still compute.

A daemon thread that comes back from torch once the interpreter has begun to go is ended in the middle of C++ code,
which aborts the whole process (CPython issue 87135). So all are told to stop, and waited for, while everything is
still there. The program that is started as ``attn-tui`` ends its process itself and needs none of this.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable

LONGEST = 3.0
"""Seconds that are waited for at most: a call of LAPACK cannot be interrupted, and a program has to end."""

_threads: weakref.WeakKeyDictionary[threading.Thread, Callable[[], object]] = weakref.WeakKeyDictionary()


def wait_for(thread: threading.Thread, stop: Callable[[], object]) -> None:
    """Have a thread waited for at the end of the program.

    Parameters
    ----------
    thread : that computes, or writes.
    stop : has it end at its next step; it holds the thread no longer than that is at work.
    """
    _threads[thread] = stop


@atexit.register
def end_all() -> None:
    """Tell all threads to stop, and wait for them."""
    at_work = [(thread, stop) for thread, stop in list(_threads.items()) if thread.is_alive()]
    for _, stop in at_work:
        stop()
    end = time.monotonic() + LONGEST
    for thread, _ in at_work:
        thread.join(max(0.0, end - time.monotonic()))
