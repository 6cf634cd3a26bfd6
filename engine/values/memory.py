"""Memory: what sentences and whole layers need, what is free, and what fits."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.values.display_text import quantity, size
from engine.values.errors import EngineError
from engine.values.outline import LayerOutline

MEMORY_INFO = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux says how much memory is free, and how much a container may use."""

FROM_DISK = 2.0
"""How many times the free memory a model may take whose weights stay in their files."""

SENTENCE_TOKENS = 512
"""Length of the sentence for which memory is estimated."""

ACROSS_DEVICES = "auto"
"""In place of a device: accelerate spreads the model over GPUs and main memory."""


def free_memory() -> int | None:
    """Count the available bytes of main memory, cached files among them.

    Returns
    -------
    bytes : what Linux calls available, or what is left of a container's limit if that is less; elsewhere the free
        pages; None if unknown.
    """
    free = None
    with suppress(OSError, AttributeError, ValueError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError):
        if said := re.search(r"^MemAvailable:\s*(\d+) kB$", MEMORY_INFO.read_text(encoding="ascii"), re.MULTILINE):
            free = int(said[1]) * 1024
    with suppress(OSError, ValueError):  # no such files, or no limit, written as "max"
        limit, used = (int((CONTAINER / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        stat = (CONTAINER / "memory.stat").read_text(encoding="ascii")
        cached = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
        left = max(0, limit - used + (int(cached[1]) if cached else 0))
        free = left if free is None else min(free, left)
    return free


@dataclass(frozen=True, slots=True)
class SentenceNeed:
    """What a model needs to read a sentence.

    Attributes
    ----------
    weights : bytes of all weights, in the dtype that computes.
    mapped : bytes of these that can stay in their files on a CPU.
    maps : bytes of one layer's maps, in the dtype that computes and in float32, in which they are kept.
    dtype : the dtype that computes.
    smaller : a ``--dtype`` that takes less; empty if there is none.
    tokens : length of the sentence: `SENTENCE_TOKENS`, or the model's limit.
    """

    weights: int
    mapped: int
    maps: int
    dtype: str
    smaller: str
    tokens: int = SENTENCE_TOKENS

    @property
    def total(self) -> int:
        """The bytes of weights and maps."""
        return self.weights + self.maps

    def plus(self, other: SentenceNeed) -> SentenceNeed:
        """Add the needs of two models."""
        return replace(
            self,
            weights=self.weights + other.weights,
            mapped=self.mapped + other.mapped,
            maps=self.maps + other.maps,
            tokens=max(self.tokens, other.tokens),
        )


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """A device, and how many bytes are free there; None if unknown."""

    device: str
    free: int | None

    def holds(self, needed: int) -> bool:
        """Say whether so many bytes fit, as far as is known."""
        return self.free is None or needed <= self.free


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a model reads sentences.

    Attributes
    ----------
    device : as torch names it, or `ACROSS_DEVICES`.
    free : bytes that are free there; None if unknown.
    refusal : why it cannot read them, and what to do; empty if it can.
    notice : a warning; may be empty.
    """

    device: str
    free: int | None
    refusal: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a model takes on disk and in memory.

    Attributes
    ----------
    files : the number of its weight files; 0 for a model in memory.
    stored_bytes : bytes of these.
    layer_bytes : bytes of the attention tensors of its largest layer, which a view of a layer reads.
    need : what a sentence needs; None if the model is in memory already, or cannot run.
    placement : where it would be read; None until torch, which knows the devices, is imported.
    free : bytes that are free in main memory; None if unknown.
    """

    files: int
    stored_bytes: int
    layer_bytes: int
    need: SentenceNeed | None
    placement: Placement | None
    free: int | None = None


def place_sentence(
    model: str,
    need: SentenceNeed,
    device: FreeMemory,
    others: Sequence[FreeMemory],
    cpu: FreeMemory,
    *,
    may_spread: bool,
    has_accelerate: bool,
) -> Placement:
    """Decide where a model reads sentences, before it is loaded."""
    copied = need.weights - need.mapped  # these pass through main memory on their way to a GPU
    free = device.free or 0

    def refused(there: int, where: str, next_step: str) -> Placement:
        said = f"{model} needs {size(need.total)} to read a sentence ({need.dtype}), {size(there)} are free {where}"
        return Placement(device.device, device.free, f"{said}; its spectra still work; {next_step}")

    def other_ways(first: str) -> str:
        ways = list(filter(None, (first, f"--dtype {need.smaller}" if need.smaller else "")))
        return f"for attention try {', '.join(ways)}{' or ' if ways else ''}a machine with more memory"

    if device.device == "cpu":
        if cpu.free is None or (copied + need.maps <= cpu.free and need.total <= FROM_DISK * cpu.free):
            slow = cpu.free is not None and need.total > cpu.free
            notice = f"{size(need.mapped)} of weights are read from disk for every sentence" if slow else ""
            return Placement("cpu", cpu.free, notice=notice)
        return refused(cpu.free, "in main memory", other_ways("" if may_spread else "--device auto"))
    if device.holds(need.total):
        if cpu.holds(copied):
            return Placement(device.device, device.free)
        return refused(cpu.free or 0, "on cpu, where it is loaded first", other_ways("--device cpu"))
    gpus = free + sum(other.free or 0 for other in others)
    if may_spread and device.device.startswith("cuda") and (cpu.free is None or need.total <= gpus + cpu.free):
        if has_accelerate:
            return Placement(ACROSS_DEVICES, gpus)
        how = "to spread it over GPUs and main memory: pip install accelerate"
        return refused(free, f"on {device.device}", how)
    return refused(free, f"on {device.device}", other_ways("--device cpu"))


MATRIX_COPIES = 3
"""float64 copies of a matrix that its decomposition holds at once."""

MOST_BROWSED = 1.4e9
"""Bytes that a whole layer may take while browsing; libraries, screen and stored results included, less than 2 GB."""

FREE_SHARE = 0.05
"""The share of free memory that it may take while browsing, if that is more."""

SECONDS = 5e-10
"""Seconds of one core for each of the ``r² n`` steps of a dense decomposition of an (r, n) matrix, r ≤ n."""


def needed_memory(layer: LayerOutline, matrix: str) -> int:
    """Count the bytes that decomposing one matrix of a whole layer takes; a product of thin factors takes theirs."""
    rows, columns = layer.shape(matrix, True)
    inner = _rank(layer, matrix)
    numbers = rows * columns if inner >= min(rows, columns) else inner * (rows + columns)
    return MATRIX_COPIES * 8 * numbers


def _rank(layer: LayerOutline, matrix: str) -> int:
    """Bound the rank of a matrix of a whole layer; an adapter's change has twice as many factors."""
    width = {"QK": layer.head_dim, "OV": layer.value_head_dim}.get(matrix)
    if width is None:
        return min(layer.shape(matrix, True))
    return layer.key_value_heads * width * (2 if layer.is_change else 1)


def _is_too_much(needed: int, free: int | None) -> bool:
    return needed > max(MOST_BROWSED, FREE_SHARE * (free or 0))


def token_map_room(layer: LayerOutline, is_browsing: bool, free: int | None) -> tuple[bool, str]:
    """Decide whether the product of both token tables, (d_output, d_values) in float64, may be formed.

    Returns whether it may, and a notice, empty if it takes little memory. ``free`` is None if unknown.
    """
    needed = 2 * 8 * layer.d_output * layer.d_values  # the sum, and the next term
    what = f"ov_copying takes the product of both tables of tokens, which needs {size(needed)} of memory"
    if free is not None and needed > free:
        return False, f"{what}, and {size(free)} are free, so it is empty"
    if is_browsing and _is_too_much(needed, free):
        return False, f"{what}; it is left empty here, and computed by: attn-tui export MODEL circuits"
    return True, what if needed > MOST_BROWSED else ""


def check_room(layer: LayerOutline, matrices: Collection[str], is_browsing: bool, free: int | None) -> str:
    """Check that matrices of a whole layer may be computed; return a notice, empty if they take little.

    Raises `EngineError` if one does not fit into ``free`` bytes (None if unknown), or with ``is_browsing`` into what
    browsing may take.
    """
    largest = max(matrices, key=lambda matrix: needed_memory(layer, matrix))
    needed = needed_memory(layer, largest)
    rows, columns = layer.shape(largest, True)
    what = f"{largest} of {layer.name} as a whole is {rows}×{columns}, which needs {size(needed)} of memory"
    if free is not None and needed > free:
        raise EngineError(f"{what}, and {size(free)} are free; its heads still have spectra")
    steps = 0
    for matrix in matrices:
        short, long = sorted(layer.shape(matrix, True))
        steps += min(short, _rank(layer, matrix)) ** 2 * long
    minutes = quantity(max(1, round(SECONDS * steps / 60)), "minute")
    if is_browsing and _is_too_much(needed, free):
        stack = "" if layer.stack == "decoder" else f"--stack {layer.stack} "
        raise EngineError(
            f"{what}; in about {minutes} on one core the layer is computed and kept by: "
            f"attn-tui export MODEL spectrum {stack}--layer {layer.layer} --head all"
        )
    return f"{what}; the layer takes about {minutes} on one core" if needed > MOST_BROWSED else ""
