"""The log: errors that nobody foresaw, in full; what a person reads of one is a line.

What it holds can be shown on a terminal: control characters are written as escapes.
Of a person's own it has the names of models and files, where an error names them; sentences are not written into it.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from datetime import datetime

from engine.store.files import log_file
from engine.values.display_text import visible_lines

LARGEST = 1_000_000
"""Bytes from which on the log begins anew; the one before is kept beside it."""


def write_log(error: BaseException) -> str:
    """Keep an error that nobody foresaw with its traceback in the log; give the line that a person reads."""
    place, text = log_file(), "".join(traceback.format_exception(error))
    where = f"its traceback is in {place}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if place.stat().st_size > LARGEST:
                place.replace(place.with_suffix(".old.log"))
        with place.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S} [{os.getpid()}]\n{visible_lines(text)}\n")
    except OSError:
        where = "see its traceback with --debug"
    reason = str(error).strip().partition("\n")[0]
    return f"unexpected {type(error).__name__}: {reason}; {where}"
