"""The machine of a measurement, in one line, memory as the operating system counts it, and processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

R = TypeVar("R")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine() -> str:
    """Name the processor, the available cores, Python, torch, and the GPUs."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return (
        f"{processor()}, {cores} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}, {', '.join(gpus) or 'no GPU'}"
    )


def resident_mib(peak: bool = False, process: int | str = "self") -> float:
    """Return a process's resident set in mebibytes, or its peak; only on Linux."""
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) / 1024
    return float("nan")


def apart(work: Callable[..., R], *arguments: object) -> R:
    """Do work in a process of its own, which imports everything anew."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *arguments).result()


def environment(cache: str) -> dict[str, str]:
    """Set up a separate cache, a truecolor terminal, compiled modules, and the code of this benchmark."""
    return {
        "XDG_CACHE_HOME": cache,
        "XDG_CONFIG_HOME": cache,  # not the user's own
        "XDG_STATE_HOME": cache,
        "ATTN_TUI_RESTORE": "0",
        "COLORTERM": "truecolor",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
