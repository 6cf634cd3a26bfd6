"""Heads that are switched off, or on, by what is typed: ``off L1H3 L1H2``, ``off L2``, ``off found``, ``on all``."""

from __future__ import annotations

from engine.values.display_text import quantity
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import EVERY, heads_named
from tui.parts import Parts
from tui.state.heads_off import HeadsOff
from tui.state.places import example
from tui.toolkit.keys import key_of
from tui.views.rows import RowsPane
from tui.ways import Ways
from tui.widgets.name_input import candidates

OFF, ON = "off", "on"
"""The words that stand before the names of heads."""

FOUND = "found"
"""Stands for the heads of the rows that a filter leaves, or of the matches of a search."""


class OffByName:
    """Takes a line that begins with ``off`` or ``on``.

    Parameters
    ----------
    app : the explorer.
    off : switches heads off.
    ways : through the open model.
    """

    names = (OFF, ON)

    def __init__(self, app: Parts, off: HeadsOff, ways: Ways) -> None:
        self._app = app
        self._off = off
        self._ways = ways

    def is_meant(self, text: str) -> bool:
        """Say whether a text begins with one of the two words."""
        return text.strip().lower().partition(" ")[0] in self.names

    def typed(self, text: str) -> str:
        """Say how many heads are named, or what can be."""
        word, _, behind = text.strip().lower().partition(" ")
        if not behind.strip():
            head = example(self._ways.outline)
            which = f"{head}  L{head.layer}  {FOUND}" if word == OFF else f"{EVERY}  {head}  {FOUND}"
            return f"{which} · {key_of(self._app, 'prompt.complete')} completes"
        try:
            return quantity(len(self._heads(behind)), "head") + (" so far" if self._is_to_grow(behind) else "")
        except EngineError:
            return ""  # it may not be typed to its end

    def completions(self, text: str) -> tuple[str, ...]:
        """List what the last word of a text may become: a layer or head, one that is off behind ``on``."""
        before, _, word = text.rpartition(" ")
        is_on = before.strip().lower().partition(" ")[0] == ON
        off = self._app.session.shown.off.heads
        layers = {head.whole_layer for head in off} if is_on else None
        names = [EVERY, FOUND] if is_on else [FOUND, EVERY]
        for layer in self._ways.outline.attending_layers:
            if layers is None or layer.name in layers:
                stack = f"{layer.stack}." if len(self._ways.outline.stacks) > 1 else ""
                names.append(f"{stack}{layer.name}")
                names += (f"{stack}{head}" for head in layer.head_names() if not is_on or head in off)
        begun = candidates(word.lower(), [name.lower() for name in names])
        by_lower = {name.lower(): name for name in names}
        return tuple(f"{before} {by_lower[name]}" for name in begun)

    def answer(self, text: str) -> None:
        """Switch the named heads, the selected one where none is named, and say what is off then.

        Raises
        ------
        EngineError : when what is typed names none.
        """
        word, _, behind = text.strip().lower().partition(" ")
        heads = self._heads(behind) if behind.strip() else self._selected(word)
        found = "found so far: " if self._is_to_grow(behind) else ""  # other heads off may mean another table
        self._app.key_line.say(found + self._off.put(heads, is_off=word == OFF))

    def _selected(self, word: str) -> tuple[Head, ...]:
        """Give the head of the row under the cursor, or the selected one, or those of such a layer."""
        row = self._app.views.row_head
        here = self._ways.here if row is None else row
        if here is None:
            head = example(self._ways.outline)
            raise EngineError(f"no head is selected; name some: {word} {head}, {word} {FOUND}")
        return heads_named(str(here), self._ways.outline, here)

    def _heads(self, text: str) -> tuple[Head, ...]:
        """Read which heads are named."""
        named = dict[Head, None]()
        for word in text.replace(",", " ").split():
            named |= dict.fromkeys(
                self._found() if word == FOUND else heads_named(word, self._ways.outline, self._ways.here)
            )
        return tuple(named)

    def _found(self) -> tuple[Head, ...]:
        """Give the heads that are found: of the rows that the filter of the view leaves, or by the search in the tree.

        What has the keys comes first, where both are there.

        Raises
        ------
        EngineError : when nothing is filtered or searched, or nothing found.
        """
        pane, searched = self._filtered, self._ways.searched
        if searched and pane is None:
            names = " ".join(_full(head) for head in self._ways.find(searched) if self._attends(head))
            found, by = heads_named(names, self._ways.outline), f"the search for {searched}"
        elif pane is not None:
            found, by = pane.heads_left(), "the filter"
        else:
            key = key_of(self._app, "app.search")
            raise EngineError(f"nothing is filtered or searched; {key} does both")
        if not found and pane is not None and self._is_to_grow(FOUND):
            left, rows = pane.counts
            so_far = f"{by} leaves no single head so far: {left} of {quantity(rows, 'row')}"
            raise EngineError(so_far if rows else "no row has come yet that a filter could leave")
        if not found:
            raise EngineError(f"{by} leaves no single head")
        return found

    @property
    def _filtered(self) -> RowsPane | None:
        """Give the view whose filter says what is found; None where that is a search in the tree, or nothing."""
        pane = self._app.views.active
        if not isinstance(pane, RowsPane) or pane.narrowing is None:
            return None
        return None if self._ways.searched and self._app.tree_widget.has_focus else pane

    def _is_to_grow(self, text: str) -> bool:
        """Say whether it names what is found in a table of which not all has come."""
        pane = self._filtered
        return FOUND in text.replace(",", " ").split() and pane is not None and (pane.is_unfinished or pane.is_waiting)

    def _attends(self, name: Head) -> bool:
        """Say whether a head or layer has attention of its own."""
        return not self._ways.outline.layer(name).is_change


def _full(head: Head) -> str:
    """Write a head or layer with its stack."""
    return f"{head.stack}.{head}"
