"""Progress of long work in words."""

from __future__ import annotations

import math

from engine.values.display_text import size
from engine.values.progress import Progress


def duration(seconds: float) -> str:
    """Format a duration, no finer than it can be foreseen.

    Examples
    --------
    >>> duration(8.2), duration(48), duration(190), duration(7500)
    ('9 s', '50 s', '4 min', '2 h 5 min')
    """
    if seconds <= 10:
        return f"{math.ceil(seconds)} s"
    if seconds <= 90:
        return f"{math.ceil(seconds / 5) * 5} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def time_left(progress: Progress) -> str:
    """Format the remaining time; empty if unknown."""
    return "" if progress.remaining is None or progress.finished else f"{duration(progress.remaining)} left"


def progress_text(progress: Progress) -> str:
    """Format progress: ``downloading gpt2 12.3 / 548.1 MB · 9.8 MB/s · 55 s left``.

    Examples
    --------
    >>> progress_text(Progress("importing torch", 3, 0, "seconds")), progress_text(Progress("compressing", 0, 0, ""))
    ('importing torch 3 s', 'compressing …')
    """
    if progress.unit == "seconds":
        return f"{progress.activity} {progress.done} s"
    if not progress.total:
        return " · ".join(filter(None, (f"{progress.activity} …", progress.note)))
    if progress.unit == "bytes":
        digits = 1 if progress.total < 1e8 else 0
        done, total = f"{progress.done / 1e6:.{digits}f}", f"{progress.total / 1e6:.{digits}f}"
        amount = f"{progress.activity} {done:>{len(total)}} / {total} MB"
        speed = "" if progress.rate is None else f"{size(int(progress.rate))}/s"
        return " · ".join(filter(None, (amount, speed, time_left(progress), progress.note)))
    unit = progress.unit.removesuffix("s") if progress.total == 1 else progress.unit
    done = f"{progress.done:>{len(str(progress.total))}}"  # of constant width, so that nothing beside it moves
    amount = f"{progress.activity} {done} / {progress.total} {unit}"
    return " · ".join(filter(None, (amount, progress.note, time_left(progress))))


def progress_bar(progress: Progress) -> str:
    """Draw progress as a bar of eight cells; empty if its end is unknown.

    Examples
    --------
    >>> progress_bar(Progress("sweep", 9, 12, "layers")), progress_bar(Progress("", 1, 1000, "layers"))
    ('▮▮▮▮▮▮▯▯', '▯▯▯▯▯▯▯▯')
    """
    full = 8 * progress.done // progress.total if progress.total else 0
    return "▮" * min(full, 8) + "▯" * (8 - full) if progress.total else ""
