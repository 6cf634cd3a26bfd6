"""What a person may choose about how the engine works."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Choices for one run.

    Attributes
    ----------
    device : ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
    dtype : in which the model runs a sentence; ``auto`` keeps the stored one. Spectra are always float64.
    revision : branch, tag or commit of a Hub model.
    use_cache : whether spectra are kept on disk between runs.
    trust_remote_code : whether code that comes with a model may run.
    base : the model that an adapter changes; None takes the one that the adapter names.
    other : a second model to be seen beside the one that is opened; None where there is none, unless
        ``other_revision`` names another revision of the same.
    other_revision : branch, tag or commit of the second model.
    is_browsing : whether heads and layers are walked past, so that what takes much memory is left to a command that
        asks for it.
    keep_recent : whether models that are opened are remembered, and those of earlier runs listed.
    layout : a file that describes the heads of a bare state dict; None where the model describes itself.
    """

    device: str = "auto"
    dtype: str = "auto"
    revision: str | None = None
    use_cache: bool = True
    trust_remote_code: bool = False
    base: str | None = None
    layout: Path | None = None
    other: str | None = None
    other_revision: str | None = None
    keep_recent: bool = True
    is_browsing: bool = False

    def for_another_model(self) -> EngineOptions:
        """Leave out what is meant of the one model that these were given for."""
        return replace(self, revision=None, base=None, layout=None, other=None, other_revision=None)

    @property
    def is_comparing(self) -> bool:
        """Whether a second model is asked for."""
        return self.other is not None or self.other_revision is not None


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
