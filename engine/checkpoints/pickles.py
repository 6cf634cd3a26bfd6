"""Old PyTorch files (``torch.save``): where in them each tensor lies, or their tensors where that cannot be known.

Since PyTorch 1.6 they are ZIP archives that hold the memory of each tensor as it is. The library says of a mapped file
where each memory begins beside the others, and the archive's table where each begins in the file; both together tell
which is which.
"""

from __future__ import annotations

import errno
import struct
import sys
import zipfile
from collections.abc import Collection, Mapping
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

Memory = tuple[int, int]
"""Where a memory begins, and how many bytes it has."""


def read_pickled(file: Path) -> Mapping[str, Placed | Tensor]:
    """Find the tensors of an old PyTorch file; ``weights_only`` executes nothing that is in it.

    A tensor whose place cannot be told is given itself: mapped, or of a file before PyTorch 1.6, which is no archive,
    in memory.

    Raises
    ------
    EngineError : when it is no such file, or holds no tensors by name.
    """
    memories: set[Memory] = set()

    def note(storage: Any, location: str) -> Any:
        memories.add((storage.data_ptr(), storage.nbytes()))
        return storage

    try:
        is_archive = zipfile.is_zipfile(file)
        loaded: Any = torch.load(file, map_location=note, mmap=is_archive, weights_only=True)
        begin = _begin(file, memories) if is_archive else None
    except Exception as error:  # a damaged pickle raises almost anything
        raise EngineError(_why_unreadable(file, error)) from error
    if not isinstance(loaded, dict):
        raise EngineError(f"{file} holds no dictionary of tensors; save the model with save_pretrained")
    loaded = next((loaded[key] for key in WRAPPINGS if isinstance(loaded.get(key), dict)), loaded)
    tensors = {name: tensor.detach() for name, tensor in loaded.items() if isinstance(tensor, Tensor)}
    return tensors if begin is None else {name: _placed(tensor, memories, begin) for name, tensor in tensors.items()}


def _why_unreadable(file: Path, error: Exception) -> str:
    """Say why a file holds no tensors that can be read; what the library says is advice for programmers."""
    if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:  # that is of a place in a file
        return f"{file} cannot be read: {error.strerror}; check the path"
    if "Unsupported global" in str(error):
        return f"{file} holds more than tensors, which attn-tui does not run; save the model with save_pretrained"
    with suppress(OSError), file.open("rb") as stream:
        is_begun = stream.read(2) in (b"PK", b"\x80\x02", b"")  # an archive, a pickle, or nothing yet
        if is_begun:
            return f"{file} is damaged or cut short; download or save the model again"
    return f"{file} is not a readable PyTorch weight file; download the model again"


def _begin(file: Path, memories: Collection[Memory]) -> int | None:
    """Tell at which address a mapped file begins, or nothing where several would do, or its bytes are not as they lie.

    Parameters
    ----------
    file : an archive.
    memories : those of its tensors, by address.
    """
    places: dict[int, int] = {}
    with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
        for entry in archive.infolist():
            if entry.filename.endswith("/byteorder") and archive.read(entry).decode().strip() != sys.byteorder:
                return None
            if "/data/" in entry.filename and entry.compress_type == zipfile.ZIP_STORED:
                stream.seek(entry.header_offset)
                header = stream.read(_HEADER)
                places[entry.header_offset + _HEADER + sum(_LENGTHS.unpack(header[-4:]))] = entry.file_size
    filled = [memory for memory in memories if memory[1]]
    lowest = min((address for address, _ in filled), default=0)
    fitting = [
        lowest - place for place in places
        if all(places.get(address - lowest + place) == size for address, size in filled)
    ]  # fmt: skip
    return fitting[0] if len(fitting) == 1 else None


def _placed(tensor: Tensor, memories: Collection[Memory], begin: int) -> Placed | Tensor:
    """Say where in a file a mapped tensor lies; one that lies nowhere is given itself."""
    memory = tensor.untyped_storage()
    if tensor.layout != torch.strided or tensor.is_quantized or (memory.data_ptr(), memory.nbytes()) not in memories:
        return tensor
    whole = torch.empty(memory.nbytes() // tensor.element_size(), dtype=tensor.dtype, device="meta")
    form = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return Placed(memory.data_ptr() - begin, form)
