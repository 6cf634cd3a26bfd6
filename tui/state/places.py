"""Where a person wants to go, as typed: a head, a layer, some layers on or back, or a view; and where one has been."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from engine.values.errors import EngineError
from engine.values.heads import Head, parse_head
from engine.values.outline import ModelOutline, find_head
from engine.values.views import OVERVIEW, VIEWS, Scope
from tui.state.session import Shown

OTHER_VIEWS = {
    "spectra": "spectra",
    "ranks": "ranks",
    "attention": "attention",
    OVERVIEW: "overview all heads map",
    "text": "coloured text",
    "compare": "compare pinned heads beside each other",
    "maps": "small maps of all heads of the layer",
    "sentences": "sentences history",
}
"""What else than tables one can go to by its name, and what it is."""


class NoPlaceError(EngineError):
    """A text names no place at all."""


_STEP = re.compile(r"[+-]\d+")
_HEAD_OF_LAYER = re.compile(r"[hH]\d+")
_APART = re.compile(r"(\d)[\s,]+(?=[hH]?\d)")
"""The gap of ``5 3`` and of ``L5 H3``."""
_IN_WORDS = re.compile(r"\b(l)ayer\s*(?=\d)|\b(h)ead\s*(?=\d)", re.IGNORECASE)
"""What is written as a word in ``layer 5 head 3``."""


def example(outline: ModelOutline) -> Head:
    """Give a head that the model has, to be named where one can be typed: beyond the first where there are more."""
    layer = next((each for each in reversed(outline.layers[:6]) if each.heads), outline.layers[0])
    return Head("", layer.layer, min(3, layer.heads - 1))


def view_names(*, is_comparing: bool) -> tuple[str, ...]:
    """List the views that one can go to by their names, in the order of their keys, and the list of sentences."""
    tables = (
        view.name
        for view in VIEWS.values()
        if view.name != "rollout" and view.scope is not Scope.CELL and ("vs" not in view.needs or is_comparing)
    )
    first, others = list(OTHER_VIEWS)[:3], list(OTHER_VIEWS)[3:]
    return (*first, *tables, *others)


def _words(views: Sequence[str]) -> dict[str, str]:
    """Give what views are titled, and how each title goes on from each of its words, with the views."""
    titles = {name: OTHER_VIEWS[name] if name in OTHER_VIEWS else VIEWS[name].title for name in views}
    parts = {name: title.lower().split() for name, title in titles.items()}
    return {" ".join(words[place:]): name for name, words in parts.items() for place in range(len(words))}


def parse_place(text: str, outline: ModelOutline, here: Head | None, views: Sequence[str]) -> Head | str:
    """Read ``L5H3``, ``5.3``, ``5 3``, ``L5``, ``layer 5 head 3``, ``decoder.L2H1``, ``h3``, ``+1``, or a view's name.

    A view's name may be cut short, or be a word of its title where no name begins so.

    Parameters
    ----------
    text : what was typed.
    outline : of the model.
    here : what is selected; a head without a stack is of this one's, and so is one without a layer.
    views : the names of the views.

    Raises
    ------
    NoPlaceError : when the text is none of these.
    EngineError : when the model has no such head or layer, or the text could mean several views.
    """
    typed = _IN_WORDS.sub(lambda match: (match[1] or match[2]).upper(), text.strip())
    if typed.lower() in views:
        return typed.lower()
    if _STEP.fullmatch(typed):
        return _layer_on(int(typed), outline, here)
    if here is None and _HEAD_OF_LAYER.fullmatch(typed):
        layer = outline.layers[0].name
        raise EngineError(f"{typed} needs a selected layer; write the layer too: {layer}{typed}")
    if typed and typed[-1].isdigit():
        return find_head(_head(typed, outline, here), outline)
    begun = [view for view in views if typed and view.startswith(typed.lower())]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise EngineError(f"'{typed}' could be {', '.join(begun)}")
    meant = {view for word, view in _words(views).items() if typed and word.startswith(typed.lower())}
    if len(meant) == 1:
        return meant.pop()
    if meant:
        raise EngineError(f"'{typed}' could be {', '.join(sorted(meant))}")
    head = example(outline)
    named = f"{head}, {head.layer}.{head.head}, h{head.head}"
    raise NoPlaceError(f"'{typed}' is neither a head nor a view; type {named}, +1, or a view such as ranks")


def _head(typed: str, outline: ModelOutline, here: Head | None) -> Head:
    """Read a head or layer that may leave its stack out."""
    joined = _APART.sub(r"\1.", typed).replace(".h", "h").replace(".H", "H")
    return parse_head(joined, outline.stacks, here or Head(outline.stacks[0], 0))


def _layer_on(step: int, outline: ModelOutline, here: Head | None) -> Head:
    """Find the same head so many layers on."""
    names = [layer.name for layer in outline.layers]
    place = (-1 if step > 0 else len(names)) if here is None else names.index(here.whole_layer)
    if not 0 <= place + step < len(names):
        end = names[-1] if step > 0 else names[0]
        raise EngineError(f"there is no such layer; the {'last' if step > 0 else 'first'} is {end}")
    return layer_after(outline, here, step) if here is not None else names[place + step]


def split_digits(text: str, outline: ModelOutline, here: Head | None) -> tuple[Head, ...]:
    """List the heads that digits without a mark between them may mean, as far as the model has them.

    Parameters
    ----------
    text : what was typed; no heads where it is not digits alone.
    outline, here : as in `parse_place`.
    """
    if not text.isdigit():
        return ()
    stack = outline.stacks[0] if here is None else here.stack
    heads = []
    for cut in range(1, len(text)):
        head = Head(stack, int(text[:cut]), int(text[cut:]))
        try:
            heads.append(find_head(head, outline))
        except EngineError:
            continue
    return tuple(heads)


def head_after(outline: ModelOutline, here: Head | None, step: int) -> Head | None:
    """Find the head a step away, across layers; from a whole layer its first, or the last of the one before.

    None stands for the model as a whole, and for the end of the way.
    """
    layers = outline.layers
    if here is None:
        return Head(layers[0].stack, layers[0].layer, 0) if step > 0 else None
    row = next(row for row, layer in enumerate(layers) if layer.name == here.whole_layer)
    column = here.head + step
    if here.is_layer:
        column = 0 if step > 0 else -1
    while column < 0 < row:
        row -= 1
        column += layers[row].heads
    while column >= layers[row].heads and row + 1 < len(layers):
        column -= layers[row].heads
        row += 1
    layer = layers[row]
    return Head(layer.stack, layer.layer, column) if 0 <= column < layer.heads else None


def layer_after(outline: ModelOutline, here: Head | None, step: int) -> Head:
    """Find the same head of the layer a step away, or that layer as a whole; the first and last layer are the ends."""
    layers = [layer.name for layer in outline.layers]
    if here is None:
        return layers[0] if step > 0 else layers[-1]
    layer = layers[max(0, min(layers.index(here.whole_layer) + step, len(layers) - 1))]
    return Head(layer.stack, layer.layer, min(here.head, outline.layer(layer).heads - 1))


REST = 0.5
"""Seconds after which a place counts as visited; those that one only passes through do not."""

MOST_PLACES = 200
"""Places that are remembered."""


class PlaceHistory:
    """What was shown at each place; a place is a head, or layer, in a view. The last one may be passed through only.

    Parameters
    ----------
    clock : tells the seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: list[Shown] = []
        self._at = -1
        self._since = 0.0
        self._counts = False

    @property
    def has_before(self) -> bool:
        """Whether there is a place to go back to."""
        return self._at > 0

    def jump(self) -> None:
        """Have the place here count as visited, however short: one jumps from it."""
        self._counts = True

    def move(self, shown: Shown) -> None:
        """Come to a place; the one before stays if it was rested at, and what was forward of it is forgotten."""
        here, now = self._places[self._at] if self._places else None, self._clock()
        if here is not None and _are_one_place(here, shown):
            return
        is_visited = self._counts or now - self._since >= REST
        self._since, self._counts = now, False
        del self._places[self._at + 1 :]
        if here is not None and not is_visited:
            self._places.pop()
        if self._places and _are_one_place(self._places[-1], shown):
            self._counts = True
        else:
            self._places.append(shown)
        del self._places[:-MOST_PLACES]
        self._at = len(self._places) - 1

    def turn(self, shown: Shown) -> None:
        """Look at another view of the place that one is at, without going anywhere."""
        if self._places and self._places[self._at].selected == shown.selected:
            self._places[self._at] = shown

    def step(self, step: int) -> Shown | None:
        """Go back or forward; None where there is nothing."""
        if not 0 <= self._at + step < len(self._places):
            return None
        self._at += step
        self._since, self._counts = self._clock(), True
        return self._places[self._at]


def _are_one_place(one: Shown, other: Shown) -> bool:
    """Say whether two are of the same head in the same view."""
    return (one.selected, one.view) == (other.selected, other.view)
