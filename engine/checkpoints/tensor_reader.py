"""The tensors of a checkpoint by name: their shapes from the files' headers, and one tensor at a time from disk."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engine.architectures.tensors import UNKNOWN, TensorEntry, Tensors, View, whole
from engine.checkpoints.json_files import plain_file
from engine.checkpoints.model_folders import promised_tensors, shard_files, weight_file
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.checkpoints.byte_ranges import TensorInFile


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
        self._states = {file: _size_and_time(file) for file in files}

    def check(self, *files: Path) -> None:
        """Make sure that files, all unless given, are those that were opened; reading says that one is gone.

        What is mapped into memory of a file that was written over is not what was opened, and where the file has become
        shorter the system ends whoever looks at what it held.

        Raises
        ------
        EngineError : when one was written again or replaced, so that what is read now is of another model.
        """
        for file in files or self._states:
            if _size_and_time(file) not in (self._states[file], None):
                raise EngineError(f"{file} has been written again since the model was opened; open it again")


def _size_and_time(file: Path) -> tuple[int, int] | None:
    """Give what tells that a file was written again; None where there is none."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


DTYPE_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""What safetensors calls a dtype, to what torch calls it."""

LENGTH_BYTES, LONGEST_HEADER = 8, 10**8
"""Bytes, little-endian, that say how long the header of a safetensors file is, which follows; and the most it has."""

NUMBER = re.compile(r"\d+")
"""A layer's or an expert's, in a tensor's name."""

MOST_WHOLE = 2**25
"""Bytes of a tensor up to which it is read whole, and once; of larger ones a person may be waiting for a few rows."""


def _like_other_layers(known: Mapping[str, TensorEntry], names: Iterable[str]) -> dict[str, TensorEntry]:
    """Suppose that tensors are as those of the same name in other layers; of others nothing is known."""
    of_layers: dict[str, set[TensorEntry]] = defaultdict(set)
    for name, entry in known.items():
        of_layers[NUMBER.sub("#", name)].add(entry)
    found = {name: of_layers.get(NUMBER.sub("#", name), set()) for name in names}
    return {name: next(iter(like)) if len(like) == 1 else UNKNOWN for name, like in found.items()}


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
        self.files = tuple(file for file in shard_files(weights) if file.is_file())
        self.opened = OpenedFiles(self.files)
        self.entries: dict[str, TensorEntry] = {}
        self._places: dict[str, tuple[Path, TensorPlace]] = {}
        unread: dict[str, str] = {}
        for file in shard_files(weights):
            try:
                if file != place:  # which a person has named, wherever it leads
                    _check_shard(file, weights)
                found = _stored_tensors(file) if file.suffix == ".safetensors" else _pickled_tensors(file)
            except EngineError as error:
                unread[file.name] = str(error)
                continue
            self.entries |= {name: entry for name, (entry, _) in found.items()}
            self._places |= {name: (file, place) for name, (_, place) in found.items()}
        promised = promised_tensors(weights)
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
        """Read what a view leaves of one tensor, as stored.

        Raises
        ------
        EngineError : when the file no longer holds what its header said, or is another than was opened.
        """
        import torch

        from engine.checkpoints.byte_ranges import TensorInFile, read_tensor

        if name in self.lost:
            raise EngineError(self.lost[name])
        (file, place), entry = self._places[name], self.entries[name]
        try:
            if isinstance(place, int):
                dtype = getattr(torch, entry.dtype, None)
                if not isinstance(dtype, torch.dtype):
                    raise ValueError(f"torch has no numbers of the kind {entry.dtype}")
                place = TensorInFile(place, torch.empty(entry.shape, dtype=dtype, device="meta"))
            tensor = read_tensor(file, place, view) if isinstance(place, TensorInFile) else view(place)
        except (OSError, ValueError) as error:
            self.opened.check(file)
            raise EngineError(f"{file} cannot be read at '{name}': {error}; download the model again") from error
        self.opened.check(file)  # what has been read by now stays what it is
        return tensor


def _check_shard(file: Path, weights: Path) -> None:
    if not file.is_file():
        raise EngineError(
            f"{file.name}, which {weights.name} lists, is not in {weights.parent}; copy it there, "
            "or download or save the model again"
        )
    plain_file(file, weights.parent)


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
        for begin, end, name, described in sorted(tensors, key=lambda each: each[:2]):
            shape, dtype = tuple(described["shape"]), described["dtype"]
            entry = TensorEntry(shape, DTYPE_NAMES.get(dtype, dtype.lower()))
            is_known = dtype in DTYPE_NAMES  # and else of four bits or more
            is_filled = entry.stored_bytes == end - begin if is_known else entry.parameters <= 2 * (end - begin)
            is_whole = all(type(number) is int and number >= 0 for number in (begin, *shape))
            if begin != reached or end < begin or not is_filled or not is_whole:
                raise ValueError(f"its header is wrong at '{name}'")
            found[name] = entry, LENGTH_BYTES + length + begin
            reached = end
        if LENGTH_BYTES + length + reached != file.stat().st_size:
            raise ValueError("it has not as many bytes as its header says")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EngineError(f"{file} is damaged or cut short ({error}); download or save the model again") from error
    return found


def _pickled_tensors(file: Path) -> dict[str, tuple[TensorEntry, TensorPlace]]:
    from engine.checkpoints.byte_ranges import TensorInFile, read_pickled

    found: dict[str, tuple[TensorEntry, TensorPlace]] = {}
    for name, place in read_pickled(file).items():
        form = place.form if isinstance(place, TensorInFile) else place
        found[name] = TensorEntry(tuple(form.shape), str(form.dtype).removeprefix("torch.")), place
    return found
