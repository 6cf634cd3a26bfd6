"""The tensors of a checkpoint by name: shapes from the files' headers, and whole tensors or parts of them from disk.

Tensors are copied, never mapped. If a mapped file is cut short while it is computed with, the system ends the program
(SIGBUS). A read from such a file only returns too few bytes, which can be reported.
"""

from __future__ import annotations

import errno
import json
import re
import struct
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from engine.architectures.tensors import UNKNOWN, TensorEntry, Tensors, View, entry_of, whole
from engine.checkpoints.model_folders import promised_tensors, weight_file
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


def file_stamps(files: Iterable[Path]) -> str:
    """Join the paths, sizes, times and inodes of files, so that a replaced file gives another text.

    A program can set ``mtime`` but not ``ctime``, so another file of the same size and age, in the same place or behind
    the same link, differs. Raises `OSError` when one does not exist.
    """
    return ";".join(
        f"{file}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"
        for file, stat in ((each, each.stat()) for each in files)
    )


class OpenedFiles:
    """The state of files when they were opened."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.files = tuple(files)
        self._states: dict[Path, tuple[int, int]] = {}
        self.check(*self.files)

    def check(self, *files: Path) -> None:
        """Check that files, by default all, are still those that were opened; a missing file is left to the reader.

        Raises `EngineError` when one was rewritten or replaced, and so may belong to another model.
        """
        for file in files or (*self._states,):
            with suppress(OSError):
                stat = file.stat()
                state = stat.st_size, stat.st_mtime_ns
                if state != self._states.setdefault(file, state):
                    raise EngineError(f"{file} has changed since the model was opened; open it again")


DTYPE_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""torch's name for each dtype of safetensors."""

LENGTH_BYTES, LONGEST_HEADER = 8, 10**8
"""A safetensors file begins with the length of its header, little-endian in 8 bytes; the header has at most 10⁸."""

LAYER_NUMBER = re.compile(r"\d+")
"""A layer's or an expert's number in a tensor's name."""

MOST_WHOLE = 2**25
"""Tensors of at most so many bytes are read whole, once; of larger ones a person may be waiting for a few rows."""

AT_ONCE = 2**22
"""Bytes that are read at a time, including those between the wanted ones."""

DAMAGED = "is damaged or cut short; download or save the model again"

_HEADER, _LENGTHS = 30, struct.Struct("<HH")
"""The size of the header before each file of an archive, which ends with the lengths of its name and extra field."""


def _like_other_layers(known: Mapping[str, TensorEntry], names: Iterable[str]) -> dict[str, TensorEntry]:
    """Take the shapes and dtypes of tensors from those of the same name in other layers, or else leave them unknown."""
    of_layers: dict[str, set[TensorEntry]] = defaultdict(set)
    for name, entry in known.items():
        of_layers[LAYER_NUMBER.sub("#", name)].add(entry)
    found = {name: of_layers.get(LAYER_NUMBER.sub("#", name), set()) for name in names}
    return {name: next(iter(like)) if len(like) == 1 else UNKNOWN for name, like in found.items()}


@dataclass(frozen=True)
class TensorInFile:
    """A tensor in a file: the byte where its memory begins, and its dtype, shape and strides as a ``meta`` tensor."""

    begin: int
    form: Tensor


TensorPlace: TypeAlias = "int | TensorInFile | Tensor"
"""The byte of a file at which a contiguous tensor begins, a tensor with strides, or the tensor itself."""


