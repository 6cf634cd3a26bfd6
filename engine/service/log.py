"""Errors that nobody foresaw, kept in full in a file, and said in one line."""

from __future__ import annotations

import traceback
from datetime import datetime

from engine.service.options import log_file


def write_log(error: BaseException) -> str:
    """Keep an error with its traceback in the log; give the line that a person reads."""
    place = log_file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a", encoding="utf-8") as log:
            log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}\n{''.join(traceback.format_exception(error))}\n")
        where = f"its traceback is in {place}"
    except OSError:
        where = "see its traceback with --debug"
    reason = str(error).strip().partition("\n")[0]
    return f"unexpected {type(error).__name__}: {reason}; {where}"
