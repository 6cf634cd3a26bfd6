"""Memory that sentences and layers as a whole need, memory that is free, and what may be begun with it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from engine.values.display_text import quantity
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline

MEMORY_INFO = Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux says how much memory is free, and how much a container may use."""

FROM_DISK = 2.0
"""How many times the free memory weights may take that are read from their files whenever they are needed."""

SENTENCE_TOKENS = 512
"""Tokens of the sentence for which memory is estimated."""

ACROSS_DEVICES = "auto"
"""In place of a device: accelerate lays the model out over GPUs and main memory."""


def free_memory() -> int | None:
    """Count the bytes of main memory that can be had, files that are cached there among them.

    Returns
    -------
    bytes : what Linux calls available, or a container's limit where that is less; elsewhere the free pages; None where
        nothing says.
    """
    free = None
    with suppress(OSError, AttributeError, ValueError):
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError):
        if said := re.search(r"^MemAvailable:\s*(\d+) kB$", MEMORY_INFO.read_text(encoding="ascii"), re.MULTILINE):
            free = int(said[1]) * 1024
    with suppress(OSError, ValueError):  # no such files, or no limit, which is written as a word
        limit, used = (int((CONTAINER / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        stat = (CONTAINER / "memory.stat").read_text(encoding="ascii")
        cached = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)
        left = max(0, limit - used + (int(cached[1]) if cached else 0))
        free = left if free is None else min(free, left)
    return free


def size(stored_bytes: int) -> str:
    """Write a number of bytes."""
    amount = float(stored_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


@dataclass(frozen=True, slots=True)
class SentenceNeed:
    """What a model takes to read a sentence.

    Attributes
    ----------
    weights : bytes of all weights, in the dtype in which they compute.
    mapped : bytes of these that can stay in their files on a CPU, to be read whenever they are needed.
    maps : bytes of one layer's maps, in the dtype in which they are made and in float32, in which they are kept.
    dtype : in which the weights compute.
    smaller : what a person may choose as ``--dtype`` so that it takes less; empty where nothing does.
    tokens : of the sentence whose maps these are: `SENTENCE_TOKENS`, or as many as the model reads.
    """

    weights: int
    mapped: int
    maps: int
    dtype: str
    smaller: str
    tokens: int = SENTENCE_TOKENS

    @property
    def total(self) -> int:
        """Bytes of weights and maps."""
        return self.weights + self.maps

    def plus(self, other: SentenceNeed) -> SentenceNeed:
        """Give what two models take together."""
        return replace(
            self,
            weights=self.weights + other.weights,
            mapped=self.mapped + other.mapped,
            maps=self.maps + other.maps,
            tokens=max(self.tokens, other.tokens),
        )


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """A device, and how many bytes are free there; None where nothing says so."""

    device: str
    free: int | None

    def holds(self, needed: int) -> bool:
        """Say whether so many bytes fit, or nothing says that they do not."""
        return self.free is None or needed <= self.free


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a sentence would be read.

    Attributes
    ----------
    need : what it takes.
    device : as torch names it, or `ACROSS_DEVICES`.
    free : bytes that are free there, if that is known.
    refusal : why it is not read at all, and what to do; empty where it is.
    notice : what the person should know besides; may be empty.
    """

    need: SentenceNeed
    device: str
    free: int | None
    refusal: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What a model takes on disk and in memory.

    Attributes
    ----------
    files : how many files its weights are in; 0 where they are not in files.
    stored_bytes : of these.
    layer_bytes : of the attention tensors of its largest layer, which is what looking at a layer reads.
    need : what reading a sentence takes; None where the model is in memory already, or cannot be run.
    placement : where it would be read; None until torch is there, which knows the devices.
    free : bytes that are free in main memory; None where nothing says so.
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
    """Decide where a model reads sentences, before any of it is loaded."""
    copied = need.weights - need.mapped  # on their way to a GPU they are in main memory too
    free = device.free or 0

    def refused(there: int, where: str, next_step: str) -> Placement:
        said = f"{model} needs {size(need.total)} to read a sentence ({need.dtype}), {size(there)} are free {where}"
        return Placement(need, device.device, device.free, f"{said}; its spectra still work; {next_step}")

    def other_ways(first: str) -> str:
        ways = list(filter(None, (first, f"--dtype {need.smaller}" if need.smaller else "")))
        return f"for attention try {', '.join(ways)}{' or ' if ways else ''}a machine with more memory"

    if device.device == "cpu":
        if cpu.free is None or (copied + need.maps <= cpu.free and need.total <= FROM_DISK * cpu.free):
            slow = cpu.free is not None and need.total > cpu.free
            notice = f"{size(need.mapped)} of weights are read from disk for every sentence" if slow else ""
            return Placement(need, "cpu", cpu.free, notice=notice)
        return refused(cpu.free, "in main memory", other_ways("" if may_spread else "--device auto"))
    if device.holds(need.total):
        if cpu.holds(copied):
            return Placement(need, device.device, device.free)
        return refused(cpu.free or 0, "on cpu, where it is loaded first", other_ways("--device cpu"))
    gpus = free + sum(other.free or 0 for other in others)
    if may_spread and device.device.startswith("cuda") and (cpu.free is None or need.total <= gpus + cpu.free):
        if has_accelerate:
            return Placement(need, ACROSS_DEVICES, gpus)
        how = "to spread it over GPUs and main memory: pip install accelerate"
        return refused(free, f"on {device.device}", how)
    return refused(free, f"on {device.device}", other_ways("--device cpu"))


MATRIX_COPIES = 3
"""How many float64 matrices of the same size there are at once while the singular values of one are computed."""

TOKEN_MAP_COPIES = 2
"""Of the map from tokens to tokens, that there are while it is added up: its sum, and what is added."""

MOST_BROWSED = 1.4e9
"""Bytes that a layer as a whole may take unasked; with the libraries, the screen and what is stored less than 2 GB."""

FREE_SHARE = 0.05
"""Of the memory that is free, what it may take unasked on a machine that has plenty."""

SECONDS = 5e-10
"""What one core takes for each of the ``r² n`` steps of a dense decomposition of an (r, n) matrix, r ≤ n."""


def needed_memory(layer: LayerOutline, matrix: str) -> int:
    """Count the bytes that one matrix of a layer as a whole takes; a product of thin factors takes what they take."""
    rows, columns = layer.shape(matrix, True)
    inner = _rank(layer, matrix)
    numbers = rows * columns if inner >= min(rows, columns) else inner * (rows + columns)
    return MATRIX_COPIES * 8 * numbers


def _rank(layer: LayerOutline, matrix: str) -> int:
    """Give what a matrix of a layer as a whole has no more rank than; a change is made of twice as many factors."""
    width = {"QK": layer.head_dim, "OV": layer.value_head_dim}.get(matrix)
    if width is None:
        return min(layer.shape(matrix, True))
    return layer.key_value_heads * width * (2 if layer.is_change else 1)


def _is_too_much(needed: int, free: int | None) -> bool:
    return needed > max(MOST_BROWSED, FREE_SHARE * (free or 0))


def token_map_room(layer: LayerOutline, is_browsing: bool, free: int | None) -> tuple[bool, str]:
    """Say whether the map from tokens to tokens may be formed where a layer writes, (d_output, d_values) in float64.

    And what a person should know; nothing where it takes little. Layers of a model share one map. So many bytes are
    ``free`` in main memory, or None where nothing says so.
    """
    needed = TOKEN_MAP_COPIES * 8 * layer.d_output * layer.d_values
    what = f"ov_copying takes the product of both tables of tokens, which needs {size(needed)} of memory"
    if free is not None and needed > free:
        return False, f"{what}, and {size(free)} are free, so it is empty"
    if is_browsing and _is_too_much(needed, free):
        return False, f"{what}; it is left empty here, and computed by: attn-tui export MODEL circuits"
    return True, what if needed > MOST_BROWSED else ""


def room_for(
    layer: LayerOutline, matrices: Sequence[str], is_browsing: bool, free: int | None
) -> tuple[list[str], str, str]:
    """Tell which of a layer's matrices as a whole may be begun, why the others may not, and what a person should know.

    Those may that fit into the bytes that are ``free``, where that is known, and are to be had unasked. Where
    ``is_browsing`` they are not asked for by name, but looked at among others.
    """
    needed = {matrix: needed_memory(layer, matrix) for matrix in matrices}
    refused = [matrix for matrix in matrices if free is not None and needed[matrix] > free]
    unasked = [matrix for matrix in matrices if is_browsing and _is_too_much(needed[matrix], free)]
    left_out = [matrix for matrix in matrices if matrix in refused or matrix in unasked]
    fitting = [matrix for matrix in matrices if matrix not in left_out]
    lacking = notice = ""
    if refused:
        rest = "" if fitting else "; its heads have their spectra one by one"
        lacking = f"{_what(layer, left_out)}, and {size(free or 0)} are free: left out{rest}"
    elif left_out:
        stack = "" if layer.stack == "decoder" else f"--stack {layer.stack} "
        lacking = (
            f"{_what(layer, left_out)}, {_time(layer, left_out)}; they are left out here, and computed and kept by: "
            f"attn-tui export MODEL spectrum {stack}--layer {layer.layer} --head all"
        )
    if any(needed[matrix] > MOST_BROWSED for matrix in fitting):
        notice = f"{_what(layer, fitting)}, {_time(layer, fitting)}"
    return fitting, lacking, notice


def without_factors(layer: LayerOutline, left_out: Collection[str], lacking: str) -> str:
    """Say of a row of a layer as a whole which factors' columns are empty, and why; nothing where all are there."""
    named = " and ".join(f"W_{matrix}" for matrix in "QO" if matrix in left_out)
    return f"{layer.name} as a whole lacks what only {named} can give: {lacking}" if named else ""


def _what(layer: LayerOutline, matrices: Sequence[str]) -> str:
    """Say what matrices of a layer as a whole take, the largest of them."""
    largest = max(matrices, key=lambda matrix: needed_memory(layer, matrix))
    rows, columns = layer.shape(largest, True)
    takes = f"{rows}×{columns}, which need {size(needed_memory(layer, largest))} of memory"
    if len(matrices) == len(MATRICES):
        return f"{layer.name} as a whole has matrices of {takes}"
    *others, last = matrices
    named = f"{', '.join(others)} and {last}" if others else last
    return f"{named} of {layer.name} as a whole {'are' if others else 'is'} up to {takes}"


def _time(layer: LayerOutline, matrices: Sequence[str]) -> str:
    """Estimate how long matrices of a layer as a whole take at most, on one core."""
    steps = 0
    for matrix in matrices:
        short, long = sorted(layer.shape(matrix, True))
        steps += min(short, _rank(layer, matrix)) ** 2 * long
    minutes = max(1, round(SECONDS * steps / 60))
    return f"{'all six ' if len(matrices) == len(MATRICES) else ''}about {quantity(minutes, 'minute')} on one core"