class Checkpoint(Tensors):
    """The tensors of a folder written by ``save_pretrained``, or of one weight file, by name.

    Opening safetensors files reads only their headers, without torch. Raises `EngineError` when no file can be read, or
    a tensor of the index is in none.

    Attributes
    ----------
    opened : the files that hold the tensors, as they were when they were opened.
    lost : by tensor, why it cannot be read: its file, one of several, is missing, cut short or damaged. Its entry is
        that of the same tensor in other layers.
    """

    def __init__(self, place: Path) -> None:
        weights = weight_file(place) if place.is_dir() else place
        if weights is None:
            raise EngineError(f"{place} has no weights")
        promised = promised_tensors(weights)
        shards = [weights.parent / name for name in sorted({*promised.values()})] or [weights]
        self.opened = OpenedFiles(filter(Path.is_file, shards))
        self.entries: dict[str, TensorEntry] = {}
        self._places: dict[str, tuple[Path, TensorPlace]] = {}
        unread: dict[str, str] = {}
        for file in shards:
            try:
                if promised and not file.is_file():
                    raise EngineError(
                        f"{file.name}, which {weights.name} lists, is not in {weights.parent}; copy it there, "
                        "or download or save the model again"
                    )
                found = _stored_tensors(file) if file.suffix == ".safetensors" else read_pickled(file)
            except EngineError as error:
                unread[file.name] = str(error)
                continue
            self.entries |= {name: entry for name, (entry, _) in found.items()}
            self._places |= {name: (file, place) for name, (_, place) in found.items()}
        self.lost = {name: unread[file] for name, file in promised.items() if file in unread}
        if unread and not self.entries:
            raise EngineError(min(unread.values()))
        lacking = promised.keys() - self.entries.keys() - self.lost.keys()
        if lacking:
            raise EngineError(
                f"{weights.name} lists {min(lacking)}, which is in none of its files; download the model again"
            )
        self.entries |= _like_other_layers(self.entries, self.lost)
        self.read_in_parts = {name for name, entry in self.entries.items() if entry.stored_bytes > MOST_WHOLE}

    def read(self, name: str, view: View = whole) -> Tensor:
        """Read a view of one tensor, as stored, with at most `AT_ONCE` further bytes in memory.

        If the view makes a copy, the whole tensor is read for it. Raises `EngineError` when the file no longer matches
        its header, or is not the one that was opened.
        """
        import torch

        if name in self.lost:
            raise EngineError(self.lost[name])
        (file, place), entry = self._places[name], self.entries[name]
        if isinstance(place, torch.Tensor):
            self.opened.check(file)
            return view(place)
        try:
            if isinstance(place, int):
                dtype = getattr(torch, entry.dtype, None)
                if not isinstance(dtype, torch.dtype):
                    raise ValueError(f"torch has no dtype {entry.dtype}")
                place = TensorInFile(place, torch.empty(entry.shape, dtype=dtype, device="meta"))
            seen = view(place.form)
            is_part = seen.untyped_storage()._cdata == place.form.untyped_storage()._cdata and 0 not in seen.stride()
            tensor = _read_strided(file, place.begin, seen if is_part else place.form)
        except (OSError, ValueError) as error:
            self.opened.check(file)
            raise EngineError(f"{file} cannot be read at '{name}': {error}; download the model again") from error
        self.opened.check(file)  # what has been read no longer changes
        return tensor if is_part else view(tensor)


