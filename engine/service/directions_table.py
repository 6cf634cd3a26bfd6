"""The rows of the ``directions`` table: the tokens at both ends of the singular directions of QK and OV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from engine.architectures.vocabulary import Gain, final_gain, gain_before, read_gain
from engine.mathematics.chance import chance_of
from engine.mathematics.circuit_measures import of_heads
from engine.mathematics.directions import chance_projections, groups, projections, with_signs
from engine.mathematics.factored import Product
from engine.mathematics.measures import product_noise
from engine.service.positions import factors_at
from engine.service.token_tables import TokenTable, TokenTables, WatchedRows
from engine.values.errors import NotFinite
from engine.values.model import LayerOutline
from engine.values.spectra import FloatArray
from engine.values.tables import Cell
from engine.values.view import Query

if TYPE_CHECKING:
    from engine.service.session import Breathe, Session

NUMBERS_AT_ONCE = 2**24
"""Projections that are held at once, tokens by directions."""

ENDS = ("largest", "smallest")
"""The ends of a direction, in the order of the rows."""

Tokens = tuple[str, int, int, str, float, float]
"""The cells ``end, place, token_id, token, projection, projection_chance``."""

NO_TOKEN = ("",) * 5
"""The cells from ``end`` to ``projection_chance`` of a row that names no token."""


@dataclass(frozen=True)
class Side:
    """One side of a circuit: what it is called, and the tokens that meet it there.

    Attributes
    ----------
    name : ``query``, ``key``, ``input`` or ``output``.
    table : the tokens, or None where there are none to meet.
    gain : (d,) that the table's rows are multiplied by, or None.
    chance : what the largest projections are along random directions, as many as are listed.
    note : why there are no tokens.
    """

    name: str
    table: TokenTable | None
    gain: Tensor | None = None
    chance: Sequence[float] = ()
    note: str = ""


class DirectionsTable:
    """Puts singular directions into words; the model itself is not loaded, only its tokenizer."""

    def __init__(self, session: Session, tables: TokenTables) -> None:
        self._session = session
        self._tables = tables
        self._chance: dict[tuple[str, Gain | None, int], Sequence[float]] = {}

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads."""
        numbers = [number for number in range(layer.heads) if query.wants(number)]
        draws = chance_of(layer, False)
        weights = self._session.layer_weights(layer.name)
        own = factors_at(self._session, layer, weights, query.distance)
        if query.fold_norm:
            source = self._session.source
            before = read_gain(source.tensors, gain_before(self._session.outline, layer, source.tensors.entries))
            own = own[0] * before, own[1] * before, own[2] * before, own[3]
        breathe()
        circuits = of_heads(own)
        for matrix, product in (("QK", circuits.qk), ("OV", circuits.ov)):
            if query.matrix in (None, matrix):
                chosen = product.of(numbers)
                first, second = (circuits.factors[each].stored_size(weights.epsilons_by_head(each)) for each in matrix)
                noise = product_noise(first, second)[numbers]
                scales = _norms_of_factors(own[:2] if matrix == "QK" else own[2:])
                curve = draws[matrix].mean(0) if draws else None
                for part in self._of_matrix(layer, matrix, chosen, noise, query, breathe):
                    place, index, *cells, number, note = part
                    chance = "" if curve is None else float(curve[index - 1] * scales[numbers[place]])
                    yield (layer.stack, layer.layer, str(numbers[place]), matrix, index, *cells, chance, number, note)

    def _of_matrix(
        self, layer: LayerOutline, matrix: str, product: Product, noise: FloatArray, query: Query, breathe: Breathe
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one circuit: a head's place among those asked for, then the cells from the index on."""
        left, sigma, right = product.singular_triples()
        left, right = with_signs(left, right)
        count = min(query.first, sigma.shape[-1])
        notes = [_notes(*each, count) for each in zip(sigma.numpy(), noise, strict=True)]
        sides = self._sides(layer, matrix, query, breathe)
        breathe()
        found = [
            self._tokens(side, vectors[..., :count], query.top, breathe)
            for side, vectors in zip(sides, (left, right), strict=True)
        ]
        for place, own_notes in enumerate(notes):
            for index, note in enumerate(own_notes):
                value = float(sigma[place, index])
                if note:
                    yield (place, index + 1, "", *NO_TOKEN, value, "", note)
                    continue
                for side, tokens in zip(sides, found, strict=True):
                    if tokens is None:
                        yield (place, index + 1, side.name, *NO_TOKEN, value, "", side.note)
                    else:
                        for end, rank, number, token, *along in tokens[place][index]:
                            yield (place, index + 1, side.name, end, rank, token, *along, value, number, "")

    def _sides(self, layer: LayerOutline, matrix: str, query: Query, breathe: Breathe) -> tuple[Side, Side]:
        """Find what tokens meet both sides of a circuit through."""
        found = self._tables.of_stack(layer.stack)
        if matrix == "QK":
            return (
                self._side("query", found.queries, layer.d_model, None, query.top, breathe),
                self._side("key", found.source, layer.d_source, None, query.top, breathe),
            )
        gain = None
        if query.fold_norm and found.unembedding is not None:
            entries = self._session.source.tensors.entries
            gain = final_gain(self._session.outline, layer.stack, layer.d_output, entries)
        return (
            self._side("input", found.source, layer.d_values, None, query.top, breathe),
            self._side("output", found.unembedding, layer.d_output, gain, query.top, breathe),
        )

    def _side(self, name: str, tokens: str | None, d: int, gain: Gain | None, top: int, breathe: Breathe) -> Side:
        """Read a side's tokens and the gain between, and work out what chance gives, once for all layers."""
        table = self._tables.tokens(tokens, d)
        if tokens is None or table is None or not len(table.ids):
            return Side(name, None, note=self._tables.why_none(tokens))
        try:
            factors = None if gain is None else read_gain(self._session.source.tensors, gain)
        except NotFinite as error:  # of the norm after the last layer: it is in the way of these tokens alone
            return Side(name, None, note=f"{error.what}; these tokens have answers without that norm")
        key = tokens, gain, top
        if key not in self._chance:
            with self._session.telling("meeting tokens at random", "tokens") as telling:
                rows = WatchedRows(table.rows, breathe, telling)
                self._chance[key] = chance_projections(rows, top, breathe, factors).tolist()
        return Side(name, table, factors, self._chance[key])

    def _tokens(self, side: Side, vectors: Tensor, top: int, breathe: Breathe) -> list[list[list[Tokens]]] | None:
        """Find the tokens at both ends of directions (heads, d, n): a list for every head and direction."""
        if side.table is None:
            return None
        count = vectors.shape[-1]
        at_once = max(1, NUMBERS_AT_ONCE // (count * len(side.table.ids)))
        result = []
        for some in vectors.split(at_once):
            breathe()
            with self._session.telling("meeting tokens", "tokens") as telling:
                rows = WatchedRows(side.table.rows, breathe, telling)
                met = projections(rows, some.permute(1, 0, 2).flatten(1), side.gain)  # (heads · n, tokens)
            cells: list[list[Tokens]] = [[] for _ in met]
            for end in ENDS:
                values, places = met.topk(min(top, met.shape[1]), largest=end == "largest")
                ids = [side.table.ids[place] for place in places.flatten().tolist()]
                named = zip(ids, self._tables.texts(ids), values.flatten().tolist(), strict=True)
                sign = 1 if end == "largest" else -1
                for number, each in enumerate(named):
                    column, place = divmod(number, places.shape[1])
                    cells[column].append((end, place + 1, *each, sign * side.chance[place]))
            result += [cells[start : start + count] for start in range(0, len(cells), count)]
        return result


def _norms_of_factors(factors: tuple[Tensor, Tensor]) -> list[float]:
    """Multiply the Frobenius norms of both factors of each head's circuit, of which heads may share one."""
    first, second = (torch.linalg.matrix_norm(each.double()) for each in factors)
    heads = max(len(first), len(second))
    both = first.repeat_interleave(heads // len(first)) * second.repeat_interleave(heads // len(second))
    scales: list[float] = both.tolist()
    return scales


def _notes(sigma: FloatArray, noise: float, count: int) -> list[str]:
    """Say of each of the first singular values why no direction can be claimed, or nothing where one can."""
    notes = []
    for index, (start, end) in enumerate(groups(sigma)[:count]):
        if not sigma[index] > noise:
            notes.append("null space: every direction in it is as good as another")
        elif end > start:
            notes.append(f"directions {start + 1} to {end + 1} have nearly equal singular values: no one is claimed")
        else:
            notes.append("")
    return notes
