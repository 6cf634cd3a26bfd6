"""Whether what a sentence needs fits into memory; asked before it is tried."""

from __future__ import annotations

from pathlib import Path

from engine.values.errors import EngineError

_SYSTEM = Path("/proc/meminfo")
_CONTROL_GROUP = Path("/sys/fs/cgroup")

WEIGHT_BYTES = 4
"""Of one weight of a map: they are float32."""


def free_memory() -> int | None:
    """Give the bytes that can still be had without swapping, or None where the system does not tell.

    They are those of Linux (``MemAvailable`` of proc(5)), and no more than the limit of the control group that this
    process is in, if it has one, leaves.
    """
    try:
        fields = dict(line.split(":", 1) for line in _SYSTEM.read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, LookupError):
        return None
    try:
        limit, used = (int((_CONTROL_GROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        kept = dict(line.split() for line in (_CONTROL_GROUP / "memory.stat").read_text().splitlines())
        return min(free, limit - used + int(kept.get("inactive_file", 0)))
    except (OSError, ValueError):
        return free


def need_room(heads: int, queries: int, keys: int, copies: int = 1) -> None:
    """Refuse a sentence whose maps do not fit.

    Parameters
    ----------
    heads, queries, keys : of one layer's maps.
    copies : how many of them are held at a time while they are made.

    Raises
    ------
    EngineError : when there is less memory than they need.
    """
    needed, free = heads * queries * keys * WEIGHT_BYTES, free_memory()
    if free is not None and copies * needed > free:
        while_made = f", {copies} times that while they are made," if copies > 1 else ""
        raise EngineError(
            f"one layer's maps of {max(queries, keys)} tokens need {needed / 1e9:.1f} GB{while_made} and "
            f"{free / 1e9:.1f} GB are free; type a shorter sentence; the spectra still work"
        )
