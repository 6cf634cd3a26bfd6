"""Ways through an open model: to a place by its name, from match to match, back and forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.views import OVERVIEW, VIEWS, Scope
from tui.state.head_labels import HeadLabels
from tui.state.place_history import PlaceHistory
from tui.state.places import parse_place
from tui.state.session import Session
from tui.state.tree_search import Lines, find, lines_of
from tui.toolkit.keys import key_of
from tui.tree import HeadTree
from tui.views.switcher import Views

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
    views, tree : that are moved in.
    session : which says what is shown.
    outline : of the model.
    labels : gives what heads are called.
    is_comparing : whether a second model is open.
    go_to : selects a head, a layer or the model (None).
    show : goes to a view, or to the list of sentences, that a person names.
    come_back : shows a view again, with the keys or without.

    Attributes
    ----------
    outline : as given.
    searched : what was searched last; empty before that.
    """

    def __init__(
        self,
        views: Views,
        tree: HeadTree,
        session: Session,
        outline: ModelOutline,
        labels: Callable[[], HeadLabels],
        *,
        is_comparing: bool,
        go_to: Callable[[Head | None], None],
        show: Callable[[str], None],
        come_back: Callable[[str, bool], None],
    ) -> None:
        self.outline = outline
        self.searched = ""
        self._views = views
        self._tree = tree
        self._session = session
        self._labels = labels
        self._is_comparing = is_comparing
        self._go_to = go_to
        self._show = show
        self._come_back = come_back
        self._history = PlaceHistory()
        self._is_restoring = False
        session.follow(self._follow)

    @cached_property
    def _lines(self) -> Lines:
        """The tree's lines, made when they are searched first: of a large model they are many thousands."""
        return lines_of(self.outline)

    @property
    def here(self) -> Head | None:
        """What is selected."""
        return self._session.shown.selected

    @property
    def has_before(self) -> bool:
        """Whether there is a place to go back to."""
        return self._history.has_before

    @property
    def labels(self) -> Mapping[Head, str]:
        """What heads are called that clearly do one thing."""
        return self._labels().by_head

    @property
    def is_labelled(self) -> bool:
        """Whether it is known what heads are called."""
        return self._labels().is_known

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views that one can go to by themselves, in the order of their keys."""
        tables = (
            view.name
            for view in VIEWS.values()
            if view.name != "rollout" and view.scope is not Scope.CELL
            and ("vs" not in view.needs or self._is_comparing)
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
        shown = self._session.shown
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

    def jump(self, head: Head) -> None:
        """Go to a head from a place that counts as visited."""
        self.leave()
        self._go_to(head)

    def go_on(self, step: int) -> str:
        """Go to the next match of the search, or to the one before, and say which it is."""
        if not self.searched:
            return f"nothing has been searched yet: {key_of(self._views.app, 'app.search')} searches in the tree"
        found = self.find(self.searched)
        if not found:
            return f"no match for {self.searched}"
        place, is_round = place_after(found, self.here, self.outline, step)
        self._tree.mark_found(found)
        self._go_to(found[place])
        end = " · past the end, on from the top" if step > 0 else " · past the top, on from the end"
        return f"/{self.searched}  {place + 1} of {len(found)}{end if is_round else ''}"

    def leave(self) -> None:
        """Have the place here count as visited, before one jumps from it."""
        self._history.jump()

    def _follow(self, changed: frozenset[str]) -> None:
        """Take notice of what is selected and looked at now; the focus that moves between views leads nowhere else."""
        if changed & {"selected", "view"} and not self._is_restoring:
            go = self._history.turn if self._views.is_beside else self._history.move
            had_before = self.has_before
            go(self._session.shown)
            if self.has_before is not had_before:
                self._views.app.refresh_bindings()  # of which the line of keys shows those that lead somewhere

    def step(self, step: int) -> bool:
        """Go back or forward; False where there is nothing."""
        place = self._history.step(step)
        if place is None:
            return False
        self._is_restoring = True
        try:
            is_in_tree = self._tree.has_focus
            self._go_to(place.selected)
            self._come_back(place.view, not is_in_tree)
        finally:
            self._is_restoring = False
        self._views.app.refresh_bindings()
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
