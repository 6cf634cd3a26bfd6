"""The rows of ``spectrum``: every singular value with its energy and chance, and perhaps a second model's beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine.analysis.layers import NOTHING, over_layers
from engine.analysis.open_model import OpenModel
from engine.analysis.ranks import spectra_of, spectra_wanted
from engine.mathematics.chance import chance_curve
from engine.mathematics.measures import energies
from engine.values.errors import EngineError, NotFinite
from engine.values.outline import LayerOutline
from engine.values.spectra import Spectrum
from engine.values.table import SPECTRA_OF_TWO_COLUMNS, SPECTRUM_COLUMNS, Groups, LargeTable, RowGroup
from engine.values.views import Query

Row = tuple[str | int | float, ...]


def rows(model: OpenModel, query: Query) -> Groups:
    """List the spectra that a query names, and nothing else: of one matrix no other is computed.

    Raises
    ------
    EngineError : when a second model is asked for, and there is none, or a layer cannot be compared.
    """
    if query.of_two:
        yield from model.other()
    yield from over_layers("spectrum", model, query, _rows_of_layer)


def _rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    for whole_layer in spectra_wanted(query):
        spectra, lacking = yield from spectra_of(model, layer, whole_layer, query)
        if not query.of_two:
            yield RowGroup(list(spectrum_rows(spectra)), lacking=lacking)
            continue
        model.comparison.check(layer.name)
        other = yield from model.other()
        try:
            theirs, left_out = yield from spectra_of(other, layer, whole_layer, query)
        except NotFinite as error:
            raise NotFinite(f"in {other.outline.name} {error.what}") from error
        if lacking or left_out:
            raise EngineError(*(lacking or left_out))
        yield RowGroup(list(rows_of_two(spectra, theirs)))


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


def rows_of_two(own: Sequence[Spectrum], other: Sequence[Spectrum]) -> Iterator[Row]:
    """Yield the same with another model's singular values behind.

    Parameters
    ----------
    own, other : of the same heads and matrices, in the same order and of the same sizes.
    """
    theirs = (sigma for spectrum in other for sigma in spectrum.singular_values.tolist())
    return ((*row, sigma) for row, sigma in zip(spectrum_rows(own), theirs, strict=True))


def spectrum_table(batches: Iterable[Sequence[Spectrum]]) -> LargeTable:
    """List spectra that are known, a batch at a time, as the rows are read."""
    return LargeTable("spectrum", SPECTRUM_COLUMNS, (row for batch in batches for row in spectrum_rows(batch)))


def spectra_of_two_table(pairs: Iterable[tuple[Sequence[Spectrum], Sequence[Spectrum]]]) -> LargeTable:
    """List the same with another model's singular values beside them, a pair of batches at a time."""
    return LargeTable("spectrum", SPECTRA_OF_TWO_COLUMNS, (row for pair in pairs for row in rows_of_two(*pair)))
