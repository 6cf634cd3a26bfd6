"""The views beside the tree: which one is active, and which have room beside it."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget

from engine.values.heads import Head
from engine.values.outline import HOW_TO_COMPARE
from engine.values.views import HEADS, OVERVIEW, VIEWS, Scope, ring_of, view_after
from tui.state.places import PlaceHistory
from tui.state.session import Averaging, Session, how_to_pin
from tui.state.stores import Stores
from tui.toolkit.keys import HEADS as OF_HEADS
from tui.toolkit.keys import MEASURING, MOVING, SENTENCE, key_of, shared_key
from tui.toolkit.keys import VIEWS as OF_VIEWS
from tui.toolkit.messages import ConditionWanted, DrawingWanted, HeadEntered, Notice, NumbersToggled, PlaceWanted
from tui.toolkit.screen import is_displayed
from tui.views.attention_view import AttentionPane
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.lens_view import LensPane
from tui.views.overview_view import OverviewPane
from tui.views.pane import Pane
from tui.views.ranks_view import RanksPane
from tui.views.spectra_view import SpectraPane
from tui.views.table_view import CellPane, TablePane
from tui.views.text_view import TextPane
from tui.widgets.table_grid import TableGrid

WEIGHTS_WIDTH = 60
"""Columns that spectra and ranks take beside a table, with the table's frame."""

BY_NAME = ("changes", "weights")
"""Views without a key."""


