"""Options of the engine."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from engine.values.errors import EngineError

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of one run; `EngineError` for a device or dtype of no such name.

    Attributes
    ----------
    device : ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
    dtype : of `DTYPES`, in which the model runs a sentence; ``auto`` keeps the stored one. Spectra are always float64.
    revision : branch, tag or commit of a Hub model.
    use_cache : whether spectra are kept on disk between runs.
    trust_remote_code : whether code that comes with a model may run.
    base : the model that an adapter changes; None takes the one that the adapter names.
    layout : a file that describes the heads of a bare state dict; None if the model describes itself.
    other : a second model to compare with; None for none, or for the same one at ``other_revision``.
    other_revision : branch, tag or commit of the second model.
    keep_recent : whether the list of recent models is read and written.
    is_browsing : whether results that take much memory are left to a command that asks for them.
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

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise EngineError(f"no device is named '{self.device}'; give auto, cpu, cuda, cuda:N or mps")
        if self.dtype not in DTYPES:
            raise EngineError(f"no dtype is named '{self.dtype}'; give {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")

    def for_another_model(self) -> EngineOptions:
        """Drop the options of one model, such as its revision."""
        return replace(self, revision=None, base=None, layout=None, other=None, other_revision=None)

    @property
    def is_comparing(self) -> bool:
        """Whether a second model is asked for."""
        return self.other is not None or self.other_revision is not None


def threads_asked_for() -> int | None:
    """Read ``OMP_NUM_THREADS``; of a list, which is for nested threads, the first number."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) or None if first.isascii() and first.isdigit() else None


def thread_environment(threads: int | None) -> dict[str, str]:
    """Return the environment in which linear algebra uses a number of threads.

    The default is a given ``OMP_NUM_THREADS``, else the cores that this process may use, at most sixteen. Waiting
    threads sleep: OpenMP's default is to spin, and beside one other busy process the same singular values then take
    over ten times as long.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = threads or threads_asked_for() or min(16, available)
    limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
    usual = {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    return dict.fromkeys(limits, str(chosen)) | {name: os.environ.get(name, value) for name, value in usual.items()}


def limit_threads(threads: int | None) -> int:
    """Set how many threads linear algebra uses; call it before NumPy, torch or Polars is imported."""
    os.environ |= thread_environment(threads)
    return int(os.environ["OMP_NUM_THREADS"])
