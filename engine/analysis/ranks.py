"""The rows of ``ranks``: measures of the spectra of heads, and of layers as a whole, each beside what chance gives."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from engine.analysis.layers import NOTHING, over_layers
from engine.analysis.open_model import OpenModel
from engine.mathematics.chance import chance_measures
from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES
from engine.values.errors import EngineError
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.progress import Work
from engine.values.spectra import Spectrum
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import Query


def rows(model: OpenModel, query: Query) -> Groups:
    """Measure the spectra that a query names, and nothing else: of one matrix no other is computed."""
    return over_layers("ranks", model, query, _rows_of_layer)


def _rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    for whole_layer in spectra_wanted(query):
        spectra, lacking = yield from spectra_of(model, layer, whole_layer, query)
        epsilon = DEFAULT_EPSILON if query.epsilon is None else query.epsilon
        yield RowGroup(rank_rows_beside_chance(spectra, epsilon), lacking=lacking)


def spectra_wanted(query: Query) -> Iterator[bool]:
    """Yield whether layers as a whole are meant: no for their heads, then yes for themselves, where both are wanted."""
    if query.head is None or query.head >= 0:
        yield False
    if query.wants(-1):
        yield True


def spectra_of(
    model: OpenModel, layer: LayerOutline, whole_layer: bool, query: Query
) -> Work[tuple[list[Spectrum], tuple[str, ...]]]:
    """Give the spectra of a layer that a query names, and why others are left out.

    Raises
    ------
    EngineError : when the one matrix that the query names is left out.
    """
    matrices = MATRICES if query.matrix is None else (query.matrix,)
    group = yield from model.spectra_at(layer.name, whole_layer, query.distance, matrices)
    lacks = group.lacks(query.matrix)
    if lacks and query.matrix is not None:
        raise EngineError(lacks)
    heads = None if query.head is None or whole_layer else (query.head,)
    return group.listed(heads, query.matrix), (lacks,) if lacks else ()


def rank_rows(spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON) -> list[tuple[str | int | float, ...]]:
    """Measure spectra: a row of `engine.values.table.RANK_COLUMNS` each, in their order.

    Spectra of the same matrix and length, such as those of a layer's heads, are measured in one call.
    """
    batches: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, spectrum in enumerate(spectra):
        batches[spectrum.matrix, len(spectrum.singular_values)].append(place)
    rows: list[tuple[str | int | float, ...]] = [()] * len(spectra)
    for places in batches.values():
        sigma = np.stack([spectra[place].singular_values for place in places])
        noise = np.array([spectra[place].noise for place in places])
        measured = [measure.compute(sigma, epsilon, noise).tolist() for measure in MEASURES]
        for place, values in zip(places, zip(*measured, strict=True), strict=True):
            head, matrix = spectra[place].head, spectra[place].matrix
            own = (head.stack, head.layer, head.label, matrix, spectra[place].rows, spectra[place].cols)
            rows[place] = (*own, *values)
    return rows


def rank_rows_beside_chance(spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON) -> list[tuple[Cell, ...]]:
    """Measure as `rank_rows`, with what chance gives behind the measures; empty cells where there is no chance."""
    nothing = (NOTHING,) * len(MEASURES)
    chances = chance_measures(spectra, epsilon)
    return [(*row, *(chance or nothing)) for row, chance in zip(rank_rows(spectra, epsilon), chances, strict=True)]


def rank_cells(
    spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON, *, with_chance: bool = False
) -> dict[int, tuple[str | int | float, ...]]:
    """Measure the spectra of a layer's heads, whose matrices come in their order, one after the other.

    Returns
    -------
    by head number, every measure of each matrix: `engine.values.views.RANK_MEASURES`; with what chance gives behind
    each, the part ``ranks`` of `engine.values.views.HEAD_PARTS`.
    """
    cells: dict[int, tuple[str | int | float, ...]] = defaultdict(tuple)
    chances = chance_measures(spectra, epsilon) if with_chance else [None] * len(spectra)
    for spectrum, row, chance in zip(spectra, rank_rows(spectra, epsilon), chances, strict=True):
        beside: tuple[str | float, ...] = (NOTHING,) * len(MEASURES) if chance is None else chance
        pairs = zip(row[6:], beside, strict=True)
        cells[spectrum.head.head] += tuple(itertools.chain.from_iterable(pairs)) if with_chance else row[6:]
    return dict(cells)
