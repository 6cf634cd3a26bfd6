"""Of what shapes a layer's projections are stored, under which names, and whether their biases fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.models.checkpoint import TensorEntry
from engine.models.counts import Counts
from engine.models.projections import sibling, tensor_of
from engine.models.rules import CONVOLUTION_GROUPS, Rule
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
