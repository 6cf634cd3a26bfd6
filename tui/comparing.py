"""Heads beside each other: which are pinned, what of them is looked at, and which pane shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.values.heads import NOTHING_OFF, Head, Off
from engine.values.outline import ModelOutline
from engine.values.table import AnyTable
from tui.beside import Run
from tui.compared_maps import ComparedMaps
from tui.compared_spectra import ComparedSpectra
from tui.heads_of_layer import HeadsOfLayer
from tui.key_names import key_of
from tui.panes.compare import ComparePane, Side
from tui.panes.heads import HeadsPane
from tui.state.pins import Pins, how_to_pin
from tui.unread import no_sentence
from tui.weights import Weights

if TYPE_CHECKING:
    from tui.app import Explorer


PATIENCE = 20
"""Times that the screen is drawn at most until a view that was just made has its place on it."""


class Comparing:
    """One open model's pinned heads, and the views that show several heads at once.

    Parameters
    ----------
    app : whose tree and views these are.
    weights : what is known of the model's spectra.
    outline : of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.

    Attributes
    ----------
    pins : the pinned heads.
    """

    def __init__(
        self,
        app: Explorer,
        weights: Weights,
        outline: ModelOutline,
        run: Run,
    ) -> None:
        self.pins = Pins()
        self._app = app
        self._weights = weights
        self._outline = outline
        self._selected: Head | None = None
        self._text: str | None = None
        self._off = NOTHING_OFF
        self._spectra = ComparedSpectra(app.engine, weights, run, self.draw)
        self._maps = ComparedMaps(app.engine, run, self.draw, ascii_only=app.ascii_only)
        self._heads = HeadsOfLayer(app.engine, outline, run, self._name_in_layer, ascii_only=app.ascii_only)
        app.tree_widget.pinned = frozenset()

    def select(self, name: Head | None) -> None:
        """Take note of what is selected, and show it where heads are beside each other."""
        self._selected = name
        self.draw()

    def read(self, text: str) -> None:
        """Show maps of another sentence."""
        self._text = text
        self._forget()

    def switch_off(self, off: Off) -> None:
        """Show maps with other heads switched off."""
        self._off = off
        self._forget()

    def _forget(self) -> None:
        """Let go of maps that are of another sentence."""
        self._maps.forget()
        self._heads.forget()
        self.draw()

    def pin(self) -> None:
        """Pin the head of the row under the cursor, or the selected one, or unpin it; the tree shows which are."""
        if self._app.views.put_off(self.pin):
            return
        row = self._app.views.row_head
        head = self._selected if row is None else row
        if refusal := self.pins.toggle(head, key_of(self._app, "app.pin")):
            self._app.notify(refusal)
            return
        self._app.tree_widget.pinned = frozenset(self.pins.heads)
        self._app.tree_widget.refresh_notes()
        self.draw()
        if head is not None:
            self._app.key_line.say(self._said_of(head))

    def _said_of(self, head: Head) -> str:
        """Say whether a head is pinned by now, and which are."""
        pinned = ", ".join(map(self._name, self.pins.heads))
        if head in self.pins.heads:
            return f"{pinned} pinned; {key_of(self._app, 'app.compare')} compares"
        return f"{self._name(head)} unpinned; {f'{pinned} still pinned' if pinned else 'none is pinned'}"

    def pin_again(self, heads: Iterable[Head]) -> None:
        """Pin the heads that were pinned when the model was left."""
        for head in heads:
            self.pins.toggle(head, "")
        self._app.tree_widget.pinned = frozenset(self.pins.heads)
        self._app.tree_widget.refresh_notes()

    @property
    def _how_to_pin(self) -> str:
        """Say what to do before heads can be compared."""
        return how_to_pin(key_of(self._app, "app.pin"), key_of(self._app, "app.compare"))

    def compare(self) -> None:
        """Show the pinned heads beside each other; where they are shown, the next thing of them."""
        pane = self._app.views.active
        if not self.pins.heads:
            self._app.notify(self._how_to_pin)
        elif isinstance(pane, ComparePane) and not self._app.views.return_to(ComparePane.view):
            pane.turn(pane.side.next)
            self.draw()
        else:
            self.go_to(ComparePane.view)

    def show_heads(self) -> None:
        """Show all heads of the selected layer as small maps."""
        self.go_to(HeadsPane.view)

    def go_to(self, view: str, *, takes_focus: bool = True) -> None:
        """Go to a view of several heads."""
        self._app.views.go_to(view, takes_focus=takes_focus)
        self._draw_once_laid_out(PATIENCE)

    def _draw_once_laid_out(self, patience: int) -> None:
        """Draw the active view; one that is made for this has no size before the screen has been laid out."""
        self.draw()
        if patience and not self._app.views.active.size:
            self._app.call_after_refresh(self._draw_once_laid_out, patience - 1)

    def _name(self, head: Head) -> str:
        """Name a head, with its stack where there are several."""
        return f"{head.stack} {head}" if len(self._outline.stacks) > 1 else str(head)

    def _name_in_layer(self, head: Head) -> str:
        """Name a head within its layer, with its label and the star of a pinned one."""
        label = self._weights.labels.short(head)  # maps may be as narrow as the tree
        return f"H{head.head}{'*' if head in self.pins.heads else ''}{f' {label}' if label else ''}"

    def draw(self) -> None:
        """Draw what is in view of several heads."""
        views = self._app.views
        if (compare := views.in_view(ComparePane)) is not None and compare.size:
            self._draw_compared(compare)
        if (heads := views.in_view(HeadsPane)) is not None and heads.maps.size:
            self._heads.draw(heads, self._selected, self._text, self._off)

    def announce(self, distance: int | None) -> None:
        """Say where QK will be turned, and ask for nothing yet; None takes that back."""
        pane = self._app.views.in_view(ComparePane)
        if distance is None:
            self.draw()
        elif pane is not None and pane.side is Side.SPECTRA and self.pins.heads:
            self._spectra.show_waiting(pane, self.pins.beside(self._selected))

    def _draw_compared(self, pane: ComparePane) -> None:
        """Draw the pinned heads and the selected one: their spectra, their maps or a difference."""
        heads = self.pins.beside(self._selected)
        names = [self._name(head) for head in heads]
        if not self.pins.heads:
            pane.show_message("", self._how_to_pin)
        elif pane.side is Side.SPECTRA:
            self._spectra.draw(pane, heads, names, self._selected)
        elif self._text is None:
            message, is_waiting = no_sentence(self._app, self._outline)
            pane.show_message("", message, is_waiting=is_waiting)
        elif pane.side is Side.MAPS:
            self._maps.draw(pane, heads, names, self._text, self._off)
        elif (pair := self.pins.pair(self._selected)) is None:
            pane.show_message(
                "", f"a difference is of two heads, and {names[0]} is alone: go to another one, or pin it"
            )
        else:
            self._maps.draw_difference(pane, pair, (self._name(pair[0]), self._name(pair[1])), self._text, self._off)

    @property
    def why_not_turned(self) -> str:
        """Say that maps know no distance, where those of several heads are in view; else nothing."""
        pane = self._app.views.active
        if not isinstance(pane, ComparePane) or pane.side is Side.SPECTRA:
            return ""
        on = key_of(self._app, "app.compare")
        return f"these are maps of the sentence; a distance is of spectra: {on} goes on to them"

    @property
    def named(self) -> tuple[str, str] | None:
        """Name the table that the active view draws, and what it is of; None where it is not of several heads."""
        pane = self._app.views.active
        if isinstance(pane, HeadsPane):
            return "attention", f"{self._selected and self._selected.whole_layer}-heads"
        if not isinstance(pane, ComparePane):
            return None
        if pane.side is Side.DIFFERENCE:
            return "difference", self._subject(reversed(self.pins.pair(self._selected) or ()), "-less-")
        heads = self._subject(self.pins.beside(self._selected))
        if pane.side is Side.MAPS:
            return "attention", heads
        distance = self._weights.distance
        return "spectrum", heads if distance is None else f"{heads}-distance{distance}"

    async def table(self) -> AnyTable | None:
        """Give the table that the active view draws; None where it is not of several heads.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        pane = self._app.views.active
        if isinstance(pane, HeadsPane):
            return await self._heads.table()
        if not isinstance(pane, ComparePane):
            return None
        if pane.side is Side.DIFFERENCE:
            return await self._maps.difference_table(self.pins.pair(self._selected))
        heads = self.pins.beside(self._selected)
        return await self._spectra.table(heads) if pane.side is Side.SPECTRA else self._maps.table(heads)

    def _subject(self, heads: Iterable[Head], between: str = "-") -> str:
        """Name heads as a part of a file's name."""
        return between.join(self._name(head).replace(" ", ".") for head in heads)
