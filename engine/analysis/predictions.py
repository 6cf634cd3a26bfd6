"""The rows of views of the next token: ``predictions``, ``lens``, ``contributions`` and ``ablation``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from engine.analysis.layers import NOTHING, compute_layers
from engine.analysis.open_model import OpenModel, check_both_read
from engine.mathematics.measures import orthogonal_norm
from engine.mathematics.tokens import ShuffledChanges
from engine.values.display_text import visible
from engine.values.errors import EngineError, Unread
from engine.values.heads import Head, Off, head_argument
from engine.values.outline import LayerOutline
from engine.values.progress import Lane, Progress, Work
from engine.values.table import UNREAD, Cell, Groups, RowGroup
from engine.values.views import Query

if TYPE_CHECKING:
    from engine.models.predictions import MeasuredLogit, Predictor, Prompt
    from engine.models.tokenizer import Words

LOGITS_AT_ONCE = 1 << 22
"""The most logits of the lens that are computed at once: 16 MB, and a tenth of a second."""


def rows_of_predictions(model: OpenModel, query: Query) -> Groups:
    """List the likeliest tokens, and beside a second prediction, its likeliest tokens too.

    The second prediction is that of the other model, or that with heads off. Tokens are sorted by the larger
    probability.

    Raises `EngineError` if both another model and heads off are asked for.
    """
    yield Lane.MODEL
    if query.with_other and query.off:
        raise EngineError("compare predictions with another model or with heads off, not with both")
    other = (yield from check_both_read(model, query.text or "")) if query.with_other else None
    predictor, prompt, logits = yield from read_prompt(model, query)
    words = predictor.words
    own, second, second_words, shuffled = _Prediction(logits), None, words, None
    if other is not None:
        of_other, _, found = yield from read_prompt(other, replace(query, position=prompt.position))
        second, second_words = _Prediction(found), of_other.words
    elif query.off:
        second = _Prediction((yield from _without_heads(model, query)))
        shuffled = ShuffledChanges(logits, second.logits)
    both = (own,) if second is None else (own, second)
    ids = list(dict.fromkeys(each for some in both for each in some.first(query.top)))
    ids.sort(key=lambda each: -max(some.share(each) for some in both))
    texts = _texts_of_both(ids, words, second_words, own, second or own)
    difference = _difference_cells(model, query, words, [some.logits for some in both])
    rows: list[tuple[Cell, ...]] = []
    for each in ids:
        rank, *numbers = own.of(each)
        beside: list[Cell] = []
        if second is not None:
            is_known = own.has(each) and second.has(each)
            beside += [*second.of(each), second.share(each) - own.share(each) if is_known else NOTHING]
        if shuffled is not None:
            beside.append(shuffled.change(each))
        rows.append((*prompt.place, rank, each, texts[each], *numbers, *beside, *difference))
    yield RowGroup(rows)


def _without_heads(model: OpenModel, query: Query) -> Work[Tensor]:
    """Compute the logits, (vocabulary,), at a query's position with its heads off together."""
    for head in query.off:
        model.outline.layer(head)
    predictor, prompt, _ = yield from read_prompt(model, query)
    yield None
    return predictor.logits_without(prompt, Off(query.off, query.by_mean), model.check)


def read_prompt(model: OpenModel, query: Query) -> Work[tuple[Predictor, Prompt, Tensor]]:
    """Read a query's sentence, unless it was read last, and compute the logits, (vocabulary,), at its position.

    Raises `EngineError` if there is no such position, or the model predicts nothing or is not one of transformers.
    """
    reader = yield from model.reader()
    from engine.models.predictions import Predictor
    from engine.models.reader import Reader

    if not isinstance(reader, Reader):
        raise EngineError(
            f"{model.outline.name} is not a transformers model; it has maps, but no predictions and no heads off"
        )
    predictor = model.cached("predictor", lambda: Predictor(reader, model.source.tensors))
    last = model.cached("last prompt", dict[Any, "tuple[Prompt, Tensor]"])
    key = (query.text or "", query.position)
    if key not in last:
        prompt = predictor.prompt(*key)
        logits = predictor.logits(prompt, model.check)
        if not bool(logits.isfinite().all()):
            _refuse_broken(model, predictor, logits)
        last.clear()
        last[key] = prompt, logits
    return predictor, *last[key]


