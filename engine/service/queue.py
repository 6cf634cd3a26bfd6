"""The queue: work in units, the most urgent first, with a daemon thread for each lane.

Work is a generator (`engine.values.progress.Work`). Between two units a lane takes the most urgent one, so a sweep is a
suspended generator while another head is shown. The future of work that is given up fails at once; a unit that is
running ends at its next ``check``, or when its call returns.
"""

from __future__ import annotations

import atexit
import contextlib
import heapq
import itertools
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar

from engine.store.files import remove_partial_files, write_log
from engine.values.errors import EngineError, Interrupted, Superseded
from engine.values.progress import Lane, Work

Answer = TypeVar("Answer")
Check = Callable[[], None]

WRITING = "writing"
"""The view of requests for a file."""

STOPPED, REPLACED = "the engine has been stopped", "replaced by a newer request"

LONGEST_WAIT = 3.0
"""Seconds that the end of a program waits for a unit: a call of LAPACK cannot be interrupted."""

NICENESS = 5
"""The niceness of lanes that compute, on Linux, where threads have their own: the event loop gets three times their
share of a core. Without it a key takes up to half as long again during a sweep."""


class Urgency(IntEnum):
    """How soon work is wanted; smaller is sooner."""

    GIVEN_UP = -2
    """Taken first, to be closed."""
    KNOWN = -1
    SELECTED = 0
    SENTENCE = 1
    OPENING = 2
    LARGE = 3
    SWEEP = 4


