"""The rows of the ``changes`` table: what is different in each head, and each layer, of a second model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.mathematics.changes import (
    Apart,
    circuit_distance,
    differences,
    distance,
    images_apart,
    product_norm,
    random_apart,
    unrelated,
)
from engine.mathematics.circuit_measures import summed
from engine.mathematics.measures import MEASURES, numerical_rank
from engine.service.circuits_table import DRAWS, CircuitsTable
from engine.service.crew import Crew
from engine.service.token_tables import TokenTables
from engine.service.whole_layers import without_factors
from engine.values.comparison import HOW_TO_COMPARE
from engine.values.errors import EngineError
from engine.values.heads import MATRICES, Head
from engine.values.model import LayerOutline
from engine.values.spectra import Spectrum
from engine.values.tables import Cell
from engine.values.view import Query
from engine.values.views import CHANGES, CIRCUIT_MEASURES, CIRCUITS

if TYPE_CHECKING:
    from torch import Tensor

    from engine.architectures.heads import LayerWeights
    from engine.service.session import Breathe, Session
    from engine.service.two_models import TwoModels

HEADS_AT_ONCE = 4
"""Heads in a piece of the work."""

COUNTS = (
    *(f"{measure.name}_change" for measure in MEASURES if measure.is_count),
    "_image_in_kernel_change",
    "_factors_lost_change",
)
"""What the columns of whole numbers end with."""

Numbers = dict[str, float]


class ChangesTable:
    """Compares an open model with a second one, layer by layer.

    Parameters
    ----------
    session : the model that was opened.
    models : this model and the one beside it, or None where there is none.
    circuits : measures this model's circuits.

    Attributes
    ----------
    left_out : as of `CircuitsTable`.
    """

    def __init__(self, session: Session, models: TwoModels | None, circuits: CircuitsTable) -> None:
        self._session = session
        self._models = models
        self._circuits: tuple[CircuitsTable, ...] = (circuits,)
        self._other_tables: TokenTables | None = None
        if models is not None:
            self._other_tables = TokenTables(models.other)
            self._circuits = circuits, CircuitsTable(models.other, self._other_tables)
        self._crew = Crew(torch.get_num_threads())
        self._chance: dict[tuple[int, int, int], Apart] = {}
        self.left_out: dict[Head, str] = {}

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads, then of the layer; none of a layer that the other model lacks.

        A large layer as a whole takes minutes, so its row is left out unless whole layers are asked for.

        Raises
        ------
        EngineError : when there is no second model, or the one layer that is asked for cannot be compared.
        """
        if self._models is None:
            raise EngineError(HOW_TO_COMPARE)
        models, comparison = self._models, self._models.comparison
        if query.layer is not None:
            comparison.check(layer.name)
        elif layer.name not in comparison.layers:
            return
        heads = query.head is None or query.head >= 0
        for whole_layer, is_wanted in ((False, heads), (True, query.wants(-1) and not (heads and layer.is_large))):
            if is_wanted:
                breathe()
                yield from self._compared(models, layer, whole_layer, query, breathe)

    def _compared(
        self, models: TwoModels, layer: LayerOutline, whole_layer: bool, query: Query, breathe: Breathe
    ) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of a layer's heads, or of the layer as a whole."""
        first = self._session.spectra(layer.name, whole_layer, breathe).with_circuits()
        second = models.spectra(layer.name, whole_layer, None, breathe, MATRICES).with_circuits()
        left_out = first.left_out | second.left_out
        if whole_layer:
            self.left_out[layer.name] = without_factors(layer, left_out, first.lacking or second.lacking)
        numbers = [number for number in first.spectra if query.wants(number)]
        before, now = ([group.spectra[number] for number in numbers] for group in (first, second))
        weights = [each.layer_weights(layer.name) for each in (self._session, models.other)]
        pieces = []
        for start in range(0, len(numbers), HEADS_AT_ONCE):
            some = slice(start, start + HEADS_AT_ONCE)
            pieces.append(partial(_measured, weights, numbers[some], before[some], now[some], left_out))
        measured = [row for rows in self._crew.run(pieces, breathe) for row in rows]
        chance = self._of_chance(layer, whole_layer, left_out)
        circuits = self._of_circuits(layer, whole_layer, query, breathe)
        for number, row, own, theirs, change in zip(numbers, measured, before, now, circuits, strict=True):
            place = (layer.stack, layer.layer, "all" if whole_layer else str(number))
            yield (*place, *_cells(row | differences(own, theirs) | change, chance))

    def _of_circuits(self, layer: LayerOutline, whole_layer: bool, query: Query, breathe: Breathe) -> list[Numbers]:
        """Subtract the measures of the first model's circuits from the second's; what either lacks is left out."""
        both: list[list[Numbers]] = []
        for circuits in self._circuits:
            rows = (circuits.of_layer if whole_layer else circuits.of_heads)(layer, query, breathe)
            named = (zip(CIRCUITS.columns, row, strict=True) for row in rows)
            both.append([{name: float(cell) for name, cell in row if name in CIRCUIT_MEASURES and cell != ""}
                         for row in named])  # fmt: skip
        return [
            {f"{name}_change": theirs[name] - own[name] for name in own.keys() & theirs.keys()}
            for own, theirs in zip(*both, strict=True)
        ]

    def lacking_in_other(self, stack: str) -> tuple[str, ...]:
        """Say what has been found wrong so far with the second model's tables of tokens."""
        if self._models is None or self._other_tables is None:
            return ()
        name = self._models.other.outline.name
        return tuple(f"in {name} {said}" for said in self._other_tables.lacking(stack))

    def _of_chance(self, layer: LayerOutline, whole_layer: bool, left_out: frozenset[str]) -> Numbers:
        """Give the angles between random subspaces of the sizes of a layer's projections."""
        found: Numbers = {}
        for matrix in sorted(set("QKVO") - left_out):
            rows, cols = layer.shape(matrix, whole_layer)
            d, size = (rows, cols) if matrix == "O" else (cols, rows)
            key = (d, min(size, d), 1 if whole_layer else DRAWS)
            if key not in self._chance:
                self._chance[key] = random_apart(*key)
            found |= _of_angles(matrix, self._chance[key])
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
    return _Parts(
        {"Q": query, "K": key, "V": value, "O": output},
        {"QK": (query, key), "OV": (value, output)},
        {
            matrix: bias[places][:, None]
            for matrix, bias, places in (
                ("Q", weights.query_bias, own),
                ("K", weights.key_bias, shared),
                ("V", weights.value_bias, shared),
            )
            if bias is not None
        },
    )


