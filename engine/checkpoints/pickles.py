"""Old PyTorch files (``torch.save``): where in them each tensor lies, or their tensors where that is not known."""

from __future__ import annotations

import errno
import struct
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.checkpoints.byte_ranges import Placed
from engine.values.errors import EngineError

WRAPPINGS = ("state_dict", "model_state_dict", "model")
"""Under what training scripts keep a state dict beside other things."""

_HEADER, _LENGTHS = 30, struct.Struct("<HH")
"""Bytes of what stands before each file of an archive, at whose end are the lengths of the name and of what follows."""


def read_pickled(file: Path) -> dict[str, Placed | Tensor]:
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
    return {name: _placed(tensor, memories, file) for name, tensor in tensors.items()} if memories else tensors


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


def _placed(tensor: Tensor, memories: Mapping[int, int], file: Path) -> Placed:
    """Say where in an archive a tensor without numbers lies.

    `torch.load` notes that on its storage, under a private name, and lets a storage grow to what a tensor takes.

    Raises
    ------
    EngineError : when the archive has no such memory there.
    """
    storage = tensor.untyped_storage()
    begin = storage._checkpoint_offset
    if begin is None or memories.get(begin) != storage.nbytes():
        raise EngineError(_damaged(file))
    return Placed(begin, tensor)


def _damaged(file: Path) -> str:
    return f"{file} is damaged or cut short; download or save the model again"


def _why_unreadable(file: Path, error: Exception) -> str:
    """Say why a file holds no tensors that can be read; what the library says is advice for programmers."""
    if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:  # that is of a place in a file
        return f"{file} cannot be read: {error.strerror}; check the path"
    if "Unsupported global" in str(error):
        return f"{file} holds more than tensors, which attn-tui does not run; save the model with save_pretrained"
    with suppress(OSError), file.open("rb") as stream:
        is_begun = stream.read(2) in (b"PK", b"\x80\x02", b"")  # an archive, a pickle, or nothing yet
        if is_begun:
            return _damaged(file)
    return f"{file} is not a readable PyTorch weight file; download the model again"
