"""The log: errors that nobody foresaw, in full, and as much else as was asked for; what a person reads is one line.

What it holds can be shown on a terminal: control characters are written as escapes.
Of a person's own it has the names of models and files, where an error names them; sentences are not written into it.
"""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from datetime import datetime
from typing import TextIO

from engine.store.files import log_file
from engine.values.display_text import visible_lines

LEVELS = ("error", "warning", "debug")
"""What is written: errors nobody foresaw; what is said of lesser things too; and all tracebacks."""

VARIABLE = "ATTN_TUI_LOG"
"""Names one of the levels."""

LARGEST = 1_000_000
"""Bytes from which on the log begins anew; the one before is kept beside it."""


def writes(level: str) -> bool:
    """Say whether something of a level goes into the log; a name that is no level stands for the first."""
    wanted = os.environ.get(VARIABLE, "").lower()
    return LEVELS.index(level) <= (LEVELS.index(wanted) if wanted in LEVELS else 0)


def write_log(error: BaseException) -> str:
    """Keep an error that nobody foresaw with its traceback in the log; give the line that a person reads."""
    where = "see its traceback with --debug"
    if _append("".join(traceback.format_exception(error))):
        where = f"its traceback is in {log_file()}"
    reason = str(error).strip().partition("\n")[0]
    return f"unexpected {type(error).__name__}: {reason}; {where}"


def note(level: str, said: str) -> None:
    """Keep a line in the log, where things of its level are."""
    if writes(level):
        _append(f"{level}: {said}\n")


def keep_warnings() -> None:
    """Write the warnings of libraries into the log, where such things are, and none on standard error."""

    def keep(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        note("warning", f"{filename}:{lineno}: {category.__name__}: {message}")

    warnings.showwarning = keep


def _append(text: str) -> bool:
    """Write at the end of the log; say whether that could be done."""
    place = log_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if place.stat().st_size > LARGEST:
                place.replace(place.with_suffix(".old.log"))
        with place.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} [{os.getpid()}]\n{visible_lines(text)}\n")
    except OSError:
        return False
    return True
