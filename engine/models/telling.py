"""How far slow work on a model has come, told a few times a second: the layers of a sentence, the bytes of weights."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from engine.models.pace import Pace
from engine.values.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor, nn

EVERY = 0.3
"""Seconds between two reports, and before the first: of what is done sooner nothing is told."""

READING, LOADING = "reading the sentence", "loading the weights"
"""What is told of where a sentence is waited for; tables tell of what they are made by under names of their own."""

Tell = Callable[[Progress], None]


def nobody(progress: Progress) -> None:
    """Let a report pass."""


class Telling:
    """Tells how far one piece of work is, unless it is soon done.

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
        """Say how much is done, of nothing while that is not known; a report goes out where one is due."""
        now = time.monotonic()
        if total and not self._total:
            self._total = total
            self._pace.rate(now, done)
        if now >= self._due and total:
            self._due, self._has_told = now + EVERY, True
            rate = self._pace.rate(now, done)
            self._tell(Progress(self._activity, min(done, total), total, self._unit, rate))

    def next(self, breathe: Callable[[], None], total: int) -> None:
        """Begin the next of so many steps: those before it are done, and more urgent work is let through."""
        breathe()
        self(self._begun, total)
        self._begun += 1

    def end(self) -> None:
        """Say that no more is to come, to whom anything was told."""
        if self._has_told:
            self._has_told = False
            self._tell(Progress(self._activity, self._total, self._total, self._unit))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class WeightCount:
    """The bytes of a model's weights that are there, of all that it has, while it is being loaded.

    A model is made without memory first, and then each weight is put in its place.

    Attributes
    ----------
    done : bytes that are there.
    """

    def __init__(self) -> None:
        self.done = self._made = 0

    @property
    def total(self) -> int:
        """Bytes of all weights; 0 until the first is in its place, for until then the model is being made."""
        return self._made if self.done else 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the weights that this thread puts into modules."""
        from torch.nn.modules.module import register_module_parameter_registration_hook

        own = threading.get_ident()

        def count(module: nn.Module, name: str, parameter: Tensor | None) -> None:
            if parameter is None or threading.get_ident() != own:
                return
            if parameter.is_meta:
                self._made += parameter.nbytes
            elif self._made:
                self.done += parameter.nbytes

        hook = register_module_parameter_registration_hook(count)
        try:
            yield
        finally:
            hook.remove()
