"""From values to the tables that the screen draws and the files hold."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.mathematics.chance import chance_curve, chance_measures
from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES, energies
from engine.values.attention import AttentionMap, PooledMap
from engine.values.heads import Head, MapName
from engine.values.proof import LayerProof
from engine.values.spectra import Spectrum
from engine.values.tables import (
    ATTENTION_COLUMNS,
    BLOCK_COLUMNS,
    DIFFERENCE_COLUMNS,
    DIFFERENCE_OF_HEADS_COLUMNS,
    PROOF_COLUMNS,
    RANKS_BESIDE_CHANCE_COLUMNS,
    ROLLOUT_COLUMNS,
    SPECTRA_OF_TWO_COLUMNS,
    SPECTRUM_COLUMNS,
    Cell,
    Table,
)


def _place(head: Head, matrix: str) -> tuple[Cell, ...]:
    """Fill the columns ``stack, layer, head, matrix``."""
    return (head.stack, head.layer, head.label, matrix)


def rank_rows(spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON) -> list[tuple[Cell, ...]]:
    """Measure spectra: a row of `engine.values.tables.RANK_COLUMNS` each, in their order.

    Spectra of the same matrix and length, such as those of a layer's heads, are measured in one call.
    """
    batches: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, spectrum in enumerate(spectra):
        batches[spectrum.matrix, len(spectrum.singular_values)].append(place)
    rows: list[tuple[Cell, ...]] = [()] * len(spectra)
    for places in batches.values():
        sigma = np.stack([spectra[place].singular_values for place in places])
        noise = np.array([spectra[place].noise for place in places])
        measured = [measure.compute(sigma, epsilon, noise).tolist() for measure in MEASURES]
        for place, values in zip(places, zip(*measured, strict=True), strict=True):
            spectrum = spectra[place]
            rows[place] = (*_place(spectrum.head, spectrum.matrix), spectrum.rows, spectrum.cols, *values)
    return rows


def rank_cells(spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON) -> dict[int, tuple[Cell, ...]]:
    """Measure the spectra of a layer's heads, whose matrices come in their order, one after the other.

    Returns
    -------
    by head number, every measure of each matrix: `engine.values.views.RANK_MEASURES`.
    """
    cells: dict[int, tuple[Cell, ...]] = {}
    for spectrum, row in zip(spectra, rank_rows(spectra, epsilon), strict=True):
        number = spectrum.head.head
        cells[number] = (*cells.get(number, ()), *row[6:])
    return cells


def rank_cells_beside_chance(
    spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON
) -> dict[int, tuple[Cell, ...]]:
    """Measure the spectra of a layer's heads as `rank_cells` does, with what chance gives behind each measure.

    Returns
    -------
    by head number, the part ``ranks`` of `engine.values.views.HEAD_PARTS`.
    """
    chances = chance_measures(spectra, epsilon)
    cells: dict[int, tuple[Cell, ...]] = {}
    for spectrum, row, chance in zip(spectra, rank_rows(spectra, epsilon), chances, strict=True):
        own, number = row[6:], spectrum.head.head
        pairs: Iterator[tuple[Cell, Cell]] = zip(own, ("",) * len(own) if chance is None else chance, strict=True)
        cells[number] = (*cells.get(number, ()), *itertools.chain.from_iterable(pairs))
    return cells


def rank_rows_beside_chance(spectra: Sequence[Spectrum], epsilon: float = DEFAULT_EPSILON) -> list[tuple[Cell, ...]]:
    """Measure as `rank_rows`, with what chance gives behind the measures; empty cells where there is no chance."""
    chances = chance_measures(spectra, epsilon)
    nothing = ("",) * len(MEASURES)
    return [(*row, *(chance or nothing)) for row, chance in zip(rank_rows(spectra, epsilon), chances, strict=True)]


def ranks_table(batches: Iterable[Sequence[Spectrum]], epsilon: float = DEFAULT_EPSILON) -> Table:
    """Measure spectra beside chance, a batch (a layer's heads, say) at a time, as the rows are read."""
    rows = (row for batch in batches for row in rank_rows_beside_chance(batch, epsilon))
    return Table("ranks", RANKS_BESIDE_CHANCE_COLUMNS, rows)


def _spectrum_rows(spectra: Sequence[Spectrum]) -> Iterator[tuple[Cell, ...]]:
    """Yield one row per singular value of each spectrum, counted from 1."""
    for spectrum in spectra:
        curve = chance_curve(spectrum)
        sigma, place = spectrum.singular_values, _place(spectrum.head, spectrum.matrix)
        shares = energies(sigma)
        chance: list[Cell] = [""] * len(sigma) if curve is None else curve.tolist()
        columns = (sigma.tolist(), shares.tolist(), np.cumsum(shares).tolist(), chance)
        for index, cells in enumerate(zip(*columns, strict=True), start=1):
            yield (*place, index, *cells)


def spectrum_table(batches: Iterable[Sequence[Spectrum]]) -> Table:
    """List every singular value of the spectra with chance and its energy, a batch at a time, as the rows are read."""
    return Table("spectrum", SPECTRUM_COLUMNS, (row for batch in batches for row in _spectrum_rows(batch)))


def spectra_of_two_table(pairs: Iterable[tuple[Sequence[Spectrum], Sequence[Spectrum]]]) -> Table:
    """List the same with another model's singular values beside them, a pair of batches at a time.

    The spectra of a pair are of the same heads and matrices, in the same order and of the same sizes.
    """
    rows = (
        (*row, sigma)
        for own, other in pairs
        for row, sigma in zip(
            _spectrum_rows(own), (sigma for theirs in other for sigma in theirs.singular_values.tolist()), strict=True
        )
    )
    return Table("spectrum", SPECTRA_OF_TWO_COLUMNS, rows)


def _attention_rows(attention: AttentionMap) -> Iterator[tuple[Cell, ...]]:
    """Yield one row per query and key, positions from 0; one query's weights become Python's numbers at a time."""
    place = (attention.name.stack, attention.name.layer_label, attention.name.head_label)
    if attention.other is not None:
        yield from _difference_rows(attention, attention.other)
        return
    for query, (token, row) in enumerate(zip(attention.query_tokens, attention.weights, strict=True)):
        beside = zip(attention.key_tokens, row.tolist(), _chance(attention, query), strict=True)
        for key, (key_token, weight, chance) in enumerate(beside):
            yield (*place, query, key, token, key_token, weight, chance)


def _difference_rows(attention: AttentionMap, other: NDArray[np.float32]) -> Iterator[tuple[Cell, ...]]:
    """Yield the same rows with a second model's weight, and by how much it is larger."""
    place = (attention.name.stack, attention.name.layer_label, attention.name.head_label)
    for query, token in enumerate(attention.query_tokens):
        weights, others = attention.weights[query].tolist(), other[query].tolist()
        beside = zip(attention.key_tokens, weights, _chance(attention, query), others, strict=True)
        for key, (key_token, weight, chance, theirs) in enumerate(beside):
            yield (*place, query, key, token, key_token, weight, chance, theirs, theirs - weight)


def _chance(attention: AttentionMap, query: int) -> Sequence[Cell]:
    """Give the cells that hold what chance gives each key of a query; empty ones where that is not known."""
    return attention.chance_of(query) or [""] * len(attention.key_tokens)


def _rows_of_maps(maps: Iterable[AttentionMap]) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of maps, and let go of each before the next is made."""
    for one in maps:
        yield from _attention_rows(one)
        del one


def attention_table(maps: Iterable[AttentionMap], of_two: bool = False) -> Table:
    """List every weight of the maps; of two models' maps with the other one's and the difference."""
    return Table("attention", DIFFERENCE_COLUMNS if of_two else ATTENTION_COLUMNS, _rows_of_maps(maps))


def difference_of_heads_table(attention: AttentionMap, other: MapName) -> Table:
    """List every weight of a head's map beside another head's of the same model, and by how much that is larger."""
    place = (other.stack, other.layer_label, other.head_label)
    return Table("difference", DIFFERENCE_OF_HEADS_COLUMNS, ((*row, *place) for row in _attention_rows(attention)))


def block_table(maps: Iterable[PooledMap]) -> Table:
    """List the blocks of pooled maps, by their first and last query and key, with their largest weight and the mean."""
    return Table("attention", BLOCK_COLUMNS, (row for pooled in maps for row in _block_rows(pooled)))


def _block_rows(pooled: PooledMap) -> Iterator[tuple[Cell, ...]]:
    """Yield one row per block that is there."""
    place = (pooled.name.stack, pooled.name.layer_label, pooled.name.head_label)
    for row in pooled.window.rows:
        for column in pooled.window.columns:
            block = pooled.at(row, column)
            queries, keys = block.queries, block.keys
            yield (*place, queries[0], queries[-1], keys[0], keys[-1], block.largest, block.mean)


def rollout_rows(attention: AttentionMap) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of a stack's rollout: those of its map, which is of no layer or head."""
    return ((row[0], *row[3:]) for row in _attention_rows(attention))


def map_table(attention: AttentionMap) -> Table:
    """List every weight of a map as rows of ``attention``, beside another model's or of ``rollout`` where it is so."""
    if attention.name.is_rollout:
        return Table("rollout", ROLLOUT_COLUMNS, rollout_rows(attention))
    return attention_table([attention], attention.other is not None)


def proof_table(proofs: Iterable[LayerProof]) -> Table:
    """List what a check has found: two rows a layer, for what its heads write and for where they look."""
    rows = (
        (proof.layer.stack, proof.layer.layer, identity, finding.verdict, finding.residual, finding.note)
        for proof in proofs
        for identity, finding in (("output", proof.output), ("scores", proof.scores))
    )
    return Table("check", PROOF_COLUMNS, rows)
