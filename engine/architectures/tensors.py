"""What is known of a model's tensors before they are read, and the base of what reads them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

View: TypeAlias = "Callable[[Tensor], Tensor]"
"""Rearranges a tensor, or cuts a part out, and looks at none of its numbers."""

Cut: TypeAlias = "Callable[[View], Tensor]"
"""Gives what a view leaves of a tensor."""

DTYPE_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The distance from 1 to the next number, of the dtypes that attention weights are stored in."""

STORED_EPSILONS = {
    **DTYPE_EPSILONS, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""The same with what stands for numbers only with a scale beside it."""

DTYPE_BITS = {"64": 64, "32": 32, "16": 16, "nf4": 4, "fp4": 4, "int4": 4, "int2": 2}
"""Bits of a number, by what its dtype's name ends with; others have eight."""

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
        bits = next((bits for ending, bits in DTYPE_BITS.items() if self.dtype.endswith(ending)), 8)
        return self.parameters * bits // 8


UNKNOWN = TensorEntry((0,), "unknown")
"""Stands for a tensor of which no more than the name is known."""


class Tensors(ABC):
    """Tensors by name: a checkpoint's on disk, those of a module in memory, or either seen in another way.

    Attributes
    ----------
    entries : every tensor's shape and dtype.
    """

    entries: Mapping[str, TensorEntry]

    @abstractmethod
    def read(self, name: str, view: View = whole) -> Tensor:
        """Give one tensor, or what a view leaves of it, as it is used in computing.

        Raises
        ------
        EngineError : when it cannot be read.
        """

    def cutting(self, name: str) -> Cut:
        """Give what cuts parts out of one tensor, for as long as these are wanted; the whole is read now."""
        tensor = self.read(name)
        return lambda view: view(tensor)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through the numbers of one tensor in order, at most `PART` at a time."""
        cut = self.cutting(name)
        for first in range(0, self.entries[name].parameters, PART):
            yield cut(partial(_part, first))

    def step(self, name: str) -> float | None:
        """Give the distance between neighbouring numbers of one tensor, as a root mean square.

        None where it grows with the numbers, as `STORED_EPSILONS` says.
        """
        return None


def _part(first: int, tensor: Tensor) -> Tensor:
    """Take a part of a tensor's numbers in their order."""
    return tensor.reshape(-1)[first : first + PART]
