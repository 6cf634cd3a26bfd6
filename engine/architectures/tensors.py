"""What is known of a model's tensors before they are read, and the base of what reads them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor, nn

View: TypeAlias = "Callable[[Tensor], Tensor]"
"""Rearranges a tensor, or cuts a part out, and looks at none of its numbers."""

DTYPE_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number, of the dtypes that attention weights are stored in."""

STORED_EPSILONS = {
    **DTYPE_EPSILONS, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""The same with what stands for numbers only with a scale beside it."""

DTYPE_BITS = {
    **dict.fromkeys(("float64", "int64", "uint64"), 64),
    **dict.fromkeys(("float32", "int32", "uint32"), 32),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 16),
    **dict.fromkeys(("nf4", "fp4", "int4"), 4),
    "int2": 2,
}
"""Bits of a number by its dtype; others have eight."""

PART = 2**26
"""Numbers of a tensor that are read at once where it is gone through in parts."""


def whole(tensor: Tensor) -> Tensor:
    """Leave a tensor as it is: the view of all of it."""
    return tensor


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
        return math.prod(self.shape) * DTYPE_BITS.get(self.dtype, 8) // 8


UNKNOWN = TensorEntry((0,), "unknown")
"""Stands for a tensor of which no more than the name is known."""


class Tensors(ABC):
    """Tensors by name: a checkpoint's on disk, those of a module in memory, or either seen in another way.

    Attributes
    ----------
    entries : every tensor's shape and dtype.
    read_in_parts : those of which a part is read without the rest; of the others it is quicker to read all, once.
    steps : gives the distance between neighbouring numbers, as a root mean square, of those where it does not grow with
        the numbers, as `STORED_EPSILONS` says.
    """

    entries: Mapping[str, TensorEntry]
    read_in_parts: Collection[str] = frozenset()
    steps: Mapping[str, Callable[[], float]] = {}

    @abstractmethod
    def read(self, name: str, view: View = whole) -> Tensor:
        """Give one tensor, or what a view leaves of it, as it is used in computing.

        Raises
        ------
        EngineError : when it cannot be read.
        """

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of one tensor in order, at most `PART` at a time."""
        once = TensorsReadOnce(self)
        for first in range(0, max(1, self.entries[name].parameters), PART):  # what cannot be read is said
            yield once.read(name, partial(_part, first))


class TensorsReadOnce(Tensors):
    """Tensors that are looked at several times: each is read once and stays as long as this, or is read in parts."""

    def __init__(self, stored: Tensors) -> None:
        self._stored, self.entries, self.read_in_parts = stored, stored.entries, stored.read_in_parts
        self.steps = {name: cache(step) for name, step in stored.steps.items()}
        self._whole = cache(stored.read)

    def read(self, name: str, view: View = whole) -> Tensor:
        """Give one tensor, or what a view leaves of it."""
        return self._stored.read(name, view) if name in self.read_in_parts else view(self._whole(name))


class ModuleTensors(Tensors):
    """The parameters and buffers of a module in memory, by name; those on a GPU are copied when they are read."""

    def __init__(self, module: nn.Module) -> None:
        from torch import Tensor

        self._tensors: Mapping[str, Tensor] = module.state_dict()
        self.entries = {
            name: TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in self._tensors.items()
            if isinstance(tensor, Tensor)
        }

    def read(self, name: str, view: View = whole) -> Tensor:
        """Give one tensor as it is now, or what a view leaves of it, in main memory."""
        return view(self._tensors[name].detach()).cpu()


def _part(first: int, tensor: Tensor) -> Tensor:
    return tensor.reshape(-1)[first : first + PART]


NAMED = 3
"""Tensors that are named of those that hold NaN or infinite numbers."""


def all_finite(part: Tensor) -> bool:
    """Say whether a tensor holds neither NaN nor infinite numbers.

    What is finite added up holds none; that is several times quicker to know than to look at each, which is done where
    a sum is too large for the dtype.
    """
    return bool(part.sum().isfinite()) or bool(part.isfinite().all())


def not_finite(tensors: Mapping[str, Iterable[Tensor]]) -> str:
    """Say of tensors, each in parts, which hold NaN or infinite numbers, and how many; first ones of many."""
    said = []
    for name, parts in tensors.items():
        bad = numbers = 0
        for part in parts:
            bad += int((~part.isfinite()).sum())
            numbers += part.numel()
        if bad:
            said.append(f"{name} holds {bad} NaN or infinite numbers of {numbers}")
    more = len(said) - NAMED
    if more <= 0:
        return ", ".join(said)
    others = "so does one" if more == 1 else f"so do {more}"
    return f"{', '.join(said[:NAMED])} and {others} more of its tensors"
