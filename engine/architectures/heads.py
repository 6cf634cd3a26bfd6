"""From stored tensors to each head's W_Q, W_K, W_V, W_O and biases."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.architectures.outline import AttentionModule
from engine.architectures.rules import Layout, fused_places
from engine.architectures.tensors import DTYPE_EPSILONS, PART, STORED_EPSILONS, Tensors, all_finite, not_finite, whole
from engine.values.errors import EngineError, NotFinite
from engine.values.spectra import FloatArray

if TYPE_CHECKING:
    from engine.architectures.tensors import Cut


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
    epsilons : by projection, (heads or key_value_heads,), the distance between neighbouring stored numbers, relative to
        the numbers.
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
    epsilons: dict[str, FloatArray]
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

    def epsilons_by_head(self, matrix: str) -> FloatArray:
        """Say how finely each head's projection is stored, that of a key/value head at each of its heads: (heads,)."""
        stored = self.epsilons[matrix]
        return stored.repeat(len(self.query) // len(stored))

    def compact(self) -> LayerWeights:
        """Copy what is cut out of larger tensors in memory, so that these can be let go of."""

        def copied(part: Tensor) -> Tensor:
            return part.clone() if part.untyped_storage().nbytes() > part.numel() * part.element_size() else part

        return replace(
            self,
            query=copied(self.query),
            key=copied(self.key),
            value=copied(self.value),
            output=copied(self.output),
            gate=None if self.gate is None else copied(self.gate),
            circuits=None if self.circuits is None else self.circuits.compact(),
        )

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

    Of large tensors of a file what is not cut out is not read, and nothing stays in memory with this object.

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
        self._stored = {name: _floating(name, tensors.cutting(name)) for name in names}
        self._dtypes = {matrix: tensors.entries[name].dtype for matrix, name in module.weights.items()}
        self._steps = {matrix: tensors.step(name) for matrix, name in module.weights.items()}
        lengths = {name: tensors.entries[name].shape[0] for name in steps}
        down = module.latents.get("K")
        self._shared_key_rows = 0 if down is None else lengths[down.down] - lengths[down.norm]
        self._changed = None if module.change_of is None else StoredLayer(tensors, module.change_of)

    def cut(self, heads: range | None = None, matrices: Collection[str] = "QKVO") -> LayerWeights:
        """Cut heads out.

        Parameters
        ----------
        heads : one after the other, all unless given; of those that share a key/value head all, or an equal part.
        matrices : which projections are wanted; zeros that take no memory stand for the others.

        Raises
        ------
        EngineError : when it cannot be read.
        NotFinite : when it holds NaN or infinite numbers.
        """
        heads = range(self._module.outline.heads) if heads is None else heads
        weights = self._cut(heads, matrices)
        if self._changed is None:
            return weights
        return replace(weights, circuits=_changed_circuits(weights, self._changed._cut(heads, matrices)))

    def _cut(self, heads: range, matrices: Collection[str]) -> LayerWeights:
        """Cut out heads as they are stored, and put together those whose projections take two steps."""
        module, outline = self._module, self._module.outline
        group = outline.heads // outline.key_value_heads
        shared = range(heads.start // group, (heads.stop - 1) // group + 1)
        parts: dict[str, Tensor] = {}
        biases: dict[str, Tensor] = {}
        epsilons: dict[str, FloatArray] = {}
        for matrix, wanted in (("Q", heads), ("K", shared), ("V", shared)):
            if matrix not in matrices:
                parts[matrix] = _nothing(len(wanted), *outline.shape(matrix, False))
                continue
            weight = self._finite(self._stored[module.weights[matrix]](partial(_rows, module, matrix, wanted)))
            epsilons[matrix] = self._epsilon(matrix, weight)
            bias = self._bias(matrix)
            bias = None if bias is None else _rows(module, matrix, wanted, bias)
            if matrix in module.latents:
                weight, bias = self._with_first_step(matrix, weight, bias)
            parts[matrix] = weight
            biases |= {} if bias is None else {matrix: bias}
        if "O" in matrices:
            parts["O"] = self._output(heads)
            epsilons["O"] = self._epsilon("O", parts["O"])
        else:
            parts["O"] = _nothing(len(heads), *outline.shape("O", False))
        return LayerWeights(
            parts["Q"],
            parts["K"],
            parts["V"],
            parts["O"],
            biases.get("Q"),
            biases.get("K"),
            biases.get("V"),
            self._bias("O"),
            epsilons,
            self._gate(module.weights["Q"], heads),
            self._gate(module.biases.get("Q"), heads),
            self._shared_key_rows,
        )

    def _epsilon(self, matrix: str, heads: Tensor) -> FloatArray:
        """Say how finely each head's numbers (heads, rows, columns) are stored, relative to them: (heads,).

        Numbers of float32 that bfloat16 has too were bfloat16 before they were saved.
        """
        dtype, step = self._dtypes[matrix], self._steps[matrix]
        if step is not None:
            sizes: FloatArray = heads.double().square().mean((1, 2)).sqrt().numpy()
            return np.where(sizes > 0, step / np.where(sizes > 0, sizes, 1.0), 0.0)
        epsilons: FloatArray = np.full(len(heads), STORED_EPSILONS[dtype])
        if dtype == "float32" and heads.dtype == torch.float32:
            epsilons[[_are_bfloat16(head) for head in heads]] = STORED_EPSILONS["bfloat16"]
        return epsilons

    def _finite(self, part: Tensor) -> Tensor:
        """Refuse a part of a tensor that no singular value could be computed of, and name all that is wrong there."""
        if not all_finite(part):
            raise NotFinite(not_finite({name: _in_parts(cut) for name, cut in self._stored.items()}))
        return part

    def _bias(self, matrix: str) -> Tensor | None:
        """Give the bias of a projection, or None where the model has none."""
        name = self._module.biases.get(matrix)
        return None if name is None else self._finite(self._stored[name](whole)).flatten()

    def _with_first_step(self, matrix: str, up: Tensor, up_bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Compose a projection's two steps: ``up · diag(gain) · down``, in float64 (DeepSeek-AI 2024, equations 9–17).

        The norm between them divides a token's latent by its size, which depends on the token, and multiplies it by a
        gain, which does not. Only the gain can be part of a matrix; the heads carry a mark that says so. The last rows
        of the keys' first step skip the norm: all heads share them, behind their own.

        Parameters
        ----------
        up, up_bias : (heads, rows, rank) and (heads, rows), or None.

        Returns
        -------
        (heads, rows [+ shared], d_model), and (heads, rows [+ shared]), or None where neither step has a bias.
        """
        names = self._module.latents[matrix]
        down, gain = (self._finite(self._stored[name](whole)).double() for name in (names.down, names.norm))
        down_bias = None if names.bias is None else self._finite(self._stored[names.bias](whole)).double()
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

    def _output(self, heads: range) -> Tensor:
        """Cut out columns of the output projection, by head: (heads, d_output, value_head_dim)."""
        module, width = self._module, self._module.outline.value_head_dim
        name, places = module.weights["O"], slice(heads.start * width, heads.stop * width)
        if module.output_first:
            first, last = self._finite(self._stored[module.output_first](whole)), self._stored[name](whole)
            inner = _in_groups(first, module.outline.heads * width).double()
            columns = (_matrix(module, "O", last).double() @ inner)[:, places]
        else:
            columns = self._stored[name](lambda stored: _matrix(module, "O", stored)[:, places])
        by_head: Tensor = self._finite(columns).unflatten(1, (len(heads), width)).permute(1, 0, 2)
        return by_head

    def _gate(self, name: str | None, heads: range) -> Tensor | None:
        """Cut out what follows each head's queries, where that is an output gate."""
        if name is None or not self._module.is_gated:
            return None
        outline = self._module.outline

        def behind(stored: Tensor) -> Tensor:
            rows = stored.flatten() if stored.ndim == 1 else _matrix(self._module, "Q", stored)
            by_head: Tensor = rows.unflatten(0, (outline.heads, -1))[heads.start : heads.stop, outline.head_dim :]
            return by_head

        return self._finite(self._stored[name](behind))


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


def _are_bfloat16(head: Tensor) -> bool:
    """Say whether the float32 numbers of a head (rows, columns) are all numbers of bfloat16 too."""
    return not any(bool((rows.bfloat16() != rows).any()) for rows in (head[:1], head))


def _floating(name: str, cut: Cut) -> Cut:
    """Refuse a tensor that is stored in another form than as numbers."""
    dtype = cut(lambda stored: stored.reshape(-1)[:0]).dtype
    if str(dtype).removeprefix("torch.") not in DTYPE_EPSILONS:
        raise EngineError(f"{name} is stored as {dtype}; attn-tui reads float64, float32, bfloat16 and float16")
    return cut


def _in_parts(cut: Cut) -> Iterator[Tensor]:
    """Go through the numbers of a stored tensor, `PART` at a time."""
    yield from cut(whole).reshape(-1).split(PART)


def _matrix(module: AttentionModule, matrix: str, stored: Tensor) -> Tensor:
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


def _rows(module: AttentionModule, matrix: str, wanted: range, stored: Tensor) -> Tensor:
    """Take the rows of some heads' queries, keys or values out of a projection, or out of its bias (rows,).

    Returns
    -------
    (heads wanted, head_dim, ...)
    """
    stored = stored if stored.ndim == 1 else _matrix(module, matrix, stored)
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
