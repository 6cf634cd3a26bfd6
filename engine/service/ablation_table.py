"""The rows of the ``ablation`` table: probabilities before and after heads are switched off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.mathematics.logits import Dealt
from engine.values.errors import Unread
from engine.values.heads import Head
from engine.values.left_out import UNREAD
from engine.values.model import LayerOutline
from engine.values.off import Off
from engine.values.tables import Cell
from engine.values.view import Query

if TYPE_CHECKING:
    from torch import Tensor

    from engine.service.predicting import Predicting
    from engine.service.session import Breathe, Session

Key = tuple[str | None, int | None, int, bool]
Pair = tuple[float, float]
"""A token's logit and probability, or what chance gives for their changes."""

KEPT = 16
"""Sweeps, whole or broken off, whose numbers are kept."""


class AblationTable:
    """Switches heads off: each alone, or several together. What a sweep has found is kept when it is broken off."""

    def __init__(self, session: Session, predicting: Predicting) -> None:
        self._session = session
        self._predicting = predicting
        self._found: dict[Key, dict[Head, tuple[Pair, Pair]]] = {}

    def sweep(self, layer: LayerOutline, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield a row for each head of a layer: what a token's probability becomes without it."""
        predictor, asked, logits = self._predicting.asked(query, breathe)
        if not predictor.is_run(layer.name):
            raise Unread(UNREAD)
        token = self._predicting.token(query, logits, predictor)
        found = self._found.setdefault((query.text, query.position, token, query.by_mean), {})
        for oldest in list(self._found)[:-KEPT]:
            del self._found[oldest]
        wanted = [head for head in layer.head_names() if query.wants(head.head)]
        missing = [head for head in wanted if head not in found]
        for head, after in predictor.each_switched(asked, missing, breathe, by_mean=query.by_mean):
            found[head] = _pair(after, token), _chance(Dealt(logits, after), token)
        text, before = predictor.words.texts([token])[0], _pair(logits, token)
        for head in wanted:
            yield (head.stack, head.layer, head.label, token, text, *_compared(before, *found[head]), self._name(head))

    def together(self, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield a row for each of the tokens that are likely before or after some heads are switched off together."""
        outline = self._session.outline
        for head in query.off:
            outline.layer(head)
        predictor, asked, logits = self._predicting.asked(query, breathe)
        after = predictor.switched(asked, Off(query.off, query.by_mean), breathe)
        if query.token is None:
            several = [each.topk(min(query.top, len(each))).indices.tolist() for each in (logits, after)]
            tokens = list(dict.fromkeys(several[0] + several[1]))
        else:
            tokens = [self._predicting.token(query, logits, predictor)]
        names = " ".join(map(self._name, query.off))
        dealt = Dealt(logits, after)
        for token, text in zip(tokens, predictor.words.texts(tokens), strict=True):
            compared = _compared(_pair(logits, token), _pair(after, token), _chance(dealt, token))
            yield ("", "", "", token, text, *compared, names)

    def _name(self, head: Head) -> str:
        """Name a head, with its stack where a model has several."""
        return f"{head.stack}.{head}" if len(self._session.outline.stacks) > 1 else str(head)


def _pair(logits: Tensor, token: int) -> Pair:
    """Give a token's logit and probability."""
    return float(logits[token]), float(logits.double().softmax(0)[token])


def _chance(dealt: Dealt, token: int) -> Pair:
    """Give what a token's logit and probability would change by if the same changes fell on tokens at random."""
    return dealt.logit_change, dealt.change(token)


def _compared(before: Pair, after: Pair, chance: Pair) -> tuple[float, ...]:
    """Put a token's numbers before and after side by side, with what chance gives for their differences."""
    logit, probability = ((old, new, new - old, by) for old, new, by in zip(before, after, chance, strict=True))
    return *probability, *logit
