"""Several heads as a person names them: ``L1H3 L1H2``, ``L2`` for all of a layer, ``all``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.values.errors import EngineError
from engine.values.heads import DELTA, Head, no_attention, parse_head
from engine.values.model import ModelOutline
from engine.values.plural import plural, span

EVERY = "all"
"""Stands for all heads of the model."""

_HEAD_OF_LAYER = re.compile(r"h(\d+)", re.IGNORECASE)


def heads_named(text: str, outline: ModelOutline, here: Head | None = None) -> tuple[Head, ...]:
    """Read the names of heads with blanks or commas between them, each head once; a layer stands for all of its heads.

    Parameters
    ----------
    text : what was typed.
    outline : of the model.
    here : what is selected, where something is: a head without a stack, and one without a layer, is of this one's.

    Raises
    ------
    EngineError : when a word names nothing that can be switched off in this model.
    """
    named = dict.fromkeys(
        head for word in text.replace(",", " ").split() for head in _heads_of_word(word, outline, here)
    )
    return tuple(named)


def checked(head: Head, outline: ModelOutline) -> Head:
    """Give a head or layer that the model has.

    Raises
    ------
    EngineError : when it has none; what is said is short, as a line that is typed into has little room for it.
    """
    layers = {layer.layer: layer for layer in outline.stack_layers(head.stack)}
    if head.layer not in layers:
        raise EngineError(f"there is no layer {head.layer}: {head.stack} has {span(min(layers), max(layers))}")
    count = layers[head.layer].heads
    if head.head >= count:
        raise EngineError(f"there is no head {head}: the layer has {plural('head', count)} {span(0, count - 1)}")
    return head


def _heads_of_word(word: str, outline: ModelOutline, here: Head | None) -> Iterator[Head]:
    """Yield the heads that a word names."""
    if word.lower() == EVERY:
        for layer in outline.attending_layers:
            yield from layer.head_names()
        return
    if word.isdecimal():
        raise EngineError(f"'{word}' is a layer or a head? write L{word} for the layer, {word}.0 for a head")
    head = checked(_parsed(word, outline, here), outline)
    layer = outline.layer(head)
    if layer.is_change:
        raise EngineError(no_attention(head.stack))
    if head.is_layer:
        yield from layer.head_names()
    else:
        yield head


def _parsed(word: str, outline: ModelOutline, here: Head | None) -> Head:
    """Read one name."""
    if here is None:
        return parse_head(word, outline.stacks)
    stack = here.stack.removesuffix(DELTA)
    if (match := _HEAD_OF_LAYER.fullmatch(word)) is not None:
        return Head(stack, here.layer, int(match[1]))
    names_no_stack = word[0].isdecimal() or word[0] in "lL"
    return parse_head(f"{stack}.{word}" if names_no_stack else word, outline.stacks)
