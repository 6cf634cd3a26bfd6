"""Long work: its units, the lanes that do them, and reports of its progress."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self, TypeAlias, TypeVar

REPORT_SECONDS = 0.3
"""Seconds between two reports, and before the first: shorter work is not reported."""

RATE_WINDOW = 20.0
"""Seconds over which a rate is averaged, so that a network's hiccups do not make the estimate jump."""

RATE_SECONDS = 1.0
"""Seconds before the first rate."""

READING, LOADING = "reading the sentence", "reading weights"
IMPORTING_TORCH, IMPORTING_TRANSFORMERS = "importing torch", "importing transformers"
"""Activities that a sentence waits for; the progress of an import is its seconds, as its end is unknown."""

PREDICTING = "predicting"
FOLLOWING = "following the residual stream"
TAKING_APART = "splitting the logit"
SWITCHING = "switching heads off"
AVERAGING = "averaging head outputs"
"""Activities that run the model for a table."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Work done of work known, in one unit.

    Attributes
    ----------
    activity : in words ("spectra", "downloading gpt2").
    done, total : counted in ``unit``; a total of 0 is unknown.
    unit : "heads", "bytes", ...
    rate : per second; None if unknown.
    note : shown beside it ("file 3 of 7", "connection lost, trying again").
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
        """The estimated seconds for the rest, if the rate is known."""
        return None if not self.rate else max(self.total - self.done, 0) / self.rate


Tell = Callable[[Progress], None]


DONE = Progress("", 1, 1, "")
"""Nothing more is to come of what was reported before."""


def tell_nobody(said: object) -> None:
    """Drop a report or a notice."""


class Rate:
    """The mean rate over the last `RATE_WINDOW` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float | None:
        """Note what is done by now, in seconds of a monotonic clock, and return the rate.

        Returns
        -------
        rate : per second; None after too little time, or if nothing was done.
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
    """Reports the progress of one piece of work, unless it is soon done."""

    tell: Tell
    activity: str
    unit: str
    _rate: Rate = field(default_factory=Rate)
    _due: float = field(default_factory=lambda: time.monotonic() + REPORT_SECONDS)
    _total: int = 0
    _begun: int = 0
    _has_told: bool = False

    def __call__(self, done: int, total: int) -> None:
        """Note how much is done (a total of 0 is unknown), and report it if a report is due."""
        now = time.monotonic()
        if total and not self._total:
            self._total = total
            self._rate.rate(now, done)
        if now >= self._due and total:
            self._due, self._has_told = now + REPORT_SECONDS, True
            self.tell(Progress(self.activity, min(done, total), total, self.unit, self._rate.rate(now, done)))

    def step(self, total: int) -> None:
        """Begin the next of so many steps."""
        self(self._begun, total)
        self._begun += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Report the end, if anything was reported."""
        if self._has_told:
            self.tell(Progress(self.activity, self._total, self._total, self.unit))


def in_heads(tell: Tell, heads: int, done: Callable[[], int], layers: int) -> Tell:
    """Report in heads what is counted in layers, with the layer that runs as a note."""

    def tell_heads(progress: Progress) -> None:
        rate = None if progress.rate is None else progress.rate * heads / progress.total
        note = "" if progress.finished else f"layer {progress.done % layers + 1} of {layers}"
        count = heads if progress.finished else done()
        tell(replace(progress, done=count, total=heads, unit="heads", rate=rate, note=note))

    return tell_heads


class Lane(Enum):
    """A thread of the queue; each lane does one unit at a time."""

    WEIGHTS = "weights"
    """Heads, and other units of less than some tenths of a second."""

    LAYERS = "layers"
    """Dense problems of whole layers, which cannot be interrupted and may take seconds."""

    MODEL = "model"
    """Loading and running the model."""

    FILES = "files"
    """Finding and downloading models, and importing libraries."""


Answer = TypeVar("Answer")
Work: TypeAlias = Generator[Lane | None, None, Answer]
"""Work in units: it yields the lane that does the next unit, or None for the present one."""


def finish(work: Generator[object, None, Answer]) -> Answer:
    """Do work to its end on the calling thread, and return its answer."""
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
