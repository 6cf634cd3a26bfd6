"""One daemon thread that does the work, most urgent first.

Work is a plain function that is handed a ``breathe`` callable and calls it between its steps. There, more urgent work
that has come in meanwhile is done first, on the same thread, and work that nobody waits for any more is given up. So a
long forward pass lets a key press through without being torn into pieces by hand.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import traceback
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from engine.service.ending import wait_for
from engine.service.log import note, write_log, writes
from engine.values.errors import EngineError, Superseded

Answer = TypeVar("Answer")
Breathe = Callable[[], None]
Work = Callable[[Breathe], Answer]

BEHIND: ContextVar[str] = ContextVar("BEHIND", default="")
"""On a thread that asks for what nobody looks at: the view that its requests are for, so that they can be given up."""


class Urgency(IntEnum):
    """How soon work is wanted; smaller is sooner. What is known takes no time, and is said whatever is computed."""

    KNOWN = -1
    SELECTED = 0
    SENTENCE = 1
    OPENING = 2
    LARGE = 3
    SWEEP = 4

    @property
    def behind(self) -> Urgency:
        """How soon the same is wanted by somebody who works behind what is looked at.

        What runs the model waits for others that do, so that no two are in the model at once, and takes its turn.
        """
        return self if self is Urgency.SENTENCE else max(self, Urgency.LARGE)


@dataclass(order=True)
class _Job:
    """Work in the queue, in the order of urgency and then of arrival."""

    urgency: int
    arrival: int
    work: Work[Any] = field(compare=False)
    future: Future[Any] = field(compare=False)
    given_up: bool = field(default=False, compare=False)


class EngineThread:
    """The queue and the thread that empties it; every public method may be called from any thread."""

    def __init__(self) -> None:
        self._jobs: list[_Job] = []
        self._latest: dict[str, _Job] = {}
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._has_ended = threading.Event()
        self._last: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        stop = weakref.WeakMethod(self.stop)
        wait_for(self._thread, lambda: (known := stop()) and known())
        self._thread.start()

    def submit(self, work: Work[Answer], urgency: Urgency, view: str = "") -> Future[Answer]:
        """Queue work.

        Parameters
        ----------
        work : called on the engine thread with ``breathe``.
        urgency : what it may overtake.
        view : what the answer is for; earlier work for the same view is given up and its future
            fails with `Superseded`. Empty: nothing is replaced.
        """
        future: Future[Answer] = Future()
        if behind := BEHIND.get():
            view, urgency = behind, urgency.behind
        job = _Job(int(urgency), next(self._arrivals), work, future)
        with self._changed:
            if view:
                self._give_up(view)
                self._latest[view] = job
            if self._stopped:
                future.set_exception(Superseded("the engine has been stopped"))
            else:
                heapq.heappush(self._jobs, job)
                self._changed.notify()
        return future

    def give_up(self, view: str) -> None:
        """Stop the work for a view at its next step, or before it starts."""
        with self._changed:
            self._give_up(view)

    def stop(self, last: Callable[[], None] | None = None) -> None:
        """Give up everything; the thread ends at its next step, and never keeps the process alive.

        Parameters
        ----------
        last : called on the thread once no work is done any more, unless it has ended already.
        """
        with self._changed:
            self._stopped = True
            if last is not None:
                self._last.append(last)
            waiting, self._jobs = self._jobs, []
            for job in waiting:
                job.given_up = True
                if job.future.set_running_or_notify_cancel():
                    job.future.set_exception(Superseded("the engine has been stopped"))
            for view in list(self._latest):
                self._give_up(view)
            self._changed.notify()

    def join(self, seconds: float) -> None:
        """Wait until no work is done any more, but no longer than that."""
        self._has_ended.wait(seconds)

    def _give_up(self, view: str) -> None:
        """Mark the work for a view, and answer at once for what has not begun; the lock is held."""
        job = self._latest.pop(view, None)
        if job is None:
            return
        job.given_up = True
        if job in self._jobs:
            self._jobs.remove(job)
            heapq.heapify(self._jobs)
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Superseded("replaced by a newer request"))

    def _next(self, below: int | None) -> _Job | None:
        """Take the most urgent job; with ``below``, only one more urgent than that, else wait for one."""
        with self._changed:
            while below is None and not self._jobs and not self._stopped:
                self._changed.wait()
            if not self._jobs or (below is not None and self._jobs[0].urgency >= below):
                return None
            return heapq.heappop(self._jobs)

    def _run(self) -> None:
        """Do jobs until told to stop."""
        while not self._stopped:
            job = self._next(below=None)
            if job is not None:
                self._do(job)
        self._has_ended.set()
        while self._last:
            self._last.pop()()

    def _do(self, job: _Job) -> None:
        """Do one job; whatever it raises is its answer."""

        def breathe() -> None:
            if job.given_up or self._stopped:
                raise Superseded("replaced by a newer request")
            while (urgent := self._next(below=job.urgency)) is not None:
                self._do(urgent)
            if job.given_up or self._stopped:
                raise Superseded("replaced by a newer request")

        if not job.future.set_running_or_notify_cancel():
            return
        try:
            breathe()
            answer = job.work(breathe)
        except EngineError as error:
            if writes("debug") and not isinstance(error, Superseded):
                note("debug", "".join(traceback.format_exception(error)))
            job.future.set_exception(_without_values(error))
        except BaseException as error:  # the thread outlives whatever a job does
            unforeseen = EngineError(write_log(error))
            unforeseen.__cause__ = _without_values(error)
            job.future.set_exception(unforeseen)
        else:
            job.future.set_result(answer)


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
    return error.with_traceback(None if own is None else own.tb_next)  # the first frame, of the job, is still at work
