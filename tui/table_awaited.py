"""What is said while a table is waited for: what the engine is at, how far that is, and how it is given up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from engine.values.progress import SWITCHING, Progress, Rate
from tui.drawing.view_titles import COMPUTING
from tui.status_line import how_far


class TableAwaited:
    """What is known of how far a table is.

    Parameters
    ----------
    stop : gives the key that gives it up.
    """

    def __init__(self, stop: Callable[[], str]) -> None:
        self._stop = stop
        self._told: Progress | None = None
        self._swept: Progress | None = None
        self._pace = Rate()

    def begin(self) -> None:
        """Wait for another table."""
        self._told = self._swept = None
        self._pace = Rate()

    def sweep(self, name: str, done: int, heads: int) -> Progress:
        """Note how many heads a table is through that is worked out head by head, and give that as it is shown."""
        self._swept = Progress(name, done, heads, "heads", self._pace.rate(time.monotonic(), done))
        return self._swept

    def end(self) -> None:
        """Wait for nothing."""
        self._told = self._swept = None

    def advance(self, progress: Progress) -> Progress:
        """Note how far the engine is, and give that as it is shown: to a layer's heads those before are added."""
        shown, before = progress, self._swept
        if before is not None and progress.activity == SWITCHING:
            shown = replace(progress, activity=before.activity, done=before.done + progress.done, total=before.total)
        elif before is not None and progress.finished:
            shown = before
        self._told = None if shown.finished else shown
        return shown

    @property
    def message(self) -> str:
        """What stands where the table will be."""
        if self._told is None:
            return COMPUTING
        return f"{self._told.activity}: {how_far(self._told)}; {self._stop()} stops"
