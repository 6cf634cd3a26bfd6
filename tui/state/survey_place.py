"""What is shown of a survey, and how the keys of its screen go through heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.values.heads import Head


@dataclass(frozen=True, slots=True)
class SurveyPlace:
    """What is shown.

    Attributes
    ----------
    model : of the survey; empty before one is known.
    measure : its name.
    head : whose curve is shown.
    revision : of the checkpoint under the cursor.
    has_all_models : whether the curves of the other models' heads of this name are shown, too.
    """

    model: str = ""
    measure: str = ""
    head: Head | None = None
    revision: str = ""
    has_all_models: bool = False


def head_beside(heads: Sequence[Head], head: Head, step: int) -> Head:
    """Give the head some places on, across layers, and at the ends the last one.

    Examples
    --------
    >>> heads = [Head("decoder", layer, number) for layer in (0, 1) for number in (0, 1)]
    >>> [str(head_beside(heads, heads[1], step)) for step in (1, -1, 9)]
    ['L1H0', 'L0H0', 'L1H1']
    """
    return heads[max(0, min(heads.index(head) + step, len(heads) - 1))]


def head_in_layer(heads: Sequence[Head], head: Head, step: int) -> Head:
    """Give the head of the same number some layers on, or the nearest there is."""
    layers = list(dict.fromkeys(each.whole_layer for each in heads))
    layer = layers[max(0, min(layers.index(head.whole_layer) + step, len(layers) - 1))]
    return min((each for each in heads if each.whole_layer == layer), key=lambda each: abs(each.head - head.head))
