"""From stored tensors to each head's W_Q, W_K, W_V, W_O and biases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.models.checkpoint import DTYPE_EPSILONS, STORED_EPSILONS, Tensors
from engine.models.latent import FirstStep
from engine.models.outline import AttentionModule
from engine.models.rules import Layout, fused_places
from engine.values.errors import EngineError, NotFinite

NAMED = 3
"""Tensors that are named of a layer in which several cannot be computed with."""


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

    def copied(self) -> LayerWeights:
        """Copy what is cut out of larger tensors, so that these can be let go of."""
        parts = {name: getattr(self, name) for name in ("query", "key", "value", "output", "gate")}
        copies = {name: part.clone() for name, part in parts.items() if part is not None}
        return replace(self, **copies, circuits=None if self.circuits is None else self.circuits.copied())

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


class StoredLayer:
    """One layer's attention tensors as they are stored, of which heads are cut out as they are wanted.

    Tensors of a file are memory-mapped: what is not cut out is not read, and the pages are let go with this object.

    Raises
    ------
    EngineError : when a tensor cannot be read, or is not of a floating type.
    """

    def __init__(self, tensors: Tensors, module: AttentionModule) -> None:
        self._module = module
        latents = module.latents.values()
        steps = [name for latent in latents for name in (latent.down, latent.norm, latent.bias) if name]
        steps += [module.output_first] if module.output_first else []
        names = dict.fromkeys((*module.weights.values(), *module.biases.values(), *steps))
        self._stored = {name: _floating(name, tensors.read(name)) for name in names}
        self._epsilons = {
            matrix: STORED_EPSILONS[tensors.entries[name].dtype] for matrix, name in module.weights.items()
        }
        self._changed = None if module.change_of is None else StoredLayer(tensors, module.change_of)

    def cut(self, heads: range | None = None, matrices: Collection[str] = "QKVO") -> LayerWeights:
        """Cut heads out.

        Parameters
        ----------
        heads : one after the other, all unless given; of those that share a key/value head all, or an equal part.
        matrices : which projections are wanted; zeros that take no memory stand for the others.

        Raises
        ------
        NotFinite : when what is cut out holds NaN or infinite numbers.
        """
        heads = range(self._module.outline.heads) if heads is None else heads
        weights = self._cut(heads, matrices)
        if self._changed is None:
            return weights
        return replace(weights, circuits=_changed_circuits(weights, self._changed._cut(heads, matrices)))

    def _cut(self, heads: range, matrices: Collection[str]) -> LayerWeights:
        """Cut out heads as they are stored, and put together those whose projections take two steps."""
        module, outline, stored = self._module, self._module.outline, self._stored
        group = outline.heads // outline.key_value_heads
        shared = range(heads.start // group, (heads.stop - 1) // group + 1)
        parts: dict[str, Tensor] = {}
        biases: dict[str, Tensor] = {}
        for matrix, wanted in (("Q", heads), ("K", shared), ("V", shared)):
            if matrix not in matrices:
                rows, columns = outline.shape(matrix, False)
                parts[matrix] = _nothing(len(wanted), rows, columns)
                continue
            name = module.weights[matrix]
            weight = self._finite(_rows(module, _matrix(module, stored[name], matrix), matrix, wanted))
            bias = self._bias(matrix)
            bias = None if bias is None else _rows(module, bias, matrix, wanted)
            if matrix in module.latents:
                weight, bias = self._first_step(matrix).then(weight, bias, with_shared=matrix == "K")
            parts[matrix] = weight
            biases |= {} if bias is None else {matrix: bias}
        down = module.latents.get("K")
        return LayerWeights(
            parts["Q"],
            parts["K"],
            parts["V"],
            self._output(heads) if "O" in matrices else _nothing(len(heads), *outline.shape("O", False)),
            biases.get("Q"),
            biases.get("K"),
            biases.get("V"),
            self._bias("O"),
            self._epsilons,
            self._gate(module.weights["Q"], heads),
            self._gate(module.biases.get("Q"), heads),
            0 if down is None else len(stored[down.down]) - len(stored[down.norm]),
        )

    def _finite(self, part: Tensor) -> Tensor:
        """Refuse a part of a tensor that no singular value could be computed of, and name all that is wrong there."""
        if not all_finite(part):
            raise NotFinite(not_finite(self._stored))
        return part

    def _bias(self, matrix: str) -> Tensor | None:
        """Give the bias of a projection, or None where the model has none."""
        name = self._module.biases.get(matrix)
        return None if name is None else self._finite(self._stored[name]).flatten()

    def _first_step(self, matrix: str) -> FirstStep:
        """Give the first step of a projection that takes two."""
        names = self._module.latents[matrix]
        down, norm = (self._finite(self._stored[name]) for name in (names.down, names.norm))
        return FirstStep(down, norm, None if names.bias is None else self._finite(self._stored[names.bias]))

    def _output(self, heads: range) -> Tensor:
        """Cut out columns of the output projection, by head: (heads, d_output, value_head_dim)."""
        module, width = self._module, self._module.outline.value_head_dim
        name = module.weights["O"]
        weight = _matrix(module, self._stored[name], "O")
        if module.output_first:
            first = self._finite(self._stored[module.output_first])
            weight = weight.double() @ _in_groups(first, module.outline.heads * width).double()
        columns = self._finite(weight[:, heads.start * width : heads.stop * width])
        by_head: Tensor = columns.unflatten(1, (len(heads), width)).permute(1, 0, 2)
        return by_head

    def _gate(self, name: str | None, heads: range) -> Tensor | None:
        """Cut out what follows each head's queries, where that is an output gate."""
        if name is None or not self._module.is_gated:
            return None
        outline = self._module.outline
        stored = self._stored[name]
        rows = stored.flatten() if stored.ndim == 1 else _matrix(self._module, stored, "Q")
        by_head = rows.unflatten(0, (outline.heads, -1))[heads.start : heads.stop, outline.head_dim :]
        return self._finite(by_head)


