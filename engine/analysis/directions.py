"""The rows of ``directions``: the tokens at both ends of the singular directions of QK and OV."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from engine.analysis.circuits import query_factors, select_heads
from engine.analysis.layers import NOTHING, place_cells, wanted_heads
from engine.analysis.open_model import OpenModel
from engine.analysis.token_tables import token_tables
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
from engine.values.views import DIRECTIONS, Query

NUMBERS_AT_ONCE = 2**24
"""Projections in memory at once, tokens × directions."""

Cells = dict[str, Cell]
"""Cells of a row by column."""


def directions_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    """List the tokens at the ends of the singular directions of a layer's heads, without loading the model."""
    yield Lane.WEIGHTS
    numbers, draws = wanted_heads(layer, query), chance_of(layer, False)
    weights = model.layer_weights(layer.name)
    circuits = factor_heads(select_heads(query_factors(model, layer, weights, query), numbers))
    tables = token_tables(model).of_stack(layer.stack)
    of_qk = ("query", tables.queries), ("key", tables.source)
    of_ov = ("input", tables.source), ("output", tables.unembedding)
    for matrix, product, sides in (("QK", circuits.qk, of_qk), ("OV", circuits.ov, of_ov)):
        if query.matrix not in (None, matrix):
            continue
        yield None
        first, second = (circuits.factors[each].stored_size(weights.epsilons[each][numbers]) for each in matrix)
        noise, scales = product_noise(first, second), np.multiply(first.frobenius, second.frobenius)
        left, sigma, right = product.singular_triples()
        count = min(query.first, sigma.shape[-1])
        found: list[list[list[Cells]]] = []
        for (side, tokens), vectors in zip(sides, (left, right), strict=True):
            gain = None
            if side == "output" and query.fold_norm and tokens is not None:
                gain = final_gain(model.outline, layer, model.source.tensors.entries)
            found.append((yield from _tokens(model, side, tokens, vectors[..., :count], gain, query.top)))
        curve = draws[matrix].mean(0) if draws else None
        rows: list[tuple[Cell, ...]] = []
        for place, number in enumerate(numbers):
            for index, why in enumerate(_notes(sigma[place].numpy(), noise[place], count)):
                of: Cells = {"matrix": matrix, "index": index + 1, "singular_value": float(sigma[place, index])}
                of |= {} if curve is None else {"singular_value_chance": float(curve[index] * scales[place])}
                of_tokens = [cells for side_rows in found for cells in side_rows[place * count + index]]
                for cells in [{"note": why}] if why else of_tokens:
                    named = ((of | cells).get(column, NOTHING) for column in DIRECTIONS.columns[3:])
                    rows.append((*place_cells(layer, number), *named))
        yield RowGroup(rows, lacking=token_tables(model).lacking(layer.stack, "tokens"))


def _tokens(
    model: OpenModel, side: str, tokens: str | None, vectors: Tensor, gain: Gain | None, top: int
) -> Work[list[list[Cells]]]:
    """Find the tokens at both ends of directions (heads, d, n): a list of rows for each direction, head by head."""
    (d, count), tables = vectors.shape[1:], token_tables(model)
    table = tables.tokens(tokens, d)
    if tokens is None or table is None or not len(table.ids):
        return [[{"side": side, "note": tables.why_none(tokens)}]] * (len(vectors) * count)
    try:
        factors = None if gain is None else read_gain(model.source.tensors, gain)
    except NotFinite as error:  # in the gain of the last norm, which concerns these tokens alone
        note = f"{error.what}; these tokens are ranked without that norm"
        return [[{"side": side, "note": note}]] * (len(vectors) * count)
    yield None
    chance: list[float] = model.cached(
        ("chance of directions", tokens, gain, top),
        lambda: chance_projections(table.rows, top, model.check, factors).tolist(),
    )
    result: list[list[Cells]] = []
    for some in vectors.split(max(1, NUMBERS_AT_ONCE // (count * len(table.ids)))):
        projected = yield from table.project(model, some.permute(1, 0, 2).flatten(1), factors)  # (heads · n, tokens)
        cells: list[list[Cells]] = [[] for _ in projected]
        for end, sign in (("largest", 1), ("smallest", -1)):
            values, places = projected.topk(min(top, projected.shape[1]), largest=sign > 0)
            ids = [table.ids[place] for place in places.flatten().tolist()]
            named = zip(ids, model.words().texts(ids), values.flatten().tolist(), strict=True)
            for number, (token_id, token, value) in enumerate(named):
                column, place = divmod(number, places.shape[1])
                cells[column].append({
                    "side": side, "extreme": end, "place": place + 1, "token": token, "token_id": token_id,
                    "projection": value, "projection_chance": sign * chance[place],
                })  # fmt: skip
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
