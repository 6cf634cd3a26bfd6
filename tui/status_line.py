"""One line on standard error that says how far long work has come, when a person is looking."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

    from engine.values.progress import Progress

INTERVAL = 0.1
"""Seconds between two writes; more would only scroll by."""


def describe(progress: Progress) -> str:
    """Write progress as people read it: ``downloading gpt2 12.3 / 548.1 MB``."""
    if progress.unit == "bytes":
        done, total = f"{progress.done / 1e6:.1f}", f"{progress.total / 1e6:.1f}"
        return f"{progress.activity} {done:>{len(total)}} / {total} MB"
    done = f"{progress.done:>{len(str(progress.total))}}"  # as wide from first to last: nothing moves beside it
    return f"{progress.activity} {done} / {progress.total} {progress.unit}"


class StatusLine:
    """Shows progress on a terminal and wipes it when the work ends; elsewhere it writes nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()
        self._last = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, progress: Progress) -> None:
        """Show how far the work has come."""
        if time.monotonic() - self._last >= INTERVAL or progress.finished:
            self._last = time.monotonic()
            self._write(describe(progress))

    def _write(self, text: str) -> None:
        """Replace what the line says."""
        if self._is_shown:
            self._stream.write(f"\r{text:<{self._width}}" + ("" if text else "\r"))
            self._stream.flush()
            self._width = len(text)
