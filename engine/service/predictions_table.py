"""The rows of the tables ``predictions``, ``lens`` and ``contributions``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.values.tables import Cell
from engine.values.view import Query
from engine.values.views import CONTRIBUTIONS

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.source import Words
    from engine.service.predicting import Predicting
    from engine.service.session import Breathe

BEFORE_CAP = "of the logit before the model caps it"
EMBEDDING = "embedding"
"""What the lens calls the place before the first block."""

Rows = Iterator[tuple[Cell, ...]]


class PredictionsTable:
    """What a model predicts at a token of a sentence, and where that comes from."""

    def __init__(self, predicting: Predicting) -> None:
        self._predicting = predicting

    def rows(self, query: Query, breathe: Breathe) -> Rows:
        """Yield the most likely tokens."""
        words, asked, logits = self._predicting.choices(query, breathe)
        place = (asked.position, asked.tokens[asked.position])
        for rank, choice in enumerate(_choices(words, logits, query.top), start=1):
            yield (*place, rank, *choice)

    def lens(self, query: Query, breathe: Breathe) -> Rows:
        """Yield the most likely tokens before the first block and after each, and the residual stream's norm there."""
        from engine.mathematics.norms import orthogonal_norm

        predictor, asked, _ = self._predicting.asked(query, breathe)
        states, logits = predictor.lens(asked, breathe)
        for number, (state, own) in enumerate(zip(states, logits, strict=True)):
            layer: Cell = EMBEDDING if number == 0 else number - 1
            norm = float(state.float().norm())
            chance = "" if number == 0 else orthogonal_norm(states[number - 1], state)
            for place, choice in enumerate(_choices(predictor.words, own, query.top), start=1):
                yield (predictor.stack, layer, place, *choice, norm, chance)

    def contributions(self, query: Query, breathe: Breathe) -> Rows:
        """Yield what each head adds to the logit of a token, the largest first, and what all the rest adds."""
        from engine.models.contributions import contributions

        predictor, asked, logits = self._predicting.asked(query, breathe)
        token = self._predicting.token(query, logits, predictor)
        found = contributions(predictor, asked, token, len(logits), breathe)
        of = (token, predictor.words.texts([token])[0])
        note = BEFORE_CAP if found.is_before_cap else ""
        rows: list[tuple[Cell, ...]] = [
            (head.stack, head.layer, head.label, "head", *of, *value, found.logit, note)
            for head, value in found.heads.items()
        ]
        rows.append((predictor.stack, "", "", "rest", *of, *found.rest, found.logit, note))
        yield from (tuple(row) for row in CONTRIBUTIONS.ranked(rows))


def _choices(words: Words, logits: Tensor, count: int) -> list[tuple[int, str, float, float, float, float]]:
    """List the most likely tokens: id, text, logit and probability, each with that of a token drawn at random."""
    values, ids = logits.double().topk(min(count, len(logits)))
    probabilities = logits.double().softmax(0)[ids].tolist()
    texts = words.texts(ids.tolist())
    mean = float(logits.double()[logits.isfinite()].mean())  # some models rule tokens out by an infinite one
    beside = zip(ids.tolist(), texts, values.tolist(), probabilities, strict=True)
    return [(number, text, logit, mean, share, 1 / len(logits)) for number, text, logit, share in beside]
