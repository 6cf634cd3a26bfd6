"""The rows of ``changes``: what is different in each head, or each layer as a whole, of a second model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.analysis.circuits import measured
from engine.analysis.decompositions import in_rounds
from engine.analysis.layers import cells_of, heads_of, over_layers, parts_wanted, place_of
from engine.analysis.open_model import OpenModel
from engine.analysis.two_models import other_spectra
from engine.analysis.whole_layers import without_factors
from engine.architectures.heads import LayerWeights
from engine.mathematics.changes import (
    circuit_distance,
    differences,
    distance,
    image_angles,
    product_norm,
    unrelated_distance,
)
from engine.mathematics.circuits import Numbers
from engine.mathematics.measures import MEASURES, numerical_rank
from engine.mathematics.spectra import sum_over_groups
from engine.mathematics.subspaces import angle_columns, principal_angles, random_bases
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.spectra import Spectrum
from engine.values.table import Groups, RowGroup
from engine.values.views import CHANGES, CIRCUIT_MEASURES, Query

HEADS_AT_ONCE = 4
"""Heads in a piece of the work."""

COUNTS = (
    *(f"{measure.name}_change" for measure in MEASURES if measure.is_count),
    "_image_in_kernel_change",
    "_factors_lost_change",
)
"""What the columns of whole numbers end with."""


def rows_of_changes(model: OpenModel, query: Query) -> Groups:
    """Compare the layers that a query names, those alone of which the second model has the like; it is opened for it.

    Raises
    ------
    EngineError : when there is no second model, or the one layer that is asked for cannot be compared.
    """
    yield from model.other()
    yield from over_layers("changes", model, query, _rows_of_layer)


def _rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    model.comparison.check(layer.name)
    for whole_layer in parts_wanted(query):
        yield from _compared(model, layer, whole_layer, query)


def _compared(model: OpenModel, layer: LayerOutline, whole_layer: bool, query: Query) -> Groups:
    other = yield from model.other()
    first = (yield from model.spectra.layer(layer.name, whole_layer)).with_circuits()
    second = (yield from other_spectra(model, layer.name, whole_layer)).with_circuits()
    left_out = first.left_out | second.left_out
    numbers = [-1] if whole_layer else heads_of(layer, query)
    before, now = ([group.spectra[number] for number in numbers] for group in (first, second))
    weights = [each.layer_weights(layer.name) for each in (model, other)]
    yield None
    pieces = []
    for start in range(0, len(numbers), HEADS_AT_ONCE):
        some = slice(start, start + HEADS_AT_ONCE)
        pieces.append(partial(_measured, weights, numbers[some], before[some], now[some], left_out))
    found = [row for some in (yield from in_rounds(pieces)) for row in some]
    own = yield from measured(model, layer, whole_layer, query)
    theirs = yield from measured(other, layer, whole_layer, query)
    chance = _chance(model, layer, whole_layer, left_out)
    said = without_factors(layer, left_out, first.lacking or second.lacking) if whole_layer else ""
    in_other = (f"in {other.outline.name} {each}" for each in other.token_tables.wrong_of(layer.stack))
    lacking = [*model.token_tables.wrong_of(layer.stack), *in_other]
    yield RowGroup(
        [
            (
                *place_of(layer, number),
                *cells_of(
                    CHANGES.columns[3:],
                    row | differences(one, another) | _subtracted(own.own[number], theirs.own[number]),
                    chance,
                    COUNTS,
                ),
            )
            for number, row, one, another in zip(numbers, found, before, now, strict=True)
        ],
        lacking=(*(f"without ov_copying_change: {each}" for each in lacking), *((said,) if said else ())),
    )


def _subtracted(own: Numbers, theirs: Numbers) -> Numbers:
    """Subtract the measures of the first model's circuits from the second's; what either lacks is left out."""
    return {f"{name}_change": theirs[name] - own[name] for name in CIRCUIT_MEASURES if name in own and name in theirs}


def _chance(model: OpenModel, layer: LayerOutline, whole_layer: bool, left_out: frozenset[str]) -> Numbers:
    """Give the angles between random subspaces of the sizes of a layer's projections."""
    known = model.cached("chance of changes", dict[tuple[int, int], Tensor])
    found: Numbers = {}
    for matrix in sorted(set("QKVO") - left_out):
        rows, cols = layer.shape(matrix, whole_layer)
        d, size = (rows, cols) if matrix == "O" else (cols, rows)
        size = min(size, d)
        if (d, size) not in known:
            known[d, size] = principal_angles(*random_bases(size, size, d))
        found |= angle_columns(matrix, known[d, size])
        found[f"{matrix.lower()}_overlap"] = size / d
    return found


