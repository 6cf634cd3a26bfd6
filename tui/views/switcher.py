"""The views beside the tree, and which of them is the active one."""

from __future__ import annotations

import asyncio
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget

from engine.values.heads import Head
from engine.values.outline import HOW_TO_COMPARE
from engine.values.views import HEADS, OVERVIEW, VIEWS, Scope, ring_of, view_after
from tui.drawing.levels import Scale
from tui.state.marked_heads import how_to_pin
from tui.state.places import PlaceHistory
from tui.state.session import Averaging, Session
from tui.state.stores import Stores
from tui.toolkit.keys import HEADS as OF_HEADS
from tui.toolkit.keys import MEASURING, MOVING, SENTENCE, key_of, shared_key
from tui.toolkit.keys import VIEWS as OF_VIEWS
from tui.toolkit.messages import (
    CellMoved,
    ConditionWanted,
    HeadEntered,
    Notice,
    NumbersToggled,
    PlaceWanted,
    RoomChanged,
    TokenPointed,
)
from tui.toolkit.screen import is_displayed
from tui.views.attention_view import AttentionPane
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.lens_view import LensPane
from tui.views.overview_view import OverviewPane
from tui.views.pane import Pane
from tui.views.ranks_view import RanksPane
from tui.views.rows import RowsPane
from tui.views.spectra_view import SpectraPane
from tui.views.table_view import CellPane, TablePane
from tui.views.text_view import TextPane
from tui.widgets.table_grid import TableGrid

WEIGHTS_WIDTH = 60
"""The columns of spectra and ranks beside a table, with those of the table's frame."""

PaneKind = TypeVar("PaneKind", bound=Pane)

