"""From stored tensors to each head's W_Q, W_K, W_V, W_O and biases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.models.checkpoint import DTYPE_EPSILONS, Checkpoint
from engine.models.outline import AttentionModule
from engine.models.rules import Layout
from engine.values.errors import EngineError


@dataclass(frozen=True)
class LayerWeights:
    """The attention weights of one layer, cut by head, in the layout for ``y = x Wᵀ + b``.

    Attributes
    ----------
    query : (heads, head_dim, d_model)
    key : (key_value_heads, head_dim, d_source)
    value : (key_value_heads, value_head_dim, d_source)
    output : (heads, d_model, value_head_dim)
    query_bias, key_bias, value_bias : (heads or key_value_heads, head_dim), or None where the model has none.
    output_bias : (d_model,), of the layer and not of any head, or None.
    epsilons : by projection, the relative spacing of the stored dtype.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    query_bias: Tensor | None
    key_bias: Tensor | None
    value_bias: Tensor | None
    output_bias: Tensor | None
    epsilons: dict[str, float]

    @property
    def group(self) -> int:
        """How many query heads share one key/value head."""
        return self.query.shape[0] // self.key.shape[0]

    def of_head(self, head: int) -> dict[str, Tensor]:
        """Name one head's arrays: ``W_Q`` to ``W_O``, and ``b_Q`` to ``b_O`` where the model has them."""
        shared = head // self.group
        arrays = {
            "W_Q": self.query[head],
            "W_K": self.key[shared],
            "W_V": self.value[shared],
            "W_O": self.output[head],
        }
        biases = {
            "b_Q": None if self.query_bias is None else self.query_bias[head],
            "b_K": None if self.key_bias is None else self.key_bias[shared],
            "b_V": None if self.value_bias is None else self.value_bias[shared],
            "b_O": self.output_bias,
        }
        return arrays | {name: bias for name, bias in biases.items() if bias is not None}


def read_layer(checkpoint: Checkpoint, module: AttentionModule, device: str = "cpu") -> LayerWeights:
    """Read one layer's projections and cut them into heads.

    Raises
    ------
    EngineError : when a tensor cannot be read, is not of a floating type, or holds NaN or infinite numbers.
    """
    rule, outline = module.rule, module.outline
    read: dict[str, Tensor] = {}
    for name in dict.fromkeys((*module.weights.values(), *module.biases.values())):
        read[name] = _finite(name, checkpoint.read(name)).to(device)
    weights = {matrix: read[name] for matrix, name in module.weights.items()}
    if rule.stored_transposed:
        weights = {matrix: weight.T for matrix, weight in weights.items()}
    biases = {matrix: read[name] for matrix, name in module.biases.items()}
    parts = {matrix: _rows(module, weights[matrix], matrix) for matrix in "QKV"}
    bias_parts = {matrix: _rows(module, biases[matrix], matrix) for matrix in "QKV" if matrix in biases}
    output = weights["O"].unflatten(1, (outline.heads, outline.value_head_dim)).permute(1, 0, 2)
    return LayerWeights(
        parts["Q"],
        parts["K"],
        parts["V"],
        output,
        bias_parts.get("Q"),
        bias_parts.get("K"),
        bias_parts.get("V"),
        biases.get("O"),
        {matrix: DTYPE_EPSILONS[checkpoint.entries[name].dtype] for matrix, name in module.weights.items()},
    )


def _rows(module: AttentionModule, stored: Tensor, matrix: str) -> Tensor:
    """Take the rows of the queries, keys or values, by head: (rows, ...) to (heads, head_dim, ...)."""
    outline = module.outline
    heads = outline.heads if matrix == "Q" else outline.key_value_heads
    width = outline.value_head_dim if matrix == "V" else outline.head_dim
    if module.rule.layout is Layout.PER_HEAD:
        by_part: Tensor = stored.unflatten(0, (heads, 3, width))
        return by_part[:, "QKV".index(matrix)]
    if module.rule.layout is Layout.BLOCKS:
        query_rows, shared_rows = outline.heads * width, outline.key_value_heads * width
        start = {"Q": 0, "K": query_rows, "V": query_rows + shared_rows}[matrix]
        stored = stored[start : start + heads * width]
    by_head: Tensor = stored.unflatten(0, (heads, width))
    return by_head


def _finite(name: str, tensor: Tensor) -> Tensor:
    """Refuse a tensor that no singular value could be computed of."""
    if str(tensor.dtype).removeprefix("torch.") not in DTYPE_EPSILONS:
        raise EngineError(f"{name} is stored as {tensor.dtype}; attn-tui reads float64, float32, bfloat16 and float16")
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        bad = int((~finite).sum())
        raise EngineError(
            f"{name} holds {bad} NaN or infinite numbers of {tensor.numel()}; its layer has no spectra, others do"
        )
    return tensor
