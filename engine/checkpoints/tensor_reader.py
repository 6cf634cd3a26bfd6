"""The tensors of a checkpoint by name: shapes from the files' headers, and a tensor, or a part of one, from disk.

What is read is copied and never mapped. What is mapped is looked at while it is computed with, and where the file
becomes shorter meanwhile the system ends the program (SIGBUS). A read that comes too late gives too few bytes instead,
which can be said.
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

from engine.architectures.tensors import UNKNOWN, TensorEntry, Tensors, View, whole
from engine.checkpoints.json_files import plain_file
from engine.checkpoints.model_folders import promised_tensors, weight_file
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


def stamps(files: Iterable[Path]) -> str:
    """Write the paths of files with their sizes, their times and which they are on their disk.

    Of the times one can be set by whoever writes a file (``mtime``) and one cannot (``ctime``): a file of the same size
    and age in the place of another, or behind the same link, is another one.

    Raises
    ------
    OSError : where one is not there.
    """
    return ";".join(
        f"{file}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"
        for file, stat in ((each, each.stat()) for each in files)
    )


class OpenedFiles:
    """Some files as they are now."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._states: dict[Path, tuple[int, int]] = {}
        self.check(*files)

    def check(self, *files: Path) -> None:
        """Make sure that files, all unless given, are those that were opened; reading says that one is gone.

        Raises
        ------
        EngineError : when one was written again or replaced, so that what is read now is of another model.
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
"""What safetensors calls a dtype, to what torch calls it."""

LENGTH_BYTES, LONGEST_HEADER = 8, 10**8
"""Bytes, little-endian, that say how long the header of a safetensors file is, which follows; and the most it has."""

LAYER_NUMBER = re.compile(r"\d+")
"""A layer's or an expert's, in a tensor's name."""

MOST_WHOLE = 2**25
"""Bytes of a tensor up to which it is read whole, and once; of larger ones a person may be waiting for a few rows."""

AT_ONCE = 2**22
"""Bytes that are read at a time, those between what is wanted among them."""

WRAPPINGS = ("state_dict", "model_state_dict", "model")
"""Under what training scripts keep a state dict beside other things."""

DAMAGED = "is damaged or cut short; download or save the model again"

_HEADER, _LENGTHS = 30, struct.Struct("<HH")
"""Bytes of what stands before each file of an archive, at whose end are the lengths of the name and of what follows."""


def _like_other_layers(known: Mapping[str, TensorEntry], names: Iterable[str]) -> dict[str, TensorEntry]:
    """Suppose that tensors are as those of the same name in other layers; of others nothing is known."""
    of_layers: dict[str, set[TensorEntry]] = defaultdict(set)
    for name, entry in known.items():
        of_layers[LAYER_NUMBER.sub("#", name)].add(entry)
    found = {name: of_layers.get(LAYER_NUMBER.sub("#", name), set()) for name in names}
    return {name: next(iter(like)) if len(like) == 1 else UNKNOWN for name, like in found.items()}


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


TensorPlace: TypeAlias = "int | TensorInFile | Tensor"
"""The byte of a file at which a tensor begins, or more about it, or the tensor itself."""


