"""The rows of ``rollout``: attention followed through all layers of a stack; and the same as a map."""

from __future__ import annotations

import numpy as np

from engine.analysis.attention import attention_rows
from engine.analysis.open_model import OpenModel
from engine.mathematics.patterns import Weights, rollout, uniform_attention, visible_keys
from engine.values.attention import AT_ONCE, AttentionMaps
from engine.values.errors import EngineError
from engine.values.heads import DELTA
from engine.values.progress import Lane, Work
from engine.values.table import Groups, RowGroup
from engine.values.views import Query


def rows(model: OpenModel, query: Query) -> Groups:
    """Work out the rows of every stack in which tokens attend to each other."""
    for stack in model.outline.stacks:
        if stack != "cross" and not stack.endswith(DELTA):
            maps = yield from rollout_of(model, query.text or "", stack)
            yield RowGroup([(row[0], *row[3:]) for row in attention_rows(maps.select(None))])


def rollout_of(model: OpenModel, text: str, stack: str) -> Work[AttentionMaps]:
    """Give a stack's rollout in a sentence, in the place of one head.

    Raises
    ------
    EngineError : when it has none: across stacks, for a sentence that is too long, or for want of a layer's map.
    """
    yield Lane.MODEL
    sentence = yield from model.read(text)
    if stack == "cross":
        raise EngineError("rollout follows attention among the same tokens; that across stacks has none")
    if len(sentence.ids) ** 2 > AT_ONCE:
        longest, tokens_read = int(AT_ONCE**0.5), len(sentence.ids)
        raise EngineError(f"rollout is of at most {longest} tokens, not of {tokens_read}; shorten the sentence")
    tokens: tuple[str, ...] = ()
    means: list[Weights] = []
    uniform: list[Weights] = []
    layers = model.outline.stack_layers(stack)
    with model.telling("following attention", "layers") as telling:
        for done, layer in enumerate(layers):
            yield None
            telling(done, len(layers))
            maps = yield from model.attention(text, stack, layer.layer)
            if maps.weights.shape[1] != maps.weights.shape[2]:
                raise EngineError(f"{stack} {layer.name} attends to other tokens too, so there is no rollout")
            tokens = maps.query_tokens
            uniform.append(uniform_attention(visible_keys(maps.weights, model.check), len(tokens)).astype(np.float32))
            means.append(maps.select(None).weights)
    followed, chance = (rollout(iter(each)).astype(np.float32) for each in (means, uniform))
    return AttentionMaps(sentence, stack, None, tokens, tokens, followed[None], is_rollout=True, chance=chance)