class Views(Container):
    """Spectra, ranks and attention: one at a time, or side by side on a large terminal.

    The overview and the tables take the place of the attention map. Views of the cell under the map's cursor take the
    place of spectra and ranks, so that a large terminal shows the map beside them. Most views are made when a person
    first goes to them.

    Parameters
    ----------
    session : holds what is shown.
    is_comparing : whether a second model is open.

    Attributes
    ----------
    stores : what is known of the open model; None before one is open.
    has_opened : cleared while a new view waits for its layout and the focus.
    has_chosen_view : whether a person has gone to a view.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        shared_key("spectra", "1", "view('spectra')", "Spectra", OF_VIEWS),
        shared_key("ranks", "2", "view('ranks')", "Ranks", OF_VIEWS),
        shared_key("attention", "3", "view('attention')", "Attention", OF_VIEWS),
        *(
            shared_key(view.name, view.key, f"view('{view.name}')", view.title.partition(":")[0], OF_VIEWS)
            for view in VIEWS.values()
            if view.key or view.name in BY_NAME
        ),
        shared_key("zoom", "z", "zoom", "Zoom the panel", OF_VIEWS),
        shared_key("scale", "s", "scale", "Scale", MEASURING),
        shared_key("baseline", "", "baseline", "Show or hide the baseline of chance", MEASURING),
        shared_key("difference", "D", "difference", "Difference of two maps", SENTENCE),
        shared_key("overview", "w", f"view('{OVERVIEW}')", "Overview, or table of heads", OF_VIEWS),
        shared_key("compare", "C", "compare", "Compare pinned heads", OF_HEADS),
        shared_key("maps", "A", "view('maps')", "Layer maps", OF_VIEWS),
        shared_key("text", "T", "text", "Text", OF_VIEWS),
        shared_key("back", "H", "visited(-1)", "Back", MOVING),
        shared_key("forward", "L", "visited(1)", "Forward", MOVING),
    ]

    def __init__(self, session: Session, *, is_comparing: bool) -> None:
        super().__init__(id="views")
        self.spectra = SpectraPane()
        self.ranks = RanksPane()
        self.attention = AttentionPane()
        self.overview = OverviewPane()
        self.panes: dict[str, Pane] = {
            each.view: each for each in (self.spectra, self.ranks, self.attention, self.overview)
        }
        self._last_head_view: Pane = self.spectra
        self.stores: Stores | None = None
        self._is_to_draw = False
        self.session = session
        self.is_comparing = is_comparing
        self._beside: Pane | None = None
        self._zoomed_from: tuple[Widget, Pane] | None = None
        self._history = PlaceHistory()
        self.has_chosen_view = False
        self._last_of_ring = dict[tuple[str, ...], str]()
        self.has_opened = asyncio.Event()
        self.has_opened.set()
        self._left = Vertical(self.spectra, self.ranks, id="left")
        for pane in self.panes.values():
            pane.session = session
        self._activate()
        session.follow(self._follow)

    def open(self, stores: Stores) -> None:
        """Show a model."""
        self.stores = stores
        for pane in self.panes.values():
            pane.stores = stores

    def _follow(self, changed: frozenset[str]) -> None:
        if "view" in changed:
            self._activate()
        self.draw()
        if changed & {"selected", "view"}:
            had_before = self._history.has_before
            self._history.move((self.session.shown.selected, self.session.shown.view))
            if self._history.has_before is not had_before:
                self.refresh_bindings()  # the line of keys offers only keys that do something

    def on_mount(self) -> None:
        """Show what there is room for, and follow the theme."""
        self.share_room()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self.draw))

    def draw(self) -> None:
        """Draw the views on screen, and the map if the active view follows its cursor."""
        self._is_to_draw = False
        if self.stores is not None:
            has_follower = self.active.follows_cursor
            for pane in self.panes.values():
                if is_displayed(pane) or (has_follower and pane is self.attention):
                    pane.draw_changes(self.session.shown, self.stores)

    @on(DrawingWanted)
    def draw_soon(self) -> None:
        """Draw the views once for all answers that arrive until then; may be called on any thread."""
        if not self._is_to_draw:
            self._is_to_draw = self.call_later(self.draw)

    @on(NumbersToggled)
    def _number(self, event: NumbersToggled) -> None:
        self.session.change(is_numbered=event.is_numbered)

    @property
    def active(self) -> Pane:
        """The view that keys are for."""
        return self.panes[self.session.shown.view]

    # --- heads, and views of them

    @on(PlaceWanted)
    def _place_wanted(self, event: PlaceWanted) -> None:
        self._history.jump()
        if isinstance(event.place, Head):
            averaging = self.session.shown.averaging if event.place.is_layer else Averaging.NOTHING
            self.session.change(selected=event.place, averaging=averaging)
        else:
            self._show_named(event.place)

    @on(HeadEntered)
    def _head_entered(self, event: HeadEntered) -> None:
        self._history.jump()
        self.enter(event.head)

    @on(ConditionWanted)
    def _condition_wanted(self, event: ConditionWanted) -> None:
        self.show_view(HEADS.name)
        if isinstance(pane := self.active, TablePane):
            pane.call_after_refresh(pane.filter_by, event.text)

    def enter(self, head: Head) -> None:
        """Select a head; from the overview or the table of all heads, go to the last view of a single head."""
        self.session.change(selected=head)
        if self.active.view in (OVERVIEW, HEADS.name):
            self.go_to(self._last_head_view.view)
        else:
            self.active.focus_view()

    def take_row(self, *, is_step: bool = False, view: str = "") -> None:
        """Select the head of the row under the cursor, before a key goes from it to a view or to another head.

        If no person put the cursor on that row, or the table is about the selected head, the selection stays.

        Parameters
        ----------
        is_step : whether the key goes to another head.
        view : that the key goes to, if it is known; nothing is done in that view, or for one of the whole model.
        """
        if view in VIEWS and VIEWS[view].scope is Scope.MODEL:
            return
        self.overview.settle()
        target, shown = self.target_head, self.session.shown
        if target == shown.selected or view == shown.view:
            return
        if not is_step:
            self._history.jump()
        self.session.change(selected=target)

    def action_visited(self, step: int) -> None:
        """Go back to the place visited before, or forward again."""
        place = self._history.step(step)
        if place is None:
            end, way = ("first", "back") if step < 0 else ("last", "forward")
            self.post_message(Notice(f"this is the {end} place; nothing to go {way} to"))
            return
        focused = self.screen.focused
        is_in_tree = focused is not None and self not in focused.ancestors
        selected, view = place
        self.session.change(selected=selected, view=view)
        self.show_view(view, takes_focus=not is_in_tree)
        self.refresh_bindings()

    def action_view(self, view: str) -> None:
        """Go to a view; of views that share a key, to the last one shown, or from that to the next.

        If one of them is a stopped table, that continues instead.
        """
        self.take_row(view=view)
        self.has_chosen_view, ring = True, ring_of(view)
        stopped = None if self.stores is None else self.stores.tables.stopped
        if stopped is not None and stopped[0] in (view, *ring):
            self.show_view(stopped[0])
        elif not self.return_to(*ring):
            last = self._last_of_ring.get(ring, view) if ring else view
            self.show_view(view_after(self.active.view, last))

    def show_view(self, view: str, *, takes_focus: bool = True) -> None:
        """Go to a view and continue a stopped table; for a view of two models, say how to open the second."""
        if not self.can_show(view):
            self.app.notify(HOW_TO_COMPARE)
        else:
            self.go_to(view, takes_focus=takes_focus)
        if self.stores is not None:
            self.stores.tables.resume()

    def can_show(self, view: str) -> bool:
        """Say whether the models that a view needs are open."""
        return view not in VIEWS or "vs" not in VIEWS[view].needs or self.is_comparing

    def _show_named(self, name: str) -> None:
        """Go to a view that a person names."""
        self.take_row(view=name)
        if name == "compare" != self.session.shown.view:
            self.action_compare()
        else:
            self.show_view(name)

    def action_compare(self) -> None:
        """Compare the pinned heads: go to their spectra, from there to their maps, then to a difference."""
        self.take_row(view="compare")
        shown = self.session.shown
        if not shown.pins:
            self.app.notify(how_to_pin(key_of(self, "app.pin"), key_of(self, "app.compare")))
        elif shown.view == "compare" and not self.return_to("compare"):
            self.session.change(side=shown.side.next)
        else:
            self.go_to("compare")

    def action_text(self) -> None:
        """Show the sentence as coloured text, or its map again."""
        self.take_row(view="text")
        if not self.return_to("text"):
            self.go_to("attention" if self.session.shown.view == "text" else "text")

    def action_open_map(self, view: str) -> None:
        """Show the selected head's map; escape leads back to a view."""
        self.attention.opened_from = view
        self.session.change(averaging=Averaging.NOTHING)
        self.action_view(self.attention.view)

    def action_difference(self) -> None:
        """Show the difference to the other model's maps, or to those with all heads on; again, the maps themselves.

        In a view of logits, show logits again in place of the difference of two tokens.
        """
        view = VIEWS.get(self.active.view)
        if view is not None and "against" in view.options:
            if self.session.shown.against is None:
                key = key_of(self, "table.against")
                self.app.notify(f"{key} on a row of predictions shows the difference of two tokens")
            self.session.change(against=None)
            return
        if not self.is_comparing and not self.session.shown.off.heads:
            self.app.notify(f"{HOW_TO_COMPARE}; or switch a head off, with {key_of(self, 'app.switch')}")
            return
        self.take_row(view="difference")
        is_seen, shown = self.attention.display, self.session.shown
        self.go_to("attention")
        if shown.averaging is Averaging.ROLLOUT:  # has no difference
            self.session.change(averaging=Averaging.NOTHING, difference=True)
        elif is_seen or not shown.difference:
            self.session.change(difference=not shown.difference)

    # --- which view is where

    def compose(self) -> ComposeResult:
        """Put spectra and ranks on the left, attention and overview on the right."""
        yield self._left
        yield self.attention
        yield self.overview

    def _activate(self) -> None:
        """Put the active view on screen; one that a person goes to for the first time is made."""
        view = self.session.shown.view
        if view not in self.panes:
            made = self.panes[view] = self._make(view)
            made.session, made.stores = self.session, self.stores
            self.mount(made)
        pane = self.active
        if _shows_head(pane):
            self._last_head_view = pane
        if pane is not self.attention:
            self.attention.opened_from = ""
        self._last_of_ring[ring_of(view)] = view
        self._beside = pane if pane.is_beside_map else self._beside if pane is self.attention else None
        if self.is_attached:
            self.screen.set_class(isinstance(pane, ComparePane), "-alone")
        for each in self.panes.values():
            each.set_class(each is pane, "-active")
        self.share_room()

    def share_room(self) -> None:
        """Show the views that there is room for beside the active one."""
        seen = self._choose_seen()
        for each in self.panes.values():
            each.display = each in seen
        weights = seen & {self.spectra, self.ranks}
        self._left.display = bool(weights)
        self._left.set_class(weights == seen, "-alone")
        self.ranks.set_class(len(weights) > 1, "-below")
        self.overview.set_class(len(seen) > 3, "-third")
        self.ranks.fit_height()

    def _choose_seen(self) -> set[Pane]:
        pane = self.active
        is_shared, has_third = (self.is_attached and self.screen.has_class(each) for each in ("-shared", "-thirds"))
        if self.has_class("-zoomed") or not is_shared or isinstance(pane, ComparePane | LensPane):
            return {pane}
        if self._beside is not None:
            return {self._beside, self.attention}
        if not pane.has_class("-table") or (has_third and pane is self.overview):
            return {self.spectra, self.ranks, self.attention, *([self.overview] if has_third else [])}
        if isinstance(pane, TablePane) and pane.grid.wanted_width > self.size.width - WEIGHTS_WIDTH:
            return {pane}
        return {self.spectra, self.ranks, pane}

    @on(TableGrid.Arranged)
    def _give_width(self) -> None:
        if isinstance(self.active, TablePane):
            self.share_room()

    @property
    def row_head(self) -> Head | None:
        """The head or whole layer of the row under the cursor in a table of heads with the focus; else None."""
        pane = self.rows_with_heads
        return None if pane is None else pane.head_here

    @property
    def target_head(self) -> Head | None:
        """The head or layer that keys act on: of the row a person moved to, else the selected one."""
        rows = self.rows_with_heads
        row = rows.head_here if rows is not None and rows.is_on_chosen_row else None
        return row or self.session.shown.selected

    @property
    def rows_with_heads(self) -> TablePane | None:
        """The active view, if it is a table of heads with the focus."""
        pane, focused = self.active, self.screen.focused
        has_focus = focused is not None and pane in focused.ancestors
        return pane if has_focus and isinstance(pane, TablePane) and pane.has_heads else None

    def go_to(self, view: str, *, takes_focus: bool = True) -> None:
        """Show a view; with `takes_focus` false, the focus stays if it is outside the views."""
        focused = self.screen.focused
        self.session.change(view=view)
        if takes_focus or (focused is not None and self in focused.ancestors):
            if self.active.is_attached and self.active.is_mounted:
                self.active.focus_view()
            else:  # once it is laid out
                self.has_opened.clear()
                self.call_after_refresh(self._focus_opened)

    def _focus_opened(self) -> None:
        self.has_opened.set()
        self.active.focus_view()

    def _make(self, view: str) -> Pane:
        for own in (ComparePane, HeadsPane, LensPane):
            if view == own.view:
                return own()
        if view == TextPane.view:
            return TextPane(self.attention)
        if VIEWS[view].scope is Scope.CELL:
            return CellPane(VIEWS[view], self.attention)
        return TablePane(VIEWS[view])

    def activate_focused(self, focused: Widget) -> None:
        """Make the view with the focus the active one."""
        pane = next((each for each in focused.ancestors if isinstance(each, Pane)), None)
        if pane is not None and pane is not self.active and pane.display:
            if self.active.display:  # between two views on screen
                self._history.turn((self.session.shown.selected, pane.view))
            self.session.change(view=pane.view)

    def return_to(self, *views: str) -> bool:
        """Give the focus back to the active view, if it is one of the named ones and the focus is elsewhere."""
        active = self.active
        if active.view not in views or active.has_focus_within or not self.has_opened.is_set():
            return False
        active.focus_view()
        return True

    def action_zoom(self) -> None:
        """Give the active view all the room, or share it again; a view that is alone on screen hides the tree too.

        If the tree had the focus, the view has it until it shares the room again.
        """
        is_zoomed, focused, before = not self.has_class("-zoomed"), self.screen.focused, self._zoomed_from
        self._zoomed_from = None
        if is_zoomed and focused is not None and self not in focused.ancestors:
            self._zoomed_from = focused, self.active
            self.active.focus_view()  # while the tree, which has the focus, is still displayed
        for each in (self, self.screen):
            each.update_classes({"-zoomed": is_zoomed}, update=False)
        self.app.stylesheet.update_nodes(self.screen.query("#side, #tree"))  # nothing else depends on it
        self.share_room()
        self.draw()
        self.screen.refresh_bindings()  # the words of the key change
        if before is not None and before[1] is self.active and self.active.has_focus_within:
            self.screen.set_focus(before[0])

    def has_no_effect(self, name: str) -> bool:
        """Say whether the line of keys leaves a binding out, as it would do nothing now or something else."""
        stores = self.stores
        if stores is None:
            return name == "app.back"
        match name:
            case "app.scale":
                return self.scaled_pane is None
            case "app.back":
                return not self._history.has_before
            case "table.all_rows":
                return stores.tables.stoppable is not None  # the key stops that
            case "app.switch":
                pane = self.active
                return isinstance(pane, TablePane) and pane.grid.row is not None and pane.head_here is None
        return False

    def action_scale(self) -> None:
        """Change the scale of the active view, or of the spectra beside it."""
        if self.scaled_pane is not None:
            self.scaled_pane.toggle_scale()
        else:
            self.post_message(Notice("nothing on screen has a scale; show spectra or maps of a head or layer"))

    @property
    def scaled_pane(self) -> Pane | None:
        """The view whose scale the key changes: the active one, or else the spectra if they are in view."""
        pane = self.active if self.active.has_scale else self.spectra
        return pane if pane is not self.spectra or self._shows_spectra else None

    def action_baseline(self) -> None:
        """Show or hide the baseline of chance in the spectra in view."""
        pane = self.active if isinstance(self.active, ComparePane) else self.spectra
        if pane.graph.display and (pane is not self.spectra or self._shows_spectra):
            pane.graph.has_baseline = not pane.graph.has_baseline
        elif self.active is self.spectra:
            self.post_message(Notice("only spectra of a head or a layer show chance; choose one"))
        else:
            self.post_message(Notice(f"only spectra show chance; {key_of(self, 'app.spectra')} shows them"))

    @property
    def _shows_spectra(self) -> bool:
        """Whether the selected head's spectra are on screen, or soon will be."""
        return self.spectra.display and self._left.display and not self.spectra.is_without_curves


def _shows_head(pane: Pane) -> bool:
    """Say whether a view shows the selected head or its layer, not the whole model or one cell of a map."""
    view = VIEWS.get(pane.view)
    return pane.view != OVERVIEW and (view is None or view.scope not in (Scope.MODEL, Scope.CELL))
