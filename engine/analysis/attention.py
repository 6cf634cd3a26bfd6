"""The rows of ``attention`` and ``rollout``: the weights of a sentence's maps, or blocks of long ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.analysis.layers import NOTHING, query_layers
from engine.analysis.open_model import OpenModel, attention_of_both
from engine.mathematics.attention import Weights, rollout, uniform_attention
from engine.values.attention import AT_ONCE, AttentionMap, AttentionMaps, MapName
from engine.values.errors import EngineError, NoMap
from engine.values.heads import DELTA, Off
from engine.values.progress import Lane, Progress, Work
from engine.values.table import (
    ATTENTION_COLUMNS,
    DIFFERENCE_COLUMNS,
    DIFFERENCE_OF_HEADS_COLUMNS,
    ROLLOUT_COLUMNS,
    Groups,
    LargeTable,
    Row,
    RowGroup,
)
from engine.values.views import Query

Arrays: TypeAlias = Iterator[tuple[str, NDArray[Any]] | RowGroup | Lane | None]
"""Named arrays, one at a time, and groups without rows that say what is left out."""

ROWS_AT_ONCE = 2**14
"""Rows of a group: some megabytes, however long the sentence is."""


def rows_of_attention(model: OpenModel, query: Query) -> Groups:
    """List the weights of a query's maps, some thousand rows a group, with one layer's maps in memory at a time.

    Layers without a map of the sentence are left out, and a group says why.

    Raises
    ------
    NoMap : if no layer has a map.
    EngineError : if the sentence cannot be read, or the second model reads it as other tokens.
    """
    for unit in _maps(model, query):
        if isinstance(unit, AttentionMaps):
            heads: Iterable[int | None] = range(len(unit.weights)) if query.head is None else (query.head,)
            for head in (None,) if query.head_mean else heads:
                rows = attention_rows(unit.select(head))
                while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
                    yield RowGroup(some)
        else:
            yield unit
        del unit  # before the next layer's maps are computed


def arrays_of_attention(model: OpenModel, query: Query) -> Arrays:
    """Yield one array per layer, (heads, queries, keys) float32, named ``L5``, or ``mean`` for the mean over layers.

    A second model's follow each, named ``L5.other``. With several stacks the names begin with the stack:
    ``encoder.L5``. Raises as `rows_of_attention`.
    """
    for unit in _maps(model, query):
        if isinstance(unit, AttentionMaps):
            prefix = f"{unit.stack}." if len(model.outline.stacks) > 1 else ""
            name = f"{prefix}{'mean' if unit.layer is None else f'L{unit.layer}'}"
            weights, other = unit.weights, unit.other
            if query.head_mean or query.head is not None:
                chosen = unit.select(None if query.head_mean else query.head)
                weights, other = chosen.weights[None], None if chosen.other is None else chosen.other[None]
            yield name, weights
            if other is not None:
                yield f"{name}.other", other
            del weights, other
        else:
            yield unit
        del unit


def _maps(model: OpenModel, query: Query) -> Iterator[AttentionMaps | RowGroup | Lane | None]:
    if query.with_other:
        yield from model.other()
    layers = query_layers("attention", model, query)
    places: list[tuple[str, int | None]] = [(layer.stack, layer.layer) for layer in layers]
    if query.layer_mean:
        places = [(stack, None) for stack in dict.fromkeys(layer.stack for layer in layers)]
    lacking: list[NoMap] = []
    for done, place in enumerate(places):
        yield RowGroup(progress=Progress("attention", done, len(places), "layers"))
        try:
            if query.with_other:
                maps = yield from attention_of_both(model, query.text or "", *place)
            else:
                maps = yield from model.attention(query.text or "", *place, Off(query.off, query.by_mean))
        except NoMap as error:
            lacking.append(error)
            yield RowGroup(lacking=(str(error),))
            continue
        yield maps
        del maps
    if lacking and len(lacking) == len(places):
        raise lacking[-1]


def attention_rows(attention: AttentionMap) -> Iterator[Row]:
    """Yield a row for each query and key, positions from 0.

    A map with another beside it adds the other's weight, and the difference.
    """
    place = (attention.name.stack, attention.name.layer_label, attention.name.head_label)
    keys = attention.key_tokens
    for query, token in enumerate(attention.query_tokens):
        chances: Sequence[str | float] = attention.chance_of(query) or [NOTHING] * len(keys)
        own = attention.weights[query].tolist()
        others = None if attention.other is None else attention.other[query].tolist()
        for key, (key_token, weight, chance) in enumerate(zip(keys, own, chances, strict=True)):
            row = (*place, query, key, token, key_token, weight, chance)
            yield row if others is None else (*row, others[key], others[key] - weight)


def attention_table(maps: Iterable[AttentionMap]) -> LargeTable:
    """List every weight of maps."""
    return LargeTable("attention", ATTENTION_COLUMNS, (row for one in maps for row in attention_rows(one)))


def difference_of_heads_table(attention: AttentionMap, other: MapName) -> LargeTable:
    """List every weight of a head's map beside another head's of the same model, and the difference."""
    place = (other.stack, other.layer_label, other.head_label)
    return LargeTable("difference", DIFFERENCE_OF_HEADS_COLUMNS, ((*row, *place) for row in attention_rows(attention)))


def map_table(attention: AttentionMap) -> LargeTable:
    """List every weight of a map as rows of ``attention``, or of ``rollout`` if it is one."""
    if attention.name.is_rollout:
        return LargeTable("rollout", ROLLOUT_COLUMNS, ((row[0], *row[3:]) for row in attention_rows(attention)))
    columns = ATTENTION_COLUMNS if attention.other is None else DIFFERENCE_COLUMNS
    return LargeTable("attention", columns, attention_rows(attention))


def rows_of_rollout(model: OpenModel, query: Query) -> Groups:
    """Compute the rows of every stack in which tokens attend to each other."""
    for stack in model.outline.stacks:
        if stack != "cross" and not stack.endswith(DELTA):
            maps = yield from rollout_of(model, query.text or "", stack)
            yield RowGroup([(row[0], *row[3:]) for row in attention_rows(maps.select(None))])


def rollout_of(model: OpenModel, text: str, stack: str) -> Work[AttentionMaps]:
    """Compute a stack's rollout in a sentence, as maps with one head.

    Raises `EngineError` for cross-attention, for a sentence that is too long, and if a layer has no map.
    """
    yield Lane.MODEL
    sentence = yield from model.read(text)
    if stack == "cross":
        raise EngineError("rollout needs queries and keys of the same tokens; choose a stack without cross-attention")
    if len(sentence.ids) ** 2 > AT_ONCE:
        longest, tokens_read = int(AT_ONCE**0.5), len(sentence.ids)
        raise EngineError(
            f"rollout takes at most {longest} tokens, this sentence has {tokens_read}; type a shorter one"
        )
    tokens: tuple[str, ...] = ()
    means: list[Weights] = []
    uniform: list[Weights] = []
    layers = model.outline.stack_layers(stack)
    with model.reporter("computing the rollout", "layers") as report:
        for done, layer in enumerate(layers):
            yield None
            report(done, len(layers))
            maps = yield from model.attention(text, stack, layer.layer)
            if maps.weights.shape[1] != maps.weights.shape[2]:
                raise EngineError(f"{stack} {layer.name} attends to other tokens too, so there is no rollout")
            tokens = maps.query_tokens
            assert maps.visible is not None  # which a reader finds
            uniform.append(uniform_attention(maps.visible, len(tokens)).astype(np.float32))
            means.append(maps.select(None).weights)
    followed, chance = (rollout(each).astype(np.float32) for each in (means, uniform))
    return AttentionMaps(sentence, stack, None, tokens, tokens, followed[None], is_rollout=True, chance=chance)
