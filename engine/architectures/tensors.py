"""Shapes and dtypes of a model's tensors, and the base class of what reads them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor, nn

View: TypeAlias = "Callable[[Tensor], Tensor]"
"""Rearranges a tensor, or cuts out a part, without looking at its numbers."""

DTYPE_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number, for the dtypes of attention weights."""

STORED_EPSILONS = {
    **DTYPE_EPSILONS, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""The same, with dtypes that need a scale."""

DTYPE_BITS = {
    **dict.fromkeys(("float64", "int64", "uint64"), 64),
    **dict.fromkeys(("float32", "int32", "uint32"), 32),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 16),
    **dict.fromkeys(("nf4", "fp4", "int4"), 4),
    "int2": 2,
}
"""Bits of a number by its dtype; others have eight."""

PART = 2**26
"""The most numbers in a part of a tensor that is read in parts."""


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor as it is: the view of all of it."""
    return tensor


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """The shape of a tensor, and torch's name of its dtype."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def parameters(self) -> int:
        """The number of its numbers."""
        return math.prod(self.shape)

    @property
    def stored_bytes(self) -> int:
        """The bytes that it takes on disk."""
        return math.prod(self.shape) * DTYPE_BITS.get(self.dtype, 8) // 8


UNKNOWN = TensorEntry((0,), "unknown")
"""Stands for a tensor of which only the name is known."""


class Tensors(ABC):
    """Tensors by name: a checkpoint's on disk, a module's in memory, or either after conversion.

    Attributes
    ----------
    entries : every tensor's shape and dtype.
    read_in_parts : those of which parts are read alone; the others are quicker to read whole, once.
    steps : for tensors whose spacing does not grow with the numbers as `STORED_EPSILONS` says, functions that compute
        the distance between neighbouring numbers, as a root mean square.
    """

    entries: Mapping[str, TensorEntry]
    read_in_parts: Collection[str] = frozenset()
    steps: Mapping[str, Callable[[], float]] = {}

    @abstractmethod
    def read(self, name: str, view: View = whole) -> Tensor:
        """Read one tensor, or a view of it, decoded; `EngineError` when it cannot be read."""

    def parts(self, name: str) -> Iterator[Tensor]:
        """Iterate over the numbers of one tensor in order, at most `PART` at a time."""
        once = TensorsReadOnce(self)
        for first in range(0, max(1, self.entries[name].parameters), PART):  # once if empty, so that errors are raised
            yield once.read(name, partial(_part, first))


class TensorsReadOnce(Tensors):
    """Tensors that are used several times: each is read once and kept, unless it is read in parts."""

    def __init__(self, stored: Tensors) -> None:
        self._stored, self.entries, self.read_in_parts = stored, stored.entries, stored.read_in_parts
        self.steps = {name: cache(step) for name, step in stored.steps.items()}
        self._whole = cache(stored.read)

    def read(self, name: str, view: View = whole) -> Tensor:
        """Return one tensor, or a view of it."""
        return self._stored.read(name, view) if name in self.read_in_parts else view(self._whole(name))


class ModuleTensors(Tensors):
    """The parameters and buffers of a module in memory; those on a GPU are copied when they are read.

    A tensor is looked up each time, as a module may get another one. Its entry has the dtype of the last time.
    """

    def __init__(self, module: nn.Module) -> None:
        from torch import Tensor

        self._module = module
        self.entries: dict[str, TensorEntry] = {
            name: entry_of(tensor) for name, tensor in module.state_dict().items() if isinstance(tensor, Tensor)
        }

    def read(self, name: str, view: View = whole) -> Tensor:
        """Return one tensor as it is now, or a view of it, in main memory.

        Raises `EngineError` when the module has no such tensor of that shape any more.
        """
        tensor: Tensor | None
        try:
            tensor = attrgetter(name)(self._module)
        except AttributeError:  # a hook of the module may rename it
            tensor = self._module.state_dict().get(name)
        if tensor is None or tuple(tensor.shape) != self.entries[name].shape:
            raise EngineError(f"{name} has another shape now, or is gone; open the model again")
        self.entries[name] = entry_of(tensor)
        return view(tensor.detach()).cpu()


def entry_of(tensor: Tensor) -> TensorEntry:
    """Describe a tensor in memory."""
    return TensorEntry(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _part(first: int, tensor: Tensor) -> Tensor:
    return tensor.reshape(-1)[first : first + PART]


NAMED = 3
"""The most tensors with NaN or infinite numbers that a message names."""


def all_finite(part: Tensor) -> bool:
    """Return whether a tensor holds neither NaN nor infinite numbers.

    A finite sum shows that it holds none, several times quicker than looking at each number; a sum that is not finite
    may just be too large for the dtype.
    """
    return bool(part.sum().isfinite()) or bool(part.isfinite().all())


def describe_not_finite(tensors: Mapping[str, Iterable[Tensor]]) -> str:
    """Say which tensors, each in parts, hold NaN or infinite numbers, and how many, naming at most `NAMED`."""
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