class Checkpoint(Tensors):
    """The tensors of a folder written by ``save_pretrained``, or of one weight file, by name.

    Opening reads the headers alone, without torch; what is read later is copied out of the files and never mapped.

    Attributes
    ----------
    files : that hold the tensors.
    opened : the state in which they were opened.
    lost : by tensor, why it cannot be read: of several files this one is missing, cut short or damaged. Its entry is
        that of other layers' tensors of its name.

    Raises
    ------
    EngineError : when no file can be read, or one lacks what the index says is in it.
    """

    def __init__(self, place: Path) -> None:
        weights = weight_file(place) if place.is_dir() else place
        if weights is None:
            raise EngineError(f"{place} has no weights")
        promised = promised_tensors(weights)
        shards = [weights.parent / name for name in sorted({*promised.values()})] or [weights]
        self.files = tuple(filter(Path.is_file, shards))
        self.opened = OpenedFiles(self.files)
        self.entries: dict[str, TensorEntry] = {}
        self._places: dict[str, tuple[Path, TensorPlace]] = {}
        unread: dict[str, str] = {}
        for file in shards:
            try:
                if file != place:  # which a person has named, wherever it leads
                    if not file.is_file():
                        raise EngineError(
                            f"{file.name}, which {weights.name} lists, is not in {weights.parent}; copy it there, "
                            "or download or save the model again"
                        )
                    plain_file(file, weights.parent)
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
        """Read what a view leaves of one tensor, as stored; `AT_ONCE` bytes beside it are resident meanwhile.

        Where a view makes a copy, the whole tensor is read and given to it. Raises `EngineError` when the file no
        longer holds what its header said, or is another than was opened.
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
            form = seen if is_part else place.form
            order = sorted(range(form.ndim), key=form.stride, reverse=True)
            laid = form.permute(order)  # as it follows in the file
            found = torch.empty(laid.shape, dtype=laid.dtype)
            rows, row_form = (found, laid) if form.ndim else (found[None], laid[None])
            together = max(1, AT_ONCE // max(1, form.element_size() * int(row_form.stride(0))))
            with file.open("rb", buffering=0) as stream:
                for first in range(0, len(rows) if found.numel() else 0, together):
                    part, wanted = row_form[first : first + together], rows[first : first + together]
                    reach = 1 + sum((size - 1) * stride for size, stride in zip(part.shape, part.stride(), strict=True))
                    room = wanted.view(-1) if part.is_contiguous() else torch.empty(reach, dtype=part.dtype)
                    lacking = room.view(torch.uint8).numpy().data
                    stream.seek(place.begin + form.element_size() * int(part.storage_offset()))
                    while len(lacking):
                        count = stream.readinto(lacking)
                        if not count:
                            raise OSError(f"{len(lacking)} bytes are missing at its end")
                        lacking = lacking[count:]
                    if not part.is_contiguous():
                        wanted.copy_(room.as_strided(part.shape, part.stride()))
            tensor = found.permute(sorted(range(form.ndim), key=order.__getitem__))
        except (OSError, ValueError) as error:
            self.opened.check(file)
            raise EngineError(f"{file} cannot be read at '{name}': {error}; download the model again") from error
        self.opened.check(file)  # what has been read by now stays what it is
        return tensor if is_part else view(tensor)


def _stored_tensors(file: Path) -> dict[str, tuple[TensorEntry, TensorPlace]]:
    """Read the header of a safetensors file: of every tensor its shape and dtype, and where in the file it begins."""
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
            is_known = dtype in DTYPE_NAMES  # and else of four bits or more
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
    """Find the tensors of an old PyTorch file; ``weights_only`` executes nothing that is in it.

    Since PyTorch 1.6 they are ZIP archives that hold the memory of each tensor as it is; of these no numbers are read.
    The tensors of other files are given themselves. Raises `EngineError` when it is no such file, or holds no tensors
    by name.
    """
    import torch

    try:
        memories = _memories(file)
        loaded: Any = torch.load(file, map_location="meta" if memories else "cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises almost anything
        raise EngineError(_why_unreadable(file, error)) from error
    if not isinstance(loaded, dict):
        raise EngineError(f"{file} holds no dictionary of tensors; save the model with save_pretrained")
    loaded = next((loaded[key] for key in WRAPPINGS if isinstance(loaded.get(key), dict)), loaded)
    found: dict[str, tuple[TensorEntry, TensorPlace]] = {}
    for name, tensor in loaded.items():
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            tensor = tensor.detach()
            entry = TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            found[name] = entry, tensor
            if memories:
                storage = tensor.untyped_storage()  # which grows to what its tensor takes
                begin = storage._checkpoint_offset  # a private name, which `torch.load` sets
                if begin is None or memories.get(begin) != storage.nbytes():
                    raise EngineError(f"{file} {DAMAGED}")
                found[name] = entry, TensorInFile(begin, tensor)
    return found


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


def _why_unreadable(file: Path, error: Exception) -> str:
    """Say why a file holds no tensors that can be read; what the library says is advice for programmers."""
    if isinstance(error, OSError) and error.strerror and error.errno != errno.EINVAL:  # that is of a place in a file
        return f"{file} cannot be read: {error.strerror}; check the path"
    if "Unsupported global" in str(error):
        return f"{file} holds code besides tensors, which attn-tui does not run; save the model with save_pretrained"
    with suppress(OSError), file.open("rb") as stream:
        is_begun = stream.read(2) in (b"PK", b"\x80\x02", b"")  # an archive, a pickle, or nothing yet
        if is_begun:
            return f"{file} {DAMAGED}"
    return f"{file} is not a readable PyTorch weight file; download the model again"