def _refuse_broken(model: OpenModel, predictor: Predictor, logits: Tensor) -> None:
    """Raise an error if logits are NaN, or infinite because of the weights; some types rule tokens out by −∞."""
    from engine.models.loaded_model import broken_parameter, cause_of_nan

    said = f"the logits that {predictor.name} gives here are %s, so it predicts nothing: %s"
    if bool(logits.isnan().any()):
        raise EngineError(said % ("NaN", cause_of_nan(predictor.model, model.check)))
    if (broken := broken_parameter(predictor.model, predictor.model, model.check)) is not None:
        raise EngineError(said % ("infinite", broken))


def measured_logit(query: Query, logits: Tensor, words: Words, name: str) -> MeasuredLogit:
    """Find a query's token, by default the likeliest, and the token whose logit is subtracted.

    Raises `EngineError` if there is no such token, or both are the same.
    """
    from engine.models.predictions import MeasuredLogit, find_token

    count = len(logits)
    token = int(logits.argmax()) if query.token is None else find_token(words, name, query.token, count)
    against = None if query.against is None else find_token(words, name, query.against, count)
    if token == against:
        (text,) = words.texts([token])
        raise EngineError(f"'{text}' would be compared with itself; name another token from predictions")
    return MeasuredLogit(token, against)


def _difference_cells(model: OpenModel, query: Query, words: Words, logits: Sequence[Tensor]) -> tuple[Cell, ...]:
    """Fill the columns from ``chosen`` on, if the query compares two tokens; the first logits choose the token.

    `EngineError` when a token is given without a second one.
    """
    if query.against is None:
        if query.token is not None:
            raise EngineError("a logit difference needs two tokens; name the second with against")
        return ()
    measured = measured_logit(query, logits[0], words, model.outline.name)
    numbers = (float(cell) for each in logits for cell in (measured.of(each), measured.spread(each)))
    return *measured.texts(words), *numbers


class _Prediction:
    """The ranks, logits and probabilities of tokens by id, from logits (vocabulary,) that may be −∞."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self._logits = logits.double()
        self._shares = self._logits.softmax(0)
        self._mean = float(self._logits[logits.isfinite()].mean())

    def has(self, token: int) -> bool:
        return token < len(self._logits)

    def first(self, count: int) -> list[int]:
        return self._logits.topk(min(count, len(self._logits))).indices.tolist()

    def share(self, token: int) -> float:
        return float(self._shares[token]) if self.has(token) else 0.0

    def of(self, token: int) -> tuple[Cell, ...]:
        """Fill a token's cells: rank, and logit and probability with chance; empty if it is not in the vocabulary."""
        if not self.has(token):
            return (NOTHING,) * 5
        logit = self._logits[token]
        rank = int((self._logits > logit).sum()) + 1
        return rank, float(logit), self._mean, self.share(token), 1 / len(self._logits)


def _texts_of_both(ids: list[int], words: Words, other: Words, own: _Prediction, theirs: _Prediction) -> dict[int, str]:
    texts = dict(zip(ids, words.texts(ids), strict=True))
    for each, text in zip(ids, other.texts(ids), strict=True):
        if own.has(each) and theirs.has(each) and text != texts[each]:
            raise EngineError(
                f"token {each} is '{visible(texts[each])}' in the first model and '{visible(text)}' in the second, so "
                "their predictions cannot be compared"
            )
        if not own.has(each):
            texts[each] = text
    return texts


