"""What is expected after a token: ``predictions``, ``lens``, ``contributions`` of heads, and ``ablation`` of heads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from engine.analysis.layers import NOTHING, over_layers
from engine.analysis.open_model import OpenModel, check_both_read
from engine.mathematics.measures import orthogonal_norm
from engine.mathematics.tokens import ShuffledChanges
from engine.values.display_text import visible
from engine.values.errors import EngineError, Unread
from engine.values.heads import Head, Off
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Progress, Work
from engine.values.table import UNREAD, Cell, Groups, RowGroup
from engine.values.views import Query

if TYPE_CHECKING:
    from engine.models.predictions import Asked, Predictor
    from engine.models.tokenizer import Words

LOGITS_AT_ONCE = 1 << 22
"""Logits of the lens that are computed at a time, at most: 16 MB, and a tenth of a second."""


def rows_of_predictions(model: OpenModel, query: Query) -> Groups:
    """List the most likely tokens."""
    yield Lane.MODEL
    if query.of_two:
        yield from _of_two(model, query)
        return
    words, asked, logits = yield from _choices_of(model, query)
    place = (asked.position, asked.tokens[asked.position])
    ranked = enumerate(likely(words, logits, query.top), start=1)
    yield RowGroup([(*place, rank, *choice) for rank, choice in ranked])


def asked_of(model: OpenModel, query: Query) -> Work[tuple[Predictor, Asked, Tensor]]:
    """Read a sentence, unless it was asked about last, and give the logits, (vocabulary,), at a query's token.

    The model's head is put on at the first prediction.

    Raises
    ------
    EngineError : when there is no such token, or nothing can be predicted, as by a model that is not of transformers.
    """
    reader = yield from model.reader()
    from engine.models.predictions import Predictor
    from engine.models.reader import Reader

    if not isinstance(reader, Reader):
        raise EngineError(
            f"{model.outline.name} is no model of transformers; of what it predicts there are the "
            "predictions alone, and neither lens nor contributions nor heads switched off"
        )
    predictor = model.cached("predictor", lambda: Predictor(reader, model.source.tensors))
    last = model.cached("asked last", dict[Any, "tuple[Asked, Tensor]"])
    key = (query.text or "", query.position)
    if key not in last:
        asked = predictor.ask(*key)
        logits = predictor.logits(asked, model.check)
        if not bool(logits.isfinite().all()):
            _refuse_broken(model, predictor, logits)
        last.clear()
        last[key] = asked, logits
    return predictor, *last[key]


def _refuse_broken(model: OpenModel, predictor: Predictor, logits: Tensor) -> None:
    """Refuse logits that are NaN, or infinite by the weights; some types say so of tokens that never come."""
    from engine.models.loaded_model import broken_parameter, cause_of_nan

    said = f"the logits that {predictor.name} gives here are %s, nothing is predicted: %s"
    if bool(logits.isnan().any()):
        raise EngineError(said % ("NaN", cause_of_nan(predictor.model, model.check)))
    if (broken := broken_parameter(predictor.model, predictor.model, model.check)) is not None:
        raise EngineError(said % ("infinite", broken))


def token_of(query: Query, logits: Tensor, predictor: Predictor) -> int:
    """Find the token that a query names: the model's first choice unless it names one."""
    return int(logits.argmax()) if query.token is None else predictor.token(query.token, len(logits))


def likely(words: Words, logits: Tensor, count: int) -> list[tuple[Cell, ...]]:
    """List the most likely tokens: id, text, logit and probability, each with that of a token drawn at random."""
    expected = _Expected(logits)
    ids = expected.first(count)
    return [(each, text, *expected.of(each)[1:]) for each, text in zip(ids, words.texts(ids), strict=True)]


def _choices_of(model: OpenModel, query: Query) -> Work[tuple[Words, Asked, Tensor]]:
    """Read a sentence, and give what names its tokens, and the logits at the one that a query names.

    Of a module that is no model of transformers this is all that can be had.
    """
    reader = yield from model.reader()
    from engine.models.module_reader import ModuleReader

    if isinstance(reader, ModuleReader):
        return reader.words, *reader.predicted(query.text or "", query.position, model.check)
    predictor, asked, logits = yield from asked_of(model, query)
    return predictor.words, asked, logits


def _of_two(model: OpenModel, query: Query) -> Groups:
    """List the tokens that are most likely in one model or the other, those first that either gives most to."""
    other = yield from check_both_read(model, query.text or "")
    words, asked, logits = yield from _choices_of(model, query)
    other_words, _, other_logits = yield from _choices_of(other, replace(query, position=asked.position))
    own, theirs = _Expected(logits), _Expected(other_logits)
    ids = list(dict.fromkeys((*own.first(query.top), *theirs.first(query.top))))
    texts = _texts_of_both(ids, words, other_words, own, theirs)
    place = (asked.position, asked.tokens[asked.position])
    ids.sort(key=lambda each: -max(own.share(each), theirs.share(each)))
    rows: list[tuple[Cell, ...]] = []
    for each in ids:
        rank, *numbers = own.of(each)
        difference: Cell = theirs.share(each) - own.share(each) if own.has(each) and theirs.has(each) else NOTHING
        rows.append((*place, rank, each, texts[each], *numbers, *theirs.of(each), difference))
    yield RowGroup(rows)


