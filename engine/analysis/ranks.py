"""The rows of ``ranks`` and ``spectrum``: measures of spectra, and singular values, beside chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from engine.analysis.layers import NOTHING, wanted_parts
from engine.analysis.open_model import OpenModel, other_spectra
from engine.mathematics.chance import chance_curve, chance_measures
from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES, energies
from engine.values.heads import MATRICES
from engine.values.outline import LayerOutline
from engine.values.progress import Work
from engine.values.spectra import Spectrum
from engine.values.table import SPECTRA_OF_TWO_COLUMNS, SPECTRUM_COLUMNS, Cell, Groups, LargeTable, RowGroup
from engine.values.views import Query

Row = tuple[str | int | float, ...]


def ranks_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """Measure the spectra of one layer's heads, and of the whole layer if the query wants it, no other matrices."""
    for whole_layer in wanted_parts(query):
        spectra = yield from _query_spectra(model, layer, whole_layer, query)
        epsilon = DEFAULT_EPSILON if query.epsilon is None else query.epsilon
        yield RowGroup(rank_rows_beside_chance(spectra, epsilon))


def _query_spectra(
    model: OpenModel, layer: LayerOutline, whole_layer: bool, query: Query, *, of_other: bool = False
) -> Work[list[Spectrum]]:
    compute = partial(other_spectra, model) if of_other else model.spectra.layer
    matrices = MATRICES if query.matrix is None else (query.matrix,)
    group = yield from compute(layer.name, whole_layer, matrices, query.distance)
    return group.listed(None if query.head is None or whole_layer else (query.head,), query.matrix)


def rank_rows(spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON) -> list[Row]:
    """Measure spectra: a row of `engine.values.table.RANK_COLUMNS` each, in their order.

    Spectra of the same matrix and length are measured in one call.
    """
    batches: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, spectrum in enumerate(spectra):
        batches[spectrum.matrix, len(spectrum.singular_values)].append(place)
    rows: list[Row] = [()] * len(spectra)
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
    """Measure as `rank_rows`, and append chance, or empty cells if there is none."""
    nothing = (NOTHING,) * len(MEASURES)
    chances = chance_measures(spectra, epsilon)
    return [(*row, *(chance or nothing)) for row, chance in zip(rank_rows(spectra, epsilon), chances, strict=True)]


def spectrum_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """List a layer's spectra, no other matrices; `EngineError` if the layers of two models cannot be compared."""
    for whole_layer in wanted_parts(query):
        spectra = yield from _query_spectra(model, layer, whole_layer, query)
        if not query.with_other:
            yield RowGroup(list(spectrum_rows(spectra)))
            continue
        theirs = yield from _query_spectra(model, layer, whole_layer, query, of_other=True)
        yield RowGroup(list(spectrum_rows_of_two(spectra, theirs)))


def spectrum_rows(spectra: Iterable[Spectrum]) -> Iterator[Row]:
    """Yield one row per singular value of each spectrum, counted from 1."""
    for spectrum in spectra:
        curve, sigma, head = chance_curve(spectrum), spectrum.singular_values, spectrum.head
        place = (head.stack, head.layer, head.label, spectrum.matrix)
        shares = energies(sigma)
        chance: list[str | float] = [NOTHING] * len(sigma) if curve is None else curve.tolist()
        columns = zip(sigma.tolist(), shares.tolist(), np.cumsum(shares).tolist(), chance, strict=True)
        for index, cells in enumerate(columns, start=1):
            yield (*place, index, *cells)


def spectrum_rows_of_two(own: Sequence[Spectrum], other: Sequence[Spectrum]) -> Iterator[Row]:
    """Yield the same rows with another model's singular values appended."""
    theirs = (sigma for spectrum in other for sigma in spectrum.singular_values.tolist())
    return ((*row, sigma) for row, sigma in zip(spectrum_rows(own), theirs, strict=True))


def spectrum_table(spectra: Sequence[Spectrum], other: Sequence[Spectrum] = ()) -> LargeTable:
    """List known spectra, perhaps beside another model's."""
    if other:
        return LargeTable("spectrum", SPECTRA_OF_TWO_COLUMNS, spectrum_rows_of_two(spectra, other))
    return LargeTable("spectrum", SPECTRUM_COLUMNS, spectrum_rows(spectra))
