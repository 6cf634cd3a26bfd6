"""Long work: how far it has come, the units it is done in, and the lanes that do them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar

from engine.values.errors import Interrupted


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


def in_a_unit(compute: Callable[[], Answer]) -> Work[Answer]:
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