class _Expected:
    """What a model expects, by the number of each token, of logits (vocabulary,); some rule tokens out by infinity."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits.double()
        self._shares = self._logits.softmax(0)
        self._mean = float(self._logits[logits.isfinite()].mean())

    def has(self, token: int) -> bool:
        return token < len(self._logits)

    def first(self, count: int) -> list[int]:
        found: list[int] = self._logits.topk(min(count, len(self._logits))).indices.tolist()
        return found

    def share(self, token: int) -> float:
        """Give a token's probability; none of a token that the vocabulary has not."""
        return float(self._shares[token]) if self.has(token) else 0.0

    def of(self, token: int) -> tuple[Cell, ...]:
        """Give a token's rank, logit and probability, both beside chance; nothing where the vocabulary has it not."""
        if not self.has(token):
            return (NOTHING,) * 5
        logit = self._logits[token]
        rank = int((self._logits > logit).sum()) + 1
        return rank, float(logit), self._mean, self.share(token), 1 / len(self._logits)


def _texts_of_both(ids: list[int], words: Words, other: Words, own: _Expected, theirs: _Expected) -> dict[int, str]:
    """Give the text of each token."""
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


def rows_of_lens(model: OpenModel, query: Query) -> Groups:
    """List the most likely tokens at each place, and the residual stream's norm there."""
    predictor, asked, own_logits = yield from asked_of(model, query)
    yield None
    at_once = max(1, LOGITS_AT_ONCE // len(own_logits))
    for states, some, several in predictor.lens(asked, at_once, model.check, everywhere=query.everywhere):
        tokens, total = states.shape[1], states.shape[0] * states.shape[1]
        rows: list[tuple[Cell, ...]] = []
        for place_of_state, logits in enumerate(several, start=some.start):
            number, token = divmod(place_of_state, tokens)
            layer: Cell = "embedding" if number == 0 else number - 1
            position = token if query.everywhere else asked.position
            state = states[number, token]
            norm = float(state.float().norm())
            chance = NOTHING if number == 0 else orthogonal_norm(states[number - 1, token], state)
            for place, choice in enumerate(likely(predictor.words, logits, query.top), start=1):
                at = (predictor.stack, layer, position, asked.tokens[position], place)
                rows.append((*at, *choice, norm, chance))
        yield RowGroup(rows, progress=Progress("lens", some.stop, total, "states"))
        yield None


def rows_of_contributions(model: OpenModel, query: Query) -> Groups:
    """Take the logit of a query's token apart."""
    predictor, asked, logits = yield from asked_of(model, query)
    from engine.models.contributions import contributions

    yield None
    token = token_of(query, logits, predictor)
    found = contributions(predictor, asked, token, len(logits), model.check)
    of = (token, predictor.words.texts([token])[0])
    end = (found.logit, "of the logit before the model caps it" if found.is_before_cap else NOTHING)
    yield RowGroup([
        *((head.stack, head.layer, head.label, "head", *of, *value, *end) for head, value in found.heads.items()),
        *(
            (predictor.stack, NOTHING if block is None else block, NOTHING, part, *of, *value, *end)
            for (part, block), value in found.others.items()
        ),
    ])  # fmt: skip


def rows_of_ablation(model: OpenModel, query: Query) -> Groups:
    """Switch off the heads that a query names together, or each head of its layers alone.

    What has been found is kept when a sweep is broken off.
    """
    return _together(model, query) if query.off else over_layers("ablation", model, query, _ablation_of_layer)


def _ablation_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    predictor, asked, logits = yield from asked_of(model, query)
    if not predictor.is_run(layer.name):
        raise Unread(UNREAD)
    token = token_of(query, logits, predictor)
    key = "ablation", query.text, query.position, token, query.by_mean
    found = model.cached(key, dict[Head, tuple[float, ...]])
    wanted = [head for head in layer.head_names() if query.wants(head.head)]
    missing = [head for head in wanted if head not in found]
    yield None
    for head, after in predictor.each_switched(asked, missing, model.check, by_mean=query.by_mean):
        found[head] = _compared(logits, after, ShuffledChanges(logits, after), token)
    text = predictor.words.texts([token])[0]
    yield RowGroup([
        (head.stack, head.layer, head.label, token, text, *found[head], _name(model, head)) for head in wanted
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
        (NOTHING, NOTHING, NOTHING, token, text, *_compared(logits, after, dealt, token), names)
        for token, text in zip(tokens, predictor.words.texts(tokens), strict=True)
    ])  # fmt: skip


def _name(model: OpenModel, head: Head) -> str:
    """Name a head, with its stack where a model has several."""
    return f"{head.stack}.{head}" if len(model.outline.stacks) > 1 else str(head)


def _compared(logits: Tensor, after: Tensor, dealt: ShuffledChanges, token: int) -> tuple[float, ...]:
    """Give a token's probability, then its logit: before, after, the difference, and what chance gives for that.

    Chance is the same changes dealt to tokens at random.
    """
    shares = [float(each.double().softmax(0)[token]) for each in (logits, after)]
    before, now = float(logits[token]), float(after[token])
    return *shares, shares[1] - shares[0], dealt.change(token), before, now, now - before, dealt.logit_change
