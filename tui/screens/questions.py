"""What is asked at the foot: where to go, and what to search in the tree."""

from __future__ import annotations

import math

from engine.mathematics.patterns import LABELS
from engine.values.errors import EngineError
from engine.values.heads import Head
from tui.app.conductor import Conductor
from tui.parts import Parts
from tui.screens.commands import NamedCommands
from tui.screens.off_by_name import OffByName
from tui.state.places import NoPlaceError, example
from tui.state.tree_search import is_condition
from tui.toolkit.keys import key_of
from tui.toolkit.messages import ConditionWanted
from tui.ways import Ways, place_after
from tui.widgets.name_input import candidates

OPEN = "open"
"""Stands before the name or path of a model."""

EXPORT = "export"
"""Stands before the name of a file."""

EPSILON = ("epsilon", "energy", "ε")
"""Stand before the ε of the energy rank."""

DISTANCE = ("distance", "delta", "δ")
"""Stand before how many tokens the key is before the query."""

MOST_TOKENS = 999_999_999
"""The largest distance that can be typed, far beyond any context."""


class WhereTo:
    """The question where to go, or what to do."""

    label = "go to:"

    def __init__(self, app: Parts, conductor: Conductor, ways: Ways) -> None:
        self._app = app
        self._conductor = conductor
        self._ways = ways
        self._first, self._complete = (key_of(app, f"prompt.{name}") for name in ("first", "complete"))
        self._commands = NamedCommands(app)
        stacks = ways.outline.stacks
        self._off = OffByName(app, conductor.off, ways)
        places = (*ways.views, *(f"{stack}." for stack in stacks if len(stacks) > 1))
        self.names = tuple(dict.fromkeys((*places, *self._commands.names, *self._off.names)))

    def typed(self, text: str) -> str:
        """Say what can be typed."""
        if self._off.is_meant(text):
            return self._off.typed(text)
        if is_condition(text):
            return f"{key_of(self._app, 'prompt.answer')} filters the table of all heads by that"
        head = example(self._ways.outline)
        named = f"{head}  {head.layer}.{head.head}  h{head.head}  +1  ranks"
        return "" if text else f"{named} · {self._first} first line · {self._complete} completes"

    def completions(self, text: str) -> tuple[str, ...]:
        """List what a text may become."""
        if not self._off.is_meant(text):
            return candidates(text, self.names)
        return self._off.completions(text) if " " in text else (f"{text} ", *self._off.completions(f"{text} "))

    def answer(self, text: str) -> None:
        """Go there, or do that; nothing where nothing is typed."""
        typed = text.strip()
        if not typed:
            return
        if self._off.is_meant(typed):
            self._off.answer(typed)
            return
        app, (word, _, behind) = self._app, typed.partition(" ")
        if word.lower() == OPEN and behind.strip():
            app.call_later(app.run_action, f"app.open_named({behind.strip()!r})")
            return
        if behind.strip() and word.lower() == EXPORT:
            app.call_later(app.run_action, f"app.export({behind.strip()!r})")
            return
        if is_condition(typed):
            app.post_message(ConditionWanted(typed))
            return
        if word.lower() in EPSILON:
            app.session.change(epsilon=_epsilon(behind))
            return
        if behind.strip() and word.lower() in DISTANCE:
            self._conductor.show_distance(_distance(behind))
            return
        if word.lower() in self._ways.views and behind.strip():
            self._ways.go_to_head(behind)
            self._ways.go(word)
            return
        do = None if typed.lower() in self._ways.views else self._commands.named(typed.lower())
        if do is None:
            try:
                self._ways.go(typed)
            except NoPlaceError:
                do = self._commands.begun(typed)
        if do is not None:
            app.call_later(do)

    def leave(self) -> None:
        """Stay."""


def _epsilon(text: str) -> float:
    """Read an ε.

    Raises
    ------
    EngineError : when it is no share of the energy.
    """
    try:
        epsilon = float(text)
    except ValueError:
        epsilon = math.nan
    if not 0 < epsilon < 1:
        raise EngineError("ε is the share of the energy left out: between 0 and 1, such as 0.01")
    return epsilon


def _distance(text: str) -> int:
    """Read a distance.

    Raises
    ------
    EngineError : when it is no number of tokens.
    """
    if not (text.strip().isdecimal() and len(text.strip()) <= len(str(MOST_TOKENS))):
        raise EngineError(f"a distance is a whole number of tokens, from 0 to {MOST_TOKENS}, such as 500")
    return int(text)


class Search:
    """The question what to search in the tree, which is gone to while it is typed."""

    label = "/"

    def __init__(self, app: Parts, conductor: Conductor, ways: Ways) -> None:
        self._app = app
        self._conductor = conductor
        self._ways = ways
        self._from = ways.here
        self._opened: Head | None = None
        labels = dict.fromkeys(ways.labels.values())
        stacks = ways.outline.stacks if len(ways.outline.stacks) > 1 else ()
        marks = dict.fromkeys(mark.lower() for layer in ways.outline.layers for mark in layer.marks)
        self.names = (*labels, *stacks, *marks, "pinned", "off")

    def completions(self, text: str) -> tuple[str, ...]:
        """List what a text may become."""
        return candidates(text, self.names)

    def typed(self, text: str) -> str:
        """Go to the first match from where the search began on, and say how many there are."""
        found = self._ways.find(text)
        self._app.tree_widget.mark_found(found)
        if not text.strip():
            self._go_to(self._from)
            head = example(self._ways.outline)
            named = f"{head.layer}.{head.head}  {head}  H{head.head}  induction  pinned  off"
            return f"{named} · {key_of(self._app, 'prompt.complete')} completes"
        if is_condition(text):
            return f"{key_of(self._app, 'prompt.answer')} filters the table of all heads by that"
        if not found:
            self._go_to(self._from)
            return self._no_match(text)
        place, _ = place_after(found, self._from, self._ways.outline, 1, or_here=True)
        self._go_to(found[place])
        return f"{place + 1} of {len(found)}"

    def _no_match(self, text: str) -> str:
        """Say that nothing is found, and of a label whether that is because no head is known to have it."""
        if not self._ways.is_labelled:
            return "no match; heads have labels once a sentence is read"
        word = text.strip().lower()

        return f"no head is called {word}" if word in LABELS.values() else "no match"

    def _go_to(self, head: Head | None) -> None:
        """Go to a line, and close the layer again that was opened for the one before."""
        if head == self._ways.here:
            return
        tree = self._app.tree_widget
        if self._opened is not None and (head is None or head.whole_layer != self._opened):
            tree.close_layer(self._opened)
            self._opened = None
        if head is not None and not tree.is_open(head):
            self._opened = head.whole_layer
        self._conductor.go_to(head)

    def answer(self, text: str) -> None:
        """Stay at the match; a condition is of the table of all heads, which is gone to.

        Raises
        ------
        EngineError : when there is none.
        """
        if is_condition(text):
            self.leave()
            self._app.post_message(ConditionWanted(text.strip()))
            return
        found = self._ways.find(text)
        if text.strip() and not found:
            raise EngineError(self.typed(text))
        self._ways.searched = text.strip()

    def leave(self) -> None:
        """Go back to where the search began, and show what was found before."""
        self._go_to(self._from)
        self._app.tree_widget.mark_found(self._ways.find(self._ways.searched))
