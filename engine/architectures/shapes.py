"""How many heads a layer has and how wide they are, told by the stored shapes of its projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.architectures.rules import CONVOLUTION_GROUPS, Layout, Rule, sibling, tensor_of
from engine.architectures.tensors import TensorEntry
from engine.values.display_text import counted
from engine.values.errors import EngineError


def shapes_of(
    owners: Mapping[str, str], rule: Rule, entries: Mapping[str, TensorEntry], config: Mapping[str, Any]
) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Collect the shapes of a layer's projections and first steps, ``[out, in]``, and the projections' tensors.

    Parameters
    ----------
    owners : the module of each matrix; keys and values may be another layer's.
    rule : how the modules keep their projections.
    entries : the tensors by name.
    config : as ``config.json`` has it.

    Raises
    ------
    EngineError : when a tensor is missing, or is no matrix.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    weights: dict[str, str] = {}
    for matrix, name in rule.projections.items():
        weights[matrix] = tensor = named_tensor(entries, owners[matrix], name)
        shape = entries[tensor].shape
        if len(shape) == 3 and rule.is_by_head:
            across = shape[1] * shape[2]
            shapes[matrix] = (shape[0], across) if matrix == "O" else (across, shape[0])
        elif len(shape) == 3 and shape[2] == 1:
            shapes[matrix] = (shape[0], shape[1] * (config.get(CONVOLUTION_GROUPS[matrix]) or 1))
        elif len(shape) == 2:
            shapes[matrix] = shape[::-1] if rule.stored_transposed else shape
        else:
            raise EngineError(f"{tensor} has shape {list(shape)}, not that of a matrix")
    if rule.output_first:
        groups = config.get(rule.output_groups) or 1
        rows, columns = entries[named_tensor(entries, owners["O"], rule.output_first)].shape
        if shapes["O"][1] != rows:
            raise EngineError(f"{owners['O']}: the two steps of its output projection do not fit each other")
        shapes["O"] = (shapes["O"][0], columns * groups)
    for matrix, latent in rule.latents.items():
        for part, name in (("down", latent.down), ("norm", latent.norm)):
            tensor = named_tensor(entries, owners[matrix], name)
            shape = entries[tensor].shape
            if len(shape) != (2 if part == "down" else 1):
                raise EngineError(
                    f"{tensor} has shape {list(shape)}, not that of a {'matrix' if part == 'down' else 'gain'}"
                )
            shapes[f"{part} {matrix}"] = shape
    return shapes, weights


def named_tensor(entries: Mapping[str, TensorEntry], module: str, name: str) -> str:
    """Find a tensor that a rule names.

    Raises
    ------
    EngineError : when it is missing.
    """
    tensor = tensor_of(entries, module, name)
    if tensor is None:
        raise EngineError(f"{sibling(module, name)}.weight is not in the checkpoint; download or save the model again")
    return tensor


def biases_of(
    owners: Mapping[str, str],
    rule: Rule,
    entries: Mapping[str, TensorEntry],
    shapes: Mapping[str, tuple[int, ...]],
    counts: Counts,
) -> dict[str, str]:
    """Find the biases of a layer's projections, by matrix.

    Raises
    ------
    EngineError : when one has another length than its projection, or than all heads of its matrix.
    """
    found: dict[str, str] = {}
    for matrix, name in rule.projections.items():
        beside = f"{named_tensor(entries, owners[matrix], name).removesuffix('.weight')}.bias"
        bias = sibling(owners[matrix], rule.biases[matrix]) if matrix in rule.biases else beside
        if bias not in entries:
            continue
        rows = {
            "Q": counts.heads * counts.head_dim,
            "K": counts.key_value_heads * counts.head_dim,
            "V": counts.key_value_heads * counts.value_head_dim,
            "O": shapes["O"][0],
        }[matrix]
        length = entries[bias].parameters
        if length not in ({rows, shapes[matrix][0]} if matrix in rule.biases else {shapes[matrix][0]}):
            raise EngineError(f"{bias} has shape {list(entries[bias].shape)}, not {[shapes[matrix][0]]}")
        found[matrix] = bias
    return found


Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """A layer's heads and widths, as `LayerOutline` names them.

    Attributes
    ----------
    is_gated : whether the rows of every head's query are followed by as many rows of an output gate.
    """

    heads: int
    key_value_heads: int
    d_model: int
    d_source: int
    d_values: int
    d_output: int
    head_dim: int
    value_head_dim: int
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class _Widths:
    """What one layout says of a layer: its key/value heads, the rows of a query's head, and whether a gate follows."""

    key_value_heads: int
    head_dim: int
    is_gated: bool = False


