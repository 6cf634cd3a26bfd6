"""Heads beside each other: which are pinned, what of them is looked at, and which pane shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.values.heads import Head
from engine.values.table import AnyTable
from tui.compared_maps import ComparedMaps
from tui.heads_of_layer import HeadsOfLayer
from tui.state.pins import compared_heads, compared_pair, how_to_pin, toggle_pin
from tui.state.session import Session
from tui.state.stores import Stores
from tui.toolkit.keys import key_of
from tui.toolkit.tasks import Run
from tui.views.compare_view import ComparePane, Side
from tui.views.layer_maps_view import HeadsPane
from tui.waiting import no_sentence
from tui.widgets.table_grid import NO_ROWS

if TYPE_CHECKING:
    from tui.parts import Parts


PATIENCE = 20
"""Times that the screen is drawn at most until a view that was just made has its place on it."""


class Comparing:
    """One open model's pinned heads, and the views that show several heads at once.

    Parameters
    ----------
    app : whose views these are.
    session : which says what is shown.
    stores : what is known of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    """

    def __init__(
        self,
        app: Parts,
        session: Session,
        stores: Stores,
        run: Run,
    ) -> None:
        self._app = app
        self._session = session
        self._stores = stores
        self._outline = outline = stores.outline
        self._maps = ComparedMaps(app.engine, run, self.draw)
        self._heads = HeadsOfLayer(app.engine, outline, run, self._name_in_layer)
        session.follow(self._follow)

    def _follow(self, changed: frozenset[str]) -> None:
        """Draw what is shown now, where heads are beside each other; maps of another sentence are let go of."""
        if changed & {"text", "off"}:
            self._maps.forget()
        if changed & {"selected", "text", "off", "pins", "distance"}:
            self.draw()

    def pin(self) -> None:
        """Pin the head of the row under the cursor, or the selected one, or unpin it; the tree shows which are."""
        if self._app.views.awaits_row:
            self._app.key_line.say(NO_ROWS)
            return
        row = self._app.views.row_head
        head = self._session.shown.selected if row is None else row
        if refusal := toggle_pin(self._session, head, key_of(self._app, "app.pin")):
            self._app.notify(refusal)
        elif head is not None:
            self._app.key_line.say(self._said_of(head))

    def _said_of(self, head: Head) -> str:
        """Say whether a head is pinned by now, and which are."""
        pinned = ", ".join(map(self._name, self._session.shown.pins))
        if head in self._session.shown.pins:
            return f"{pinned} pinned; {key_of(self._app, 'app.compare')} compares"
        return f"{self._name(head)} unpinned; {f'{pinned} still pinned' if pinned else 'none is pinned'}"

    @property
    def _how_to_pin(self) -> str:
        """Say what to do before heads can be compared."""
        return how_to_pin(key_of(self._app, "app.pin"), key_of(self._app, "app.compare"))

    def compare(self) -> None:
        """Show the pinned heads beside each other; where they are shown, the next thing of them."""
        pane = self._app.views.active
        if not self._session.shown.pins:
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
        label = self._stores.labels.short(head)  # maps may be as narrow as the tree
        return f"H{head.head}{'*' if head in self._session.shown.pins else ''}{f' {label}' if label else ''}"

    def draw(self) -> None:
        """Draw what is in view of several heads."""
        views, shown = self._app.views, self._session.shown
        if (compare := views.in_view(ComparePane)) is not None and compare.size:
            self._draw_compared(compare)
        if (heads := views.in_view(HeadsPane)) is not None and heads.maps.size:
            self._heads.draw(heads, shown)

    def _draw_compared(self, pane: ComparePane) -> None:
        """Draw the pinned heads and the selected one: their spectra, their maps or a difference."""
        shown = self._session.shown
        heads = compared_heads(shown)
        names = [self._name(head) for head in heads]
        if not shown.pins:
            pane.show_message("", self._how_to_pin)
        elif pane.side is Side.SPECTRA:
            pane.draw_spectra(shown, self._stores, heads, names)
        elif shown.text is None:
            message, is_waiting = no_sentence(self._app, self._outline, shown)
            pane.show_message("", message, is_waiting=is_waiting)
        elif pane.side is Side.MAPS:
            self._maps.draw(pane, heads, names, shown.text, shown.off_in_maps)
        elif (pair := compared_pair(shown)) is None:
            pane.show_message(
                "", f"a difference is of two heads, and {names[0]} is alone: go to another one, or pin it"
            )
        else:
            self._maps.draw_difference(
                pane, pair, (self._name(pair[0]), self._name(pair[1])), shown.text, shown.off_in_maps
            )

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
        pane, shown = self._app.views.active, self._session.shown
        if isinstance(pane, HeadsPane):
            return "attention", f"{shown.selected and shown.selected.whole_layer}-heads"
        if not isinstance(pane, ComparePane):
            return None
        if pane.side is Side.DIFFERENCE:
            return "difference", self._subject(reversed(compared_pair(shown) or ()), "-less-")
        heads = self._subject(compared_heads(shown))
        if pane.side is Side.MAPS:
            return "attention", heads
        return "spectrum", heads if shown.distance is None else f"{heads}-distance{shown.distance}"

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
            return await self._maps.difference_table(compared_pair(self._session.shown))
        heads = compared_heads(self._session.shown)
        if pane.side is not Side.SPECTRA:
            return self._maps.table(heads)
        return pane.spectra_table(self._session.shown, self._stores, heads)

    def _subject(self, heads: Iterable[Head], between: str = "-") -> str:
        """Name heads as a part of a file's name."""
        return between.join(self._name(head).replace(" ", ".") for head in heads)
