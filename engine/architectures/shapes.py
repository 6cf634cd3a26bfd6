"""How many heads a layer has and how wide they are, told by the stored shapes of its projections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.architectures.rules import CONVOLUTION_GROUPS, Layout, Rule, sibling, tensor_of
from engine.architectures.tensors import TensorEntry
from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import LayerOutline

Shape = tuple[int, ...]


def shapes_of(
    owners: Mapping[str, str], rule: Rule, entries: Mapping[str, TensorEntry], config: Mapping[str, Any]
) -> tuple[dict[str, Shape], dict[str, str]]:
    """Collect the shapes ``[out, in]`` of a layer's projections and first steps, and the projections' tensors.

    ``owners`` names the module of each matrix; keys and values may be another layer's.

    Raises
    ------
    EngineError : when a tensor is missing, or is no matrix.
    """
    shapes: dict[str, Shape] = {}
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
    shapes: Mapping[str, Shape],
    outline: LayerOutline,
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
        rows = outline.shape(matrix, True)[0]
        length = entries[bias].parameters
        together = rows + sum(shapes[each][0] for each in "QKV" if each != matrix)
        if length not in ({rows, shapes[matrix][0], together} if matrix in rule.biases else {shapes[matrix][0]}):
            raise EngineError(f"{bias} has shape {list(entries[bias].shape)}, not {[shapes[matrix][0]]}")
        found[matrix] = bias
    return found


def lay_out_heads(
    place: Head, module: str, rule: Rule, shapes: Mapping[str, Shape], heads: int
) -> tuple[LayerOutline, bool]:
    """Derive a layer's counts and widths from shapes and the number of its query heads.

    ``head_dim_v = W_O.in / H``, ``H_kv = W_V.out / head_dim_v``, ``head_dim_k = W_K.out / H_kv``. Shapes of a
    first step are called ``down Q``, of its norm ``norm Q``.

    Returns
    -------
    The outline, without marks, and whether the rows of every head's query are followed by as many of an output gate.

    Raises
    ------
    EngineError : when the shapes do not fit each other.
    """
    width = heads * (shapes["V"][0] // heads) if rule.has_tail else shapes["O"][1]
    value_head_dim, rest = divmod(width, heads)
    if rest or not value_head_dim:
        raise EngineError(
            f"{module}: {quantity(heads, 'head')} cannot share the output projection's width {width}; "
            "config.json has another number of heads than the weights"
        )
    shared, head_dim = _key_value_heads(rule.layout, shapes, heads, value_head_dim)
    parts = 4 if rule.layout is Layout.QUARTERS else 1
    if shared < 1 or heads % shared or shared % parts:
        sizes = ", ".join(f"{matrix} {shapes[matrix][0]}×{shapes[matrix][1]}" for matrix in "QKVO")
        raise EngineError(
            f"{module}: projections of {sizes} cannot be cut into {quantity(heads, 'head')}; "
            "attn-tui does not know this form"
        )
    reads = {matrix: shapes[f"down {matrix}" if matrix in rule.latents else matrix][1] for matrix in "QKV"}
    outline = LayerOutline(
        place.stack, place.layer, heads, shared,
        d_model=reads["Q"], d_source=reads["K"], d_values=reads["V"], d_output=shapes["O"][0],
        head_dim=head_dim, value_head_dim=value_head_dim, module=module,
    )  # fmt: skip
    return outline, rule.layout is Layout.SEPARATE and shapes["Q"][0] == 2 * heads * head_dim


def _key_value_heads(layout: Layout, shapes: Mapping[str, Shape], heads: int, value_head_dim: int) -> tuple[int, int]:
    """Count the key/value heads and the rows of a head's query; zeros where the shapes do not fit each other."""
    query, key, value = (shapes[matrix][0] for matrix in "QKV")
    head_dim = value_head_dim
    if layout is Layout.SEPARATE:  # the queries may be twice as high, for an output gate
        shared = max(1, value // value_head_dim)
        head_dim = key // shared
        fits = query in (heads * head_dim, 2 * heads * head_dim)
        fits = fits and key == shared * head_dim and value == shared * value_head_dim
    elif layout is Layout.PAIRED:
        shared, rest = divmod(key, 2 * value_head_dim)
        fits = not rest and query == heads * head_dim
    elif layout is Layout.LATENT:  # multi-head latent attention (DeepSeek-AI 2024): a key ends in a part all share
        shared, rank, shared_rows = heads, shapes["K"][1], shapes["down K"][0] - shapes["K"][1]
        own_rows, rest = divmod(key - heads * value_head_dim, heads)
        head_dim = own_rows + shared_rows
        fits = rest == 0 and own_rows > 0 and shared_rows >= 0 and shapes["norm K"] == (rank,)
        fits = fits and query == heads * head_dim
        fits = fits and ("down Q" not in shapes or shapes["down Q"][0] == shapes["Q"][1] == shapes["norm Q"][0])
    else:
        shared = (query // head_dim - heads) // 2
        fits = (heads + 2 * shared) * head_dim == query
    return (shared, head_dim) if fits else (0, 0)
