"""Random tokens that come again: what shows which heads look for what they have seen, in whatever model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from engine.models.tokenizer import Words
from engine.values.errors import EngineError

DISTANCES = (11, 17, 31, 53)
"""After how many tokens a token comes again, in a sequence for each; prime, so that no habit fits two of them."""

SEED = 0
"""Of the random tokens, together with the distance."""


@dataclass(frozen=True)
class Repeat:
    """One sequence: different random tokens, then the same ones again, between what the tokenizer puts around text.

    Attributes
    ----------
    ids : of the whole sequence.
    distance : after how many tokens each comes again.
    """

    ids: tuple[int, ...]
    distance: int


def repeats(words: Words, vocabulary: int, context: int | None) -> tuple[Repeat, ...]:
    """Draw sequences of ordinary tokens, each repeated once, at the `DISTANCES` that a model has room for.

    Where it has room for none, at the longest distance that fits.

    Parameters
    ----------
    words : which says what ordinary tokens are.
    vocabulary : how many ids the model knows.
    context : the longest sequence the model reads, or None.

    Raises
    ------
    EngineError : when there is no room for two tokens twice.
    """
    ordinary = np.asarray(words.ordinary(vocabulary))
    before, after = words.frame()
    limits = [limit for limit in (context, words.limit) if limit is not None]
    room = min((limit - len(before) - len(after)) // 2 for limit in limits) if limits else max(DISTANCES)
    longest = min(room, len(ordinary))
    if longest < 2:
        raise EngineError("there is no room for random tokens that come again; duplicate and induction need four")
    made = []
    for distance in [each for each in DISTANCES if each <= longest] or [longest]:
        drawn = np.random.default_rng((SEED, distance)).choice(ordinary, distance, replace=False).tolist()
        made.append(Repeat((*before, *drawn, *drawn, *after), distance))
    return tuple(made)


def vocabulary_of(model: Any) -> int:
    """Say how many tokens a model knows; no more than it can be asked for, where it does not say."""
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):  # models of several towers, which have no one table
        table = None
    if isinstance(table, nn.Embedding):
        return table.num_embeddings
    weight = getattr(table, "weight", None)
    sizes = [each.num_embeddings for each in model.modules() if isinstance(each, nn.Embedding)]
    return int(weight.shape[0]) if isinstance(weight, Tensor) else min(sizes, default=1)