@dataclass(eq=False)
class _Job:
    urgency: Urgency
    arrival: int
    make: Callable[[], Work[Any]]
    lane: Lane
    future: Future[Any]
    view: str
    owner: object
    work: Work[Any] | None = None
    given_up: str = ""

    def __lt__(self, other: _Job) -> bool:
        return (self.urgency, self.arrival) < (other.urgency, other.arrival)

    def fail(self, error: BaseException) -> None:
        """Set an error, unless there is an answer."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


class Queue:
    """Lanes and the work that waits for them; all methods are thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Lane, list[_Job]] = {lane: [] for lane in Lane}
        self._running: dict[int, _Job] = {}
        self._latest: dict[str, _Job] = {}
        self._arrivals = itertools.count()
        self._stopped = False
        self._at_work = len(Lane)
        self._last: list[Callable[[], None]] = []
        self._writers: dict[threading.Thread, threading.Event] = {}  # each with what cancels it
        self._lanes = [
            threading.Thread(target=self._run, args=(lane,), name=f"lane {lane.value}", daemon=True) for lane in Lane
        ]
        _queues.add(self)
        for thread in self._lanes:
            thread.start()

    def submit(
        self,
        make: Callable[[], Work[Answer]],
        urgency: Urgency,
        lane: Lane,
        view: str = "",
        owner: object = None,
    ) -> Future[Answer]:
        """Queue work.

        Returns
        -------
        future : the answer. It fails with `Superseded` when the work is given up, and with another `EngineError` for
            every other error.
        """
        job = _Job(urgency, next(self._arrivals), make, lane, Future(), view, owner)
        with self._changed:
            replaced = self._latest.pop(view, None) if view else None
            if view:
                self._latest[view] = job
            if not self._stopped:
                self._put(job)
        if self._stopped:
            job.fail(Superseded(STOPPED))
        if replaced is not None:
            self._give_up([replaced], REPLACED)
        return job.future

    def give_up(self, view: str) -> None:
        """Give up the work for a view."""
        with self._changed:
            job = self._latest.pop(view, None)
        if job is not None:
            self._give_up([job], REPLACED)

    def give_up_all(self, owner: object, why: str) -> None:
        """Give up all work of an owner."""
        with self._changed:
            jobs = [job for job in self._jobs() if job.owner is owner]
        self._give_up(jobs, why)

    def check(self) -> None:
        """End the unit of the calling thread if it should end; on other threads do nothing.

        Raises
        ------
        Superseded : if the work has been given up.
        Interrupted : in a sweep, if more urgent work waits for its lane.
        """
        job = self._running.get(threading.get_ident())
        if job is None:
            return
        if job.given_up:
            raise Superseded(job.given_up)
        waiting = self._waiting[job.lane]
        if job.urgency is Urgency.SWEEP and waiting and waiting[0].urgency < Urgency.SWEEP:
            raise Interrupted(REPLACED)

    def stop(self, last: Callable[[], None] | None = None) -> None:
        """Give up everything, and call ``last`` when every lane has ended with its unit; returns at once."""
        with self._changed:
            self._stopped = True
            if last is not None:
                self._last.append(last)
            jobs = self._jobs()
            self._changed.notify_all()
        self._give_up(jobs, STOPPED)
        self._end()
        self.stop_writing()

    def join(self, seconds: float) -> bool:
        """Wait at most so long, after `stop`, and return whether all lanes and writers have ended."""
        end, threads = time.monotonic() + seconds, [*self._lanes, *self._writers]
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def write(self, work: Callable[[Check], Answer]) -> Future[Answer]:
        """Write a file on a thread of its own, so that neither the screen nor a lane waits for a disk.

        The check that it is given raises `Superseded` once the export is cancelled.
        """
        future: Future[Answer] = Future()
        future.set_running_or_notify_cancel()  # so that it cannot be cancelled before its answer is set
        cancelled = threading.Event()

        def check() -> None:
            if cancelled.is_set():
                raise Superseded("the export was cancelled")

        def run() -> None:
            try:
                answer = work(check)
            except BaseException as error:
                future.set_exception(_future_error(error))
            else:
                future.set_result(answer)

        thread = threading.Thread(target=run, name="writer", daemon=True)
        self._writers[thread] = cancelled
        thread.start()
        return future

    def stop_writing(self) -> None:
        """Cancel the file that is being written, if any, at its next step, and remove it."""
        for cancelled in self._writers.values():
            cancelled.set()
        self.give_up(WRITING)

    def _jobs(self) -> list[_Job]:
        return [*itertools.chain(*self._waiting.values()), *self._running.values()]

    def _put(self, job: _Job) -> None:
        heapq.heappush(self._waiting[job.lane], job)
        self._changed.notify_all()

    def _give_up(self, jobs: list[_Job], why: str) -> None:
        """Fail jobs at once, and have their lanes end those that have begun."""
        with self._changed:
            for job in jobs:
                job.given_up = job.given_up or why
                if job in self._waiting[job.lane]:
                    job.urgency = Urgency.GIVEN_UP
                    heapq.heapify(self._waiting[job.lane])
        for job in jobs:  # not under the lock: callbacks may submit more work
            if not job.future.cancelled():
                job.fail(Superseded(why))

    def _run(self, lane: Lane) -> None:
        if sys.platform == "linux" and lane is not Lane.FILES:
            os.nice(NICENESS)
        while (job := self._take(lane)) is not None:
            self._do(job)
            del job  # an idle lane keeps nothing
        with self._changed:
            self._at_work -= 1
        self._end()

    def _end(self) -> None:
        """Once no lane is at work, close the work that has begun and call the last functions."""
        with self._changed:
            if self._at_work:
                return
            begun = [job.work for job in self._jobs() if job.work is not None]
            last, self._last = self._last, []
            self._waiting = {lane: [] for lane in Lane}
        for work in begun:
            work.close()
        for each in last:
            each()

    def _take(self, lane: Lane) -> _Job | None:
        """Wait for the most urgent job of a lane; None to end the lane."""
        with self._changed:
            self._running.pop(threading.get_ident(), None)
            while not self._waiting[lane] and not self._stopped:
                self._changed.wait()
            if self._stopped:
                return None
            job = heapq.heappop(self._waiting[lane])
            self._running[threading.get_ident()] = job
            return job

    def _do(self, job: _Job) -> None:
        try:
            if job.given_up:
                if job.work is not None:
                    job.work.close()
                return
            if not job.future.running() and not job.future.set_running_or_notify_cancel():
                return
            with self._share_of_threads(job.lane):
                job.work = job.work or job.make()
                lane = next(job.work)
        except StopIteration as ended:
            self._forget(job)
            with contextlib.suppress(InvalidStateError):
                job.future.set_result(ended.value)
        except Interrupted:
            job.work = None  # to begin again; what it has cached is not computed twice
            self._go_on(job, job.lane)
        except BaseException as error:  # the lane outlives its jobs
            self._forget(job)
            job.fail(_future_error(error))
        else:
            self._go_on(job, lane or job.lane)

    def _forget(self, job: _Job) -> None:
        with self._changed:
            if self._latest.get(job.view) is job:
                del self._latest[job.view]

    def _go_on(self, job: _Job, lane: Lane) -> None:
        with self._changed:
            job.lane = lane
            if job.given_up:
                job.urgency = Urgency.GIVEN_UP
            self._put(job)

    @contextlib.contextmanager
    def _share_of_threads(self, lane: Lane) -> Any:
        """Give linear algebra on this thread its share of the threads for one unit.

        OpenMP keeps a number of threads for each thread that has asked for it; new threads begin with the number that
        was set last on any thread.
        """
        torch = sys.modules.get("torch")
        if lane is Lane.FILES or not hasattr(torch, "set_num_threads"):
            yield
            return
        assert torch is not None
        all_threads = _all_threads()
        busy = len({job.lane for job in list(self._running.values())} - {Lane.FILES})
        torch.set_num_threads(max(1, all_threads // max(1, busy)))
        try:
            yield
        finally:
            torch.set_num_threads(all_threads)


@cache
def _all_threads() -> int:
    """Count the threads of linear algebra that all lanes share: as many as torch had before the first unit."""
    return int(sys.modules["torch"].get_num_threads())


def _future_error(error: BaseException) -> BaseException:
    """Turn any error into one line, with the traceback of an unforeseen one in the log."""
    if isinstance(error, EngineError):
        return _without_locals(error)
    unforeseen = EngineError(write_log(error))
    unforeseen.__cause__ = _without_locals(error)
    return unforeseen


def _without_locals(error: BaseException) -> BaseException:
    """Clear the local variables in an error's traceback, else an error that a view keeps would hold the weights."""
    if isinstance(error, Superseded):
        return error.with_traceback(None)
    each: BaseException | None = error
    seen: set[int] = set()
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
    own = error.__traceback__
    return error.with_traceback(None if own is None else own.tb_next)  # the first frame is the running queue's


# --- the end of a program

_queues: weakref.WeakSet[Queue] = weakref.WeakSet()
"""All queues; the lanes of those that have not been stopped keep them alive."""


@atexit.register
def _end_all() -> None:
    """Stop all threads; if a unit takes longer than `LONGEST_WAIT`, end the process without its clean-up.

    A daemon thread that returns from torch while the interpreter shuts down is ended in C++ code, which aborts the
    process (CPython issue 87135).
    """
    queues = list(_queues)
    for queue in queues:
        queue.stop()
    if not all(queue.join(LONGEST_WAIT) for queue in queues):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        remove_partial_files()
        os._exit(int(hasattr(sys, "last_value")))
