"""Places: what a person types to go to heads, layers and views or to find them, and the history of places visited."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from time import monotonic
from typing import TYPE_CHECKING

from engine.values.errors import EngineError
from engine.values.heads import SHORT_LABELS, Head, parse_head
from engine.values.views import OVERVIEW, VIEWS, Scope

if TYPE_CHECKING:
    from engine.values.outline import LayerOutline, ModelOutline

Lines = list[tuple["LayerOutline", Head]]
"""Layers and heads with the outline of their layer, in the order of the tree."""

OTHER_VIEWS = ("spectra", "ranks", "attention", OVERVIEW, "text", "compare", "maps")
"""The views that are no tables of the engine."""


class NoPlaceError(EngineError):
    """A text names no place at all."""


_HEAD = re.compile(r"h(\d+)", re.IGNORECASE)
_NAME = re.compile(r"(?:(?P<stack>[a-z-]+)[.:])?l?(?P<layer>\d+)(?:[h.](?P<head>\d+)?)?")
"""A word of a search that names a layer or head."""
_APART = re.compile(r"(\d)[\s,]+(?=[hH]?\d)")
"""The gap in ``5 3`` and in ``L5 H3``."""
_TWO_NUMBERS = re.compile(r"(\d+)[\s,]+(\d+)")
_IN_WORDS = re.compile(r"\b(l)ayer\s*(?=\d)|\b(h)ead\s*(?=\d)", re.IGNORECASE)
"""The words in ``layer 5 head 3``."""
_COMPARISON = re.compile(r"[<>=]|\b(contains|between|like|is (not )?null)\b|\bin\s*\(", re.IGNORECASE)


def example(outline: ModelOutline) -> Head:
    """Give a head of the model for an example, not of the first layer if there are more."""
    layer = next((each for each in reversed(outline.layers[:6]) if each.heads), outline.layers[0])
    return Head("", layer.layer, min(3, layer.heads - 1))


def view_names(*, is_comparing: bool) -> tuple[str, ...]:
    """List the views that a person can name, in the order of their keys."""
    tables = (
        view.name
        for view in VIEWS.values()
        if view.name != "rollout" and view.scope is not Scope.CELL and ("vs" not in view.needs or is_comparing)
    )
    return (*OTHER_VIEWS[:3], *tables, *OTHER_VIEWS[3:])


def parse_place(text: str, outline: ModelOutline, here: Head | None, views: Sequence[str]) -> Head | str:
    """Read ``L5H3``, ``5.3``, ``5 3``, ``L5``, ``layer 5 head 3``, ``decoder.L2H1``, ``h3``, or a view's name.

    A view's name may be cut short.

    Parameters
    ----------
    text : what a person typed.
    outline : of the model.
    here : the selected head or layer; it completes a name without a stack or a layer.
    views : the names of the views.

    Raises
    ------
    NoPlaceError : when the text is none of these.
    EngineError : when the model has no such head or layer, or the text fits several views.
    """
    typed = _IN_WORDS.sub(lambda match: (match[1] or match[2]).upper(), text.strip())
    if typed.lower() in views:
        return typed.lower()
    if here is None and _HEAD.fullmatch(typed):
        layer = outline.layers[0].name
        raise EngineError(f"{typed} needs a selected layer; write the layer too: {layer}{typed}")
    if typed and typed[-1].isdigit():
        joined = _APART.sub(r"\1.", typed).replace(".h", "h").replace(".H", "H")
        head = parse_head(joined, outline.stacks, here or Head(outline.stacks[0], 0))
        outline.layer(head)
        return head
    named = [view for view in views if typed and view.startswith(typed.lower())]
    if len(named) == 1:
        return named[0]
    if named:
        raise EngineError(f"'{typed}' could be {', '.join(named)}")
    head = example(outline)
    heads = f"{head}, {head.layer}.{head.head}, h{head.head}"
    raise NoPlaceError(f"'{typed}' is neither a head nor a view; type {heads}, or a view such as ranks")


def is_condition(text: str) -> bool:
    """Say whether a text is a condition on columns, not a search.

    Examples
    --------
    >>> is_condition("ov_energy_rank < 20"), is_condition("induction"), is_condition("q!")
    (True, False, False)
    """
    return _COMPARISON.search(text) is not None


def find(
    text: str, outline: ModelOutline, labels: Mapping[Head, str], marked: Mapping[str, Collection[Head]] | None = None
) -> tuple[Head, ...]:
    """List the layers and heads that every word of a text matches, in the order of the tree.

    A word is a head (``5.3``, ``L5H3``, ``decoder.L5H3``), a layer (``L5``), a head's number in every layer (``H3``),
    or a part of a stack's name, a head's label, a layer's mark, or a mark of the tree such as ``off``. Together with
    other words a layer matches its heads too.

    Parameters
    ----------
    text : what a person typed; an empty one finds nothing.
    outline : of the model.
    labels : of the heads that have one.
    marked : heads by the tree's mark for them.
    """
    words = _TWO_NUMBERS.sub(r"\1.\2", text.strip().lower()).split()
    found = [(layer, name) for layer in outline.layers for name in (layer.name, *layer.head_names()) if words]
    for word in words:
        found = _that_fit(word, found, labels, marked or {}, is_alone=len(words) == 1)
    return tuple(name for _, name in found)


def _that_fit(
    word: str, names: Lines, labels: Mapping[Head, str], marked: Mapping[str, Collection[Head]], *, is_alone: bool
) -> Lines:
    """List the layers and heads that a word names, or of whose stack, marks or label it is a part."""
    if (match := _NAME.fullmatch(word)) is not None:
        number, stack = int(match["layer"]), match["stack"] or ""
        of_layer = [line for line in names if line[1].layer == number and line[1].stack.startswith(stack)]
        if match["head"]:
            return [line for line in of_layer if line[1].head == int(match["head"])]
        return [line for line in of_layer if line[1].is_layer or not is_alone]
    if (match := _HEAD.fullmatch(word)) is not None:
        return [line for line in names if line[1].head == int(match[1])]
    heads = {head for head, label in labels.items() if word in label or word in SHORT_LABELS.get(label, "")}
    heads.update(*(of_mark for mark, of_mark in marked.items() if word in mark))
    found = []
    for layer, name in names:
        is_of_stack = word in name.stack and (name.is_layer or not is_alone)
        is_marked = name.is_layer and any(word in mark.lower() for mark in layer.marks)
        if is_of_stack or is_marked or name in heads:
            found.append((layer, name))
    return found


def head_after(outline: ModelOutline, here: Head | None, step: int) -> Head | None:
    """Give the head a step away, across layers; from a whole layer, its first head or the last one before.

    None stands for the model as a whole, and for no further head.
    """
    heads = [head for layer in outline.layers for head in layer.head_names()]
    if here is None:
        return heads[0] if step > 0 else None
    if here.is_layer:
        before = takewhile(lambda layer: layer.name != here, outline.layers)
        place = sum(layer.heads for layer in before) - (step < 0)
    else:
        place = heads.index(here) + step
    return heads[place] if 0 <= place < len(heads) else None


def layer_after(outline: ModelOutline, here: Head | None, step: int) -> Head:
    """Give the same head in the layer a step away, or that whole layer; the first and last layer are the ends."""
    layers = [layer.name for layer in outline.layers]
    if here is None:
        return layers[0] if step > 0 else layers[-1]
    layer = layers[max(0, min(layers.index(here.whole_layer) + step, len(layers) - 1))]
    return Head(layer.stack, layer.layer, min(here.head, outline.layer(layer).heads - 1))


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


REST = 0.5
"""Seconds after which a place counts as visited."""

Place = tuple[Head | None, str]
"""A head or a layer, None for the model as a whole, and a view."""


class PlaceHistory:
    """The places visited. The last one may not count yet."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._at = -1
        self._since = 0.0

    @property
    def has_before(self) -> bool:
        """Whether there is a place to go back to."""
        return self._at > 0

    def jump(self) -> None:
        """Count this place as visited, however short the visit, because a person jumps from it."""
        self._since = -math.inf

    def move(self, place: Place) -> None:
        """Add a place; drop the place before it unless that counts as visited, and all places forward of it."""
        if self._places and self._places[self._at] == place:
            return
        is_visited, self._since = monotonic() - self._since >= REST, monotonic()
        del self._places[self._at + (1 if is_visited else 0) :]
        if self._places and self._places[-1] == place:
            self.jump()
        else:
            self._places.append(place)
        self._at = len(self._places) - 1

    def turn(self, place: Place) -> None:
        """Change the view of this place without going to another."""
        if self._places and self._places[self._at][0] == place[0]:
            self._places[self._at] = place

    def step(self, step: int) -> Place | None:
        """Go back or forward; None at the end."""
        if not 0 <= self._at + step < len(self._places):
            return None
        self._at += step
        self.jump()
        return self._places[self._at]
