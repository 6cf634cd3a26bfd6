"""Long work: the units it is done in, the lanes that do them, and reports of how far it has come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self, TypeAlias, TypeVar

from engine.values.errors import Interrupted

REPORT_SECONDS = 0.3
"""Seconds between two reports, and before the first: nothing is reported of work that is done sooner."""

RATE_WINDOW = 20.0
"""Seconds over which a rate is averaged; with fewer the estimate would jump with every hiccup of a network."""

RATE_SECONDS = 1.0
"""Seconds after which there is a rate."""

READING, LOADING = "reading the sentence", "reading weights"
IMPORTING_TORCH, IMPORTING_TRANSFORMERS = "importing torch", "importing transformers"
PHASES = (IMPORTING_TORCH, IMPORTING_TRANSFORMERS, LOADING, READING)
"""Activities that a sentence waits for; of an import the seconds are counted, as nobody knows when it ends."""

PREDICTING = "predicting"
FOLLOWING = "following the residual stream"
TAKING_APART = "splitting the logit"
SWITCHING = "switching heads off"
AVERAGING = "averaging head outputs"
"""Activities for which a model runs that has a table to fill."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Work done of work known, in one unit.

    Attributes
    ----------
    activity : what is being done, in words ("spectra", "downloading gpt2").
    done, total : counted in ``unit``; total 0 means that the amount is not known.
    unit : "heads", "bytes", ...
    rate : how much is done per second; None where that is not known.
    note : what is to be said beside it ("file 3 of 7", "connection lost, trying again").
    """

    activity: str
    done: int
    total: int
    unit: str
    rate: float | None = None
    note: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.total > 0 and self.done >= self.total

    @property
    def remaining(self) -> float | None:
        """Estimate the seconds that the rest takes, where the rate is known."""
        return None if not self.rate else max(self.total - self.done, 0) / self.rate


Tell = Callable[[Progress], None]


def tell_nobody(progress: Progress) -> None:
    """Drop a report."""


class Rate:
    """The mean rate over the last `RATE_WINDOW` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float | None:
        """Take note of what is done by now, in seconds on a clock that never goes back, and give the rate.

        Returns
        -------
        rate : per second; None while too little time has passed to tell, or where nothing was done in it.
        """
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        if now - since < RATE_SECONDS or done <= before:
            return None
        return (done - before) / (now - since)


@dataclass
class ProgressReporter:
    """Reports how far one piece of work is, unless it is soon done."""

    tell: Tell
    activity: str
    unit: str
    _rate: Rate | None = None
    _due: float = field(default_factory=lambda: time.monotonic() + REPORT_SECONDS)
    _total: int = 0
    _begun: int = 0
    _first: tuple[float, int] = 0.0, 0
    _has_told: bool = False

    def __call__(self, done: int, total: int) -> None:
        """Say how much is done; total 0 means that it is not known. A report goes out where one is due."""
        now = time.monotonic()
        if total and not self._total:
            self._total, self._first = total, (now, done)
        if now >= self._due and total:
            if self._rate is None:
                self._rate = Rate()
                self._rate.rate(*self._first)
            self._due, self._has_told = now + REPORT_SECONDS, True
            self.tell(Progress(self.activity, min(done, total), total, self.unit, self._rate.rate(now, done)))

    def step(self, total: int) -> None:
        """Begin the next of so many steps: those before it are done."""
        self(self._begun, total)
        self._begun += 1

    def end(self) -> None:
        """Report the end, if anything was reported."""
        if self._has_told:
            self._has_told = False
            self.tell(Progress(self.activity, self._total, self._total, self.unit))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


def in_heads(tell: Tell, heads: int, done: Callable[[], int], layers: int) -> Tell:
    """Report in heads what is counted in layers: the heads tried, and the layer of the run that tries more."""

    def tell_heads(progress: Progress) -> None:
        rate = None if progress.rate is None else progress.rate * heads / progress.total
        note = "" if progress.finished else f"layer {progress.done % layers + 1} of {layers}"
        count = heads if progress.finished else done()
        tell(replace(progress, done=count, total=heads, unit="heads", rate=rate, note=note))

    return tell_heads


class Lane(Enum):
    """The thread of the queue that work is done on.

    Each lane does one unit at a time, so that two units of one lane never run at once.
    """

    WEIGHTS = "weights"
    """Heads, and whatever else takes less than some tenths of a second a unit."""

    LAYERS = "layers"
    """Dense problems of whole layers, which cannot be interrupted and may take seconds."""

    MODEL = "model"
    """Whatever loads or runs the model."""

    FILES = "files"
    """Finding and downloading models, and importing libraries."""


Answer = TypeVar("Answer")
Work: TypeAlias = Generator[Lane | None, None, Answer]
"""Work in units: a lane that is yielded is where what follows is done, None stays on the present one."""


def finish(work: Generator[object, None, Answer]) -> Answer:
    """Do work to its end, on the calling thread, and give its answer."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer


def one_unit(compute: Callable[[], Answer]) -> Work[Answer]:
    """Make work of one unit."""
    yield from ()
    return compute()


def restartable(unit: Callable[[], Answer]) -> Work[Answer]:
    """Do one long unit, from its beginning again whenever it was interrupted for more urgent work.

    A unit is interrupted by `Interrupted`, which ``check`` raises only in a sweep.
    """
    while True:
        try:
            return unit()
        except Interrupted:
            yield None
