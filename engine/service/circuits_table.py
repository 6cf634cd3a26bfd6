"""The rows of the ``circuits`` table: a layer's heads, then the layer as a whole, each beside what chance gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from engine.architectures.vocabulary import Vocabulary
from engine.mathematics.chance import chance_of
from engine.mathematics.circuit_measures import (
    SPECTRA,
    Factors,
    Frame,
    Numbers,
    exact_chance,
    measure,
    of_eigenvalues,
    of_heads,
    of_layer,
    reversed_circuit,
    shares_of_rounding,
    spectra_of,
)
from engine.mathematics.circuits import mass_chance
from engine.mathematics.eigenvalues import attempts, settled
from engine.mathematics.measures import cosine_noise, numerical_rank
from engine.mathematics.spectra import circuit_of_heads, layer_matrix
from engine.service.crew import Crew
from engine.service.positions import factors_at
from engine.service.token_maps import multiplied
from engine.service.token_tables import TokenTables, WatchedRows
from engine.service.whole_layers import without_factors
from engine.values.heads import MATRICES, Head
from engine.values.model import LayerOutline
from engine.values.spectra import FloatArray, Spectrum
from engine.values.tables import Cell
from engine.values.view import Query
from engine.values.views import CIRCUITS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from engine.architectures.heads import LayerWeights
    from engine.service.session import Breathe, Session

    Ranks = Mapping[str, NDArray[np.int64]]

SHARED_AT_ONCE = 3
"""Key/value heads, with the query heads that share them, in a piece of the work."""

DRAWS = 8
"""Gaussian heads that chance is the mean of; a layer as a whole averages itself over its many values."""

QUICK = 1024
"""The width up to which eigenvalues of whole layers are worked out unasked: three problems of 0.1 to 0.6 s a layer."""

MASSES = SPECTRA["QK"]
"""The shares that chance does not tell apart."""

CIRCUITS_OF = {"QK": ("d_model", "d_source"), "OV": ("d_values", "d_output")}
"""Which widths a circuit leads between."""


class CircuitsTable:
    """Measures an open model's circuits; keeps what layers share.

    Attributes
    ----------
    left_out : of layers as a whole, which columns were left empty when they were measured last, and why.
    """

    def __init__(self, session: Session, tables: TokenTables) -> None:
        self._session = session
        self._tables = tables
        self._crew = Crew(torch.get_num_threads())
        self._chance: dict[Hashable, Numbers] = {}
        self._token_maps: dict[Vocabulary, Tensor | None] = {}
        self.left_out: dict[Head, str] = {}

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer."""
        weights = self._session.layer_weights(layer.name)
        for whole_layer in (False, True):
            if query.wants(-1) if whole_layer else query.head is None or query.head >= 0:
                breathe()
                yield from self._measured(layer, whole_layer, weights, query, breathe)

    def of_heads(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads, and not that of the layer as a whole."""
        yield from self._measured(layer, False, self._session.layer_weights(layer.name), query, breathe)

    def of_layer(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the row of one layer as a whole."""
        yield from self._measured(layer, True, self._session.layer_weights(layer.name), query, breathe)

    def _measured(
        self, layer: LayerOutline, whole_layer: bool, weights: LayerWeights, query: Query, breathe: Breathe
    ) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of a layer's heads, or of the layer as a whole, keys turned where a distance is asked for."""
        factors = factors_at(self._session, layer, weights, query.distance)
        group = self._session.spectra(layer.name, whole_layer, breathe).with_circuits()
        if whole_layer:
            self.left_out[layer.name] = without_factors(layer, group.left_out, group.lacking)
        numbers = [number for number in group.spectra if query.wants(number)]
        spectra = [group.spectra[number] for number in numbers]
        ranks = {
            matrix: np.array([numerical_rank(own[matrix].singular_values, own[matrix].noise) for own in spectra])
            for matrix in spectra[0]
        }
        noise = np.array([own["QK"].noise for own in spectra])  # turned keys are as large as they were
        if query.distance is not None:
            ranks["QK"] = numerical_rank(_values_of_qk(factors, numbers, whole_layer), noise)
        stored = weights.epsilons
        tolerance = {
            circuit: cosine_noise(max(layer.shape(circuit, False)), max(stored[each].max() for each in circuit))
            for circuit in CIRCUITS_OF
        }
        compared, token_map = _compared(layer), self._token_map(layer, breathe)
        has_eigenvalues = not whole_layer or query.eigenvalues or layer.d_model <= QUICK
        solved = spectra_of(compared, token_map is not None) if has_eigenvalues else ()
        frame = Frame(compared, tolerance, not whole_layer, solved, token_map)
        breathe()
        chosen = factors if whole_layer else _chosen(factors, numbers)
        measured = self._in_pieces(chosen, ranks, noise, frame, breathe)
        chance = self._of_chance(layer, spectra[0], frame, group.left_out, breathe)
        for number, own in zip(numbers, measured, strict=True):
            place = (layer.stack, layer.layer, "all" if whole_layer else str(number))
            yield (*place, *_cells(own, chance))

    def _in_pieces(
        self, factors: Factors, ranks: Ranks, noise: FloatArray, frame: Frame, breathe: Breathe, of: str = ""
    ) -> list[Numbers]:
        """Measure heads a few at a time, or a layer as a whole, off the engine's own thread, which stays free."""
        if not frame.of_heads:
            return [self._of_layer(factors, ranks, noise, frame, breathe)]
        group = len(factors[0]) // len(factors[1])
        pieces: list[Callable[[], list[Numbers]]] = []
        for start in range(0, len(factors[1]), SHARED_AT_ONCE):
            shared = slice(start, start + SHARED_AT_ONCE)
            own = slice(group * start, group * (start + SHARED_AT_ONCE))
            part = factors[0][own], factors[1][shared], factors[2][shared], factors[3][own]
            own_ranks = {name: each[own] for name, each in ranks.items()}
            pieces.append(partial(_measure_heads, part, own_ranks, noise[own], frame))
        with self._session.telling(f"measuring circuits{of}", "heads") as telling:
            heads = len(factors[0])
            found = self._crew.run(pieces, breathe, done=lambda done: telling(done * heads // len(pieces), heads))
        return [row for rows in found for row in rows]

    def _of_layer(self, factors: Factors, ranks: Ranks, noise: FloatArray, frame: Frame, breathe: Breathe) -> Numbers:
        """Measure a layer as a whole.

        Eigenvalues take longer than all else, and LAPACK finds them on one core: each problem alone, side by side.
        """
        (layer,) = self._crew.run([partial(of_layer, factors, frozenset("QO") - ranks.keys())], breathe)
        made = self._crew.run([partial(reversed_circuit, layer, frame, kind) for kind in frame.spectra], breathe)
        squares = {kind: each[0] for kind, each in zip(frame.spectra, made, strict=True)}
        problems = {kind: attempts(square) for kind, square in squares.items()}
        pieces: list[Callable[[], Any]] = [each for own in problems.values() for each in own]
        pieces.append(partial(measure, layer, ranks, noise, replace(frame, spectra=())))
        with self._session.telling("measuring the layer as a whole", "problems") as telling:
            done: list[Any] = self._crew.run(pieces, breathe, done=lambda done: telling(done, len(pieces)))
        left, row = iter(done[:-1]), dict[str, float](done[-1][0])
        settling = [partial(settled, square, [next(left) for _ in problems[kind]]) for kind, square in squares.items()]
        found = self._crew.run(settling, breathe)
        for kind, each in zip(squares, found, strict=True):
            row |= {name: float(value) for name, value in of_eigenvalues(kind, each[None]).items()}
        return row | shares_of_rounding(row)

    def _of_chance(
        self,
        layer: LayerOutline,
        spectra: Mapping[str, Spectrum],
        frame: Frame,
        left_out: frozenset[str],
        breathe: Breathe,
    ) -> Numbers:
        """Measure Gaussian heads of a layer's shapes, stored as finely; layers of one shape share it."""
        whole_layer, noises = not frame.of_heads, {matrix: each.chance_noise for matrix, each in spectra.items()}
        shapes = {matrix: layer.shape(matrix, whole_layer) for matrix in MATRICES}
        inner = layer.head_dim, layer.value_head_dim
        key = (whole_layer, inner, left_out, *shapes.values(), *noises.values(), frame.compared, frame.spectra)
        if key not in self._chance:
            breathe()
            draws_of = chance_of(layer, whole_layer)
            ranks = {matrix: float(min(shape)) for matrix, shape in shapes.items()}
            ranks |= {name: float(numerical_rank(draws_of[name], each).mean()) for name, each in noises.items()}
            factors = _gaussian(layer, whole_layer, is_summed=bool(left_out))
            draws = 1 if whole_layer else DRAWS
            counted = {name: np.full(draws, round(ranks[name])) for name in noises}
            norms = math.prod(math.sqrt(math.prod(shapes[factor])) for factor in "QK")
            noise = np.full(draws, noises["QK"] * norms)
            solved = ("QK",) if whole_layer and "QK" in frame.spectra else ()  # of the others all is known
            drawn = self._in_pieces(
                factors, counted, noise, replace(frame, spectra=solved, token_map=None), breathe, " by chance"
            )
            means = {name: sum(each[name] for each in drawn) / draws for name in drawn[0]}
            better = exact_chance(layer.d_model, ranks)
            if "QK" in frame.spectra:  # of large matrices one draw tells it
                mass = sum(means[name] for name in MASSES) / 2 if solved else mass_chance(layer.head_dim, layer.d_model)
                better |= dict.fromkeys(MASSES, mass)
            defined = means.keys() | {name for kind in frame.spectra for name in SPECTRA[kind]}
            self._chance[key] = means | {name: value for name, value in better.items() if name in defined}
        return self._chance[key]

    def _token_map(self, layer: LayerOutline, breathe: Breathe) -> Tensor | None:
        """Compute ``W_Uᵀ W_E`` in float64, once for every pair of tables; None where a layer leads to no tokens."""
        found = self._tables.sound(layer.stack)
        if found not in self._token_maps:
            token_map = None
            if found.source is not None and found.unembedding is not None and found.source == found.queries:
                shapes = self._tables.shape(found.source), self._tables.shape(found.unembedding)
                is_known = shapes[0][0] == shapes[1][0]
                is_known = is_known and (shapes[0][1], shapes[1][1]) == (layer.d_values, layer.d_output)
                if is_known and self._session.has_room_for_token_map(layer):
                    with self._session.telling("from tokens to tokens", "tokens") as telling:
                        source = WatchedRows(self._tables.rows(found.source), breathe, telling)
                        same = found.source == found.unembedding
                        token_map = multiplied(source, None if same else self._tables.rows(found.unembedding))
            self._token_maps[found] = token_map
        kept = self._token_maps[found]
        return kept if kept is not None and kept.shape == (layer.d_output, layer.d_values) else None


def _values_of_qk(factors: Factors, numbers: list[int], whole_layer: bool) -> FloatArray:
    """Compute the singular values of QK where keys are turned: (heads, rank)."""
    values = layer_matrix("QK", *factors)[None] if whole_layer else circuit_of_heads("QK", *factors[:2])["QK"][numbers]
    found: FloatArray = values.numpy()
    return found


def _measure_heads(factors: Factors, ranks: Ranks, noise: FloatArray, frame: Frame) -> list[Numbers]:
    """Factor and measure some heads."""
    return measure(of_heads(factors), ranks, noise, frame)


def _compared(layer: LayerOutline) -> frozenset[str]:
    """Say which circuits lead from a space to itself: none across stacks, whose residual streams are two."""
    if layer.stack == "cross":
        return frozenset()
    return frozenset(
        circuit for circuit, (one, other) in CIRCUITS_OF.items() if getattr(layer, one) == getattr(layer, other)
    )


def _chosen(factors: Factors, numbers: list[int]) -> Factors:
    """Take the factors of some heads, each with its own copy of what it shares; of all of them as they are."""
    query, key, value, output = factors
    if len(numbers) == len(query):
        return factors
    shared = [number // (len(query) // len(key)) for number in numbers]
    return query[numbers], key[shared], value[shared], output[numbers]


def _gaussian(layer: LayerOutline, whole_layer: bool, is_summed: bool) -> Factors:
    """Draw Gaussian factors of a layer's shapes, from a fixed seed; sums of what shares keys are Gaussian too."""
    heads, shared = (layer.heads, layer.key_value_heads) if whole_layer else (DRAWS, DRAWS)
    heads = shared if is_summed else heads
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return (
        draw(heads, layer.head_dim, layer.d_model),
        draw(shared, layer.head_dim, layer.d_source),
        draw(shared, layer.value_head_dim, layer.d_values),
        draw(heads, layer.d_output, layer.value_head_dim),
    )


def _cells(own: Mapping[str, float], chance: Mapping[str, float]) -> Iterator[Cell]:
    """Lay numbers out in the table's columns; a cell is empty where nothing is defined."""
    for column in CIRCUITS.columns[3:]:
        name = column.removesuffix("_chance")
        value = own.get(name) if name == column else (chance.get(name) if name in own else None)
        yield "" if value is None or math.isnan(value) else value
