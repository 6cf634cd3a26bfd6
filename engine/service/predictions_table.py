"""The rows of the tables ``predictions``, ``lens`` and ``contributions``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.values.comparison import HOW_TO_COMPARE
from engine.values.errors import EngineError
from engine.values.escapes import visible
from engine.values.tables import Cell
from engine.values.view import Query
from engine.values.views import CONTRIBUTIONS

if TYPE_CHECKING:
    from torch import Tensor

    from engine.models.tokenizer import Words
    from engine.service.predicting import Predicting
    from engine.service.session import Breathe
    from engine.service.two_models import TwoModels

BEFORE_CAP = "of the logit before the model caps it"
EMBEDDING = "embedding"
"""What the lens calls the place before the first block."""

Rows = Iterator[tuple[Cell, ...]]


class PredictionsTable:
    """What a model predicts at a token of a sentence, and where that comes from.

    Parameters
    ----------
    predicting : the model.
    models : this model and the one beside it, where there is one.
    """

    def __init__(self, predicting: Predicting, models: TwoModels | None = None) -> None:
        self._predicting = predicting
        self._models = models
        self._other: Predicting | None = None

    def rows(self, query: Query, breathe: Breathe) -> Rows:
        """Yield the most likely tokens."""
        if query.of_two:
            yield from self._of_two(query, breathe)
            return
        words, asked, logits = self._predicting.choices(query, breathe)
        place = (asked.position, asked.tokens[asked.position])
        for rank, choice in enumerate(_choices(words, logits, query.top), start=1):
            yield (*place, rank, *choice)

    def _of_two(self, query: Query, breathe: Breathe) -> Rows:
        """Yield the tokens that are most likely in one model or the other, those first that either gives most to.

        Raises
        ------
        EngineError : when both cannot be asked the same.
        """
        if self._models is None:
            raise EngineError(HOW_TO_COMPARE)
        self._models.check_sentence(query.text or "", breathe)
        if self._other is None:
            from engine.service.predicting import Predicting

            self._other = Predicting(self._models.other)
        words, asked, logits = self._predicting.choices(query, breathe)
        other_words, _, other_logits = self._other.choices(replace(query, position=asked.position), breathe)
        own, theirs = Expected(logits), Expected(other_logits)
        ids = list(dict.fromkeys((*own.first(query.top), *theirs.first(query.top))))
        texts = _texts_of_both(ids, words, other_words, own, theirs)
        place = (asked.position, asked.tokens[asked.position])
        ids.sort(key=lambda each: -max(own.share(each), theirs.share(each)))
        for each in ids:
            rank, logit, mean, probability, chance = own.of(each)
            difference: Cell = theirs.share(each) - own.share(each) if own.has(each) and theirs.has(each) else ""
            yield (*place, rank, each, texts[each], logit, mean, probability, chance, *theirs.of(each), difference)

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


class Expected:
    """What a model expects, by the number of each token.

    Parameters
    ----------
    logits : (vocabulary,).
    """

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits.double()
        self._shares = self._logits.softmax(0)
        self._mean = _mean(logits)

    def has(self, token: int) -> bool:
        """Say whether the vocabulary has a token."""
        return token < len(self._logits)

    def first(self, count: int) -> list[int]:
        """List the most likely tokens."""
        found: list[int] = self._logits.topk(min(count, len(self._logits))).indices.tolist()
        return found

    def share(self, token: int) -> float:
        """Give a token's probability; none of a token that the vocabulary has not."""
        return float(self._shares[token]) if self.has(token) else 0.0

    def of(self, token: int) -> tuple[Cell, ...]:
        """Give a token's rank, logit and probability, both beside chance; nothing where the vocabulary has it not."""
        if not self.has(token):
            return ("",) * 5
        logit = self._logits[token]
        rank = int((self._logits > logit).sum()) + 1
        return rank, float(logit), self._mean, self.share(token), 1 / len(self._logits)


def _texts_of_both(ids: list[int], words: Words, other: Words, own: Expected, theirs: Expected) -> dict[int, str]:
    """Give the text of each token.

    Raises
    ------
    EngineError : when a number stands for one token in a model and for another in the other.
    """
    texts = dict(zip(ids, words.texts(ids), strict=True))
    for each, text in zip(ids, other.texts(ids), strict=True):
        if own.has(each) and theirs.has(each) and text != texts[each]:
            raise EngineError(
                f"token {each} is '{visible(texts[each])}' for the first and '{visible(text)}' for the second; what "
                "both predict cannot be compared"
            )
        if not own.has(each):
            texts[each] = text
    return texts


def _mean(logits: Tensor) -> float:
    """Give the mean of the logits that are numbers; some models rule tokens out by an infinite one."""
    return float(logits.double()[logits.isfinite()].mean())


def _choices(words: Words, logits: Tensor, count: int) -> list[tuple[int, str, float, float, float, float]]:
    """List the most likely tokens: id, text, logit and probability, each with that of a token drawn at random."""
    values, ids = logits.double().topk(min(count, len(logits)))
    probabilities = logits.double().softmax(0)[ids].tolist()
    texts = words.texts(ids.tolist())
    mean = _mean(logits)
    beside = zip(ids.tolist(), texts, values.tolist(), probabilities, strict=True)
    return [(number, text, logit, mean, share, 1 / len(logits)) for number, text, logit, share in beside]
