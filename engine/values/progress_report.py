"""How far slow work on a model has come, reported a few times a second: bytes of weights, layers of a sentence."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from engine.values.progress import Progress

EVERY = 0.3
"""Seconds between two reports, and before the first: nothing is reported of work that is done sooner."""

WINDOW = 20.0
"""Seconds over which a rate is averaged; with fewer the estimate would jump with every hiccup of a network."""

ENOUGH = 1.0
"""Seconds after which there is a rate."""

READING, LOADING = "reading the sentence", "loading the weights"
"""Activities that a sentence waits for."""

PREDICTING = "predicting"
FOLLOWING = "following the residual stream"
TAKING_APART = "taking the logit apart"
SWITCHING = "switching heads off"
AVERAGING = "averaging what heads give"
"""Activities for which a model runs that has a table to fill."""

Tell = Callable[[Progress], None]


def tell_nobody(progress: Progress) -> None:
    """Drop a report."""


class Pace:
    """The mean rate over the last `WINDOW` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float | None:
        """Take note of what is done by now and give the rate.

        Parameters
        ----------
        now : in seconds, on a clock that never goes back.
        done : how much is done of it.

        Returns
        -------
        rate : per second; None while too little time has passed to tell, or where nothing was done in it.
        """
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        if now - since < ENOUGH or done <= before:
            return None
        return (done - before) / (now - since)


class ProgressReporter:
    """Reports how far one piece of work is, unless it is soon done.

    Parameters
    ----------
    tell : gets the reports.
    activity, unit : as `Progress` has them.
    """

    def __init__(self, tell: Tell, activity: str, unit: str) -> None:
        self._tell = tell
        self._activity, self._unit = activity, unit
        self._pace = Pace()
        self._due = time.monotonic() + EVERY
        self._total = self._begun = 0
        self._has_told = False

    def __call__(self, done: int, total: int) -> None:
        """Say how much is done; total 0 means that it is not known. A report goes out where one is due."""
        now = time.monotonic()
        if total and not self._total:
            self._total = total
            self._pace.rate(now, done)
        if now >= self._due and total:
            self._due, self._has_told = now + EVERY, True
            rate = self._pace.rate(now, done)
            self._tell(Progress(self._activity, min(done, total), total, self._unit, rate))

    def step(self, total: int) -> None:
        """Begin the next of so many steps: those before it are done."""
        self(self._begun, total)
        self._begun += 1

    def end(self) -> None:
        """Report the end, if anything was reported."""
        if self._has_told:
            self._has_told = False
            self._tell(Progress(self._activity, self._total, self._total, self._unit))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class LayersRun:
    """Counts the layers that a model runs for one answer, for which it runs once or several times.

    Parameters
    ----------
    tell : gets the reports.
    activity : as `Progress` has it.
    layers : that the model runs each time.
    runs : how often; where it is 0, nothing is reported.
    """

    def __init__(self, tell: Tell, activity: str, layers: int, runs: int) -> None:
        self._report = ProgressReporter(tell, activity, "layers" if runs == 1 else "layers run")
        self._layers, self._runs = layers, runs
        self._finished = self._begun = 0

    @contextmanager
    def one(self) -> Iterator[Callable[[], None]]:
        """Run the model once, calling what is given before each layer; a run that fails is counted anew."""
        self._begun = 0
        yield self._step
        self._finished += 1

    def _step(self) -> None:
        before = self._finished * self._layers
        self._report(before + min(self._begun, self._layers), self._runs * self._layers)
        self._begun += 1

    def end(self) -> None:
        """Report the end."""
        self._report.end()


NO_RUNS = LayersRun(tell_nobody, "", 0, 0)
"""Of runs that nobody hears of."""


def in_heads(tell: Tell, heads: int, done: Callable[[], int], layers: int) -> Tell:
    """Report in heads what is counted in layers: how many heads were tried, and the layer of the run that tries more.

    Parameters
    ----------
    tell : gets the reports.
    heads : that are tried in all.
    done : gives how many have been.
    layers : that the model runs each time.
    """

    def tell_heads(progress: Progress) -> None:
        rate = None if progress.rate is None else progress.rate * heads / progress.total
        note = "" if progress.finished else f"layer {progress.done % layers + 1} of {layers}"
        count = heads if progress.finished else done()
        tell(replace(progress, done=count, total=heads, unit="heads", rate=rate, note=note))

    return tell_heads
