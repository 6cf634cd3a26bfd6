"""The queue: work in units, done on one daemon thread for each lane, the most urgent unit first.

Work is a generator (`engine.values.progress.Work`). Between two of its units a lane takes whatever is most urgent by
then, so that a sweep is put aside as a suspended generator while a key shows the next head. Work that nobody wants any
more fails at once for whoever waits for it; a unit that is running ends at its next ``check``, or with its call.
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
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from engine.store.files import remove_partial_files, write_log
from engine.values.errors import EngineError, Interrupted, Superseded
from engine.values.progress import Lane, Work

Answer = TypeVar("Answer")
Check = Callable[[], None]

WRITING = "writing"
"""What the engine's work for a file is for."""

FILE_VIEW: ContextVar[str] = ContextVar("FILE_VIEW", default="")
"""On a thread that writes a file: the view that its requests are for, so that they can be given up together."""

STOPPED, REPLACED = "the engine has been stopped", "replaced by a newer request"

_all_threads: dict[str, int] = {}
"""Threads of linear algebra that all lanes have together: as many as torch had before the first unit with it."""

LONGEST_WAIT = 3.0
"""Seconds that the end of a program waits for a unit: a call of LAPACK cannot be interrupted."""


NICENESS = 5
"""By which lanes that compute stand back on Linux, where it is of a thread and not of the process: the event loop gets
three times their share of a core. Without it a key takes up to half as long again while a model is swept."""