def _of_layer(weights: LayerWeights) -> _Parts:
    """Stack a layer's heads.

    The layer's circuits are sums over its heads, which are products of factors with the heads' rows one below the
    other; heads that share a key/value head add up their queries, and their outputs, first.
    """

    def added(part: Tensor) -> Tensor:
        return part if weights.group == 1 else summed(part, len(weights.key))

    def stacked(part: Tensor) -> Tensor:
        return part.flatten(0, 1)[None]

    query, key, value, output = weights.query, weights.key, weights.value, weights.output.mT
    return _Parts(
        {"Q": stacked(query), "K": stacked(key), "V": stacked(value), "O": stacked(output)},
        {"QK": (stacked(added(query)), stacked(key)), "OV": (stacked(value), stacked(added(output)))},
        {
            matrix: bias.reshape(1, 1, -1)
            for matrix, bias in (
                ("Q", weights.query_bias),
                ("K", weights.key_bias),
                ("V", weights.value_bias),
                ("O", weights.output_bias),
            )
            if bias is not None
        },
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
    chances = {matrix: unrelated(*(_norms(each, matrix) for each in (first, second))) for matrix in known}
    for matrix, bias in first.biases.items():
        if (other := second.biases.get(matrix)) is not None:
            distances[f"b_{matrix}"] = distance(bias, other)
            chances[f"b_{matrix}"] = unrelated(*(torch.linalg.matrix_norm(each.double()) for each in (bias, other)))
    rows: list[Numbers] = [{} for _ in numbers]
    for place, row in enumerate(rows):
        row |= {f"{matrix.lower()}_distance": float(values[place]) for matrix, values in distances.items()}
        row |= {f"{matrix.lower()}_distance_chance": float(values[place]) for matrix, values in chances.items()}
        for name in ("", "_chance"):
            row[f"change{name}"] = float(np.fmax(row[f"qk_distance{name}"], row[f"ov_distance{name}"]))
    for matrix in first.projections.keys() - left_out:
        ranks = ([_rank_of(each[matrix]) for each in spectra] for spectra in (before, now))
        found = images_apart(first.projections[matrix], next(ranks), second.projections[matrix], next(ranks))
        for row, each in zip(rows, found, strict=True):
            row |= {} if each is None else _of_angles(matrix, each)
    return rows


def _rank_of(spectrum: Spectrum) -> int:
    """Count a matrix's numerical rank."""
    return int(numerical_rank(spectrum.singular_values, spectrum.noise))


def _norms(parts: _Parts, matrix: str) -> Tensor:
    """Compute the Frobenius norms of a matrix of heads, or of their circuit."""
    if matrix in parts.circuits:
        left, right = parts.circuits[matrix]
        return product_norm(left.double(), right.double())
    norms: Tensor = torch.linalg.matrix_norm(parts.projections[matrix].double())
    return norms


def _of_angles(matrix: str, angles: Apart) -> Numbers:
    """Name the numbers of two subspaces as the table's columns."""
    return {
        f"{matrix.lower()}_angle_smallest": angles.smallest,
        f"{matrix.lower()}_angle_mean": angles.mean,
        f"{matrix.lower()}_angle_largest": angles.largest,
        f"{matrix.lower()}_overlap": angles.overlap,
    }


def _cells(numbers: Numbers, chance: Numbers) -> Iterator[Cell]:
    """Lay numbers out in the table's columns; a cell is empty where nothing is defined, and counts are whole."""
    for column in CHANGES.columns[3:]:
        name = column.removesuffix("_chance")
        value = numbers.get(column, chance.get(name) if name != column and name in numbers else None)
        if value is None or math.isnan(value):
            yield ""
        else:
            yield int(value) if column.endswith(COUNTS) else value
