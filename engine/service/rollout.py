"""Attention followed through all layers of a stack, as a map and as the rows of the ``rollout`` table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from engine.mathematics.patterns import Weights, rollout, uniform_attention, visible_keys
from engine.mathematics.tabulate import rollout_rows
from engine.values.attention import AT_ONCE, AttentionMaps
from engine.values.errors import EngineError
from engine.values.heads import DELTA
from engine.values.tables import Cell
from engine.values.view import Query

if TYPE_CHECKING:
    from engine.service.session import Breathe, Session


class Rollout:
    """Follows attention in an open model; belongs to the engine thread."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def rows(self, query: Query, breathe: Breathe) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of every stack in which tokens attend to each other."""
        assert query.text is not None  # the view needs it
        for stack in self._session.outline.stacks:
            if stack != "cross" and not stack.endswith(DELTA):
                yield from rollout_rows(self.maps(query.text, stack, breathe).select(None))

    def maps(self, text: str, stack: str, breathe: Breathe) -> AttentionMaps:
        """Give a stack's rollout in a sentence, in the place of one head.

        Raises
        ------
        EngineError : when it has none: across stacks, for a sentence that is too long, or for want of a layer's map.
        """
        sentence = self._session.read(text, breathe)
        if stack == "cross":
            raise EngineError("rollout follows attention among the same tokens; that across stacks has none")
        if len(sentence.ids) ** 2 > AT_ONCE:
            longest, tokens_read = int(AT_ONCE**0.5), len(sentence.ids)
            raise EngineError(f"rollout is of at most {longest} tokens, not of {tokens_read}; shorten the sentence")
        tokens: tuple[str, ...] = ()
        uniform: list[Weights] = []

        def means() -> Iterator[Weights]:
            nonlocal tokens
            layers = self._session.outline.stack_layers(stack)
            for done, layer in enumerate(layers):
                breathe()
                telling(done, len(layers))
                maps = self._session.attention(text, stack, layer.layer, breathe)
                if maps.weights.shape[1] != maps.weights.shape[2]:
                    raise EngineError(f"{stack} {layer.name} attends to other tokens too, so there is no rollout")
                tokens = maps.query_tokens
                uniform.append(uniform_attention(visible_keys(maps.weights, breathe), len(tokens)).astype(np.float32))
                yield maps.select(None).weights

        with self._session.telling("following attention", "layers") as telling:
            followed = rollout(means()).astype(np.float32)
        chance = rollout(iter(uniform)).astype(np.float32)
        return AttentionMaps(sentence, stack, None, tokens, tokens, followed[None], is_rollout=True, chance=chance)