BY_NAME = ("changes", "weights")
"""Views that have no key, and share none."""


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
    has_opened : set but while a view that was just made waits to be laid out, and then to have the focus.
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
        shared_key("maps", "A", "maps", "Layer maps", OF_VIEWS),
        shared_key("text", "T", "text", "Text", OF_VIEWS),
        shared_key("back", "H", "visited(-1)", "Back", MOVING),
        shared_key("forward", "L", "visited(1)", "Forward", MOVING),
    ]

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
        self._history = PlaceHistory()
        self._is_going_back = False
        self._is_turning = False
        """Whether the focus moves between two views that are on screen."""
        self._stayed: tuple[str, Head] | None = None
        self.has_chosen_view = False
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

    def open(self, stores: Stores) -> None:
        """Show what is known of a model."""
        self.stores = stores
        for pane in self.panes:
            pane.stores = stores

    def _follow(self, changed: frozenset[str]) -> None:
        """Show another view, draw the views on screen, and remember where one has been."""
        if "view" in changed:
            self._activate()
        self.draw()
        if changed & {"selected", "view"} and not self._is_going_back:
            had_before = self._history.has_before
            (self._history.turn if self._is_turning else self._history.move)(self.session.shown)
            if self._history.has_before is not had_before:
                self.refresh_bindings()  # of which the line of keys shows those that lead somewhere

    def on_mount(self) -> None:
        """Draw in another theme's colours, and show what there is room for."""
        self.share_room()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self.draw))

    def on_resize(self) -> None:
        """Draw the views that there is room for now."""
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Draw the views on screen, of what is shown now and of what is known; and the map whose cursor one follows."""
        self._is_to_draw = False
        if self.stores is not None:
            has_follower = self.active.follows_cursor
            for pane in self.panes:
                if is_displayed(pane) or (has_follower and pane is self.attention):
                    pane.draw_changes(self.session.shown, self.stores)

    @property
    def is_drawn(self) -> bool:
        """Whether all that has come is drawn, and nothing more is to come."""
        return not self._is_to_draw and (self.stores is None or self.stores.is_idle)

    def draw_soon(self) -> None:
        """Draw them once for all answers that have come by then; may be called on any thread."""
        if not self._is_to_draw:
            self._is_to_draw = self.call_later(self.draw)

    @on(RoomChanged)
    def _room_changed(self, event: RoomChanged) -> None:
        """Draw several heads with the detail that there is room for now."""
        event.stop()
        self.draw_soon()

    @on(CellMoved)
    def _cell_moved(self, event: CellMoved) -> None:
        """Draw what follows the map's cursor."""
        event.stop()
        self.draw()

    @on(TokenPointed)
    def _token_pointed(self, event: TokenPointed) -> None:
        """Move the map's cursor to a token of the text."""
        event.stop()
        heatmap = self.attention.heatmap
        to = zip(heatmap.cursor, (event.query, event.key), strict=True)
        heatmap.move_to(*(old if new is None else new for old, new in to))

    @on(NumbersToggled)
    def _number(self, event: NumbersToggled) -> None:
        """Write weights into the cells of all maps, or not."""
        event.stop()
        self.session.change(is_numbered=event.is_numbered)

    @property
    def active(self) -> Pane:
        """The view that keys are for."""
        return next(each for each in self.panes if each.view == self.session.shown.view)

    # --- heads, and views of them

    def say(self, said: str) -> None:
        """Say why a key does nothing in view, until the next key."""
        self.post_message(Notice(said))

    @on(PlaceWanted)
    def _place_wanted(self, event: PlaceWanted) -> None:
        """Go to a head, a layer or a view."""
        event.stop()
        if isinstance(event.place, Head):
            self.jump(event.place)
        else:
            self.show_named(event.place)

    @on(HeadEntered)
    def _head_entered(self, event: HeadEntered) -> None:
        """Go into a head, from a place that counts as visited."""
        event.stop()
        self._history.jump()
        self.enter(event.head)

    @on(ConditionWanted)
    def _condition_wanted(self, event: ConditionWanted) -> None:
        """Show the heads of which a condition is true, in their table."""
        event.stop()
        self.show_view(HEADS.name)
        if isinstance(pane := self.active, RowsPane):
            pane.call_after_refresh(pane.filter_by, event.text)

    def jump(self, head: Head | None) -> None:
        """Go to a head from a place that counts as visited."""
        self._history.jump()
        self.session.change(selected=head)

    def enter(self, head: Head) -> None:
        """Select a head and go to the view of one that was looked at before; from any other view, into that."""
        self.session.change(selected=head)
        if self.active.view in (OVERVIEW, HEADS.name):
            self.go_to(self.before.view)
        else:
            self.active.focus_view()

    def settle(self) -> None:
        """Select the head that the overview's cursor is on, though it may be moving still."""
        if (head := self.overview.settle()) is not None:
            self.session.change(selected=head)

    def take_row(self, *, is_step: bool = False, view: str = "") -> None:
        """Select the head of the row under the cursor, before a view of it is gone to or another head.

        Where the table is about the selected head, or the cursor has not been moved from where the table began, that
        one stays; so it is said once of both, but not of the model as a whole, of which such a table is.

        Parameters
        ----------
        is_step : whether another head is gone to from there.
        view : which view is gone to, where it is known; what is looked at already is none to go to.
        """
        self.settle()
        row, shown = self.row_head, self.session.shown
        if row is None or row == shown.selected or view == shown.view:
            return
        if self.chosen_head is not None:
            if not is_step:
                self._history.jump()
            self.session.change(selected=row)
        elif not is_step and shown.selected is not None and self._stayed != (shown.view, shown.selected):
            self._stayed = (shown.view, shown.selected)
            how = f"in {shown.view} {key_of(self, 'table.choose')} selects a row's head, there {row}"
            self.say(f"{shown.selected} stays selected; {how}")

    def action_visited(self, step: int) -> None:
        """Go back to the place visited before, or forward again."""
        place = self._history.step(step)
        if place is None:
            self.say(
                "this is the first place; nothing to go back to"
                if step < 0
                else "this is the last place; nothing to go forward to"
            )
            return
        self._is_going_back, focused = True, self.screen.focused
        is_in_tree = focused is not None and self not in focused.ancestors
        self.session.change(selected=place.selected)
        self.show_view(place.view, takes_focus=not is_in_tree)
        self._is_going_back = False
        self.refresh_bindings()

    def action_view(self, view: str) -> None:
        """Go to a view, of those that share a key to the one looked at last, or on from there to the next.

        A table of theirs that was stopped goes on.
        """
        if view not in VIEWS or VIEWS[view].scope is not Scope.MODEL:
            self.take_row(view=view)
        self.has_chosen_view, ring = True, ring_of(view)
        table = self.table or self.active
        if table.is_stopped and table.view in (view, *ring):
            self.show_view(table.view)
        elif not self.return_to(*ring):
            self.show_view(view_after(self.active.view, self.last_like(view)))

    def show_view(self, view: str, *, takes_focus: bool = True) -> None:
        """Go to a view by its name; one of two models takes a second one."""
        if not self.can_show(view):
            self.app.notify(HOW_TO_COMPARE)
        else:
            self.go_to(view, takes_focus=takes_focus)
        if self.stores is not None:
            self.stores.tables.resume()

    def can_show(self, view: str) -> bool:
        """Say whether a view has the two models that it may need."""
        return view not in VIEWS or "vs" not in VIEWS[view].needs or self.is_comparing

    def show_named(self, name: str) -> None:
        """Go to a view that a person names, or to the list of sentences; one that is shown stays as it is."""
        self._history.jump()
        if name not in VIEWS or VIEWS[name].scope is not Scope.MODEL:
            self.take_row(view=name)
        if name == "sentences":
            self.app.call_later(self.app.run_action, "screen.sentences")
        elif name in ("text", "compare") and name != self.session.shown.view:
            getattr(self, f"action_{name}")()
        else:
            self.show_view(name)

    def action_compare(self) -> None:
        """Show the pinned heads beside each other, or the next thing of them."""
        self.take_row(view="compare")
        shown = self.session.shown
        if not shown.pins:
            self.app.notify(how_to_pin(key_of(self, "app.pin"), key_of(self, "app.compare")))
        elif shown.view == "compare" and not self.return_to("compare"):
            self.session.change(side=shown.side.next)
        else:
            self.go_to("compare")

    def action_maps(self) -> None:
        """Show all heads of the selected layer as small maps."""
        self.take_row(view="maps")
        self.go_to("maps")

    def action_text(self) -> None:
        """Show the sentence as coloured text, or its map again."""
        self.take_row(view="text")
        if not self.return_to("text"):
            self.go_to("attention" if self.session.shown.view == "text" else "text")

    def action_open_map(self, view: str) -> None:
        """Show the selected head's map in large, from where escape leads back to the view that it was opened from."""
        self.attention.opened_from = view
        self.session.change(averaging=Averaging.NOTHING)
        self.action_view(self.attention.view)

    def action_difference(self) -> None:
        """Show what maps are different in, the other model's or those with heads off; where that is seen, the maps."""
        self.take_row(view="difference")
        if not self.is_comparing and not self.session.shown.off.heads:
            self.app.notify(f"{HOW_TO_COMPARE}; or switch a head off, with {key_of(self, 'app.switch')}")
            return
        is_seen, shown = self.attention.display, self.session.shown
        self.go_to("attention")
        if shown.averaging is Averaging.ROLLOUT:  # which has no other
            self.session.change(averaging=Averaging.NOTHING, difference=True)
        elif is_seen or not shown.difference:
            self.session.change(difference=not shown.difference)

    # --- which view is where

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
        others: list[Widget] = []
        if self.is_attached and _marked(self.screen, {"-alone": isinstance(pane, ComparePane)}):
            others += self.screen.query("#side, #tree")  # which give their room to one view that shares none
        changed = [_marked(each, {"-active": each is pane}) for each in self.panes]
        if any(changed) or others:
            self._restyle(*others)
        self.share_room()

    def share_room(self) -> None:
        """Show the views that there is room for beside the active one."""
        seen = self._seen()
        changed = [_marked(each, {"-seen": each in seen}) for each in self.panes]
        weights = seen & {self.spectra, self.ranks}
        changed += [
            _marked(self._left, {"-empty": not weights, "-alone": weights == seen}),
            _marked(self.ranks, {"-below": len(weights) > 1}),
            _marked(self.overview, {"-third": len(seen) > 3}),
        ]
        if any(changed):
            self._restyle()
            self.ranks.fit_height()

    def _seen(self) -> set[Pane]:
        """Choose the views that are seen: the active one, and where there is room those that go with it."""
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
        """Give a table the width that it takes."""
        self.share_room()

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
        pane = self.rows_with_heads
        return pane.head_here if pane is not None and pane.counts[0] else None

    @property
    def target_head(self) -> Head | None:
        """The head, or layer, of the row that a person has moved to in a table that has the keys; else the selected."""
        row = self.chosen_head
        return self.session.shown.selected if row is None else row

    @property
    def awaits_row(self) -> bool:
        """Whether a table of heads has the keys and its rows are still to come."""
        pane = self.rows_with_heads
        return pane is not None and not pane.counts[0] and pane.is_unfinished | pane.is_waiting

    @property
    def _rows_with_keys(self) -> RowsPane | None:
        """The view of rows that has the keys, if one has."""
        pane, focused = self.active, self.screen.focused
        has_keys = focused is not None and pane in focused.ancestors
        return pane if has_keys and isinstance(pane, RowsPane) else None

    @property
    def rows_with_heads(self) -> RowsPane | None:
        """The view of rows that has the keys, where its rows are of heads that differ."""
        pane = self._rows_with_keys
        return pane if pane is not None and pane.has_heads else None

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
        made.session, made.stores = self.session, self.stores
        self.panes.append(made)
        self.mount(made)

    def _make(self, view: str) -> Pane:
        """Make the pane of a view."""
        for own in (ComparePane, HeadsPane, LensPane, TextPane):
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

    def look_at(self, focused: Widget) -> None:
        """Make the view with the focus the active one."""
        pane = next((each for each in focused.ancestors if isinstance(each, Pane)), None)
        if pane is not None and pane is not self.active and pane.display:
            self._is_turning = self.active.display
            self.session.change(view=pane.view)
            self._is_turning = False

    def return_to(self, *views: str) -> bool:
        """Give the keys back to the active view where it is one of some that are named; False where it has them."""
        active = self.active
        if active.view not in views or active.has_focus_within or not self.has_opened.is_set():
            return False
        active.focus_view()
        return True

    def action_zoom(self) -> None:
        """Give the active view all the room, the tree's too where only one view is shown, or share it again.

        Where the keys were the tree's, that view has them until it shares its room again.
        """
        is_zoomed, focused, before = not self.has_class("-zoomed"), self.screen.focused, self._zoomed_from
        self._zoomed_from = None
        if is_zoomed and focused is not None and self not in focused.ancestors:
            self._zoomed_from = focused, self.active
            self.active.focus_view()  # before the tree goes, which else would take the keys with it
        if any([_marked(self, {"-zoomed": is_zoomed}), _marked(self.screen, {"-zoomed": is_zoomed})]):
            self.share_room()
            self._restyle(*self.screen.query("#side, #tree"))
            self.draw()
            self.screen.refresh_bindings()  # which says what the key does next
        is_as_it_was = focused is not None and before is not None and before[1] is self.active in focused.ancestors
        if before is not None and not is_zoomed and is_as_it_was:
            self.screen.set_focus(before[0])

    def has_no_effect(self, name: str) -> bool:
        """Say of a binding, by its id, whether it could now only say why it does nothing, or does something else."""
        stores = self.stores
        if stores is None:
            return name == "app.back"
        match name:
            case "app.scale":
                return self.scaled is None
            case "app.back":
                return not self._history.has_before
            case "table.all_rows":
                return stores.tables.stoppable is not None  # which is what the key stops
            case "app.switch":
                return self.table is not None and self.table.is_on_row_of_no_head
        return False

    def last_like(self, view: str) -> str:
        """Give the view that was looked at last of those that share a key with one; that one before any was."""
        return self._last_of_ring.get(ring_of(view), view) if ring_of(view) else view

    def action_scale(self) -> None:
        """Change the scale of the active view; say where none is in view."""
        if self.scaled is not None:
            self.scaled.toggle_scale()
        else:
            self.say("nothing on screen has a scale; show spectra or maps of a head or layer")

    @property
    def scaled(self) -> Pane | None:
        """What has a scale: the active view; the ranks have none, so with them it is the spectra, if in view."""
        is_of_map = self.active.view == "text"
        pane = self.active if self.active.has_scale else self.attention if is_of_map else self.spectra
        is_seen = pane is not self.spectra or (self.spectra.graph.display and self._shows_spectra)
        return pane if is_seen else None

    def action_baseline(self) -> None:
        """Show or hide the baseline of chance, in the spectra that are in view; say where there is none."""
        is_comparing = isinstance(self.active, ComparePane)
        graph = (self.active if isinstance(self.active, ComparePane) else self.spectra).graph
        if graph.display and (is_comparing or self._shows_spectra):
            graph.toggle_baseline()
        elif self.active is self.spectra:
            self.say("only spectra of a head or a layer show chance; choose one")
        else:
            self.say(f"only spectra show chance; {key_of(self, 'app.spectra')} shows them")

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
