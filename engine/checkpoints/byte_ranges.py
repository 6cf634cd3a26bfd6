"""Tensors at known places of a file: the whole of one, or a part, is read, and never mapped; and old PyTorch files.

What is mapped is looked at while it is computed with, and where the file becomes shorter meanwhile the system ends the
program (SIGBUS). A read that comes too late gives too few bytes instead, which can be said.
"""

from __future__ import annotations

import errno
import io
import struct
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.architectures.tensors import View, whole
from engine.values.errors import EngineError

AT_ONCE = 2**22
"""Bytes that are read at a time, those between what is wanted among them."""

WRAPPINGS = ("state_dict", "model_state_dict", "model")
"""Under what training scripts keep a state dict beside other things."""

DAMAGED = "is damaged or cut short; download or save the model again"

_HEADER, _LENGTHS = 30, struct.Struct("<HH")
"""Bytes of what stands before each file of an archive, at whose end are the lengths of the name and of what follows."""


@dataclass(frozen=True)
class TensorInFile:
    """A tensor in a file.

    Attributes
    ----------
    begin : the byte at which its memory begins.
    form : its dtype, shape and strides, without numbers (``meta``).
    """

    begin: int
    form: Tensor


def read_tensor(file: Path, placed: TensorInFile, view: View = whole) -> Tensor:
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
    is_part = seen.untyped_storage()._cdata == placed.form.untyped_storage()._cdata and 0 not in seen.stride()
    form = seen if is_part else placed.form
    order = sorted(range(form.ndim), key=form.stride, reverse=True)
    laid = form.permute(order)  # as it follows in the file
    found = torch.empty(laid.shape, dtype=laid.dtype)
    rows, row_form = (found, laid) if form.ndim else (found[None], laid[None])
    together = max(1, AT_ONCE // max(1, form.element_size() * int(row_form.stride(0))))
    with file.open("rb", buffering=0) as stream:
        for first in range(0, len(rows) if found.numel() else 0, together):
            part = row_form[first : first + together]
            begin = placed.begin + form.element_size() * int(part.storage_offset())
            wanted = rows[first : first + together]
            if part.is_contiguous():
                _fill(stream, begin, wanted.view(-1).view(torch.uint8))
            else:
                reach = 1 + sum((size - 1) * stride for size, stride in zip(part.shape, part.stride(), strict=True))
                room = torch.empty(reach, dtype=part.dtype)
                _fill(stream, begin, room.view(torch.uint8))
                wanted.copy_(room.as_strided(part.shape, part.stride()))
    tensor = found.permute(sorted(range(form.ndim), key=order.__getitem__))
    return tensor if is_part else view(tensor)


def _fill(stream: io.RawIOBase, place: int, wanted: Tensor) -> None:
    """Read bytes from a place of a file until a tensor is full."""
    room = wanted.numpy().data
    stream.seek(place)
    while len(room):
        count = stream.readinto(room)
        if not count:
            raise OSError(f"it ends {len(room)} bytes too early")
        room = room[count:]


def read_pickled(file: Path) -> dict[str, TensorInFile | Tensor]:
    """Find the tensors of an old PyTorch file; ``weights_only`` executes nothing that is in it.

    Since PyTorch 1.6 they are ZIP archives that hold the memory of each tensor as it is; of these no numbers are read.
    The tensors of other files are given themselves.

    Raises
    ------
    EngineError : when it is no such file, or holds no tensors by name.
    """
    try:
        memories = _memories(file)
        loaded: Any = torch.load(file, map_location="meta" if memories else "cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises almost anything
        raise EngineError(_why_unreadable(file, error)) from error
    if not isinstance(loaded, dict):
        raise EngineError(f"{file} holds no dictionary of tensors; save the model with save_pretrained")
    loaded = next((loaded[key] for key in WRAPPINGS if isinstance(loaded.get(key), dict)), loaded)
    strided = [name for name, each in loaded.items() if isinstance(each, Tensor) and each.layout == torch.strided]
    tensors = {name: loaded[name].detach() for name in strided}
    return (
        {name: _place_in_archive(tensor, memories, file) for name, tensor in tensors.items()} if memories else tensors
    )


def _memories(file: Path) -> dict[int, int]:
    """Read where in an archive each tensor's memory begins, and its bytes; nothing where these are not as in memory."""
    if not zipfile.is_zipfile(file):
        return {}
    memories: dict[int, int] = {}
    with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
        for entry in archive.infolist():
            if entry.filename.endswith("/byteorder") and archive.read(entry).decode().strip() != sys.byteorder:
                return {}
            if "/data/" in entry.filename:
                if entry.compress_type != zipfile.ZIP_STORED:
                    return {}
                stream.seek(entry.header_offset)
                header = stream.read(_HEADER)
                memories[entry.header_offset + _HEADER + sum(_LENGTHS.unpack(header[-4:]))] = entry.file_size
    return memories


def _place_in_archive(tensor: Tensor, memories: Mapping[int, int], file: Path) -> TensorInFile:
    """Say where in an archive a tensor without numbers lies.

    `torch.load` notes that on its storage, under a private name, and lets a storage grow to what a tensor takes.
    """
    storage = tensor.untyped_storage()
    begin = storage._checkpoint_offset
    if begin is None or memories.get(begin) != storage.nbytes():
        raise EngineError(f"{file} {DAMAGED}")
    return TensorInFile(begin, tensor)


def _why_unreadable(file: Path, error: Exception) -> str:
    """Say why a file holds no tensors that can be read; what the library says is advice for programmers."""
    if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:  # that is of a place in a file
        return f"{file} cannot be read: {error.strerror}; check the path"
    if "Unsupported global" in str(error):
        return f"{file} holds more than tensors, which attn-tui does not run; save the model with save_pretrained"
    with suppress(OSError), file.open("rb") as stream:
        is_begun = stream.read(2) in (b"PK", b"\x80\x02", b"")  # an archive, a pickle, or nothing yet
        if is_begun:
            return f"{file} {DAMAGED}"
    return f"{file} is not a readable PyTorch weight file; download the model again"
