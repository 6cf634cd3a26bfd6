"""A line of progress on a terminal, for the commands beside the explorer."""

from __future__ import annotations

import shutil
import time
from typing import Self, TextIO

from engine.values.progress import Progress
from tui.drawing.progress import progress_text

INTERVAL = 0.1
"""Seconds between two updates of the line."""


class StatusLine:
    """Shows progress on a terminal, and erases it when the work ends; elsewhere it shows none."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = stream.isatty()
        self._last = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._write("")
        self._is_shown = False  # the engine's thread may still report

    def show(self, progress: Progress) -> None:
        """Show how far the work has come."""
        if time.monotonic() - self._last >= INTERVAL or progress.finished:
            self._last = time.monotonic()
            self._write(progress_text(progress))

    def say(self, notice: str) -> None:
        """Write a notice that stays, also where there is no terminal."""
        self._write("")
        self._stream.write(f"attn-tui: {notice}\n")
        self._stream.flush()

    def _write(self, text: str) -> None:
        if self._is_shown:
            room = shutil.get_terminal_size().columns - 1  # a longer text would wrap, and stay
            text = text[: max(room, 0)]
            self._stream.write(f"\r{text:<{self._width}}" + ("" if text else "\r"))
            self._stream.flush()
            self._width = len(text)
