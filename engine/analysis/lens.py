"""The rows of ``lens``: what a model would predict before its first block and after each (nostalgebraist 2020)."""

from __future__ import annotations

from engine.analysis.layers import NOTHING
from engine.analysis.open_model import OpenModel
from engine.analysis.predictions import asked_of, likely
from engine.mathematics.measures import orthogonal_norm
from engine.values.table import Cell, Groups, RowGroup
from engine.values.views import Query

EMBEDDING = "embedding"
"""What the place before the first block is called."""


def rows(model: OpenModel, query: Query) -> Groups:
    """List the most likely tokens at each place, and the residual stream's norm there."""
    predictor, asked, _ = yield from asked_of(model, query)
    yield None
    states, logits = predictor.lens(asked, model.check)
    rows: list[tuple[Cell, ...]] = []
    for number, (state, own) in enumerate(zip(states, logits, strict=True)):
        layer: Cell = EMBEDDING if number == 0 else number - 1
        chance = NOTHING if number == 0 else orthogonal_norm(states[number - 1], state)
        norm = float(state.float().norm())
        for place, choice in enumerate(likely(predictor.words, own, query.top), start=1):
            rows.append((predictor.stack, layer, place, *choice, norm, chance))
    yield RowGroup(rows)
