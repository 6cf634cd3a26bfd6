"""Cut stored tensors into each head's W_Q, W_K, W_V, W_O and biases: `read_layer`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.architectures.outline import AttentionModule
from engine.architectures.rules import Layout, fused_places
from engine.architectures.tensors import (
    DTYPE_EPSILONS,
    STORED_EPSILONS,
    Tensors,
    View,
    all_finite,
    describe_not_finite,
    whole,
)
from engine.values.errors import EngineError, NotFinite
from engine.values.spectra import FloatArray


@dataclass(frozen=True)
class LayerWeights:
    """The attention weights of one layer, cut by head, in the layout for ``y = x Wᵀ + b``.

    Attributes
    ----------
    query, key : (heads, head_dim, d_model) and (key_value_heads, head_dim, d_source)
    value, output : (key_value_heads, value_head_dim, d_values) and (heads, d_output, value_head_dim)
    epsilons : by projection, (heads,), the distance between neighbouring stored numbers, relative to the numbers.
    query_bias, key_bias, value_bias : (heads or key_value_heads, head_dim), or None if the model has none.
    output_bias : (d_output,), of the whole layer, or None.
    gate, gate_bias : (heads, head_dim, d_model) and (heads, head_dim) of an output gate stored with the queries.
    shared_key_rows : how many of a key's last rows are shared by all heads and skip the latent's norm.
    circuits : factors of QK and OV with more rows, if these are not products of the four projections.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    epsilons: dict[str, FloatArray]
    query_bias: Tensor | None = None
    key_bias: Tensor | None = None
    value_bias: Tensor | None = None
    output_bias: Tensor | None = None
    gate: Tensor | None = None
    gate_bias: Tensor | None = None
    shared_key_rows: int = 0
    circuits: LayerWeights | None = None

    @property
    def group(self) -> int:
        """How many query heads share one key/value head."""
        return self.query.shape[0] // self.key.shape[0]

    @property
    def factors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_Q, W_K, W_V and W_O by head."""
        return self.query, self.key, self.value, self.output

    def of_head(self, head: int) -> dict[str, Tensor]:
        """Return one head's arrays by name: ``W_Q`` to ``W_O``, and ``b_Q`` to ``b_O`` if the model has them."""
        shared = head // self.group
        own = {"Q": self.query[head], "K": self.key[shared], "V": self.value[shared], "O": self.output[head]}
        arrays = {f"W_{matrix}": part for matrix, part in own.items()}
        for name, bias, place in (
            ("b_Q", self.query_bias, head),
            ("b_K", self.key_bias, shared),
            ("b_V", self.value_bias, shared),
            ("b_O", self.output_bias, slice(None)),
        ):
            if bias is not None:
                arrays[name] = bias[place]
        return arrays


