"""The tensors of a checkpoint by name: their shapes from the files' headers, and one tensor at a time from disk."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from engine.architectures.tensors import PART, UNKNOWN, TensorEntry, whole
from engine.checkpoints.json_files import plain_file
from engine.checkpoints.weight_files import promised_tensors, shard_files, weight_file
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.tensors import Cut, View
    from engine.checkpoints.byte_ranges import Placed


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


_State = tuple[int, int, int]


class OpenedFiles:
    """Some files as they are now."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._states = {file: _state(file) for file in files}

    def check(self, file: Path) -> None:
        """Make sure that a file is the one that was opened; that it has gone is said where it is read.

        Raises
        ------
        EngineError : when it was written again or replaced, so that what is read now is of another model.
        """
        opened, now = self._states[file], _state(file)
        if opened is not None and now is not None and now[1:] != opened[1:]:
            raise _written_again(file)

    def check_all(self) -> None:
        """Make sure that all files are those that were opened.

        Raises
        ------
        EngineError : as in `check`.
        """
        for file in self._states:
            self.check(file)

    def check_mapped(self) -> None:
        """Make sure that what is mapped into memory is still what was opened.

        A file that another one has replaced, or that was deleted, stays mapped as it was. One that was written over in
        its place does not, and where it has become shorter the system ends whoever looks at what it held.

        Raises
        ------
        EngineError : when one was written over.
        """
        for file, opened in self._states.items():
            now = _state(file)
            if opened is not None and now is not None and now[0] == opened[0] and now != opened:
                raise _written_again(file)


def _written_again(file: Path) -> EngineError:
    """Say what has become of a file."""
    return EngineError(f"{file} has been written again since the model was opened; open it again")


def _state(file: Path) -> _State | None:
    """Give what a file is known by: which it is on its disk, its size and its time; None where there is none."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


DTYPE_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""What safetensors calls a dtype, to what torch calls it."""

NUMBER = re.compile(r"\d+")
"""A layer's or an expert's, in a tensor's name."""

MOST_WHOLE = 2**25
"""Bytes of a tensor up to which it is read whole, and once; of larger ones a person may be waiting for a few rows."""


def alike(known: Mapping[str, TensorEntry], names: Iterable[str]) -> dict[str, TensorEntry]:
    """Suppose that tensors are as those of the same name in other layers; of others nothing is known.

    Examples
    --------
    >>> alike({"0.w": TensorEntry((2, 3), "float32")}, ["1.w", "end"])
    {'1.w': TensorEntry(shape=(2, 3), dtype='float32'), 'end': TensorEntry(shape=(0,), dtype='unknown')}
    """
    of_layers: dict[str, set[TensorEntry]] = defaultdict(set)
    for name, entry in known.items():
        of_layers[NUMBER.sub("#", name)].add(entry)
    found = {name: of_layers.get(NUMBER.sub("#", name), set()) for name in names}
    return {name: next(iter(like)) if len(like) == 1 else UNKNOWN for name, like in found.items()}