def rows_of_lens(model: OpenModel, query: Query) -> Groups:
    """List the likeliest tokens after each block, and the residual stream's norm there."""
    predictor, prompt, own_logits = yield from read_prompt(model, query)
    chosen = _difference_cells(model, query, predictor.words, [own_logits])[:2]
    measured = measured_logit(query, own_logits, predictor.words, predictor.name)
    yield None
    at_once = max(1, LOGITS_AT_ONCE // len(own_logits))
    for states, some, several in predictor.lens(prompt, at_once, model.check, everywhere=query.all_positions):
        tokens, total = states.shape[1], states.shape[0] * states.shape[1]
        rows: list[tuple[Cell, ...]] = []
        for place_of_state, logits in enumerate(several, start=some.start):
            number, token = divmod(place_of_state, tokens)
            layer: Cell = "embedding" if number == 0 else number - 1
            position = token if query.all_positions else prompt.position
            state = states[number, token]
            norm = float(state.float().norm())
            chance = NOTHING if number == 0 else orthogonal_norm(states[number - 1, token], state)
            difference = (*chosen, float(measured.of(logits)), measured.spread(logits)) if chosen else ()
            likely = _Prediction(logits)
            ids = likely.first(query.top)
            for place, (each, text) in enumerate(zip(ids, predictor.words.texts(ids), strict=True), start=1):
                at = (predictor.stack, layer, position, prompt.tokens[position], place)
                rows.append((*at, each, text, *likely.of(each)[1:], norm, chance, *difference))
        yield RowGroup(rows, progress=Progress("lens", some.stop, total, "states"))
        yield None


def rows_of_contributions(model: OpenModel, query: Query) -> Groups:
    """Split the logit of a query's token, or the difference of two logits, into contributions."""
    predictor, prompt, logits = yield from read_prompt(model, query)
    from engine.models.contributions import contributions

    yield None
    measured = measured_logit(query, logits, predictor.words, predictor.name)
    found = contributions(predictor, prompt, measured, len(logits), model.check)
    text, *against = measured.texts(predictor.words)
    of: tuple[Cell, ...] = (measured.token, text)
    note = "of the logit before the model caps it" if found.is_before_cap else NOTHING
    end: tuple[Cell, ...] = (found.logit, note, *prompt.place, *against, *([found.measured] if against else ()))
    rows: list[tuple[Cell, ...]] = [
        (head.stack, head.layer, head.label, "head", *of, *value, *end) for head, value in found.heads.items()
    ]
    for (part, block), value in found.others.items():
        rows.append((predictor.stack, NOTHING if block is None else block, NOTHING, part, *of, *value, *end))
    yield RowGroup(rows)


def rows_of_ablation(model: OpenModel, query: Query) -> Groups:
    """Switch off the heads of a query together, or each head of its layers alone.

    Finished heads are kept when a sweep is given up.
    """
    return _ablate_together(model, query) if query.off else compute_layers("ablation", model, query, _ablation_of_layer)


def _ablation_of_layer(model: OpenModel, layer: LayerOutline, query: Query) -> Groups:
    predictor, prompt, logits = yield from read_prompt(model, query)
    if not predictor.is_run(layer.name):
        raise Unread(UNREAD)
    measured = measured_logit(query, logits, predictor.words, predictor.name)
    key = "ablation", query.text, query.position, measured, query.by_mean
    found = model.cached(key, dict[Head, tuple[Cell, ...]])
    wanted = [head for head in layer.head_names() if query.wants(head.head)]
    missing = [head for head in wanted if head not in found]
    yield None
    for head, after in predictor.logits_without_each(prompt, missing, model.check, by_mean=query.by_mean):
        off = head_argument(head, model.outline.stacks)
        (found[head],) = _ablation_cells(logits, after, [measured.token], off, prompt, measured, predictor.words)
    yield RowGroup([(head.stack, head.layer, head.label, *found[head]) for head in wanted])


def _ablate_together(model: OpenModel, query: Query) -> Groups:
    after = yield from _without_heads(model, query)
    predictor, prompt, logits = yield from read_prompt(model, query)
    measured = measured_logit(query, logits, predictor.words, predictor.name)
    if query.token is None and query.against is None:
        several = [each.topk(min(query.top, len(each))).indices.tolist() for each in (logits, after)]
        tokens = list(dict.fromkeys(several[0] + several[1]))
    else:
        tokens = [measured.token]
    off = " ".join(head_argument(head, model.outline.stacks) for head in query.off)
    rows = _ablation_cells(logits, after, tokens, off, prompt, measured, predictor.words)
    yield RowGroup([(NOTHING, NOTHING, NOTHING, *cells) for cells in rows])


def _ablation_cells(
    logits: Tensor,
    after: Tensor,
    tokens: Sequence[int],
    off: str,
    prompt: Prompt,
    measured: MeasuredLogit,
    words: Words,
) -> Iterator[tuple[Cell, ...]]:
    """Fill the cells of tokens from ``token_id`` on; chance is the same changes shuffled among the tokens."""
    shuffled, shares = ShuffledChanges(logits, after), [each.double().softmax(0) for each in (logits, after)]
    difference: tuple[Cell, ...] = ()
    if measured.against is not None:
        own, now = float(measured.of(logits)), float(measured.of(after))
        difference = measured.texts(words)[1], own, now, now - own, measured.spread(after.double() - logits.double())
    for token, text in zip(tokens, words.texts(tokens), strict=True):
        share, new_share = (float(each[token]) for each in shares)
        logit, new_logit = float(logits[token]), float(after[token])
        yield (
            token, text, share, new_share, new_share - share, shuffled.change(token),
            logit, new_logit, new_logit - logit, shuffled.logit_change, off, *prompt.place, *difference,
        )  # fmt: skip