def read_layer(
    tensors: Tensors, module: AttentionModule, heads: range | None = None, matrices: Collection[str] | None = None
) -> LayerWeights:
    """Read one layer's projections, or some of them, and cut them into heads.

    Parameters
    ----------
    heads : consecutive heads, by default all; of those that share a key/value head all, or an equal part.
    matrices : the wanted ones, without biases and gates, by default everything; the others are empty tensors.

    Raises
    ------
    EngineError : when a tensor cannot be read, or is not of a floating type.
    NotFinite : when a tensor holds NaN or infinite numbers.
    """
    outline, has_biases = module.outline, matrices is None
    heads = heads or range(outline.heads)
    group = outline.heads // outline.key_value_heads
    shared = range(heads.start // group, (heads.stop - 1) // group + 1)
    parts: dict[str, Tensor] = {}
    biases: dict[str, Tensor] = {}
    epsilons: dict[str, FloatArray] = {}
    for matrix, numbers in (("Q", heads), ("K", shared), ("V", shared), ("O", heads)):
        cut = partial(_cut, module, matrix, numbers)
        if matrices is not None and matrix not in matrices:
            parts[matrix] = torch.empty(len(numbers), 0, 0)
        elif matrix == "O" and module.output_first:
            first = _arrange_groups(_read(tensors, module, module.output_first), outline.heads * outline.value_head_dim)
            parts[matrix] = _read(tensors, module, module.weights[matrix]).double() @ cut(first).double()
        else:
            parts[matrix] = _read(tensors, module, module.weights[matrix], cut)
        if has_biases and matrix in module.biases:
            bias = _read(tensors, module, module.biases[matrix]).flatten()
            biases[matrix] = bias if matrix == "O" else cut(bias)
    gate, gate_bias = (
        _read(tensors, module, names["Q"], partial(_cut, module, "Q", heads, has_gate=True))
        if has_biases and module.is_gated and "Q" in names
        else None
        for names in (module.weights, module.biases)
    )
    for matrix, part in parts.items():  # after all is read, lest small arrays fragment the memory of large ones
        if matrices is None or matrix in matrices:
            epsilons[matrix] = _find_epsilons(tensors, module.weights[matrix], part).repeat(len(heads) // len(part))
            if matrix in module.latents:
                parts[matrix], bias_of_both = _compose_first_step(tensors, module, matrix, part, biases.get(matrix))
                biases |= {} if bias_of_both is None else {matrix: bias_of_both}
    latent = module.latents.get("K")
    shared_key_rows = 0
    if latent is not None:
        shared_key_rows = tensors.entries[latent.down].shape[0] - tensors.entries[latent.norm].shape[0]
    weights = LayerWeights(
        parts["Q"], parts["K"], parts["V"], parts["O"], epsilons,
        biases.get("Q"), biases.get("K"), biases.get("V"), biases.get("O"), gate, gate_bias, shared_key_rows,
    )  # fmt: skip
    if module.change_of is None:
        return weights
    return replace(weights, circuits=_circuit_changes(weights, read_layer(tensors, module.change_of, heads, matrices)))


def _read(tensors: Tensors, module: AttentionModule, name: str, view: View = whole) -> Tensor:
    part = tensors.read(name, view)
    if str(part.dtype).removeprefix("torch.") not in DTYPE_EPSILONS:
        raise EngineError(f"{name} is stored as {part.dtype}; attn-tui reads float64, float32, bfloat16 and float16")
    if not all_finite(part):
        raise NotFinite(describe_not_finite({each: tensors.parts(each) for each in module.tensor_names}))
    return part


def _find_epsilons(tensors: Tensors, name: str, part: Tensor) -> FloatArray:
    """Find how finely the numbers of each head (heads, rows, columns) are stored: (heads,), relative to the numbers."""
    if name in tensors.steps:
        sizes = part.double().square().mean((1, 2)).sqrt().numpy()
        return np.where(sizes > 0, tensors.steps[name]() / np.where(sizes > 0, sizes, 1.0), 0.0)
    dtype = tensors.entries[name].dtype
    epsilons = np.full(len(part), STORED_EPSILONS[dtype])
    if dtype == "float32" and part.dtype == torch.float32:
        are_bfloat16 = (part[:, 0].bfloat16() == part[:, 0]).all(1)  # the first row usually tells
        if are_bfloat16.any():  # such a head was bfloat16 before it was saved
            are_bfloat16 = (part.bfloat16() == part).flatten(1).all(1)
        epsilons[are_bfloat16.numpy()] = STORED_EPSILONS["bfloat16"]
    return epsilons


def _compose_first_step(
    tensors: Tensors, module: AttentionModule, matrix: str, up: Tensor, up_bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compose a projection's two steps: ``up · diag(gain) · down``, in float64 (DeepSeek-AI 2024, equations 9–17).

    The norm between them divides a token's latent by its size, which depends on the token, and multiplies it by a
    gain, which does not. Only the gain can be part of a matrix; the heads carry a mark that says so. The last rows
    of the keys' first step skip the norm, and all heads share them after their own rows. So (heads, rows, rank) becomes
    (heads, rows [+ shared], d_model), and a bias (heads, rows [+ shared]).
    """
    names = module.latents[matrix]
    down, gain = (_read(tensors, module, name).double() for name in (names.down, names.norm))
    down_bias = None if names.bias is None else _read(tensors, module, names.bias).double()
    rank = len(gain)
    scaled = up.double() * gain
    weight = scaled @ down[:rank]
    bias = None if up_bias is None else up_bias.double()
    if down_bias is not None:
        through = scaled @ down_bias[:rank]
        bias = through if bias is None else through + bias
    if matrix == "K":
        weight = torch.cat([weight, down[rank:].expand(len(up), -1, -1)], 1)
        if bias is not None:
            tail = bias.new_zeros(len(down) - rank) if down_bias is None else down_bias[rank:]
            bias = torch.cat([bias, tail.expand(len(up), -1)], 1)
    return weight, bias


def _circuit_changes(delta: LayerWeights, now: LayerWeights) -> LayerWeights:
    """Write the changes of both circuits as products of factors.

    With ``W' = W + Δ`` they are ``W_Q'ᵀ W_K' − W_Qᵀ W_K = [Δ_Q; W_Q]ᵀ [W_K'; Δ_K]``, and likewise for V and O. This is
    exact, while the difference of two nearly equal products would lose digits.
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


def _arrange_groups(stored: Tensor, width: int) -> Tensor:
    """Arrange groups of rows that each read their own part of the width in one matrix: (rows, width)."""
    dense: Tensor = torch.block_diag(*stored.chunk(width // stored.shape[1]))
    return dense


def _cut(module: AttentionModule, matrix: str, wanted: range, stored: Tensor, has_gate: bool = False) -> Tensor:
    """Cut the wanted heads out of a stored projection, or out of its bias (rows,).

    Queries, keys and values give (heads, head_dim, ...), outputs (heads, d_output, value_head_dim); with ``has_gate``
    the result is the output gate, whose rows follow each head's queries.
    """
    outline, rule, layout = module.outline, module.rule, module.rule.layout
    if stored.ndim > 1:  # bring it to (out, in)
        if rule.is_by_head:
            stored = stored.flatten(1) if matrix == "O" else stored.flatten(1).T
        elif stored.ndim == 3:  # a convolution over one token, in groups
            stored = _arrange_groups(stored.squeeze(-1), outline.shape(matrix, True)[1])
        elif rule.stored_transposed:
            stored = stored.T
    heads = outline.heads if matrix in "QO" else outline.key_value_heads
    width = outline.value_head_dim if matrix in "VO" else outline.head_dim
    if stored.ndim == 1 and layout is Layout.SEPARATE and len(stored) == 3 * heads * width:  # one bias for all three
        stored = stored.chunk(3)["QKV".index(matrix)]
    chosen = slice(wanted.start, wanted.stop)
    by_head: Tensor
    if matrix == "O":
        by_head = stored[:, chosen.start * width : chosen.stop * width].unflatten(1, (len(wanted), width))
        return by_head.permute(1, 0, 2)
    is_alone = layout is Layout.SEPARATE or (matrix in rule.biases and len(stored) == heads * width)
    if is_alone or (layout in (Layout.LATENT, Layout.PAIRED) and matrix == "Q"):
        by_head = stored.unflatten(0, (heads, -1))[chosen]
        return by_head[:, width:] if has_gate else by_head[:, :width]
    if layout is Layout.LATENT:
        by_head = stored.unflatten(0, (heads, -1))[chosen]
        return by_head[:, -width:] if matrix == "V" else by_head[:, : -outline.value_head_dim]
    places = fused_places(layout, outline.heads, outline.key_value_heads)[matrix][chosen]
    by_head = stored.unflatten(0, (-1, width))
    return by_head[places[0] : places[-1] + 1] if places[-1] - places[0] == len(places) - 1 else by_head[places]
