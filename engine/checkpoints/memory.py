"""How much main memory is free, and how much a checkpoint's model takes to read a sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.architectures.tensors import TensorEntry
from engine.values.memory import SENTENCE_TOKENS, SentenceNeed
from engine.values.outline import ModelOutline

MEMORY_INFO = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux says how much memory is free, and how much a container may use."""

MERGED = re.compile(r"\.experts\.\d+\.")
"""In names of tensors that transformers puts together with others when it loads them, so that they are copied."""


def free_memory() -> int | None:
    """Count the bytes of main memory that can be had, files that are cached there among them.

    Returns
    -------
    bytes : what Linux calls available, or a container's limit where that is less; elsewhere the free pages; None where
        nothing says.
    """
    try:
        lines = dict(line.split(":", 1) for line in MEMORY_INFO.read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        try:
            return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return None
    left = _container_memory()
    return free if left is None else min(free, left)


def _container_memory() -> int | None:
    """Count what is left of a container's limit; None where there is none."""
    try:
        limit, used = (int((CONTAINER / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        counts = dict(line.split() for line in (CONTAINER / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, limit - used + int(counts.get("inactive_file", 0)))
    except (OSError, ValueError):  # no such files, or no limit, which is written as a word
        return None


def sentence_need(
    outline: ModelOutline, entries: Mapping[str, TensorEntry], config: Mapping[str, Any], dtype: str, *, is_mapped: bool
) -> SentenceNeed:
    """Estimate what a checkpoint's model takes to read a sentence.

    Parameters
    ----------
    outline : of the model.
    entries : its tensors as stored.
    config : as ``config.json`` has it.
    dtype : in which it is to compute; ``auto`` is the one in the configuration, or else the stored one.
    is_mapped : whether its tensors can be used as they are in the files.
    """
    named = config.get("dtype") or config.get("torch_dtype")
    chosen = dtype if dtype != "auto" else named if isinstance(named, str) else outline.dtype
    weights = mapped = 0
    is_quantised = bool(config.get("quantization_config"))
    for name, entry in entries.items():
        is_plain = entry.dtype.startswith(("float", "bfloat")) and "float8" not in entry.dtype
        takes = TensorEntry(entry.shape, chosen).stored_bytes if is_plain and not is_quantised else entry.stored_bytes
        weights += takes
        if is_mapped and not is_quantised and entry.dtype == chosen and MERGED.search(name) is None:
            mapped += takes
    tokens = min(outline.context or SENTENCE_TOKENS, SENTENCE_TOKENS)
    most = max(layer.heads for layer in outline.layers)
    maps = most * tokens**2 * (TensorEntry((1,), chosen).stored_bytes + TensorEntry((1,), "float32").stored_bytes)
    smaller = "bfloat16" if chosen == "float32" and not is_quantised else ""
    if dtype != "auto" and weights > sum(entry.stored_bytes for entry in entries.values()):
        smaller = "auto"
    return SentenceNeed(weights, mapped, maps, chosen, smaller, tokens)
