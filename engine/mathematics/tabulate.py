"""From values to the tables that the screen draws and the files hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES, energies
from engine.values.attention import AttentionMap
from engine.values.heads import Head
from engine.values.model import Parameter
from engine.values.spectra import Spectrum
from engine.values.tables import (
    ATTENTION_COLUMNS,
    RANK_COLUMNS,
    SPECTRUM_COLUMNS,
    WEIGHT_COLUMNS,
    Cell,
    Table,
)


def _place(head: Head, matrix: str) -> tuple[Cell, ...]:
    """Fill the columns ``stack, layer, head, matrix``."""
    return (head.stack, head.layer, head.label, matrix)


def rank_row(spectrum: Spectrum, epsilon: float = DEFAULT_EPSILON) -> tuple[Cell, ...]:
    """Measure one spectrum: a row of the ``ranks`` table."""
    measured = (measure.compute(spectrum.singular_values, epsilon, spectrum.tolerance).item() for measure in MEASURES)
    return (*_place(spectrum.head, spectrum.matrix), spectrum.rows, spectrum.cols, *measured)


def ranks_table(spectra: Iterable[Spectrum], epsilon: float = DEFAULT_EPSILON) -> Table:
    """Measure spectra; one row each, computed as they are read."""
    return Table("ranks", RANK_COLUMNS, (rank_row(spectrum, epsilon) for spectrum in spectra))


def _spectrum_rows(spectrum: Spectrum) -> Iterator[tuple[Cell, ...]]:
    """Yield one row per singular value, counted from 1."""
    shares = energies(spectrum.singular_values)
    columns = (spectrum.singular_values.tolist(), shares.tolist(), np.cumsum(shares).tolist())
    place = _place(spectrum.head, spectrum.matrix)
    for index, (sigma, share, cumulative) in enumerate(zip(*columns, strict=True), start=1):
        yield (*place, index, sigma, share, cumulative)


def spectrum_table(spectra: Iterable[Spectrum]) -> Table:
    """List every singular value of the spectra with its energy."""
    return Table("spectrum", SPECTRUM_COLUMNS, (row for spectrum in spectra for row in _spectrum_rows(spectrum)))


def _attention_rows(attention: AttentionMap) -> Iterator[tuple[Cell, ...]]:
    """Yield one row per query and key, positions from 0."""
    place = (attention.name.stack, attention.name.layer_label, attention.name.head_label)
    for query, (token, row) in enumerate(zip(attention.query_tokens, attention.weights.tolist(), strict=True)):
        for key, weight in enumerate(row):
            yield (*place, query, key, token, attention.key_tokens[key], weight)


def attention_table(maps: Iterable[AttentionMap]) -> Table:
    """List every weight of the maps."""
    return Table("attention", ATTENTION_COLUMNS, (row for one in maps for row in _attention_rows(one)))


def weights_table(parameters: Iterable[Parameter]) -> Table:
    """List the tensors of a checkpoint; a shape is written as ``768x2304``."""
    rows = (
        (each.name, "x".join(map(str, each.shape)), each.dtype, each.parameters, each.tied_to) for each in parameters
    )
    return Table("weights", WEIGHT_COLUMNS, rows)
