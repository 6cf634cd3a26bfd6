"""Ways through an open model: to a place by its name, from match to match, back and forward."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.views import OVERVIEW, VIEWS, Scope
from tui.key_names import key_of
from tui.state.place_history import PlaceHistory
from tui.state.places import parse_place
from tui.state.tree_search import Lines, find, lines_of

if TYPE_CHECKING:
    from tui.app import Explorer
    from tui.weights import Weights

OF_WEIGHTS = ("spectra", "ranks", "attention")
"""The views that are no tables of `engine.values.views.VIEWS`."""

OTHERS = {
    OVERVIEW: "overview all heads map",
    "text": "coloured text",
    "compare": "compare pinned heads beside each other",
    "maps": "small maps of all heads of the layer",
    "sentences": "sentences history",
}
"""What else one can go to by its name, and what it is."""


class Ways:
    """Ways through one open model.

    Parameters
    ----------
    app : whose tree and views are moved in.
    outline : of the model.
    weights : who knows what heads are called.

    Attributes
    ----------
    app, outline : as given.
    searched : what was searched last; empty before that.
    """

    def __init__(self, app: Explorer, outline: ModelOutline, weights: Weights) -> None:
        self.outline = outline
        self.searched = ""
        self.app = app
        self._weights = weights
        self._history = PlaceHistory()
        self._is_restoring = False
        app.session.follow(lambda changed: self.arrive() if "selected" in changed else None)

    @cached_property
    def _lines(self) -> Lines:
        """The tree's lines, made when they are searched first: of a large model they are many thousands."""
        return lines_of(self.outline)

    @property
    def here(self) -> Head | None:
        """What is selected."""
        return self.app.session.shown.selected

    @property
    def has_before(self) -> bool:
        """Whether there is a place to go back to."""
        return self._history.has_before

    @property
    def labels(self) -> Mapping[Head, str]:
        """What heads are called that clearly do one thing."""
        return self._weights.labels.by_head

    @property
    def is_labelled(self) -> bool:
        """Whether it is known what heads are called."""
        return self._weights.labels.is_known

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views that one can go to by themselves, in the order of their keys."""
        tables = (
            view.name
            for view in VIEWS.values()
            if view.name != "rollout" and view.scope is not Scope.CELL
            and ("vs" not in view.needs or self.app.engine.is_comparing)
        )  # fmt: skip
        return (*OF_WEIGHTS, *tables, *OTHERS)

    @property
    def words(self) -> Mapping[str, str]:
        """What views are titled, and how each title goes on from each of its words, with the views."""
        titles = {name: OTHERS.get(name, VIEWS[name].title if name in VIEWS else name) for name in self.views}
        parts = {name: title.lower().split() for name, title in titles.items()}
        return {" ".join(words[place:]): name for name, words in parts.items() for place in range(len(words))}

    def find(self, text: str) -> tuple[Head, ...]:
        """List the layers and heads that a text finds, in the order of the tree."""
        shown = self.app.session.shown
        return find(text, self._lines, self.labels, {"pinned *": shown.pins, "off": shown.off.heads})

    def go(self, text: str) -> None:
        """Go to the place that a text names.

        Raises
        ------
        EngineError : when there is no such place.
        """
        place = parse_place(text, self.outline, self.here, self.views, self.words)
        if isinstance(place, Head):
            self.jump(place)
        else:
            self._history.jump()
            if place not in VIEWS or VIEWS[place].scope is not Scope.MODEL:
                self.app.take_row(view=place)
            self._show(place)

    def go_to_head(self, text: str) -> None:
        """Go to the head or layer that a text names.

        Raises
        ------
        EngineError : when there is none.
        """
        place = parse_place(text, self.outline, self.here, ())
        assert isinstance(place, Head), "there are no views among which it could be one"
        self.jump(place)

    def _show(self, name: str) -> None:
        """Show a view, or the list of sentences; one that is shown stays as it is."""
        comparing = self.app.conductor.comparing
        if name == "sentences":
            self.app.action_sentences()
        elif name == self.app.views.active.view:
            self.app.views.go_to(name)
        elif name == "text":
            self.app.conductor.coloured.toggle()
        elif name == "compare" and comparing is not None:
            comparing.compare()
        elif name == "maps" and comparing is not None:
            comparing.show_heads()
        else:
            self.app.conductor.show_view(name)

    def jump(self, head: Head) -> None:
        """Go to a head from a place that counts as visited."""
        self.leave()
        self.app.conductor.go_to(head)

    def go_on(self, step: int) -> str:
        """Go to the next match of the search, or to the one before, and say which it is."""
        if not self.searched:
            return f"nothing has been searched yet: {key_of(self.app, 'app.search')} searches in the tree"
        found = self.find(self.searched)
        if not found:
            return f"no match for {self.searched}"
        place, is_round = place_after(found, self.here, self.outline, step)
        self.app.tree_widget.mark_found(found)
        self.app.conductor.go_to(found[place])
        end = " · past the end, on from the top" if step > 0 else " · past the top, on from the end"
        return f"/{self.searched}  {place + 1} of {len(found)}{end if is_round else ''}"

    def leave(self) -> None:
        """Have the place here count as visited, before one jumps from it."""
        self._history.jump()

    def arrive(self, *, is_beside: bool = False) -> None:
        """Take notice of what is selected and looked at now; the focus that moves between views leads nowhere else."""
        if not self._is_restoring:
            go = self._history.turn if is_beside else self._history.move
            had_before = self.has_before
            go(self.app.session.shown)
            if self.has_before is not had_before:
                self.app.refresh_bindings()  # of which the line of keys shows those that lead somewhere

    def step(self, step: int) -> bool:
        """Go back or forward; False where there is nothing."""
        place = self._history.step(step)
        if place is None:
            return False
        self._is_restoring = True
        try:
            is_in_tree = self.app.tree_widget.has_focus
            self.app.conductor.go_to(place.selected)
            self.app.conductor.show_view(place.view, takes_focus=not is_in_tree)
        finally:
            self._is_restoring = False
        self.app.refresh_bindings()
        return True


def place_after(
    found: tuple[Head, ...], here: Head | None, outline: ModelOutline, step: int, *, or_here: bool = False
) -> tuple[int, bool]:
    """Find which match follows, or precedes, a line of the tree, and whether the tree's end is in between.

    Parameters
    ----------
    found : the matches in the order of the tree, at least one.
    here : the line; None is the model's own, the first.
    outline : of the model.
    step : 1 or -1.
    or_here : whether the line itself will do.
    """
    if here is None:
        return (0, False) if step > 0 else (len(found) - 1, True)
    order = {layer.name: place for place, layer in enumerate(outline.layers)}
    at = (order[here.whole_layer], here.head)
    places = [(order[head.whole_layer], head.head) for head in found]
    if step > 0:
        after = [n for n, place in enumerate(places) if place > at or (or_here and place == at)]
        return (after[0], False) if after else (0, True)
    before = [n for n, place in enumerate(places) if place < at]
    return (before[-1], False) if before else (len(found) - 1, True)
