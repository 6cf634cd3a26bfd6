"""Checkpoints stored in fewer bits, read as what they stand for, without the packages that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import PART, TensorEntry, Tensors
from engine.models.memory import free_memory
from engine.values.errors import EngineError
from engine.values.memory import size

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.tensors import Cut

PLAIN_METHODS = frozenset({"fp8", "mxfp4"})
"""Ways of quantising whose attention weights are plain, or float8 with a scale for every block beside them."""

DEFAULT_BLOCK = (128, 128)
"""Rows and columns that share a scale, where the configuration does not say."""

DECODING_BYTES = 24
"""What a number takes while its tensor is decoded as a whole: the integers, and float32 copies of them."""

SCALE_SUFFIX = "_scale_inv"
"""What the tensor of a weight's scales is called, after the weight."""


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


def readable(stored: Tensors, config: Mapping[str, Any], model: str) -> Tensors:
    """See a checkpoint's tensors as what they stand for.

    Parameters
    ----------
    stored : as they are in the files.
    config : of the model, whose ``quantization_config`` says how.
    model : its name, for messages.

    Raises
    ------
    EngineError : when it is quantised in a way that cannot be read, naming the way.
    """
    settings = config.get("quantization_config") or {}
    method = settings.get("quant_method") or ""
    if not method or method in PLAIN_METHODS:
        return _block_scaled(stored, settings)
    from engine.models.packed import FORMATS

    if method not in FORMATS:
        raise EngineError(
            f"{model} is quantised with {method}, which attn-tui cannot read; open the model it was made from"
        )
    return FORMATS[method](stored, settings)


def _block_scaled(stored: Tensors, settings: Mapping[str, Any]) -> Tensors:
    """Multiply every block of a float8 weight by its own scale (DeepSeek-AI 2024, section 3.3)."""
    block = settings.get("weight_block_size")
    rows, columns = block if block and len(block) == 2 and min(block) > 0 else DEFAULT_BLOCK
    decoders = {
        name: (entry, _scaled(stored, name, (int(rows), int(columns))))
        for name, entry in stored.entries.items()
        if f"{name}{SCALE_SUFFIX}" in stored.entries
    }
    return Decoded(stored, decoders) if decoders else stored


def _scaled(stored: Tensors, name: str, block: tuple[int, int]) -> Callable[[], Tensor]:
    """Make what reads one weight: float32, every block of rows and columns multiplied by its scale."""

    def read() -> Tensor:
        weight = stored.read(name)
        scale = stored.read(f"{name}{SCALE_SUFFIX}").float()
        shape = list(scale.shape)
        rows, columns = weight.shape
        if scale.ndim == 2:
            scale = scale.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
        if scale.ndim not in (0, 2) or (scale.ndim == 2 and scale.shape != weight.shape):
            raise EngineError(
                f"{name}{SCALE_SUFFIX} has shape {shape}, which does not fit {name} of {rows}×{columns} in blocks of "
                f"{block[0]}×{block[1]}; download the model again"
            )
        return weight.float() * scale

    return read