@dataclass(frozen=True)
class _Parts:
    """What is compared of some heads, or of a layer as one head.

    Attributes
    ----------
    projections : by matrix, W_Q, W_K, W_V and W_Oᵀ: (heads, r, d).
    circuits : by circuit, the factors left (heads, r, m) and right (heads, r, n) of ``leftᵀ right``.
    biases : by matrix, those that there are: (heads, 1, size). That of W_O is the layer's, and no head's.
    """

    projections: Mapping[str, Tensor]
    circuits: Mapping[str, tuple[Tensor, Tensor]]
    biases: Mapping[str, Tensor]


def _of_heads(weights: LayerWeights, numbers: Sequence[int]) -> _Parts:
    """Cut out some heads, each with its own copy of what it shares."""
    own, shared = list(numbers), [number // weights.group for number in numbers]
    query, key, value, output = weights.query[own], weights.key[shared], weights.value[shared], weights.output[own].mT
    biases = (("Q", weights.query_bias, own), ("K", weights.key_bias, shared), ("V", weights.value_bias, shared))
    return _Parts(
        {"Q": query, "K": key, "V": value, "O": output},
        {"QK": (query, key), "OV": (value, output)},
        {matrix: bias[places][:, None] for matrix, bias, places in biases if bias is not None},
    )


def _of_layer(weights: LayerWeights) -> _Parts:
    """Stack a layer's heads.

    The layer's circuits are sums over its heads, which are products of factors with the heads' rows one below the
    other; heads that share a key/value head add up their queries, and their outputs, first.
    """

    def added(part: Tensor) -> Tensor:
        return part if weights.group == 1 else sum_over_groups(part, len(weights.key))

    def stacked(part: Tensor) -> Tensor:
        return part.flatten(0, 1)[None]

    query, key, value, output = weights.query, weights.key, weights.value, weights.output.mT
    biases = zip("QKVO", (weights.query_bias, weights.key_bias, weights.value_bias, weights.output_bias), strict=True)
    return _Parts(
        {"Q": stacked(query), "K": stacked(key), "V": stacked(value), "O": stacked(output)},
        {"QK": (stacked(added(query)), stacked(key)), "OV": (stacked(value), stacked(added(output)))},
        {matrix: bias.reshape(1, 1, -1) for matrix, bias in biases if bias is not None},
    )


def _measured(
    weights: Sequence[LayerWeights],
    numbers: Sequence[int],
    before: Sequence[Mapping[str, Spectrum]],
    now: Sequence[Mapping[str, Spectrum]],
    left_out: frozenset[str],
) -> list[Numbers]:
    """Measure some heads, or a layer as a whole: distances of matrices and circuits, angles between images."""
    known = [matrix for matrix in MATRICES if matrix not in left_out]
    whole_layer = list(numbers) == [-1]
    first, second = (_of_layer(each) if whole_layer else _of_heads(each, numbers) for each in weights)
    distances = {
        matrix: circuit_distance(first.circuits[matrix], second.circuits[matrix])
        if matrix in first.circuits
        else distance(first.projections[matrix], second.projections[matrix])
        for matrix in known
    }
    chances = {matrix: unrelated_distance(*(_norms(each, matrix) for each in (first, second))) for matrix in known}
    for matrix, bias in first.biases.items():
        if (other := second.biases.get(matrix)) is not None:
            distances[f"b_{matrix}"] = distance(bias, other)
            chances[f"b_{matrix}"] = unrelated_distance(
                *(torch.linalg.matrix_norm(each.double()) for each in (bias, other))
            )
    rows: list[Numbers] = [{} for _ in numbers]
    for place, row in enumerate(rows):
        row |= {f"{matrix.lower()}_distance": float(values[place]) for matrix, values in distances.items()}
        row |= {f"{matrix.lower()}_distance_chance": float(values[place]) for matrix, values in chances.items()}
        for name in ("", "_chance"):
            row[f"change{name}"] = float(np.fmax(row[f"qk_distance{name}"], row[f"ov_distance{name}"]))
    for matrix in first.projections.keys() - left_out:
        ranks = [
            [int(numerical_rank(each[matrix].singular_values, each[matrix].noise)) for each in spectra]
            for spectra in (before, now)
        ]
        found = image_angles(first.projections[matrix], ranks[0], second.projections[matrix], ranks[1])
        for row, each in zip(rows, found, strict=True):
            row |= angle_columns(matrix, each)
    return rows


def _norms(parts: _Parts, matrix: str) -> Tensor:
    if matrix in parts.circuits:
        left, right = parts.circuits[matrix]
        return product_norm(left.double(), right.double())
    norms: Tensor = torch.linalg.matrix_norm(parts.projections[matrix].double())
    return norms
