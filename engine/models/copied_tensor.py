"""One tensor of a safetensors file, copied and not mapped into memory.

What is mapped is looked at while it is computed with, and where the file becomes shorter meanwhile the system ends the
program (SIGBUS). A read that comes too late gives too few bytes instead, which can be said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.models.checkpoint import TensorEntry

MOST_COPIED = 2**25
"""Bytes of a tensor up to which it is copied whole; of larger ones a person may be waiting for a few rows."""

_LENGTH = 8
"""Bytes, little-endian, that say how long the header is, which follows them."""


def may_be_copied(entry: TensorEntry) -> bool:
    """Say whether a tensor is small enough to be copied whole, and of a dtype that torch has."""
    return entry.stored_bytes <= MOST_COPIED and isinstance(getattr(torch, entry.dtype, None), torch.dtype)


def offsets(file: Path) -> Mapping[str, int]:
    """Read where in a file each tensor begins.

    Raises
    ------
    OSError, ValueError : when it cannot be read, or has no such header.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH), "little")
        header = json.loads(stream.read(length))
    return {
        name: _LENGTH + length + int(described["data_offsets"][0])
        for name, described in header.items()
        if name != "__metadata__"
    }


def copied(file: Path, begin: int, entry: TensorEntry) -> Tensor:
    """Copy the tensor that begins somewhere in a file.

    Raises
    ------
    OSError : when the file ends before it does, or cannot be read.
    """
    tensor = torch.empty(entry.shape, dtype=getattr(torch, entry.dtype))
    room = tensor.reshape(-1).view(torch.uint8).numpy().data
    with file.open("rb", buffering=0) as stream:
        stream.seek(begin)
        while len(room):
            count = stream.readinto(room)
            if not count:
                raise OSError(f"it ends {len(room)} bytes too early")
            room = room[count:]
    return tensor
