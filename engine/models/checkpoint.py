"""The tensors of a checkpoint by name: their shapes from the files' headers, and one tensor at a time from disk."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from safetensors import SafetensorError, safe_open

from engine.models.opened_files import OpenedFiles
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

WEIGHT_FILES = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
"""What holds a checkpoint's weights, in the order of preference."""

WRAPPINGS = ("state_dict", "model_state_dict", "model")
"""Under what training scripts keep a state dict beside other things."""

DTYPE_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""What safetensors calls a dtype, to what torch calls it."""

DTYPE_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number, of the dtypes that attention weights are stored in."""

STORED_EPSILONS = {
    **DTYPE_EPSILONS, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
    "int8": 2.0**-7, "int4": 2.0**-3, "int2": 2.0**-1, "nf4": 2.0**-2, "fp4": 2.0**-1,
}  # fmt: skip
"""The same with what stands for numbers only with a scale beside it: the distance of the largest two."""

DTYPE_BITS = {"64": 64, "32": 32, "16": 16, "nf4": 4, "fp4": 4, "int4": 4, "int2": 2}
"""Bits of a number, by what its dtype's name ends with; others have eight."""

PART = 2**26
"""Numbers of a tensor that are read at once where it is gone through in parts."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """What is known of one tensor before it is read: its shape, and its dtype as torch calls it."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def parameters(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def stored_bytes(self) -> int:
        """How many bytes it takes on disk."""
        bits = next((bits for ending, bits in DTYPE_BITS.items() if self.dtype.endswith(ending)), 8)
        return self.parameters * bits // 8


class Tensors(Protocol):
    """Tensors by name: a checkpoint's on disk, those of a module in memory, or either seen in another way."""

    @property
    def entries(self) -> Mapping[str, TensorEntry]:
        """Every tensor's shape and dtype."""

    def read(self, name: str) -> Tensor:
        """Give one tensor, as it is used in computing."""

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of one tensor in order, at most `PART` at a time."""


def weight_file(directory: Path) -> Path | None:
    """Find the file that holds, or lists, a folder's weights."""
    for name in WEIGHT_FILES:
        if (directory / name).is_file():
            return directory / name
    return None


def shard_files(weights: Path) -> tuple[Path, ...]:
    """List the files that hold the tensors, given the weight file or the index of several.

    Raises
    ------
    EngineError : when the index cannot be read.
    """
    if not weights.name.endswith(".index.json"):
        return (weights,)
    return tuple(weights.parent / name for name in sorted(set(_weight_map(weights).values())))


def promised_tensors(weights: Path) -> set[str]:
    """Name the tensors that an index lists; a single file lists none."""
    return set(_weight_map(weights)) if weights.name.endswith(".index.json") else set()


def _weight_map(index: Path) -> dict[str, str]:
    """Read which file of an index holds which tensor."""
    try:
        found = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        if not found or not all(isinstance(name, str) for name in found.values()):
            raise ValueError("it lists no files")
        return dict(found)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise EngineError(f"{index} is no index of weight files ({error}); download the model again") from error


def missing_shards(weights: Path) -> tuple[Path, ...]:
    """List the weight files that an index names and the folder lacks."""
    return tuple(file for file in shard_files(weights) if not file.is_file())


class Checkpoint:
    """The tensors of a folder written by ``save_pretrained``, or of one weight file, by name.

    Opening reads the headers alone, without torch; `read` gives one tensor: a large one memory-mapped, others copied.

    Attributes
    ----------
    files : that hold the tensors.
    opened : the state in which they were opened.
    entries : every tensor's shape and dtype.
    """

    def __init__(self, place: Path) -> None:
        weights = weight_file(place) if place.is_dir() else place
        if weights is None:
            raise EngineError(f"{place} has no weights")
        missing = missing_shards(weights)
        if missing:
            raise EngineError(
                f"{weights.name} lists {missing[0].name}, which is not in {weights.parent}; download the model again"
            )
        self.files = shard_files(weights)
        self.opened = OpenedFiles(self.files)
        self._pickled: dict[Path, Mapping[str, Tensor]] = {}
        self._places: dict[str, Path] = {}
        self._begins: dict[Path, Mapping[str, int]] = {}
        self.entries: dict[str, TensorEntry] = {}
        for file in self.files:
            found = _safetensors_entries(file) if file.suffix == ".safetensors" else self._bin_entries(file)
            self.entries |= found
            self._places |= dict.fromkeys(found, file)
        lost = promised_tensors(weights) - self.entries.keys()
        if lost:
            raise EngineError(
                f"{weights.name} lists {min(lost)}, which is in none of its files; download the model again"
            )

    def read(self, name: str) -> Tensor:
        """Read one tensor, as stored.

        Raises
        ------
        EngineError : when the file no longer holds what its header said, or is another than was opened.
        """
        file = self._places[name]
        if file.suffix != ".safetensors":
            self.opened.check_mapped()
            return self._load_bin(file)[name]
        try:
            tensor = self._read_safetensors(file, name)
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            self.opened.check(file)
            raise EngineError(f"{file} cannot be read at '{name}': {error}; download the model again") from error
        self.opened.check(file)  # what is mapped by now stays what it is
        return tensor

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through one tensor; the file is mapped anew for each part, so that no more than one stays in memory."""
        for first in range(0, self.entries[name].parameters, PART):
            yield self.read(name).reshape(-1)[first : first + PART]

    def _read_safetensors(self, file: Path, name: str) -> Tensor:
        """Copy a tensor, or map a large one."""
        from engine.models.copied_tensor import copied, may_be_copied, offsets

        entry = self.entries[name]
        if not may_be_copied(entry):
            with safe_open(file, framework="pt") as handle:
                mapped: Tensor = handle.get_tensor(name)
                return mapped
        if file not in self._begins:
            self._begins[file] = offsets(file)
        return copied(file, self._begins[file][name], entry)

    def _load_bin(self, file: Path) -> Mapping[str, Tensor]:
        """Map an old PyTorch file into memory; ``weights_only`` executes nothing that is in it."""
        if file not in self._pickled:
            import torch

            try:
                # Files from before PyTorch 1.6 are no archives and cannot be mapped.
                loaded: Any = torch.load(file, map_location="cpu", mmap=zipfile.is_zipfile(file), weights_only=True)
            except Exception as error:  # a damaged pickle raises almost anything
                reason = str(error).partition("\n")[0]
                raise EngineError(
                    f"{file} is not a readable PyTorch weight file ({reason}); download the model again"
                ) from error
            if not isinstance(loaded, dict):
                raise EngineError(f"{file} holds no dictionary of tensors; save the model with save_pretrained")
            loaded = next((loaded[key] for key in WRAPPINGS if isinstance(loaded.get(key), dict)), loaded)
            self._pickled[file] = {name: tensor for name, tensor in loaded.items() if isinstance(tensor, torch.Tensor)}
        return self._pickled[file]

    def _bin_entries(self, file: Path) -> dict[str, TensorEntry]:
        """List the tensors of an old PyTorch file."""
        return {
            name: TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in self._load_bin(file).items()
        }


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
