"""How many threads linear algebra has."""

from __future__ import annotations

import os


def threads_asked_for() -> int | None:
    """Give what ``OMP_NUM_THREADS`` says; of a list, which is for threads that begin threads, the first number."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) or None if first.isascii() and first.isdigit() else None


def limit_threads(threads: int | None) -> int:
    """Choose how many threads linear algebra uses; must be called before NumPy, torch or Polars is imported.

    By default as many as this process may use, at most sixteen; a person's own ``OMP_NUM_THREADS`` is left alone.
    Threads that wait are made to sleep: by default OpenMP's spin, and beside one other busy process the same singular
    values then take over ten times as long.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = threads or threads_asked_for() or min(16, available)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ[variable] = str(chosen)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return chosen
