"""Memory that work needs and memory that is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

FROM_DISK = 2.0
"""How many times the free memory weights may take that are read from their files whenever they are needed."""

SENTENCE_TOKENS = 512
"""Tokens of the sentence for which memory is estimated."""

ACROSS_DEVICES = "auto"
"""In place of a device: accelerate lays the model out over GPUs and main memory."""


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
        return Placement(need, device.device, device.free, f"{said}; its spectra work all the same; {next_step}")

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