def _read_strided(file: Path, begin: int, form: Tensor) -> Tensor:
    """Read the tensor with the strides of a form from a memory that begins at a byte of a file, `AT_ONCE` at a time."""
    import torch

    order = sorted(range(form.ndim), key=form.stride, reverse=True)
    laid = form.permute(order)  # in the order of the file
    found = torch.empty(laid.shape, dtype=laid.dtype)
    rows, row_form = (found, laid) if form.ndim else (found[None], laid[None])
    together = max(1, AT_ONCE // max(1, form.element_size() * int(row_form.stride(0))))
    with file.open("rb", buffering=0) as stream:
        for first in range(0, len(rows) if found.numel() else 0, together):
            part, wanted = row_form[first : first + together], rows[first : first + together]
            reach = 1 + sum((size - 1) * stride for size, stride in zip(part.shape, part.stride(), strict=True))
            room = wanted.view(-1) if part.is_contiguous() else torch.empty(reach, dtype=part.dtype)
            lacking = room.view(torch.uint8).numpy().data
            stream.seek(begin + form.element_size() * int(part.storage_offset()))
            while len(lacking):
                count = stream.readinto(lacking)
                if not count:
                    raise OSError(f"{len(lacking)} bytes are missing at its end")
                lacking = lacking[count:]
            if not part.is_contiguous():
                wanted.copy_(room.as_strided(part.shape, part.stride()))
    return found.permute(sorted(range(form.ndim), key=order.__getitem__))


def _stored_tensors(file: Path) -> dict[str, tuple[TensorEntry, TensorPlace]]:
    found: dict[str, tuple[TensorEntry, TensorPlace]] = {}
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
            if length > LONGEST_HEADER:
                raise ValueError("its header is too long")
            header = json.loads(stream.read(length))
        tensors = [(*each["data_offsets"], name, each) for name, each in header.items() if name != "__metadata__"]
        reached = 0
        for begin, end, name, described in sorted(tensors, key=itemgetter(0, 1)):
            shape, dtype = tuple(described["shape"]), described["dtype"]
            entry = TensorEntry(shape, DTYPE_NAMES.get(dtype, dtype.lower()))
            is_known = dtype in DTYPE_NAMES  # others have at least four bits
            is_filled = entry.stored_bytes == end - begin if is_known else entry.parameters <= 2 * (end - begin)
            is_whole = {*map(type, (begin, *shape))} == {int} and min((begin, *shape)) >= 0
            if begin != reached or end < begin or not is_filled or not is_whole:
                raise ValueError(f"its header is wrong at '{name}'")
            found[name] = entry, LENGTH_BYTES + length + begin
            reached = end
        if LENGTH_BYTES + length + reached != file.stat().st_size:
            raise ValueError("its size does not match its header")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EngineError(f"{file} is damaged or cut short ({error}); download or save the model again") from error
    return found


def read_pickled(file: Path) -> dict[str, tuple[TensorEntry, TensorPlace]]:
    """Find the tensors of an old PyTorch file; ``weights_only`` keeps its code from running.

    Since PyTorch 1.6 these are ZIP archives that hold the memory of each tensor, so that no numbers need be read yet;
    the tensors of older files are loaded. Raises `EngineError` when it is no such file, or holds no tensors by name.
    """
    import torch

    try:
        memories = _memories(file)
        loaded: Any = torch.load(file, map_location="meta" if memories else "cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises almost anything
        raise EngineError(_why_unreadable(file, error)) from error
    if not isinstance(loaded, dict):
        raise EngineError(f"{file} holds no dictionary of tensors; save the model with save_pretrained")
    wrappings = ("state_dict", "model_state_dict", "model")  # training scripts store other things beside it
    loaded = next((loaded[key] for key in wrappings if isinstance(loaded.get(key), dict)), loaded)
    found: dict[str, tuple[TensorEntry, TensorPlace]] = {}
    for name, tensor in loaded.items():
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            tensor = tensor.detach()
            entry = entry_of(tensor)
            found[name] = entry, tensor
            if memories:
                storage = tensor.untyped_storage()  # as large as its tensor needs
                begin = storage._checkpoint_offset  # a private name, set by `torch.load`
                if begin is None or memories.get(begin) != storage.nbytes():
                    raise EngineError(f"{file} {DAMAGED}")
                found[name] = entry, TensorInFile(begin, tensor)
    return found


def _memories(file: Path) -> dict[int, int]:
    """Map the first byte of each tensor's memory in an archive to its size; empty if memory is not stored as it is."""
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


def _why_unreadable(file: Path, error: Exception) -> str:
    """Say why a file cannot be read; the library's own message is for programmers."""
    if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:  # EINVAL: a bad offset
        return f"{file} cannot be read: {error.strerror}; check the path"
    if "Unsupported global" in str(error):
        return f"{file} holds code besides tensors, which attn-tui does not run; save the model with save_pretrained"
    with suppress(OSError), file.open("rb") as stream:
        is_begun = stream.read(2) in (b"PK", b"\x80\x02", b"")  # an archive, a pickle, or nothing yet
        if is_begun:
            return f"{file} {DAMAGED}"
    return f"{file} is not a readable PyTorch weight file; download the model again"
