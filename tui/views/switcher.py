"""The views beside the tree, and which of them is the active one."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget

from engine.values.heads import Head
from engine.values.views import OVERVIEW, VIEWS, Scope, ring_of
from tui.drawing.levels import Scale
from tui.state.session import Session
from tui.state.stores import Stores
from tui.toolkit.messages import Numbered
from tui.views.attention_view import AttentionPane
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.overview_view import OverviewPane
from tui.views.pane import Pane
from tui.views.ranks_view import RanksPane
from tui.views.rows import RowsPane
from tui.views.spectra_view import SpectraPane
from tui.views.table_view import CellPane, TablePane
from tui.views.text_view import TextPane

PaneKind = TypeVar("PaneKind", bound=Pane)


class Views(Container):
    """Spectra, ranks and attention: one at a time, or side by side where the terminal is large.

    Tables that are worked out come in the place of the attention, each made when it is first looked at; what follows
    the map's cursor comes in the place of the weights, so that a large terminal shows the map beside it. The overview
    of all heads comes where tables do.

    Parameters
    ----------
    session : which holds what is shown.
    is_comparing : whether a second model is open.
    log_scale : whether spectra and maps begin on the logarithmic scale or on the linear one; None for what is usual.

    Attributes
    ----------
    stores : what is known of the open model; None before one is open.
    before : the view of a head that was active last, to which a head chosen among all leads.
    is_beside : whether another view becomes the active one because the focus moves between two that are on screen.
    has_opened : set but while a view that was just made waits to be laid out, and then to have the focus.
    """

    def __init__(self, session: Session, *, is_comparing: bool, log_scale: bool | None) -> None:
        super().__init__(id="views")
        self.spectra = SpectraPane()
        self.ranks = RanksPane()
        self.attention = AttentionPane()
        self.overview = OverviewPane()
        self.panes: list[Pane] = [self.spectra, self.ranks, self.attention, self.overview]
        self.before: Pane = self.spectra
        self.stores: Stores | None = None
        self._is_to_draw = False
        self.session = session
        self.is_comparing = is_comparing
        self._beside: Pane | None = None
        self._zoomed_from: tuple[Widget, Pane] | None = None
        self.is_beside = False
        self._last_of_ring = dict[tuple[str, ...], str]()
        self.has_opened = asyncio.Event()
        self.has_opened.set()
        self._left = Vertical(self.spectra, self.ranks, id="left")
        self._looked_at = self.active
        scale: Scale = "linear" if log_scale is False else "log"
        session.change(map_scale=None if log_scale is None else scale, spectra_scale=scale)
        for pane in self.panes:
            pane.session = session
        self._activate()
        session.follow(self._follow)

    def _follow(self, changed: frozenset[str]) -> None:
        """Show another view, and draw the views on screen."""
        if "view" in changed:
            self._activate()
        self.draw()

    def on_mount(self) -> None:
        """Draw in another theme's colours."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self.draw))

    def on_resize(self) -> None:
        """Draw the views that there is room for now."""
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw the views on screen, of what is shown now and of what is known; and the map, which others follow."""
        self._is_to_draw = False
        if self.stores is not None:
            for pane in self.panes:
                if pane.display or pane is self.attention:
                    pane.draw_changes(self.session.shown, self.stores)

    @property
    def is_drawn(self) -> bool:
        """Whether all that has come is drawn, and nothing more is to come."""
        return not self._is_to_draw and (self.stores is None or self.stores.is_idle)

    def draw_soon(self) -> None:
        """Draw them once for all answers that have come by then; may be called on any thread."""
        if not self._is_to_draw:
            self._is_to_draw = self.call_later(self.draw)

    @property
    def active(self) -> Pane:
        """The view that keys are for."""
        return next(each for each in self.panes if each.view == self.session.shown.view)

    def compose(self) -> ComposeResult:
        """Put the weights' views on the left and the sentence's on the right."""
        yield self._left
        yield self.attention
        yield self.overview

    def _activate(self) -> None:
        """Have the active view be the one that ``e`` exports, and the one that a small terminal shows.

        One that is looked at for the first time is made.
        """
        before, view = self._looked_at, self.session.shown.view
        if all(each.view != view for each in self.panes):
            self._add(self._make(view))
        pane = self._looked_at = self.active
        if _is_of_heads(before):
            self.before = before
        if pane is not self.attention:
            self.attention.opened_from = ""
        self._last_of_ring[ring_of(view)] = view
        self._beside = pane if pane.is_beside_map else self._beside if pane is self.attention else None
        changed = [_marked(each, {"-active": each is pane, "-beside": each is self._beside}) for each in self.panes]
        changed.append(_marked(self._left, {"-empty": pane not in (self.spectra, self.ranks)}))
        is_table = pane.has_class("-table") and pane is not self._beside
        marks = {"-map": self._beside is not None, "-tables": is_table, "-whole": isinstance(pane, ComparePane)}
        changed.append(_marked(self, marks))
        others: list[Widget] = []
        if self.is_attached and _marked(self.screen, {"-alone": isinstance(pane, ComparePane)}):
            others += self.screen.query("#side, #tree")  # which give their room to one view that shares none
        if any(changed) or others:
            self._restyle(*others)

    def _restyle(self, *others: Widget) -> None:
        """Style anew what looks otherwise by which view is active or has all the room, and no more: that is little.

        At once: a widget that is not displayed yet would refuse the focus.
        """
        if self.is_attached:
            titles = (each.title_line for each in self.panes if each.title_line.is_attached)
            self.app.stylesheet.update_nodes((self, self._left, *self.panes, *titles, *others))

    @property
    def row_head(self) -> Head | None:
        """The head, or whole layer, of the row under the cursor, where a table of heads has the keys; else None."""
        pane = self._rows_with_keys
        return pane.head_here if pane is not None and pane.has_heads and pane.counts[0] else None

    @property
    def target_head(self) -> Head | None:
        """The head, or layer, of the row that a person has moved to in a table that has the keys; else the selected."""
        row = self.chosen_head
        return self.session.shown.selected if row is None else row

    @property
    def awaits_row(self) -> bool:
        """Whether a table of heads has the keys and its rows are still to come."""
        pane = self._rows_with_keys
        return pane is not None and pane.has_heads and not pane.counts[0] and pane.is_unfinished | pane.is_waiting

    @property
    def _rows_with_keys(self) -> RowsPane | None:
        """The view of rows that has the keys, if one has."""
        pane, focused = self.active, self.screen.focused
        has_keys = focused is not None and pane in focused.ancestors
        return pane if has_keys and isinstance(pane, RowsPane) else None

    @property
    def chosen_head(self) -> Head | None:
        """The same where a person has put the cursor there, and not the table on its first row."""
        is_chosen = isinstance(self.active, RowsPane) and self.active.is_on_chosen_row
        return self.row_head if is_chosen else None

    @property
    def table(self) -> TablePane | None:
        """The table that is in view: the active one, or one that explains the map's cell beside the active map."""
        if isinstance(self.active, TablePane):
            return self.active
        return next((each for each in self.panes if isinstance(each, CellPane) and each.display), None)

    def go_to(self, view: str, *, takes_focus: bool = True) -> None:
        """Show a view by its name; the focus goes to it unless that is to stay where it is, outside the views."""
        focused = self.screen.focused
        self.session.change(view=view)
        if takes_focus or (focused is not None and self in focused.ancestors):
            self.take_focus()

    def take_focus(self) -> None:
        """Put the focus on the active view; on one that was just made once it is there."""
        if self.active.is_attached and self.active.is_mounted:
            self.active.focus_view()
        else:
            self.has_opened.clear()
            self.call_after_refresh(self._focus_opened)

    def _focus_opened(self) -> None:
        """Put the focus on the active view, which may be another one by now."""
        self.has_opened.set()
        self.active.focus_view()

    def _add(self, made: Pane) -> None:
        """Take one more view."""
        made.session = self.session
        self.panes.append(made)
        self.mount(made)

    def _make(self, view: str) -> Pane:
        """Make the pane of a view."""
        for own in (ComparePane, HeadsPane, TextPane):
            if view == own.view:
                return own()
        if VIEWS[view].scope is Scope.CELL:
            return CellPane(VIEWS[view], self.attention)
        return TablePane(VIEWS[view])

    def in_view(self, kind: type[PaneKind]) -> PaneKind | None:
        """Give the pane of a kind, if it is active or shown beside the active one."""
        return next(
            (each for each in self.panes if isinstance(each, kind) and each in (self.active, self._beside)), None
        )

    def on_descendant_focus(self) -> None:
        """Make the view with the focus the active one; by now that may be another one than was said."""
        focused = self.screen.focused
        pane = next((each for each in focused.ancestors if isinstance(each, Pane)), None) if focused else None
        if pane is not None and pane is not self.active and pane.display and self.has_opened.is_set():
            self.is_beside = self.active.display
            self.session.change(view=pane.view)
            self.is_beside = False

    def return_to(self, *views: str) -> bool:
        """Give the keys back to the active view where it is one of some that are named; False where it has them."""
        active = self.active
        if active.view not in views or active.has_focus_within or not self.has_opened.is_set():
            return False
        active.focus_view()
        return True

    def zoom(self) -> None:
        """Give the active view all the room, the tree's too where only one view is shown, or share it again.

        Where the keys were the tree's, that view has them until it shares its room again.
        """
        is_zoomed, focused, before = not self.has_class("-zoomed"), self.screen.focused, self._zoomed_from
        self._zoomed_from = None
        if is_zoomed and focused is not None and self not in focused.ancestors:
            self._zoomed_from = focused, self.active
            self.active.focus_view()  # before the tree goes, which else would take the keys with it
        if any([_marked(self, {"-zoomed": is_zoomed}), _marked(self.screen, {"-zoomed": is_zoomed})]):
            self._restyle(*self.screen.query("#side, #tree"))
            self.screen.refresh_bindings()  # which says what the key does next
        is_as_it_was = focused is not None and before is not None and before[1] is self.active in focused.ancestors
        if before is not None and not is_zoomed and is_as_it_was:
            self.screen.set_focus(before[0])

    def last_like(self, view: str) -> str:
        """Give the view that was looked at last of those that share a key with one; that one before any was."""
        return self._last_of_ring.get(ring_of(view), view) if ring_of(view) else view

    @on(Numbered)
    def _number(self, event: Numbered) -> None:
        """Write weights into the cells of all maps, or not."""
        event.stop()
        self.session.change(is_numbered=event.is_numbered)

    def toggle_scale(self) -> bool:
        """Change the scale of the active view, or of what it is beside; False where none is in view."""
        if (pane := self.scaled) is not None:
            pane.toggle_scale()
        return pane is not None

    @property
    def scaled(self) -> Pane | None:
        """What has a scale: the active view; the ranks have none, so with them it is the spectra, if in view."""
        is_of_map = self.active.view == "text"
        pane = self.active if self.active.has_scale else self.attention if is_of_map else self.spectra
        is_seen = pane is not self.spectra or (self.spectra.graph.display and self._shows_spectra)
        return pane if is_seen else None

    def toggle_baseline(self) -> bool:
        """Show or hide the baseline of chance, in the spectra that are in view; False where none are."""
        graph = (self.active if isinstance(self.active, ComparePane) else self.spectra).graph
        is_seen = graph.display and (isinstance(self.active, ComparePane) or self._shows_spectra)
        if is_seen:
            graph.toggle_baseline()
        return is_seen

    @property
    def _shows_spectra(self) -> bool:
        """Whether the selected head's spectra are on screen, or soon are."""
        return self.spectra.display and self._left.display and not self.spectra.is_without_curves


def _is_of_heads(pane: Pane) -> bool:
    """Say whether a view shows the selected head or its layer, and neither the whole model nor one cell of a map."""
    view = VIEWS.get(pane.view)
    return pane.view != OVERVIEW and (view is None or view.scope not in (Scope.MODEL, Scope.CELL))


def _marked(widget: Widget, classes: dict[str, bool]) -> bool:
    """Give a widget classes or take them away, without styling it yet; say whether that changes any."""
    before = widget.classes
    for name, is_marked in classes.items():
        widget.set_class(is_marked, name, update=False)
    return widget.classes != before
