"""Searching the tree: layers and heads by their names, labels and marks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from engine.values.heads import SHORT_LABELS, Head

if TYPE_CHECKING:
    from engine.values.outline import LayerOutline, ModelOutline

_NAME = re.compile(r"(?:(?P<stack>[a-z-]+)[.:])?l?(?P<layer>\d+)(?:[h.](?P<head>\d+)?)?")
_HEAD = re.compile(r"h(\d+)")
_TWO_NUMBERS = re.compile(r"(\d+)[\s,]+(\d+)")
_COMPARISON = re.compile(r"[<>=]|\b(contains|between|like|is (not )?null)\b|\bin\s*\(", re.IGNORECASE)

Lines = tuple[tuple["LayerOutline", Head], ...]
"""Every layer and head with the outline of its layer."""

Test = Callable[["LayerOutline", Head], bool]
"""Whether a word matches a layer, or a head in it."""


def is_condition(text: str) -> bool:
    """Say whether a text is a condition on columns, not a search.

    Examples
    --------
    >>> is_condition("ov_energy_rank < 20"), is_condition("induction"), is_condition("q!")
    (True, False, False)
    """
    return _COMPARISON.search(text) is not None


def lines_of(outline: ModelOutline) -> Lines:
    """List a tree's lines: each layer, then its heads."""
    return tuple((layer, name) for layer in outline.layers for name in (layer.name, *layer.head_names()))


def find(
    text: str, lines: Lines, labels: Mapping[Head, str], marked: Mapping[str, Collection[Head]] | None = None
) -> tuple[Head, ...]:
    """List the layers and heads that every word of a text matches, in the order of the tree.

    A word is a head (``5.3``, ``L5H3``, ``decoder.L5H3``), a layer (``L5``), a head's number in every layer (``H3``),
    or a part of a stack's name, a head's label, a layer's mark, or a mark of the tree such as ``off``. Together with
    other words a layer matches its heads too.

    Parameters
    ----------
    text : what a person typed; an empty one finds nothing.
    lines : of the tree, see `lines_of`.
    labels : of the heads that have one.
    marked : heads by the tree's mark for them.
    """
    words = _TWO_NUMBERS.sub(r"\1.\2", text.strip().lower()).split()
    tests = [_word_test(word, labels, marked or {}, is_alone=len(words) == 1) for word in words]
    return tuple(name for layer, name in lines if tests and all(test(layer, name) for test in tests))


def _word_test(
    word: str, labels: Mapping[Head, str], marked: Mapping[str, Collection[Head]], *, is_alone: bool
) -> Test:
    if (match := _NAME.fullmatch(word)) is not None:
        stack, number, head = match["stack"], int(match["layer"]), match["head"]

        def is_named(layer: LayerOutline, name: Head) -> bool:
            if name.layer != number or (stack is not None and not name.stack.startswith(stack)):
                return False
            return name.head == int(head) if head is not None else name.is_layer or not is_alone

        return is_named
    if (match := _HEAD.fullmatch(word)) is not None:
        wanted = int(match[1])
        return lambda layer, name: name.head == wanted

    heads = {head for head, label in labels.items() if word in label or word in SHORT_LABELS.get(label, "")}
    heads.update(*(of_mark for mark, of_mark in marked.items() if word in mark))

    def is_described(layer: LayerOutline, name: Head) -> bool:
        if not name.is_layer:
            return name in heads or (not is_alone and word in name.stack)
        return word in name.stack or any(word in mark.lower() for mark in layer.marks)

    return is_described


def place_after(
    found: tuple[Head, ...], here: Head | None, outline: ModelOutline, step: int, *, or_here: bool = False
) -> tuple[int, bool]:
    """Give the number of the match after, or before, a line of the tree, and whether the search wrapped around.

    Parameters
    ----------
    found : the matches in the order of the tree, at least one.
    here : the line; None is the model's own, the first.
    outline : of the model.
    step : 1 or -1.
    or_here : whether the line itself counts.
    """
    order = {layer.name: place for place, layer in enumerate(outline.layers)}
    places = [(order[head.whole_layer], head.head) for head in found]
    at = (-1, 0) if here is None else (order[here.whole_layer], here.head)
    after = bisect_left(places, at) if step < 0 or or_here else bisect_right(places, at)
    place = after if step > 0 else after - 1
    return place % len(found), not 0 <= place < len(found)