class Urgency(IntEnum):
    """How soon work is wanted; smaller is sooner."""

    GIVEN_UP = -2
    """Is taken next, to be ended."""
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
        """Answer with an error, unless there is an answer."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


class Queue:
    """Lanes and the work that waits for them; every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Lane, list[_Job]] = {lane: [] for lane in Lane}
        self._running: dict[int, _Job] = {}
        self._latest: dict[str, _Job] = {}
        self._arrivals = itertools.count()
        self._stopped = False
        self._at_work = len(Lane)
        self._last: list[Callable[[], None]] = []
        self._writers: list[threading.Thread] = []
        self._writing_cancelled = threading.Event()
        stop = weakref.WeakMethod(self.stop)
        self._lanes = [
            threading.Thread(target=self._run, args=(lane,), name=f"lane {lane.value}", daemon=True) for lane in Lane
        ]
        for thread in self._lanes:
            end_with_program(thread, lambda: (known := stop()) and known())
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
        future : of the answer. It fails with `Superseded` when the work is given up, and with an `EngineError` for
            every other error.
        """
        if behind := FILE_VIEW.get():
            view, urgency = behind, max(urgency, Urgency.LARGE)
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
        """Give up all work that an owner has asked for."""
        with self._changed:
            jobs = [job for job in self._known() if job.owner is owner]
        self._give_up(jobs, why)

    def check(self) -> None:
        """End the unit that the calling thread does when it is not wanted any more; anywhere else do nothing.

        Raises
        ------
        Superseded : when the work has been given up.
        Interrupted : in a sweep, when something more urgent waits for its lane.
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
        """Give up everything; returns at once, whatever is being computed, and every lane ends with its unit."""
        with self._changed:
            self._stopped = True
            if last is not None:
                self._last.append(last)
            jobs = self._known()
            self._changed.notify_all()
        self._give_up(jobs, STOPPED)
        self._end()

    def join(self, seconds: float) -> None:
        """Wait until no work is done and no file written any more, but no longer than that; after `stop`."""
        _join([*self._lanes, *self._writers], seconds)

    def write(self, work: Callable[[Check], Answer]) -> Future[Answer]:
        """Do work that writes a file on a thread of its own, so that neither the screen nor a lane waits for a disk.

        What it asks of the queue comes after what is looked at. The check that it is handed raises `Superseded` once
        the export was cancelled.
        """
        future: Future[Answer] = Future()
        future.set_running_or_notify_cancel()  # who no longer awaits it cannot take the place of its answer
        cancelled = self._writing_cancelled = threading.Event()

        def check() -> None:
            if cancelled.is_set():
                raise Superseded("the export was cancelled")

        def run() -> None:
            FILE_VIEW.set(WRITING)
            try:
                answer = work(check)
            except BaseException as error:  # whatever it raises is its answer
                future.set_exception(_answer_of(error))
            else:
                future.set_result(answer)

        thread = threading.Thread(target=run, name="writer", daemon=True)
        self._writers = [thread]
        end_with_program(thread, cancelled.set)
        thread.start()
        return future

    def stop_writing(self) -> None:
        """Give up the file that is being written, if any, at its next step; nothing of it is left."""
        self._writing_cancelled.set()
        self.give_up(WRITING)

    def _known(self) -> list[_Job]:
        return [*itertools.chain(*self._waiting.values()), *self._running.values()]

    def _put(self, job: _Job) -> None:
        heapq.heappush(self._waiting[job.lane], job)
        self._changed.notify_all()

    def _give_up(self, jobs: list[_Job], why: str) -> None:
        """Answer at once, and have the lanes end what has begun."""
        with self._changed:
            for job in jobs:
                job.given_up = job.given_up or why
                if job in self._waiting[job.lane]:
                    job.urgency = Urgency.GIVEN_UP
                    heapq.heapify(self._waiting[job.lane])
        for job in jobs:  # not under the lock: whoever waits may ask for something else
            if not job.future.cancelled():
                job.fail(Superseded(why))

    def _run(self, lane: Lane) -> None:
        if sys.platform == "linux" and lane is not Lane.FILES:
            os.nice(NICENESS)
        while (job := self._take(lane)) is not None:
            self._do(job)
            del job  # while nothing is wanted, nothing is kept
        with self._changed:
            self._at_work -= 1
        self._end()

    def _end(self) -> None:
        """Close what has begun, and do what comes last, once no lane is at work any more."""
        with self._changed:
            if self._at_work:
                return
            begun = [job.work for job in self._known() if job.work is not None]
            last, self._last = self._last, []
            self._waiting = {lane: [] for lane in Lane}
        for work in begun:
            work.close()
        for each in last:
            each()

    def _take(self, lane: Lane) -> _Job | None:
        """Wait for the most urgent job of a lane; None when it is to end."""
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
            with self._threads_of_a_lane(job.lane):
                job.work = job.work or job.make()
                lane = next(job.work)
        except StopIteration as ended:
            self._forget(job)
            with contextlib.suppress(InvalidStateError):
                job.future.set_result(ended.value)
        except Interrupted:
            job.work = None  # to be begun again: what is cached of it is not done twice
            self._go_on(job, job.lane)
        except BaseException as error:  # the lane outlives whatever a job does
            self._forget(job)
            job.fail(_answer_of(error))
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
    def _threads_of_a_lane(self, lane: Lane) -> Any:
        """Let linear algebra on this thread have its share of the threads, for one unit.

        OpenMP's number of threads belongs to the calling thread, once that has asked for it; what later threads begin
        with is the number that was set last, wherever that was.
        """
        torch = sys.modules.get("torch")
        if lane is Lane.FILES or not hasattr(torch, "set_num_threads"):
            yield
            return
        assert torch is not None
        own = torch.get_num_threads()
        all_threads = _all_threads.setdefault("torch", own)
        busy = len({job.lane for job in list(self._running.values())} - {Lane.FILES})
        torch.set_num_threads(max(1, all_threads // max(1, busy)))
        try:
            yield
        finally:
            torch.set_num_threads(all_threads)


def _answer_of(error: BaseException) -> BaseException:
    """Give the error that a future fails with: of what nobody foresaw one line, with the traceback in the log."""
    if isinstance(error, EngineError):
        return _without_values(error)
    unforeseen = EngineError(write_log(error))
    unforeseen.__cause__ = _without_values(error)
    return unforeseen


def _without_values(error: BaseException) -> BaseException:
    """Let an error that is kept say where it was raised, without keeping what the functions there were working on.

    Else a screen that remembers why there is no table would hold the model's weights. Of work that was given up nobody
    asks where.
    """
    if isinstance(error, Superseded):
        return error.with_traceback(None)
    each: BaseException | None = error
    seen: set[int] = set()
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
    own = error.__traceback__
    return error.with_traceback(None if own is None else own.tb_next)  # the first frame, of the queue, is at work


# --- the end of a program

_ending: weakref.WeakKeyDictionary[threading.Thread, Callable[[], object]] = weakref.WeakKeyDictionary()


def end_with_program(thread: threading.Thread, stop: Callable[[], object]) -> None:
    """Have a daemon thread told to stop, and waited for, at the end of the program.

    One that comes back from torch once the interpreter has begun to go is ended in the middle of C++ code, which aborts
    the process (CPython issue 87135).
    """
    _ending[thread] = stop


def _join(threads: list[threading.Thread], seconds: float) -> bool:
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


@atexit.register
def _end_all() -> None:
    """Stop all threads; where a unit takes longer than may be waited for, end the process without its clean-up."""
    at_work = [(thread, stop) for thread, stop in list(_ending.items()) if thread.is_alive()]
    for _, stop in at_work:
        stop()
    if not _join([thread for thread, _ in at_work], LONGEST_WAIT):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        remove_partial_files()
        os._exit(int(hasattr(sys, "last_value")))
