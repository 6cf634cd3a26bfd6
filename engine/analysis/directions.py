"""The rows of ``directions``: the tokens at both ends of the singular directions of QK and OV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from engine.analysis.circuits import query_factors, select_heads
from engine.analysis.layers import NOTHING, compute_layers, place_cells, wanted_heads
from engine.analysis.open_model import OpenModel
from engine.analysis.token_tables import TokenTable, token_tables
from engine.architectures.vocabulary import Gain, final_gain, read_gain
from engine.mathematics.chance import chance_of
from engine.mathematics.circuits import factor_heads
from engine.mathematics.measures import product_noise
from engine.mathematics.tokens import chance_projections, groups
from engine.values.errors import NotFinite
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Work
from engine.values.spectra import FloatArray
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import Query

NUMBERS_AT_ONCE = 2**24
"""Projections in memory at once, tokens × directions."""

ENDS = ("largest", "smallest")
"""The ends of a direction, in the order of the rows."""

Cells = tuple[tuple[Cell, ...], tuple[Cell, ...]]
"""The cells of a row from ``side`` to ``projection_chance``, and ``token_id`` and ``note``."""

NO_TOKEN = (NOTHING,) * 5
"""The cells from ``extreme`` to ``projection_chance`` of a row without a token."""


@dataclass(frozen=True)
class Side:
    """One side of a circuit, and the tokens to project on its directions.

    Attributes
    ----------
    table : the tokens, or None if there are none; then ``note`` says why.
    gain : (d,) by which the table's rows are multiplied, or None.
    chance : the largest projections on random directions, as many as are listed.
    """

    name: str
    table: TokenTable | None
    gain: Tensor | None = None
    chance: Sequence[float] = ()
    note: str = ""


def _rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """List the tokens at the ends of the singular directions of a layer's heads, without loading the model."""
    yield Lane.WEIGHTS
    numbers, draws = wanted_heads(layer, query), chance_of(layer, False)
    weights = model.layer_weights(layer.name)
    circuits = factor_heads(select_heads(query_factors(model, layer, weights, query), numbers))
    tables = token_tables(model).of_stack(layer.stack)
    of_qk = ("query", tables.queries, layer.d_model), ("key", tables.source, layer.d_source)
    of_ov = ("input", tables.source, layer.d_values), ("output", tables.unembedding, layer.d_output)
    for matrix, product, sides in (("QK", circuits.qk, of_qk), ("OV", circuits.ov, of_ov)):
        if query.matrix not in (None, matrix):
            continue
        yield None
        first, second = (circuits.factors[each].stored_size(weights.epsilons[each][numbers]) for each in matrix)
        noise, scales = product_noise(first, second), np.multiply(first.frobenius, second.frobenius)
        left, sigma, right = product.singular_triples()
        count = min(query.first, sigma.shape[-1])
        found: list[list[list[Cells]]] = []
        for (name, tokens, d), vectors in zip(sides, (left, right), strict=True):
            gain = None
            if name == "output" and query.fold_norm and tokens is not None:
                gain = final_gain(model.outline, layer, model.source.tensors.entries)
            side = yield from _side(model, name, tokens, d, gain, query.top)
            found.append((yield from _tokens(model, side, vectors[..., :count], query.top)))
        curve = draws[matrix].mean(0) if draws else None
        rows: list[tuple[Cell, ...]] = []
        for place, number in enumerate(numbers):
            for index, why in enumerate(_notes(sigma[place].numpy(), noise[place], count)):
                chance = NOTHING if curve is None else float(curve[index] * scales[place])
                of = float(sigma[place, index]), chance
                unclaimed = [((NOTHING, *NO_TOKEN), (NOTHING, why))]
                cells = unclaimed if why else [each for side in found for each in side[place * count + index]]
                at = (*place_cells(layer, number), matrix, index + 1)
                rows += [(*at, *along, *of, *end) for along, end in cells]
        yield RowGroup(rows, lacking=token_tables(model).lacking(layer.stack, "tokens"))


rows_of_directions = partial(compute_layers, "directions", of_layer=_rows_of_layer)


def _side(model: OpenModel, name: str, tokens: str | None, d: int, gain: Gain | None, top: int) -> Work[Side]:
    tables = token_tables(model)
    table = tables.tokens(tokens, d)
    if tokens is None or table is None or not len(table.ids):
        return Side(name, None, note=tables.why_none(tokens))
    try:
        factors = None if gain is None else read_gain(model.source.tensors, gain)
    except NotFinite as error:  # in the gain of the last norm, which concerns these tokens alone
        return Side(name, None, note=f"{error.what}; these tokens are ranked without that norm")
    yield None
    chance: list[float] = model.cached(
        ("chance of directions", tokens, gain, top),
        lambda: chance_projections(table.rows, top, model.check, factors).tolist(),
    )
    return Side(name, table, factors, chance)


def _tokens(model: OpenModel, side: Side, vectors: Tensor, top: int) -> Work[list[list[Cells]]]:
    """Find the tokens at both ends of directions (heads, d, n): a list of rows for each direction, head by head."""
    count = vectors.shape[-1]
    if side.table is None:
        return [[((side.name, *NO_TOKEN), (NOTHING, side.note))]] * (len(vectors) * count)
    at_once = max(1, NUMBERS_AT_ONCE // (count * len(side.table.ids)))
    result: list[list[Cells]] = []
    for some in vectors.split(at_once):
        with model.reporter("projecting tokens", "tokens") as report:
            directions = some.permute(1, 0, 2).flatten(1)
            projected = yield from side.table.project(directions, report, side.gain)  # (heads · n, tokens)
        cells: list[list[Cells]] = [[] for _ in projected]
        for end, sign in zip(ENDS, (1, -1), strict=True):
            values, places = projected.topk(min(top, projected.shape[1]), largest=end == "largest")
            ids = [side.table.ids[place] for place in places.flatten().tolist()]
            named = zip(ids, model.words().texts(ids), values.flatten().tolist(), strict=True)
            for number, (token_id, token, value) in enumerate(named):
                column, place = divmod(number, places.shape[1])
                along = side.name, end, place + 1, token, value, sign * side.chance[place]
                cells[column].append((along, (token_id, NOTHING)))
        result += cells
    return result


def _notes(sigma: FloatArray, noise: float, count: int) -> list[str]:
    """Say for each of the first singular values why it has no direction of its own; empty if it has one."""
    notes = []
    for index, (start, end) in enumerate(groups(sigma)[:count]):
        if not sigma[index] > noise:
            notes.append("null space: no direction in it is singled out")
        elif end > start:
            notes.append(f"directions {start + 1} to {end + 1} have nearly equal singular values: none is singled out")
        else:
            notes.append("")
    return notes