class Checkpoint:
    """The tensors of a folder written by ``save_pretrained``, or of one weight file, by name.

    Opening reads the headers alone, without torch; what is read later is copied out of the files and never mapped.

    Attributes
    ----------
    files : that hold the tensors.
    opened : the state in which they were opened.
    entries : every tensor's shape and dtype.
    lost : by tensor, why it cannot be read: of several files this one is missing, cut short or damaged. Its entry is
        that of other layers' tensors of its name.

    Raises
    ------
    EngineError : when no file can be read, or one lacks what the index says is in it.
    """

    def __init__(self, place: Path) -> None:
        weights = weight_file(place) if place.is_dir() else place
        self._named = place
        if weights is None:
            raise EngineError(f"{place} has no weights")
        self.files = tuple(file for file in shard_files(weights) if file.is_file())
        self.opened = OpenedFiles(self.files)
        self._pickled: dict[Path, Mapping[str, Placed | Tensor]] = {}
        self._places: dict[str, Path] = {}
        self._begins: dict[Path, Mapping[str, int]] = {}
        self.entries: dict[str, TensorEntry] = {}
        unread: dict[str, str] = {}
        for file in shard_files(weights):
            try:
                found = self._entries_of(file, weights)
            except EngineError as error:
                unread[file.name] = str(error)
                continue
            self.entries |= found
            self._places |= dict.fromkeys(found, file)
        promised = promised_tensors(weights)
        self.lost = {name: unread[file] for name, file in promised.items() if file in unread}
        if unread and not self.entries:
            raise EngineError(min(unread.values()))
        lacking = promised.keys() - self.entries.keys() - self.lost.keys()
        if lacking:
            raise EngineError(
                f"{weights.name} lists {min(lacking)}, which is in none of its files; download the model again"
            )
        self.entries |= alike(self.entries, self.lost)

    def _entries_of(self, file: Path, weights: Path) -> dict[str, TensorEntry]:
        """List the tensors of one of the files, as its header has them."""
        if not file.is_file():
            raise EngineError(
                f"{file.name}, which {weights.name} lists, is not in {weights.parent}; copy it there, "
                "or download or save the model again"
            )
        if file != self._named:  # which a person has named, wherever it leads
            plain_file(file, weights.parent)
        return _safetensors_entries(file) if file.suffix == ".safetensors" else self._pickled_entries(file)

    def read(self, name: str) -> Tensor:
        """Read one tensor, as stored.

        Raises
        ------
        EngineError : when the file no longer holds what its header said, or is another than was opened.
        """
        return self._read(name, whole)

    def cutting(self, name: str) -> Cut:
        """Give what reads parts of a large tensor as they are wanted; others are read now."""
        if self.entries[name].stored_bytes > MOST_WHOLE:
            return partial(self._read, name)
        tensor = self.read(name)
        return lambda view: view(tensor)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through one tensor, of which no more than one part stays in memory."""
        self._refuse_lost(name)
        for first in range(0, self.entries[name].parameters, PART):
            yield self._read(name, partial(_piece, first))

    def step(self, name: str) -> None:
        """Give None: neighbours of larger numbers are further away."""

    def _read(self, name: str, view: View) -> Tensor:
        """Read what a view leaves of one tensor."""
        from engine.checkpoints.byte_ranges import read_placed

        self._refuse_lost(name)
        file = self._places[name]
        try:
            placed = self._placed(file, name)
            if placed is not None:
                tensor = read_placed(file, placed, view)
            else:
                self.opened.check_mapped()
                tensor = view(self._mapped(file, name))
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            self.opened.check(file)
            raise EngineError(f"{file} cannot be read at '{name}': {error}; download the model again") from error
        self.opened.check(file)  # what has been read by now stays what it is
        return tensor

    def _refuse_lost(self, name: str) -> None:
        """Say of a tensor that is lost why."""
        if name in self.lost:
            raise EngineError(self.lost[name])

    def _placed(self, file: Path, name: str) -> Placed | None:
        """Say where in its file a tensor lies; None where that is not known, or torch has no such numbers."""
        import torch

        from engine.checkpoints.byte_ranges import Placed, safetensors_places

        if file.suffix != ".safetensors":
            found = self._pickled[file][name]
            return found if isinstance(found, Placed) else None
        entry = self.entries[name]
        dtype = getattr(torch, entry.dtype, None)
        if not isinstance(dtype, torch.dtype):
            return None
        if file not in self._begins:
            self._begins[file] = safetensors_places(file)
        return Placed(self._begins[file][name], torch.empty(entry.shape, dtype=dtype, device="meta"))

    def _mapped(self, file: Path, name: str) -> Tensor:
        """Give a tensor whose place is not known, as its library does: mapped into memory, mostly."""
        if file.suffix != ".safetensors":
            tensor = self._pickled[file][name]
        else:
            with safe_open(file, framework="pt") as handle:
                tensor = handle.get_tensor(name)
        mapped: Tensor = tensor  # type: ignore[assignment]  # its place is not known, so it is given itself
        return mapped

    def _pickled_entries(self, file: Path) -> dict[str, TensorEntry]:
        """List the tensors of an old PyTorch file."""
        from engine.checkpoints.byte_ranges import Placed
        from engine.checkpoints.pickles import read_pickled

        self._pickled[file] = found = read_pickled(file)
        forms = {name: each.form if isinstance(each, Placed) else each for name, each in found.items()}
        return {
            name: TensorEntry(tuple(form.shape), str(form.dtype).removeprefix("torch.")) for name, form in forms.items()
        }


def _piece(first: int, tensor: Tensor) -> Tensor:
    """Take a part of a tensor's numbers in their order."""
    return tensor.reshape(-1)[first : first + PART]


def _safetensors_entries(file: Path) -> dict[str, TensorEntry]:
    """Read the header of one safetensors file; it is refused when the file is shorter than its header says."""
    try:
        with safe_open(file, framework="np") as handle:
            entries = {}
            for name in handle.keys():  # noqa: SIM118  # the handle is no mapping and cannot be iterated
                part = handle.get_slice(name)
                dtype = part.get_dtype()
                entries[name] = TensorEntry(tuple(part.get_shape()), DTYPE_NAMES.get(dtype, dtype.lower()))
            return entries
    except (SafetensorError, OSError) as error:
        raise EngineError(f"{file} is damaged or cut short ({error}); download or save the model again") from error
