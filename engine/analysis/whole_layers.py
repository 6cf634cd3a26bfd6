"""What the largest matrices take, those of a layer as a whole above all, and whether they may be begun."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.checkpoints.size_bounds import free_memory
from engine.values.display_text import quantity
from engine.values.heads import MATRICES
from engine.values.memory import size
from engine.values.outline import LayerOutline

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


def needed_memory(layer: LayerOutline, matrix: str) -> int:
    """Count the bytes that one matrix of a layer as a whole takes; a product of thin factors takes what they take."""
    rows, columns = layer.shape(matrix, True)
    inner = _rank(layer, matrix)
    numbers = rows * columns if inner >= min(rows, columns) else inner * (rows + columns)
    return MATRIX_COPIES * 8 * numbers


def _rank(layer: LayerOutline, matrix: str) -> int:
    """Give what a matrix of a layer as a whole has no more rank than; a change is made of twice as many factors."""
    width = {"QK": layer.head_dim, "OV": layer.value_head_dim}.get(matrix)
    if width is None:
        return min(layer.shape(matrix, True))
    return layer.key_value_heads * width * (2 if layer.is_change else 1)


def _is_too_much(needed: int) -> bool:
    return needed > max(MOST_BROWSED, FREE_SHARE * (free_memory() or 0))


def token_map_room(layer: LayerOutline, is_browsing: bool) -> tuple[bool, str]:
    """Say whether the map from tokens to tokens may be formed where a layer writes, (d_output, d_values) in float64.

    And what a person should know; nothing where it takes little. Layers of a model share one map.
    """
    needed, free = TOKEN_MAP_COPIES * 8 * layer.d_output * layer.d_values, free_memory()
    what = f"ov_copying takes the product of both tables of tokens, which needs {size(needed)} of memory"
    if free is not None and needed > free:
        return False, f"{what}, and {size(free)} are free; it is left empty"
    if is_browsing and _is_too_much(needed):
        return False, f"{what}; it is left empty here, and computed by: attn-tui export MODEL circuits"
    return True, what if needed > MOST_BROWSED else ""


def room_for(layer: LayerOutline, matrices: Sequence[str], is_browsing: bool) -> tuple[list[str], str, str]:
    """Tell which of a layer's matrices as a whole may be begun, why the others may not, and what a person should know.

    Those may that fit into memory and are to be had unasked. Where ``is_browsing`` they are not asked for by name, but
    looked at among others.
    """
    needed, free = {matrix: needed_memory(layer, matrix) for matrix in matrices}, free_memory()
    refused = [matrix for matrix in matrices if free is not None and needed[matrix] > free]
    unasked = [matrix for matrix in matrices if is_browsing and _is_too_much(needed[matrix])]
    left_out = [matrix for matrix in matrices if matrix in refused or matrix in unasked]
    fitting = [matrix for matrix in matrices if matrix not in left_out]
    lacking = notice = ""
    if refused:
        rest = "" if fitting else "; its heads have their spectra one by one"
        lacking = f"{_what(layer, left_out)}, and {size(free or 0)} are free: left out{rest}"
    elif left_out:
        stack = "" if layer.stack == "decoder" else f"--stack {layer.stack} "
        lacking = (
            f"{_what(layer, left_out)}, {_time(layer, left_out)}; they are left out here, and computed and kept by: "
            f"attn-tui export MODEL spectrum {stack}--layer {layer.layer} --head all"
        )
    if any(needed[matrix] > MOST_BROWSED for matrix in fitting):
        notice = f"{_what(layer, fitting)}, {_time(layer, fitting)}"
    return fitting, lacking, notice


def without_factors(layer: LayerOutline, left_out: Collection[str], lacking: str) -> str:
    """Say of a row of a layer as a whole which factors' columns are empty, and why; nothing where all are there."""
    named = " and ".join(f"W_{matrix}" for matrix in "QO" if matrix in left_out)
    return f"{layer.name} as a whole is without what {named} alone can tell: {lacking}" if named else ""


def _what(layer: LayerOutline, matrices: Sequence[str]) -> str:
    """Say what matrices of a layer as a whole take, the largest of them."""
    largest = max(matrices, key=lambda matrix: needed_memory(layer, matrix))
    rows, columns = layer.shape(largest, True)
    takes = f"{rows}×{columns}, which need {size(needed_memory(layer, largest))} of memory"
    if len(matrices) == len(MATRICES):
        return f"{layer.name} as a whole has matrices of {takes}"
    *others, last = matrices
    named = f"{', '.join(others)} and {last}" if others else last
    return f"{named} of {layer.name} as a whole {'are' if others else 'is'} up to {takes}"


def _time(layer: LayerOutline, matrices: Sequence[str]) -> str:
    """Estimate how long matrices of a layer as a whole take at most, on one core."""
    steps = 0
    for matrix in matrices:
        short, long = sorted(layer.shape(matrix, True))
        steps += min(short, _rank(layer, matrix)) ** 2 * long
    minutes = max(1, round(SECONDS * steps / 60))
    return f"{'all six ' if len(matrices) == len(MATRICES) else ''}about {quantity(minutes, 'minute')} on one core"
