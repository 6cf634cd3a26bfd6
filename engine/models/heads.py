"""From stored tensors to each head's W_Q, W_K, W_V, W_O and biases."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.models.checkpoint import DTYPE_EPSILONS, STORED_EPSILONS, Tensors
from engine.models.latent import FirstStep
from engine.models.outline import AttentionModule
from engine.models.rules import Layout, fused_places
from engine.values.errors import EngineError


@dataclass(frozen=True)
class LayerWeights:
    """The attention weights of one layer, cut by head, in the layout for ``y = x Wᵀ + b``.

    Attributes
    ----------
    query : (heads, head_dim, d_model)
    key : (key_value_heads, head_dim, d_source)
    value : (key_value_heads, value_head_dim, d_values)
    output : (heads, d_output, value_head_dim)
    query_bias, key_bias, value_bias : (heads or key_value_heads, head_dim), or None where the model has none.
    output_bias : (d_output,), of the layer and not of any head, or None.
    epsilons : by projection, the relative spacing of the stored dtype.
    gate, gate_bias : (heads, head_dim, d_model) and (heads, head_dim) of an output gate that is kept with the queries.
    shared_key_rows : how many of a key's last rows all heads share and no latent's norm touches.
    circuits : the factors of QK and OV where these are not products of the four projections, with more rows to a head.
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
    gate: Tensor | None = None
    gate_bias: Tensor | None = None
    shared_key_rows: int = 0
    circuits: LayerWeights | None = None

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


def read_layer(tensors: Tensors, module: AttentionModule, device: str = "cpu") -> LayerWeights:
    """Read one layer's projections and cut them into heads.

    Raises
    ------
    EngineError : when a tensor cannot be read, is not of a floating type, or holds NaN or infinite numbers.
    """
    weights = _read(tensors, module, device)
    if module.change_of is None:
        return weights
    return replace(weights, circuits=_changed_circuits(weights, _read(tensors, module.change_of, device)))


def _changed_circuits(delta: LayerWeights, now: LayerWeights) -> LayerWeights:
    """Write the changes of both circuits as products of factors.

    With ``W' = W + Δ`` they are ``W_Q'ᵀ W_K' − W_Qᵀ W_K = [Δ_Q; W_Q]ᵀ [W_K'; Δ_K]``, and likewise for V and O: exactly,
    where the difference of two nearly equal products would lose what is small.
    """

    def pair(first: Tensor, second: Tensor, dim: int = 1) -> Tensor:
        return torch.cat([first.double(), second.double()], dim)

    return replace(
        delta,
        query=pair(delta.query, now.query.double() - delta.query.double()),
        key=pair(now.key, delta.key),
        value=pair(delta.value, now.value.double() - delta.value.double()),
        output=pair(now.output, delta.output, 2),
    )


def _read(tensors: Tensors, module: AttentionModule, device: str) -> LayerWeights:
    """Read one layer's projections and cut them into heads."""
    outline = module.outline
    steps = [name for latent in module.latents.values() for name in (latent.down, latent.norm, latent.bias) if name]
    steps += [module.output_first] if module.output_first else []
    read: dict[str, Tensor] = {}
    for name in dict.fromkeys((*module.weights.values(), *module.biases.values(), *steps)):
        read[name] = _finite(name, tensors.read(name)).to(device)
    weights = {matrix: _matrix(module, read[name], matrix) for matrix, name in module.weights.items()}
    biases = {matrix: read[name].flatten() for matrix, name in module.biases.items()}
    parts = {matrix: _rows(module, weights[matrix], matrix) for matrix in "QKV"}
    bias_parts = {matrix: _rows(module, biases[matrix], matrix) for matrix in "QKV" if matrix in biases}
    for matrix, names in module.latents.items():
        step = FirstStep(read[names.down], read[names.norm], None if names.bias is None else read[names.bias])
        parts[matrix], bias = step.then(parts[matrix], bias_parts.get(matrix), with_shared=matrix == "K")
        if bias is not None:
            bias_parts[matrix] = bias
    gates = {
        name: stored["Q"].unflatten(0, (outline.heads, -1))[:, outline.head_dim :]
        for name, stored in (("gate", weights), ("gate_bias", biases))
        if module.is_gated and "Q" in stored
    }
    down = module.latents.get("K")
    if module.output_first:
        width = outline.heads * outline.value_head_dim
        weights["O"] = weights["O"].double() @ _in_groups(read[module.output_first], width).double()
    columns = weights["O"][:, : outline.heads * outline.value_head_dim]
    output = columns.unflatten(1, (outline.heads, outline.value_head_dim)).permute(1, 0, 2)
    return LayerWeights(
        parts["Q"],
        parts["K"],
        parts["V"],
        output,
        bias_parts.get("Q"),
        bias_parts.get("K"),
        bias_parts.get("V"),
        biases.get("O"),
        {matrix: STORED_EPSILONS[tensors.entries[name].dtype] for matrix, name in module.weights.items()},
        gates.get("gate"),
        gates.get("gate_bias"),
        0 if down is None else len(read[down.down]) - len(read[down.norm]),
    )


def _matrix(module: AttentionModule, stored: Tensor, matrix: str) -> Tensor:
    """Bring a projection into the form (out, in), whatever it is stored as."""
    if module.rule.is_by_head:
        return stored.flatten(1) if matrix == "O" else stored.flatten(1).T
    if stored.ndim == 3:  # a convolution over one token, in groups that read their own part of the width
        return _in_groups(stored.squeeze(-1), module.outline.shape(matrix, True)[1])
    return stored.T if module.rule.stored_transposed else stored


def _in_groups(stored: Tensor, width: int) -> Tensor:
    """Lay groups of rows, each of which reads its own part of the width, out in one matrix: (rows, width)."""
    dense: Tensor = torch.block_diag(*stored.chunk(width // stored.shape[1]))
    return dense


def _rows(module: AttentionModule, stored: Tensor, matrix: str) -> Tensor:
    """Take the rows of the queries, keys or values, by head: (rows, ...) to (heads, head_dim, ...)."""
    outline, layout = module.outline, module.rule.layout
    heads = outline.heads if matrix == "Q" else outline.key_value_heads
    width = outline.value_head_dim if matrix == "V" else outline.head_dim
    is_alone = layout is Layout.SEPARATE or (matrix in module.rule.biases and len(stored) == heads * width)
    by_head: Tensor
    if is_alone or (layout in (Layout.LATENT, Layout.PAIRED) and matrix == "Q"):
        by_head = stored.unflatten(0, (heads, -1))
        return by_head[:, :width]  # what comes after is an output gate
    if layout is Layout.LATENT:
        by_head = stored.unflatten(0, (heads, -1))
        return by_head[:, -width:] if matrix == "V" else by_head[:, : -outline.value_head_dim]
    places = fused_places(layout, outline.heads, outline.key_value_heads)[matrix]
    by_head = stored.unflatten(0, (-1, width))
    return by_head[places[0] : places[-1] + 1] if places[-1] - places[0] == len(places) - 1 else by_head[places]


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
