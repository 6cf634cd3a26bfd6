"""What the largest matrices take, those of a layer as a whole above all, and whether they may be begun."""

from __future__ import annotations

from engine.models.memory import free_memory
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.memory import size
from engine.values.model import LayerOutline

MATRIX_COPIES = 3
"""How many float64 matrices of the same size there are at once while the singular values of one are computed."""

TOKEN_MAP_COPIES = 2
"""Of the map from tokens to tokens, that there are while it is added up: its sum, and what is added."""

MOST_BROWSED = 1.4e9
"""Bytes that a layer as a whole may take unasked; with the libraries, the screen and what is stored less than 2 GB."""

FREE_SHARE = 0.05
"""Of the memory that is free, what it may take unasked on a machine that has plenty."""

SECONDS = 5e-10
"""What one core takes for each of the ``r² n`` steps of a dense decomposition of an (r, n) matrix, r ≤ n."""


def needed_memory(layer: LayerOutline) -> int:
    """Count the bytes that the largest matrix of a layer as a whole takes."""
    rows, columns = _largest(layer)
    return MATRIX_COPIES * 8 * rows * columns


def needed_minutes(layer: LayerOutline) -> int:
    """Estimate how long all six matrices of a layer as a whole take at most, on one core."""
    inner = {
        "QK": layer.key_value_heads * layer.head_dim,
        "OV": layer.key_value_heads * layer.value_head_dim,
    }  # what products have no more rank than
    steps = 0
    for matrix in MATRICES:
        short, long = sorted(layer.shape(matrix, True))
        steps += min(short, inner.get(matrix, short)) ** 2 * long
    return max(1, round(SECONDS * steps / 60))


def is_left_out(layer: LayerOutline) -> bool:
    """Say whether a layer as a whole takes more memory than browsing may."""
    return _is_too_much(needed_memory(layer))


def _is_too_much(needed: int) -> bool:
    """Say whether so many bytes are more than browsing takes unasked."""
    return needed > max(MOST_BROWSED, FREE_SHARE * (free_memory() or 0))


def token_map_room(layer: LayerOutline, is_browsing: bool) -> tuple[bool, str]:
    """Say whether the map from tokens to tokens may be formed where a layer writes, (d_output, d_values) in float64.

    Parameters
    ----------
    layer : which; those of a model share one map.
    is_browsing : whether it is not asked for by name.

    Returns
    -------
    whether it may, and what a person should know; empty where it takes little.
    """
    needed, free = TOKEN_MAP_COPIES * 8 * layer.d_output * layer.d_values, free_memory()
    what = f"ov_copying takes the product of both tables of tokens, which needs {size(needed)} of memory"
    if free is not None and needed > free:
        return False, f"{what}, and {size(free)} are free; it is left empty"
    if is_browsing and _is_too_much(needed):
        return False, f"{what}; it is left empty here, and computed by: attn-tui export MODEL circuits"
    return True, what if needed > MOST_BROWSED else ""


def check_room(layer: LayerOutline, is_browsing: bool) -> str:
    """Refuse a layer's matrices as a whole where the largest would not fit into memory, or is not to be had unasked.

    Parameters
    ----------
    layer : which.
    is_browsing : whether it is not asked for by name, but looked at among others.

    Returns
    -------
    what a person should know before they are begun; empty where they take little.

    Raises
    ------
    EngineError : when they are not begun.
    """
    rows, columns = _largest(layer)
    needed, free = needed_memory(layer), free_memory()
    what = f"{layer.name} as a whole has matrices of {rows}×{columns}, which need {size(needed)} of memory"
    if free is not None and needed > free:
        raise EngineError(f"{what}, and {size(free)} are free; its heads have their spectra one by one")
    if needed <= MOST_BROWSED:
        return ""
    time = f"about {needed_minutes(layer)} minutes on one core"
    if is_browsing and is_left_out(layer):
        stack = "" if layer.stack == "decoder" else f"--stack {layer.stack} "
        raise EngineError(
            f"{what}, all six {time}; they are left out here, and computed and kept by: "
            f"attn-tui export MODEL spectrum {stack}--layer {layer.layer} --head all"
        )
    return f"{what}, all six {time}"


def _largest(layer: LayerOutline) -> tuple[int, int]:
    """Give the shape of a layer's largest matrix."""
    return max((layer.shape(matrix, True) for matrix in "QKVO"), key=lambda shape: shape[0] * shape[1])