def all_finite(part: Tensor) -> bool:
    """Say whether a tensor holds neither NaN nor infinite numbers.

    What is finite added up holds none; that is several times quicker to know than the extremes, which are asked for
    where a sum is too large for the dtype. Both are NaN where any number is.
    """
    return bool(part.sum().isfinite()) or bool(torch.stack(torch.aminmax(part)).isfinite().all())


def not_finite(tensors: Mapping[str, Tensor]) -> str:
    """Say of tensors which hold NaN or infinite numbers, and how many; of more than `NAMED` the first ones."""
    bad = {name: int((~tensor.isfinite()).sum()) for name, tensor in tensors.items()}
    said = [
        f"{name} holds {count} NaN or infinite numbers of {tensors[name].numel()}"
        for name, count in bad.items() if count
    ]  # fmt: skip
    more = len(said) - NAMED
    if more <= 0:
        return ", ".join(said)
    others = "so does one" if more == 1 else f"so do {more}"
    return f"{', '.join(said[:NAMED])} and {others} more of its tensors"


def read_layer(tensors: Tensors, module: AttentionModule) -> LayerWeights:
    """Read one layer's projections and cut them into heads.

    Raises
    ------
    EngineError : when a tensor cannot be read, or is not of a floating type.
    NotFinite : when one holds NaN or infinite numbers.
    """
    return StoredLayer(tensors, module).cut()


def _nothing(*shape: int) -> Tensor:
    """Give zeros that take no memory."""
    return torch.zeros(()).expand(shape)


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


def _rows(module: AttentionModule, stored: Tensor, matrix: str, wanted: range) -> Tensor:
    """Take rows of the queries, keys or values, by head: (rows, ...) to (heads wanted, head_dim, ...)."""
    outline, layout = module.outline, module.rule.layout
    heads = outline.heads if matrix == "Q" else outline.key_value_heads
    width = outline.value_head_dim if matrix == "V" else outline.head_dim
    is_alone = layout is Layout.SEPARATE or (matrix in module.rule.biases and len(stored) == heads * width)
    chosen = slice(wanted.start, wanted.stop)
    by_head: Tensor
    if is_alone or (layout in (Layout.LATENT, Layout.PAIRED) and matrix == "Q"):
        by_head = stored.unflatten(0, (heads, -1))
        return by_head[chosen, :width]  # what comes after is an output gate
    if layout is Layout.LATENT:
        by_head = stored.unflatten(0, (heads, -1))
        return by_head[chosen, -width:] if matrix == "V" else by_head[chosen, : -outline.value_head_dim]
    places = fused_places(layout, outline.heads, outline.key_value_heads)[matrix][chosen]
    by_head = stored.unflatten(0, (-1, width))
    return by_head[places[0] : places[-1] + 1] if places[-1] - places[0] == len(places) - 1 else by_head[places]


def _floating(name: str, tensor: Tensor) -> Tensor:
    """Refuse a tensor that is stored in another form than as numbers."""
    if str(tensor.dtype).removeprefix("torch.") not in DTYPE_EPSILONS:
        raise EngineError(f"{name} is stored as {tensor.dtype}; attn-tui reads float64, float32, bfloat16 and float16")
    return tensor
