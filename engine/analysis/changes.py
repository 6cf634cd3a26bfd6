"""The rows of ``changes``: how each head or whole layer differs in a second model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
from torch import Tensor

from engine.analysis.circuits import measure_layer
from engine.analysis.layers import measure_cells, place_cells, wanted_heads, wanted_parts
from engine.analysis.open_model import OpenModel, other_spectra
from engine.analysis.token_tables import token_tables
from engine.architectures.heads import LayerWeights
from engine.mathematics.circuits import Numbers
from engine.mathematics.distances import (
    angle_columns,
    angles,
    distance,
    image_angles,
    random_cosines,
    unrelated_distance,
)
from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES, numerical_rank
from engine.mathematics.spectra import layer_factors
from engine.mathematics.threads import run_in_rounds
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.spectra import Spectrum
from engine.values.table import Groups, RowGroup
from engine.values.views import CHANGES, CIRCUIT_MEASURES, Query

HEADS_AT_ONCE = 4


def changes_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Compare a layer with that of the second model; `EngineError` if it cannot be compared."""
    model.comparison.check(layer.name)
    for whole_layer in wanted_parts(query):
        yield from _compare(model, layer, whole_layer, query)


def _compare(model: OpenModel, layer: LayerOutline, whole_layer: bool, query: Query) -> Groups:
    other = yield from model.other()
    first = yield from model.spectra.layer(layer.name, whole_layer)
    second = yield from other_spectra(model, layer.name, whole_layer)
    numbers = [-1] if whole_layer else wanted_heads(layer, query)
    before, now = ([group.spectra[number] for number in numbers] for group in (first, second))
    weights = [each.layer_weights(layer.name) for each in (model, other)]
    yield None
    pieces = []
    for start in range(0, len(numbers), HEADS_AT_ONCE):
        some = slice(start, start + HEADS_AT_ONCE)
        pieces.append(partial(_measure_heads, weights, numbers[some], before[some], now[some]))
    found = [row for some in (yield from run_in_rounds(pieces)) for row in some]
    own = yield from measure_layer(model, layer, whole_layer, query)
    theirs = yield from measure_layer(other, layer, whole_layer, query)
    for number, row in zip(numbers, found, strict=True):
        one, another = own.own[number], theirs.own[number]
        both = (name for name in CIRCUIT_MEASURES if name in one and name in another)
        row |= {f"{name}_change": another[name] - one[name] for name in both}
    chance = _chance(layer, whole_layer)
    lacking = token_tables(model).lacking(layer.stack, "ov_copying_change")
    in_other = token_tables(other).lacking(layer.stack, "ov_copying_change", f"in {other.outline.name} ")
    yield RowGroup(
        [
            (*place_cells(layer, number), *measure_cells(CHANGES.columns[3:], row, chance))
            for number, row in zip(numbers, found, strict=True)
        ],
        lacking=(*lacking, *in_other),
    )


def _chance(layer: LayerOutline, whole_layer: bool) -> Numbers:
    """Return the angles between random subspaces as large as a layer's projections."""
    found: Numbers = {}
    for matrix in "QKVO":
        rows, cols = layer.shape(matrix, whole_layer)
        d, size = (rows, cols) if matrix == "O" else (cols, rows)
        size = min(size, d)
        found |= angle_columns(matrix, angles(random_cosines(size, size, d)))
        found[f"{matrix.lower()}_overlap"] = size / d
    return found


def _factors(weights: LayerWeights, numbers: Sequence[int]) -> dict[str, tuple[Tensor, ...]]:
    """Select some heads' matrices and biases, shared keys and values copied; or a whole layer's, as of one head."""
    biases = {"b_Q": weights.query_bias, "b_K": weights.key_bias, "b_V": weights.value_bias}
    if list(numbers) == [-1]:
        biases |= {"b_O": weights.output_bias}
        of_layer = {matrix: layer_factors(matrix, *weights.factors) for matrix in MATRICES}
        return of_layer | {name: (bias.reshape(1, 1, -1),) for name, bias in biases.items() if bias is not None}
    own, shared = list(numbers), [number // weights.group for number in numbers]
    query, key, value, output = weights.query[own], weights.key[shared], weights.value[shared], weights.output[own].mT
    places = {"b_Q": own, "b_K": shared, "b_V": shared}
    of_heads = {"Q": (query,), "K": (key,), "V": (value,), "O": (output,), "QK": (query, key), "OV": (output, value)}
    return of_heads | {name: (bias[places[name]][:, None],) for name, bias in biases.items() if bias is not None}


def _measure_heads(
    weights: Sequence[LayerWeights],
    numbers: Sequence[int],
    before: Sequence[Mapping[str, Spectrum]],
    now: Sequence[Mapping[str, Spectrum]],
) -> list[Numbers]:
    first, second = (_factors(each, numbers) for each in weights)
    rows: list[Numbers] = [{} for _ in numbers]
    for name in (name for name in first if name in second):
        distances = distance(first[name], second[name]), unrelated_distance(first[name], second[name])
        for row, value, chance in zip(rows, *distances, strict=True):
            row |= {f"{name.lower()}_distance": float(value), f"{name.lower()}_distance_chance": float(chance)}
    for name in ("", "_chance"):
        for row in rows:
            row[f"change{name}"] = float(np.fmax(row[f"qk_distance{name}"], row[f"ov_distance{name}"]))
    for matrix in "QKVO":
        ranks = [
            [int(numerical_rank(each[matrix].singular_values, each[matrix].noise)) for each in spectra]
            for spectra in (before, now)
        ]
        found = image_angles(first[matrix][0], ranks[0], second[matrix][0], ranks[1])
        for row, degrees in zip(rows, found, strict=True):
            row |= angle_columns(matrix, degrees)
    for row, one, other in zip(rows, before, now, strict=True):
        for matrix, measure in product(MATRICES, MEASURES):
            was, became = (
                float(measure.compute(each[matrix].singular_values, DEFAULT_EPSILON, each[matrix].noise))
                for each in (one, other)
            )
            row[f"{matrix.lower()}_{measure.name}_change"] = 0.0 if was == became else became - was
    return rows
