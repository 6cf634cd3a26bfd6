"""Checkpoints stored in fewer bits, read as what they stand for, without the packages that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from engine.architectures.tensors import Tensors
from engine.checkpoints.decoded_tensors import Decoded
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor


PLAIN_METHODS = frozenset({"fp8", "mxfp4"})
"""Ways of quantising whose attention weights are plain, or float8 with a scale for every block beside them."""

DEFAULT_BLOCK = (128, 128)
"""Rows and columns that share a scale, where the configuration does not say."""

SCALE_SUFFIX = "_scale_inv"
"""What the tensor of a weight's scales is called, after the weight."""


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
    from engine.checkpoints.packed import FORMATS

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
