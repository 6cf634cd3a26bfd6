"""Checkpoints whose weights are stored in fewer bits: block-scaled float8 is read, other ways are declined by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.models.checkpoint import Checkpoint
from engine.values.errors import EngineError

if TYPE_CHECKING:
    from torch import Tensor

READABLE_METHODS = frozenset({"fp8", "mxfp4"})
"""Ways of quantising whose attention weights are plain, or float8 with a scale for every block beside them."""

DEFAULT_BLOCK = (128, 128)
"""Rows and columns that share a scale, where the configuration does not say."""

SCALE_SUFFIX = "_scale_inv"
"""What the tensor of a weight's scales is called, after the weight."""


def refuse_unreadable(config: Mapping[str, Any], model: str) -> None:
    """Refuse a checkpoint that is quantised in a way that cannot be read.

    Raises
    ------
    EngineError : naming the way.
    """
    quantised = config.get("quantization_config")
    method = str(quantised.get("quant_method", "")) if isinstance(quantised, dict) else ""
    if method and method not in READABLE_METHODS:
        raise EngineError(
            f"{model} is quantised with {method}, which attn-tui cannot read; open the model it was made from"
        )


def block_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """Give how many rows and columns of a weight share a scale."""
    quantised = config.get("quantization_config")
    block = quantised.get("weight_block_size") if isinstance(quantised, dict) else None
    return (int(block[0]), int(block[1])) if isinstance(block, list) and len(block) == 2 else DEFAULT_BLOCK


def read_weight(checkpoint: Checkpoint, name: str, block: tuple[int, int]) -> Tensor:
    """Read one tensor; where scales stand beside it, multiply every block by its own (DeepSeek-AI 2024, section 3.3).

    Parameters
    ----------
    checkpoint : where it is.
    name : of the tensor.
    block : rows and columns that share a scale.

    Returns
    -------
    tensor : as stored, or float32 where it had scales.

    Raises
    ------
    EngineError : when the scales do not fit the weight.
    """
    stored = checkpoint.read(name)
    if f"{name}{SCALE_SUFFIX}" not in checkpoint.entries:
        return stored
    scale = checkpoint.read(f"{name}{SCALE_SUFFIX}").float()
    rows, columns = stored.shape
    if scale.ndim == 2:
        scale = scale.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
    if scale.ndim not in (0, 2) or (scale.ndim == 2 and scale.shape != stored.shape):
        raise EngineError(
            f"{name}{SCALE_SUFFIX} has shape {list(checkpoint.entries[f'{name}{SCALE_SUFFIX}'].shape)}, which does not "
            f"fit {name} of {rows}×{columns} in blocks of {block[0]}×{block[1]}; download the model again"
        )
    return stored.float() * scale
