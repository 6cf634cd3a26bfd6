"""Tensors of which some are stored in another form than the one they stand for, or under another name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from engine.architectures.tensors import PART, TensorEntry, Tensors
from engine.checkpoints.memory import free_memory
from engine.values.errors import EngineError
from engine.values.memory import size

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.tensors import Cut

DECODING_BYTES = 24
"""What a number takes while its tensor is decoded as a whole: the integers, and float32 copies of them."""


class Decoded:
    """Tensors of which some are stored in another form than the one they stand for.

    Parameters
    ----------
    stored : as they are in the files.
    decoders : for each weight that has to be decoded, what is known of it and what reads it.
    hidden : names that only make sense to a decoder.
    steps : for each weight that is made of whole numbers, or of a few levels, what gives the distance between them.
    """

    def __init__(
        self,
        stored: Tensors,
        decoders: Mapping[str, tuple[TensorEntry, Callable[[], Tensor]]],
        hidden: frozenset[str] = frozenset(),
        steps: Mapping[str, Callable[[], float]] | None = None,
    ) -> None:
        self._stored = stored
        self._decoders = decoders
        self._steps = steps or {}
        plain = {name: entry for name, entry in stored.entries.items() if name not in hidden}
        self.entries: dict[str, TensorEntry] = plain | {name: entry for name, (entry, _) in decoders.items()}

    def read(self, name: str) -> Tensor:
        """Give one tensor, decoded where it has to be."""
        if name in self._decoders:
            return self._decoders[name][1]()
        return self._stored.read(name)

    def cutting(self, name: str) -> Cut:
        """Give what cuts parts out of one tensor; one that has to be decoded is decoded now."""
        if name not in self._decoders:
            return self._stored.cutting(name)
        tensor = self.read(name)
        return lambda view: view(tensor)

    def parts(self, name: str) -> Iterator[Tensor]:
        """Go through one tensor; one that has to be decoded is decoded as a whole.

        Raises
        ------
        EngineError : when there is no room for that.
        """
        if name not in self._decoders:
            yield from self._stored.parts(name)
            return
        needed, free = DECODING_BYTES * self.entries[name].parameters, free_memory()
        if free is not None and needed > free:
            raise EngineError(f"to decode it takes {size(needed)} of memory, and {size(free)} are free")
        yield from self.read(name).reshape(-1).split(PART)

    def step(self, name: str) -> float | None:
        """Give the distance between neighbouring numbers of one tensor, as a root mean square."""
        if name in self._steps:
            return self._steps[name]()
        is_stored_so = self._stored.entries.get(name) == self.entries[name]
        return self._stored.step(name) if is_stored_so else None
