"""The rows of ``contributions``: what each head adds to the logit of a token, and what all the rest adds."""

from __future__ import annotations

from engine.analysis.layers import NOTHING
from engine.analysis.open_model import OpenModel
from engine.analysis.predictions import asked_of, token_of
from engine.values.table import Groups, RowGroup
from engine.values.views import Query

BEFORE_CAP = "of the logit before the model caps it"


def rows(model: OpenModel, query: Query) -> Groups:
    """Take the logit of a query's token apart."""
    predictor, asked, logits = yield from asked_of(model, query)
    from engine.models.contributions import contributions

    yield None
    token = token_of(query, logits, predictor)
    found = contributions(predictor, asked, token, len(logits), model.check)
    of = (token, predictor.words.texts([token])[0])
    end = (found.logit, BEFORE_CAP if found.is_before_cap else NOTHING)
    yield RowGroup([
        *((head.stack, head.layer, head.label, "head", *of, *value, *end) for head, value in found.heads.items()),
        (predictor.stack, NOTHING, NOTHING, "rest", *of, *found.rest, *end),
    ])  # fmt: skip
