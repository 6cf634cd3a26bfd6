"""The rows of ``ablation``: probabilities before and after heads are switched off, each alone or several together."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from engine.analysis.layers import NOTHING, over_layers
from engine.analysis.open_model import OpenModel
from engine.analysis.predictions import asked_of, token_of
from engine.mathematics.logits import ShuffledChanges
from engine.values.errors import Unread
from engine.values.heads import Head, Off
from engine.values.outline import LayerOutline
from engine.values.table import UNREAD, Groups, RowGroup
from engine.values.views import Query

Pair = tuple[float, float]
"""A token's logit and probability, or what chance gives for their changes."""

KEPT = 16
"""Sweeps, whole or broken off, whose numbers are kept."""


def rows(model: OpenModel, query: Query) -> Groups:
    """Switch off the heads that a query names together, or each head of its layers alone.

    What has been found is kept when a sweep is broken off.
    """
    return _together(model, query) if query.off else over_layers("ablation", model, query, _rows_of_layer)


def _rows_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    predictor, asked, logits = yield from asked_of(model, query)
    if not predictor.is_run(layer.name):
        raise Unread(UNREAD)
    token = token_of(query, logits, predictor)
    sweeps = model.cached("ablation", dict[Any, dict[Head, tuple[Pair, Pair]]])
    found = sweeps.setdefault((query.text, query.position, token, query.by_mean), {})
    for oldest in list(sweeps)[:-KEPT]:
        del sweeps[oldest]
    wanted = [head for head in layer.head_names() if query.wants(head.head)]
    missing = [head for head in wanted if head not in found]
    yield None
    for head, after in predictor.each_switched(asked, missing, model.check, by_mean=query.by_mean):
        found[head] = _pair(after, token), _chance(ShuffledChanges(logits, after), token)
    text, before = predictor.words.texts([token])[0], _pair(logits, token)
    yield RowGroup([
        (
            head.stack, head.layer, head.label, token, text,
            *_compared(before, *found[head]), _name(model, head),
        )
        for head in wanted
    ])  # fmt: skip


def _together(model: OpenModel, query: Query) -> Groups:
    """Work out a row for each of the tokens that are likely before or after some heads are switched off together."""
    for head in query.off:
        model.outline.layer(head)
    predictor, asked, logits = yield from asked_of(model, query)
    yield None
    after = predictor.switched(asked, Off(query.off, query.by_mean), model.check)
    if query.token is None:
        several = [each.topk(min(query.top, len(each))).indices.tolist() for each in (logits, after)]
        tokens = list(dict.fromkeys(several[0] + several[1]))
    else:
        tokens = [token_of(query, logits, predictor)]
    names = " ".join(_name(model, head) for head in query.off)
    dealt = ShuffledChanges(logits, after)
    yield RowGroup([
        (
            NOTHING, NOTHING, NOTHING, token, text,
            *_compared(_pair(logits, token), _pair(after, token), _chance(dealt, token)), names,
        )
        for token, text in zip(tokens, predictor.words.texts(tokens), strict=True)
    ])  # fmt: skip


def _name(model: OpenModel, head: Head) -> str:
    """Name a head, with its stack where a model has several."""
    return f"{head.stack}.{head}" if len(model.outline.stacks) > 1 else str(head)


def _pair(logits: Tensor, token: int) -> Pair:
    return float(logits[token]), float(logits.double().softmax(0)[token])


def _chance(dealt: ShuffledChanges, token: int) -> Pair:
    """Give what a token's logit and probability would change by if the same changes fell on tokens at random."""
    return dealt.logit_change, dealt.change(token)


def _compared(before: Pair, after: Pair, chance: Pair) -> tuple[float, ...]:
    """Put a token's numbers before and after side by side, with what chance gives for their differences."""
    logit, probability = ((old, new, new - old, by) for old, new, by in zip(before, after, chance, strict=True))
    return *probability, *logit
