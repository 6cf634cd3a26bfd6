"""The rows of the ``directions`` table: the tokens at both ends of the singular directions of QK and OV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from engine.mathematics.circuit_measures import of_heads
from engine.mathematics.directions import groups, projections, with_signs
from engine.mathematics.factored import Product
from engine.mathematics.measures import rank_tolerance
from engine.models.vocabulary import final_gain, gain_before, read_gain
from engine.service.assembly import COMPUTE_EPSILON
from engine.service.positions import keys_at
from engine.service.token_tables import TokenTable, TokenTables
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

Tokens = tuple[str, int, int, str, float]
"""The cells ``end, place, token_id, token, projection``."""

NO_TABLE = "no table of tokens of this width is known by name"


@dataclass(frozen=True)
class Side:
    """One side of a circuit: what it is called, and the tokens that meet it there.

    Attributes
    ----------
    name : ``query``, ``key``, ``input`` or ``output``.
    table : the tokens, or None where there are none to meet.
    gain : (d,) that the table's rows are multiplied by, or None.
    """

    name: str
    table: TokenTable | None
    gain: Tensor | None = None


class DirectionsTable:
    """Puts singular directions into words; the model itself is not loaded, only its tokenizer."""

    def __init__(self, session: Session, tables: TokenTables) -> None:
        self._session = session
        self._tables = tables

    def rows(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of one layer's heads."""
        numbers = [number for number in range(layer.heads) if query.wants(number)]
        weights = self._session.layer_weights(layer.name)
        own = weights.query, weights.key, weights.value, weights.output
        if query.distance is not None:
            own = (own[0], keys_at(self._session, layer, weights.key, query.distance), *own[2:])
        if query.fold_norm:
            source = self._session.source
            before = read_gain(source.tensors, gain_before(self._session.outline, layer, source.tensors.entries))
            own = own[0] * before, own[1] * before, own[2] * before, own[3]
        breathe()
        circuits = of_heads(own)
        for matrix, product in (("QK", circuits.qk), ("OV", circuits.ov)):
            if query.matrix in (None, matrix):
                chosen = product.of(numbers)
                stored = max(weights.epsilons[each] for each in matrix)
                tolerance = rank_tolerance(*layer.shape(matrix, False), COMPUTE_EPSILON, stored)
                for part in self._of_matrix(layer, matrix, chosen, tolerance, query, breathe):
                    place, *cells = part
                    yield (layer.stack, layer.layer, str(numbers[place]), matrix, *cells)

    def _of_matrix(
        self, layer: LayerOutline, matrix: str, product: Product, tolerance: float, query: Query, breathe: Breathe
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one circuit: a head's place among those asked for, then the cells from the index on."""
        left, sigma, right = product.singular_triples()
        left, right = with_signs(left, right)
        count = min(query.first, sigma.shape[-1])
        notes = [_notes(values[:count], values, tolerance) for values in sigma.numpy()]
        sides = self._sides(layer, matrix, query.fold_norm)
        breathe()
        found = [
            self._tokens(side, vectors[..., :count], query.top, breathe)
            for side, vectors in zip(sides, (left, right), strict=True)
        ]
        for place, own_notes in enumerate(notes):
            for index, note in enumerate(own_notes):
                value = float(sigma[place, index])
                if note:
                    yield (place, index + 1, "", "", "", "", "", value, "", note)
                    continue
                for side, tokens in zip(sides, found, strict=True):
                    if tokens is None:
                        yield (place, index + 1, side.name, "", "", "", "", value, "", NO_TABLE)
                    else:
                        for end, rank, number, token, projection in tokens[place][index]:
                            yield (place, index + 1, side.name, end, rank, token, projection, value, number, "")

    def _sides(self, layer: LayerOutline, matrix: str, fold_norm: bool) -> tuple[Side, Side]:
        """Find what tokens meet both sides of a circuit through."""
        tables, found = self._tables, self._tables.of_stack(layer.stack)
        if matrix == "QK":
            return (
                Side("query", tables.tokens(found.queries, layer.d_model)),
                Side("key", tables.tokens(found.source, layer.d_source)),
            )
        written, gain = tables.tokens(found.unembedding, layer.d_output), None
        if fold_norm and written is not None:
            tensors = self._session.source.tensors
            named = final_gain(self._session.outline, layer.stack, layer.d_output, tensors.entries)
            gain = read_gain(tensors, named)
        return Side("input", tables.tokens(found.source, layer.d_values)), Side("output", written, gain)

    def _tokens(self, side: Side, vectors: Tensor, top: int, breathe: Breathe) -> list[list[list[Tokens]]] | None:
        """Find the tokens at both ends of directions (heads, d, n): a list for every head and direction."""
        if side.table is None or not len(side.table.ids):
            return None
        count = vectors.shape[-1]
        at_once = max(1, NUMBERS_AT_ONCE // (count * len(side.table.ids)))
        result = []
        for some in vectors.split(at_once):
            breathe()
            met = projections(side.table.rows, some.permute(1, 0, 2).flatten(1), side.gain)  # (heads · n, tokens)
            cells: list[list[Tokens]] = [[] for _ in met]
            for end in ENDS:
                values, rows = met.topk(min(top, met.shape[1]), largest=end == "largest")
                ids = [side.table.ids[row] for row in rows.flatten().tolist()]
                named = zip(ids, self._tables.texts(ids), values.flatten().tolist(), strict=True)
                for number, each in enumerate(named):
                    column, place = divmod(number, rows.shape[1])
                    cells[column].append((end, place + 1, *each))
            result += [cells[start : start + count] for start in range(0, len(cells), count)]
        return result


def _notes(sigma: FloatArray, whole: FloatArray, tolerance: float) -> list[str]:
    """Say of each singular value why no direction can be claimed, or nothing where one can."""
    notes = []
    for index, (start, end) in enumerate(groups(whole)[: len(sigma)]):
        if not whole[index] > tolerance * whole[0]:
            notes.append("null space: every direction in it is as good as another")
        elif end > start:
            notes.append(f"directions {start + 1} to {end + 1} have nearly equal singular values: no one is claimed")
        else:
            notes.append("")
    return notes