def count_heads(module: str, rule: Rule, shapes: Mapping[str, Shape], heads: int) -> Counts:
    """Derive a layer's counts from shapes and the number of its query heads.

    ``head_dim_v = W_O.in / H``, ``H_kv = W_V.out / head_dim_v``, ``head_dim_k = W_K.out / H_kv``.

    Parameters
    ----------
    module : its name, for messages.
    rule : how it is cut.
    shapes : ``[out, in]`` of its projections by matrix; of a first step as ``down Q`` and of its norm as ``norm Q``.
    heads : query heads.

    Raises
    ------
    EngineError : when the shapes do not fit each other.
    """
    width = heads * (shapes["V"][0] // heads) if rule.has_tail else shapes["O"][1]
    value_head_dim, rest = divmod(width, heads)
    if rest or not value_head_dim:
        raise EngineError(
            f"{module}: {counted(heads, 'head')} cannot share the output projection's width {width}; "
            "config.json has another number of heads than the weights"
        )
    count = {Layout.SEPARATE: _separate, Layout.PAIRED: _paired, Layout.LATENT: _latent}.get(rule.layout, _fused)
    widths = count(shapes, heads, value_head_dim)
    parts = 4 if rule.layout is Layout.QUARTERS else 1
    if widths is None or widths.key_value_heads < 1 or heads % widths.key_value_heads or widths.key_value_heads % parts:
        sizes = ", ".join(f"{matrix} {shapes[matrix][0]}×{shapes[matrix][1]}" for matrix in "QKVO")
        raise EngineError(
            f"{module}: projections of {sizes} cannot be cut into {counted(heads, 'head')}; "
            "attn-tui does not know this form"
        )
    reads = {matrix: shapes[f"down {matrix}" if matrix in rule.latents else matrix][1] for matrix in "QKV"}
    return Counts(
        heads,
        widths.key_value_heads,
        reads["Q"],
        reads["K"],
        reads["V"],
        shapes["O"][0],
        widths.head_dim,
        value_head_dim,
        widths.is_gated,
    )


def _separate(shapes: Mapping[str, Shape], heads: int, value_head_dim: int) -> _Widths | None:
    """Count the heads of three projections; the queries' may be twice as high, for an output gate."""
    shared = max(1, shapes["V"][0] // value_head_dim)
    head_dim = shapes["K"][0] // shared
    gated = shapes["Q"][0] == 2 * heads * head_dim
    fits = (
        shapes["Q"][0] in (heads * head_dim, 2 * heads * head_dim)
        and shapes["K"][0] == shared * head_dim
        and shapes["V"][0] == shared * value_head_dim
    )
    return _Widths(shared, head_dim, gated) if fits else None


def _fused(shapes: Mapping[str, Shape], heads: int, value_head_dim: int) -> _Widths | None:
    """Count the heads of one projection, whose queries, keys and values are equally wide."""
    shared = (shapes["Q"][0] // value_head_dim - heads) // 2
    return _Widths(shared, value_head_dim) if (heads + 2 * shared) * value_head_dim == shapes["Q"][0] else None


def _paired(shapes: Mapping[str, Shape], heads: int, value_head_dim: int) -> _Widths | None:
    """Count the heads of queries apart and one projection of keys and values, all equally wide."""
    shared, rest = divmod(shapes["K"][0], 2 * value_head_dim)
    return _Widths(shared, value_head_dim) if not rest and shapes["Q"][0] == heads * value_head_dim else None


def _latent(shapes: Mapping[str, Shape], heads: int, value_head_dim: int) -> _Widths | None:
    """Count the heads of multi-head latent attention (DeepSeek-AI 2024): a key ends in a part all share."""
    rank, shared_rows = shapes["K"][1], shapes["down K"][0] - shapes["K"][1]
    own_rows, rest = divmod(shapes["K"][0] - heads * value_head_dim, heads)
    head_dim = own_rows + shared_rows
    fits = rest == 0 and own_rows > 0 and shared_rows >= 0 and shapes["norm K"] == (rank,)
    fits = fits and shapes["Q"][0] == heads * head_dim
    fits = fits and ("down Q" not in shapes or shapes["down Q"][0] == shapes["Q"][1] == shapes["norm Q"][0])
    return _Widths(heads, head_dim) if fits else None
