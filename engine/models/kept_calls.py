"""What attention modules were called with, of a long sentence beside memory: in a file that has no name.

Of all that is kept of a sentence only the layer that is looked at is ever wanted again. Its states are read back for
that; those of all layers together would take as much memory as a third of a layer's maps. The file is gone with the
sentence or with the program, however that ends, and nobody else can open it.
"""

from __future__ import annotations

import os
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.models.heap import APART
from engine.values.errors import EngineError
from engine.values.heads import Head

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call."""

STATES_NDIM = 3
"""Dimensions of states (sentences, tokens, width). What has more is a mask, which all layers share in memory."""

LEFT_FREE = 2**30
"""Bytes of a disk that are left to others."""


@dataclass(frozen=True)
class _Written:
    """Where a tensor is in a file, what it is, and a sum of its bytes: a disk elsewhere may fail to keep them later."""

    place: int
    checksum: int
    shape: torch.Size
    dtype: torch.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.shape.numel() * self.dtype.itemsize


class _Nameless:
    """A file without a name, made when something is to be written; where nothing can be, nothing more is tried."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None
        self._end = 0
        self._is_refused = False

    def write(self, numbers: Tensor) -> _Written | None:
        """Write a tensor; None where the disk is full or cannot be written to."""
        if self._is_refused:
            return None
        content = memoryview(_as_bytes(numbers))
        try:
            self._append(content)
        except OSError:
            self._is_refused = True
            return None
        written = _Written(self._end, zlib.crc32(content), numbers.shape, numbers.dtype)
        self._end += written.nbytes
        return written

    def _append(self, rest: memoryview) -> None:
        """Write behind all that is there."""
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # until nobody wants it
            weakref.finalize(self, _close, self._file)
        if hasattr(os, "fstatvfs"):
            disk = os.fstatvfs(self._file.fileno())
            if disk.f_bavail * disk.f_frsize < LEFT_FREE + len(rest):
                raise OSError("the disk is nearly full")
        self._file.seek(self._end)
        while rest:
            rest = rest[self._file.write(rest) :]

    def read(self, written: _Written) -> Tensor:
        """Read a tensor back.

        Raises
        ------
        OSError : when it cannot be read.
        """
        numbers = torch.empty(written.shape, dtype=written.dtype)
        rest = content = memoryview(_as_bytes(numbers))
        self._file.seek(written.place)
        while rest:
            count = self._file.readinto(rest)
            if not count:
                raise OSError("the file has become shorter")
            rest = rest[count:]
        if zlib.crc32(content) != written.checksum:
            raise OSError("it is not what was written")
        return numbers


def _close(file: Any) -> None:
    """Close a file, of which nothing is wanted any more."""
    with suppress(OSError):
        file.close()


def _as_bytes(numbers: Tensor) -> Any:
    """Look at a contiguous tensor of any type as bytes."""
    return numbers.detach().view(-1).view(torch.uint8).numpy()


class KeptCalls(Mapping[Head, Call]):
    """The arguments of every attention module's call, by layer.

    Parameters
    ----------
    folder : where large states are written; None keeps all in memory.

    Attributes
    ----------
    is_lost : whether something cannot be read back, so that the sentence has to be read again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._calls: dict[Head, Call] = {}
        self._file = None if folder is None else _Nameless(folder)
        self.is_lost = False

    def keep(self, layer: Head, call: Call) -> None:
        """Keep the arguments of a layer's call."""
        aside: dict[int, _Written | Tensor] = {}

        def put_aside(value: Any) -> Any:
            if self._file is None or not _is_large_state(value):
                return value
            if id(value) not in aside:
                aside[id(value)] = self._file.write(value) or value
            return aside[id(value)]

        self._calls[layer] = _changed(call, put_aside)

    def __getitem__(self, layer: Head) -> Call:
        """Give the arguments of a layer's call; what is the same object twice among them stays so.

        Raises
        ------
        EngineError : when they cannot be read back.
        """
        found: dict[int, Tensor] = {}

        def read(value: Any) -> Any:
            if not isinstance(value, _Written):
                return value
            assert self._file is not None
            if value.place not in found:
                found[value.place] = self._file.read(value)
            return found[value.place]

        try:
            call: Call = _changed(self._calls[layer], read)
        except OSError as error:
            self.is_lost = True
            reason = error.strerror or error
            raise EngineError(
                f"what was kept of this sentence on disk cannot be read back ({reason}); look again and it is read anew"
            ) from error
        return call

    def __iter__(self) -> Iterator[Head]:
        """Go through the layers."""
        return iter(self._calls)

    def __len__(self) -> int:
        """Count the layers."""
        return len(self._calls)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, in memory and on disk, each memory once."""
        sizes: dict[Any, int] = {}
        for value in _leaves(list(self._calls.values())):
            if isinstance(value, Tensor):
                sizes[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
            elif isinstance(value, _Written):
                sizes["aside", value.place] = value.nbytes
        return sum(sizes.values())


def _is_large_state(value: Any) -> bool:
    """Say whether something is a tensor in main memory of which every layer has its own."""
    return (
        type(value) is Tensor
        and value.ndim == STATES_NDIM
        and value.nbytes >= APART
        and value.device.type == "cpu"
        and value.is_contiguous()
    )


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change what is in nested tuples, lists and dictionaries."""
    if type(value) in (tuple, list):
        return type(value)(_changed(each, change) for each in value)
    if type(value) is dict:
        return {name: _changed(each, change) for name, each in value.items()}
    return change(value)


def _leaves(value: Any) -> Iterator[Any]:
    """Find what is in nested tuples, lists and mappings."""
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, (tuple, list)):
        inner = value
    else:
        yield value
    for each in inner:
        yield from _leaves(each)
