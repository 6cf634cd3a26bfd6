"""Which device the work runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from engine.values.errors import EngineError
from engine.values.memory import FreeMemory

NO_MEMORY = ("can't allocate memory", "out of memory", "ALLOC_FAILED", "STATUS_NOT_INITIALIZED")
"""In what PyTorch says when memory is short: main memory, a GPU's for its context, and for handles of its libraries,
of which only tensors have an error of their own."""


def lacks_memory(error: RuntimeError) -> bool:
    """Say whether something failed for want of memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in NO_MEMORY)


@contextmanager
def memory_told() -> Iterator[None]:
    """Let every lack of memory be raised as ``torch.OutOfMemoryError``, not that of tensors alone."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or not lacks_memory(error):
            raise
        raise torch.OutOfMemoryError(str(error)) from error


@contextmanager
def inferring() -> Iterator[None]:
    """Compute without gradients; lacks of memory are told as in `memory_told`."""
    with memory_told(), torch.inference_mode():
        yield


def choose_device(wish: str) -> str:
    """Turn ``auto`` into the best device there is, and check any other wish.

    Raises
    ------
    EngineError : when this machine has no such device.
    """
    if wish == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wish.partition(":")
    if kind == "cuda" and not (torch.cuda.is_available() and int(number or 0) < torch.cuda.device_count()):
        raise EngineError(f"there is no device {wish}: torch sees {torch.cuda.device_count()} GPUs; try --device cpu")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise EngineError("there is no device mps on this machine; try --device cpu")
    return wish


WITHOUT_FLOAT64 = frozenset({"mps"})
"""Kinds of devices that compute in no wider type than float32: Apple's GPUs."""


def spectra_device(device: str) -> str:
    """Say where float64 linear algebra runs."""
    return "cpu" if device.partition(":")[0] in WITHOUT_FLOAT64 else device


def widest(device: torch.device) -> torch.dtype:
    """Give the widest type in which a device computes."""
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def wide(x: Tensor) -> Tensor:
    """Take numbers in the widest type that their device has."""
    return x.to(widest(x.device))


def free_of_gpus(device: str, alone: bool = False) -> list[FreeMemory]:
    """Ask every GPU of CUDA what is free, the chosen one first or alone; none where there is no GPU.

    To be asked takes some of a GPU's memory, for as long as the program runs; where there is not even that, or others
    have the GPU to themselves, none is free.
    """
    if not torch.cuda.is_available():
        return []
    first = int(device.partition(":")[2] or torch.cuda.current_device())
    others = () if alone else (number for number in range(torch.cuda.device_count()) if number != first)
    numbers = [first, *others]
    names = {number: f"cuda:{number}" for number in numbers} | {first: device}
    return [FreeMemory(names[number], _free_of(number)) for number in numbers]


def _free_of(number: int) -> int:
    """Ask one GPU how many bytes are free."""
    try:
        return torch.cuda.mem_get_info(number)[0]
    except RuntimeError:
        return 0


def describe_devices() -> str:
    """Name the devices that torch sees."""
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return ", ".join(["cpu", *names])
