"""A few threads on which the pieces of one computation run side by side, while the engine thread stays free.

LAPACK spends half of an eigenvalue problem in steps that one core does as fast as two, so two matrices side by side are
done sooner than one after the other with two threads each. And a call of LAPACK cannot be interrupted: on a thread of
its own it keeps nobody waiting. The cores are shared out: threads of linear algebra that are more than there are cores
wait for each other at every step.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any, TypeAlias, TypeVar

import torch

from engine.service.queue import end_with_program

Result = TypeVar("Result")
Piece = tuple["Future[Any]", Callable[[], Any], int]
HandedOut: TypeAlias = "queue.SimpleQueue[Piece | None]"

STANDS_BACK = 5
"""The niceness of the threads: beside other busy ones, the event loop gets three times the share of one of them."""

LOOK_AFTER = 0.005
"""Seconds after which the thread that waits looks for more urgent work."""


class Crew:
    """Daemon threads, begun when they are first needed; only one thread hands work out to them.

    They end when nobody has the crew any more, as when its model is put away.

    Parameters
    ----------
    size : how many threads.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._handed_out: HandedOut = queue.SimpleQueue()
        self._running: set[Future[Any]] = set()
        self._threads: list[threading.Thread] = []
        self._depth = 0
        weakref.finalize(self, _dismiss, self._handed_out, self._threads).atexit = False

    def run(
        self,
        pieces: Sequence[Callable[[], Result]],
        breathe: Callable[[], None],
        at_once: int | None = None,
        done: Callable[[int], None] = lambda count: None,
    ) -> list[Result]:
        """Do pieces side by side, and give their results in order.

        More urgent work, done while this one breathes, does its pieces itself where every thread is taken.

        Parameters
        ----------
        pieces : each is called once, on any thread.
        breathe : called again and again on the calling thread; when it raises, pieces that have not begun are given up.
        at_once : how many may run at the same time; None leaves it to the number of threads.
        done : called on the calling thread with how many are done.

        Raises
        ------
        BaseException : the first that a piece raised.
        """
        futures: list[Future[Result]] = [Future() for _ in pieces]
        cores = max(1, self.size // max(1, min(len(pieces), at_once or self.size)))
        waiting = deque(zip(futures, pieces, strict=True))
        self._depth += 1
        try:
            done(0)  # however soon the first one is done
            while not all(future.done() for future in futures):
                mine = sum(future in self._running for future in futures)
                while waiting and self._has_room() and (at_once is None or mine < at_once):
                    self._hand_out(*waiting.popleft(), cores)
                    mine += 1
                if waiting and not mine and self._depth > 1:
                    _do(*waiting.popleft())
                breathe()
                done(sum(future.done() for future in futures))
                wait(self._running, LOOK_AFTER, FIRST_COMPLETED)
                self._running = {future for future in self._running if not future.done()}
            return [future.result() for future in futures]
        finally:
            self._depth -= 1
            torch.set_num_threads(self.size)  # what threads that begin later take for the number of cores

    def _has_room(self) -> bool:
        """Say whether a thread has nothing to do."""
        return len(self._running) < self.size

    def _hand_out(self, future: Future[Any], piece: Callable[[], Any], cores: int) -> None:
        """Give a piece, and the cores it may use, to a thread, a new one until there are enough."""
        self._running.add(future)
        self._handed_out.put((future, piece, cores))
        if len(self._threads) < min(self.size, len(self._running)):
            name = f"crew {len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=_work, args=(self._handed_out,), name=name, daemon=True))
            end_with_program(self._threads[-1], partial(self._handed_out.put, None))
            self._threads[-1].start()


def _dismiss(handed_out: HandedOut, threads: Sequence[threading.Thread]) -> None:
    """Have every thread end once it has done its piece."""
    for _ in threads:
        handed_out.put(None)


def _work(handed_out: HandedOut) -> None:
    """Do pieces until there are to be no more, after whatever else has something to do.

    Of the crew a thread knows no more than what is handed out, and of a piece that is done nothing, whose tensors it
    would keep.
    """
    _stand_back()
    while _do_next(handed_out):
        pass


def _do_next(handed_out: HandedOut) -> bool:
    """Do the next piece; False where there are to be no more."""
    handed = handed_out.get()
    if handed is None:
        return False
    future, piece, cores = handed
    torch.set_num_threads(cores)  # of this thread alone
    _do(future, piece)
    return True


def _stand_back() -> None:
    """Let the event loop have the processor first; only Linux has a priority for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, max(STANDS_BACK, os.getpriority(os.PRIO_PROCESS, thread)))


def _do(future: Future[Any], piece: Callable[[], Any]) -> None:
    """Do one piece; what it raises is its result."""
    try:
        future.set_result(piece())
    except BaseException as error:  # raised where the results are collected
        traceback.clear_frames(error.__traceback__)  # else it would keep the tensors for which there was no room
        future.set_exception(error)
