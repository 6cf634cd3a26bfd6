"""Tensors that lie in a file at places that are known: the whole, or a part of one, is read and never mapped.

What is mapped is looked at while it is computed with, and where the file becomes shorter meanwhile the system ends the
program (SIGBUS). A read that comes too late gives too few bytes instead, which can be said.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from engine.architectures.tensors import View, whole

NEAR = 2**16
"""Bytes from one run of wanted bytes to the next up to which what lies between is read along: to ask costs more."""

AT_ONCE = 2**22
"""Bytes that are read along at a time, and let go of."""


@dataclass(frozen=True)
class Placed:
    """A tensor in a file.

    Attributes
    ----------
    begin : the byte at which its memory begins.
    form : its dtype, shape and strides, without numbers (``meta``).
    """

    begin: int
    form: Tensor


def read_placed(file: Path, placed: Placed, view: View = whole) -> Tensor:
    """Read a tensor, or what a view leaves of it; no more is resident than that, and `AT_ONCE` bytes while it is read.

    Parameters
    ----------
    file : in which it is.
    placed : where.
    view : what is wanted of it. Where it makes a copy, the whole tensor is read and given to it.

    Raises
    ------
    OSError : when the file ends before it does, or cannot be read.
    """
    seen = view(placed.form)
    with file.open("rb", buffering=0) as stream:
        if not _is_part(seen, placed.form):
            return view(_read(stream, placed.begin, placed.form))
        return _read(stream, placed.begin, seen)


def _is_part(seen: Tensor, whole: Tensor) -> bool:
    """Say whether one tensor is part of another's memory, no number of it twice."""
    is_same = seen.untyped_storage()._cdata == whole.untyped_storage()._cdata
    return is_same and all(stride > 0 or size < 2 for size, stride in zip(seen.shape, seen.stride(), strict=True))


def _read(stream: io.RawIOBase, begin: int, form: Tensor) -> Tensor:
    """Read what lies in a file as a form says, which begins where its memory does."""
    order = sorted(range(form.ndim), key=form.stride, reverse=True)
    laid = form.permute(order)  # as it follows in the file
    found = torch.empty(laid.shape, dtype=laid.dtype)
    counts, steps, run = list(map(int, laid.shape)), list(map(int, laid.stride())), 1
    while counts and (counts[-1] == 1 or steps[-1] == run):
        run *= counts.pop()
        steps.pop()  # those that are left have gaps between their numbers
    size = form.element_size()
    first = begin + size * int(form.storage_offset())
    if found.numel():
        runs = found.view(-1, run).view(torch.uint8)
        _read_runs(stream, first, runs, counts, [size * step for step in steps])
    back = [order.index(dim) for dim in range(form.ndim)]
    return found.permute(back)


def _read_runs(stream: io.RawIOBase, first: int, runs: Tensor, counts: list[int], steps: list[int]) -> None:
    """Read runs of bytes (runs, length) that lie so many bytes apart, along each of some dimensions."""
    length = runs.shape[1]
    count, step = (counts[-1], steps[-1]) if counts else (1, length)
    together = max(1, AT_ONCE // step) if step <= NEAR else 1
    room = torch.empty(min(together, count) * step, dtype=torch.uint8)
    number = 0
    for outer in product(*(range(0, size * by, by) for size, by in zip(counts[:-1], steps[:-1], strict=True))):
        for some in range(0, count, together):
            taken = min(together, count - some)
            place, wanted = first + sum(outer) + some * step, runs[number : number + taken]
            if taken == 1:
                _fill(stream, place, wanted)
            else:
                _fill(stream, place, room[: (taken - 1) * step + length])
                wanted.copy_(room.as_strided((taken, length), (step, 1)))
            number += taken


def _fill(stream: io.RawIOBase, place: int, wanted: Tensor) -> None:
    """Read bytes from a place of a file until a tensor is full.

    Raises
    ------
    OSError : when the file ends before.
    """
    room = wanted.view(-1).numpy().data
    stream.seek(place)
    while len(room):
        count = stream.readinto(room)
        if not count:
            raise OSError(f"it ends {len(room)} bytes too early")
        room = room[count:]
