"""The threads that compute stand back behind the event loop."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from engine.service.crew import STANDS_BACK, Crew


def niceness() -> int:
    """Give the calling thread's."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_what_computes_stands_back_and_nothing_else_does() -> None:
    before = niceness()
    assert set(Crew(2).run([niceness] * 4, lambda: None)) == {max(before, STANDS_BACK)}
    assert niceness() == before
