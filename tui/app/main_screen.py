"""The screen with the tree and the views: its keys, and what each of them does to what is shown of the open model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.errors import NoWidget
from textual.geometry import Offset
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Label, Static, Tree

from engine.store.files import write_log
from engine.values.display_text import quantity
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head, Off
from engine.values.outline import HOW_TO_COMPARE
from engine.values.progress import Progress
from engine.values.table import RANK_COLUMNS
from engine.values.views import CONTRIBUTIONS, HEADS, OVERVIEW, VIEWS, Scope, ring_of, view_after
from tui.drawing.facts import model_line
from tui.drawing.numbers import ways_to_say
from tui.screens.prompt import Prompt
from tui.state.head_labels import HeadLabels
from tui.state.heads_off import ALL_ON, off_fields, say_off, switched, why_not_switched
from tui.state.overview_measures import epsilon_after, next_measure
from tui.state.pins import how_to_pin, toggle_pin
from tui.state.place_history import PlaceHistory
from tui.state.places import head_after, layer_after
from tui.state.sentences import Sentences
from tui.state.session import Averaging, Session, Shown, Side
from tui.state.tree_search import place_after
from tui.status_line import describe
from tui.toolkit.application import Work, begin, say_copied
from tui.toolkit.keys import COMPARING, HEADS_OFF, MEASURING, MOVING, PROGRAM, SENTENCE, TAKING_AWAY, key_of
from tui.toolkit.keys import VIEWS as OF_VIEWS
from tui.toolkit.layout import LayoutCompositor
from tui.toolkit.messages import (
    CellMoved,
    ConditionWanted,
    DistanceChanged,
    GainsFolded,
    HeadEntered,
    HeadPicked,
    HeadSwitched,
    PlaceWanted,
    PositionMoved,
    RoomChanged,
    TokenPicked,
    TokenPointed,
)
from tui.views.sentence_input import SentenceInput
from tui.views.tree import HeadTree
from tui.widgets.field import is_displayed
from tui.widgets.key_line import KeyLine
from tui.widgets.line import Line

if TYPE_CHECKING:
    from engine.service.engine import Engine
    from engine.values.attention import Sentence
    from engine.values.outline import ModelOutline
    from tui.export.files import Choice
    from tui.start import Start
    from tui.state.stores import Stores
    from tui.views.switcher import Views


def key(name: str, keys: str, action: str, said: str, group: Binding.Group, *, is_first: bool = False) -> Binding:
    """Bind keys to an action that works in any view: before all widgets see them, or after."""
    return Binding(keys, action, said, show=False, priority=is_first, id=f"app.{name}", group=group)


class MainScreen(Screen[object], inherit_bindings=False):
    """The tree, the views and the lines around them, of one model after the other.

    Parameters
    ----------
    sentences : of the person.

    Attributes
    ----------
    session : which holds what is shown of the open model.
    views : beside the tree; None until the first frame is painted, and while another model takes the place of one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+c,super+c",
            "screen.copy_text",
            "Copy selected text, or else quit",
            show=False,
            id="app.copy_selected",
            group=TAKING_AWAY,
        ),
        key("sentence", "i", "sentence", "Type a sentence", SENTENCE),
        key("spectra", "1", "view('spectra')", "Spectra", OF_VIEWS),
        key("ranks", "2", "view('ranks')", "Ranks", OF_VIEWS),
        key("attention", "3", "view('attention')", "Attention", OF_VIEWS),
        *(
            key(view.name, view.key, f"view('{view.name}')", view.title, OF_VIEWS)
            for view in VIEWS.values()
            if view.key
        ),
        key("next_view", "tab", "app.focus_next", "Next view", MOVING),
        key("previous_view", "shift+tab", "app.focus_previous", "Previous view", MOVING),
        key("tree", "t", "tree", "Back to the tree", MOVING),
        key("leave", "escape", "leave", "Stop what runs, or back to the tree", MOVING),
        key("switch", "o", "switch", "Switch the head off, or on again", HEADS_OFF),
        key("all_on", "O", "all_on", "Switch all heads on again", HEADS_OFF),
        key("off_way", "u", "off_way", "Switch heads off by zero, or by the mean", HEADS_OFF),
        key("zoom", "z", "zoom", "Zoom: one view, or all", OF_VIEWS),
        key("next_head", "right_square_bracket", "step_head(1)", "Next head", MOVING),
        key("previous_head", "left_square_bracket", "step_head(-1)", "Previous head", MOVING),
        key("next_layer", "right_curly_bracket", "step_layer(1)", "Next layer", MOVING),
        key("previous_layer", "left_curly_bracket", "step_layer(-1)", "Previous layer", MOVING),
        key("scale", "s", "scale", "Logarithmic or linear scale", MEASURING),
        key("baseline", "b", "baseline", "Show or hide the baseline of chance", MEASURING),
        key("next_measure", "m", "measure(1)", "Next measure", MEASURING),
        key("previous_measure", "M", "measure(-1)", "Previous measure", MEASURING),
        key("more", "plus,equals_sign", "epsilon(1)", "Larger ε of the energy rank", MEASURING),
        key("less", "minus", "epsilon(-1)", "Smaller ε of the energy rank", MEASURING),
        key("check", "c", "check", "Check: prove the heads against the model's numbers", OF_VIEWS),
        key("distance", "d", "distance", "QK at a distance of key and query, or without", MEASURING),
        key("farther", "shift+right", "turn(1)", "Δ one more", MEASURING),
        key("nearer", "shift+left", "turn(-1)", "Δ one less", MEASURING),
        key("averaging", "a", "averaging", "Head, mean over heads, over layers, over both, rollout", SENTENCE),
        key("difference", "D", "difference", "Difference of both maps: other model, or heads off", SENTENCE),
        key("copy_cell", "y", "copy('cell')", "Copy the cell under the cursor", TAKING_AWAY),
        key("copy_row", "Y", "copy('row')", "Copy the row", TAKING_AWAY),
        key("copy_view", "ctrl+y", "copy('view')", "Copy the whole view, tab separated", TAKING_AWAY),
        key("export", "e", "export", "Export: take away tables, matrices, pictures", TAKING_AWAY),
        key("overview", "w", f"view('{OVERVIEW}')", "All heads: overview or table; again: the other", OF_VIEWS),
        key("pin", "P", "pin", "Pin the head to compare it, or unpin it", COMPARING),
        key("compare", "C", "compare", "Compare pinned heads: spectra, maps, difference", COMPARING),
        key("maps", "A", "maps", "Layer maps: all heads of the layer", COMPARING),
        key("sentences", "S", "sentences", "Earlier sentences", SENTENCE),
        key("text", "T", "text", "The sentence as coloured text", SENTENCE),
        key(
            "jump",
            "g,colon",
            "jump",
            "Go to a head, a layer or a view, or do what is named",
            MOVING,
            is_first=True,
        ),
        key("search", "slash", "search", "Search in the tree", MOVING),
        key("next_match", "n", "match(1)", "Next match", MOVING),
        key("previous_match", "N", "match(-1)", "Previous match", MOVING),
        key("back", "H,backspace,ctrl+o,alt+left", "visited(-1)", "Back to where you were", MOVING),
        key("forward", "L,alt+right", "visited(1)", "Forward again", MOVING),
        key("palette", "ctrl+p", "command_palette", "Every command, by name", PROGRAM, is_first=True),
    ]

    focused = Reactive[Widget | None](None, repaint=False)

    def __init__(self, sentences: Sentences, id: str | None = None) -> None:
        super().__init__(id=id)
        self._compositor = LayoutCompositor()
        self.sentences = sentences
        self.session = Session()
        self.tree_widget = HeadTree(self._note)
        self.model_line = Line(classes="model-line")
        self.progress_line = Line(classes="progress-line")
        self.key_line = KeyLine()
        self.key_line.leaves_out = self.has_no_effect
        self.prompt = Prompt()
        self.sentence_input = SentenceInput(sentences)
        self._views: Views | None = None
        self.before_field: Widget | None = None
        self.has_chosen_view = False
        self._history = PlaceHistory()
        self._is_going_back = False
        self._stayed: tuple[str, Head] | None = None
        self._clipboard_hint = _clipboard_hint()

    def compose(self) -> ComposeResult:
        """Lay out the frame, without the views."""
        with Horizontal(id="top"):
            yield self.model_line
            yield self.progress_line
        with Horizontal(id="body"), Vertical(id="side"):
            yield self.tree_widget.title_line
            yield self.tree_widget
        with Horizontal(id="sentence"):
            yield Label("sentence")
            yield self.sentence_input
        yield Static("attn-tui needs a terminal of 40 × 12", id="too-small", markup=False)
        yield self.key_line
        yield self.prompt

    # --- the open model

    @property
    def is_ready(self) -> bool:
        """Whether the views are there."""
        return self._views is not None

    @property
    def views(self) -> Views:
        """The views, once the first frame is painted."""
        assert self._views is not None, "the views are made after the first frame"
        return self._views

    @property
    def stores(self) -> Stores | None:
        """What is known of the open model; None before one is open."""
        return None if self._views is None else self._views.stores

    async def make_views(self, engine: Engine, start: Start) -> None:
        """Make the views of the model that is opened next; those of the one before go, with all that waits for it."""
        from tui.export.files import ExportFiles
        from tui.views.switcher import Views

        before, self._views = self._views, None
        self.session = self.tree_widget.session = Session(Shown(view=start.view))
        self.engine = engine
        self.has_chosen_view, self._stayed, self._history = False, None, PlaceHistory()
        views = Views(self.session, is_comparing=engine.is_comparing, log_scale=start.log_scale)
        with self.app.batch_update():
            if before is not None:
                before.workers.cancel_node(before)  # what waits for the old model would find no views
                if before.stores is not None:
                    before.stores.close()
                self.prompt.close()
                self.set_focus(self.tree_widget)
                self.sentence_input.show_read("", None)
                self.tree_widget.clear()
                self.tree_widget.title_line.name_measure("")
                self.model_line.show("")
                views.set_class(before.has_class("-zoomed"), "-zoomed")
                await before.remove()
            await self.query_one("#body").mount(views)
        self._views = views
        self.session.follow(self._follow)
        await self.sentence_input.show_tokens(engine)
        self.exporting = ExportFiles(views)

    def show_model(self, outline: ModelOutline, report: Callable[[Progress], None]) -> Stores:
        """Show the tree of a model whose headers have been read, and make what keeps what is known of it."""
        from tui.state.stores import Stores

        stores = self.views.stores = Stores(self.engine, outline, self._draw_soon, report)
        stores.maps.has_read = self._has_read
        self.model_line.show(model_line(outline))
        self.tree_widget.fill(outline)
        self._follow(frozenset(("measure",)))
        for note in outline.notes:
            self.notify(note, severity="warning")
        return stores

    def _run(self, work: Work, group: str) -> None:
        """Await an answer for as long as the views of this model are there; a newer one of the group replaces it."""

        async def quietly() -> None:
            with suppress(Superseded):
                await work()

        begin(self.views, quietly, group)

    def _follow(self, changed: frozenset[str]) -> None:
        """Have the tree show what is shown now, and remember where one has been."""
        shown, tree = self.session.shown, self.tree_widget
        if "selected" in changed and self.stores is not None and tree.name_here != shown.selected:
            tree.go_to(shown.selected)
        if "measure" in changed:
            from tui.state.spectra_store import measure_named  # with NumPy, for which the first frame does not wait

            tree.title_line.name_measure(measure_named(shown.measure).title)
        if changed & {"epsilon", "measure", "off", "pins"}:
            tree.refresh_notes()
        if changed & {"selected", "view"} and not self._is_going_back:
            had_before = self._history.has_before
            (self._history.turn if self.views.is_beside else self._history.move)(shown)
            if self._history.has_before is not had_before:
                self.refresh_bindings()  # of which the line of keys shows those that lead somewhere
        if "selected" in changed and shown.selected is None and self.stores is not None:
            self._run(self.measure_memory, "memory")

    def _draw_soon(self) -> None:
        """Draw what a store has an answer to by now."""
        self.views.draw_soon()
        self.tree_widget.refresh_notes()

    def _note(self, head: Head) -> tuple[str, ...]:
        """Give what the tree says beside a head, the longest first."""
        stores, shown = self.stores, self.session.shown
        if stores is None:
            return ()
        rows = stores.spectra.measures([head], shown.epsilon).get(head, {})
        place = RANK_COLUMNS.index(shown.measure)
        values = (rows[matrix][place] for matrix in ("QK", "OV") if matrix in rows)
        return ways_to_say([value for value in values if not isinstance(value, str)], stores.labels.short(head))

    async def measure_memory(self) -> None:
        """Learn what the model takes of memory and what is free now, which the model's page says."""
        stores = self.stores
        with suppress(EngineError):  # what keeps a model from being measured is said by what needs it
            memory = await asyncio.wrap_future(self.engine.memory())
            if stores is not None:
                if memory.placement is not None:
                    stores.maps.warning = memory.placement.refusal or memory.placement.notice
                stores.memory = memory
                stores.arrived()

    def _has_read(self, sentence: Sentence) -> None:
        """List a sentence that was read, and have the heads labelled once the whole model is loaded because of it."""
        if sentence.text == self.session.shown.text:
            self.sentences.has_read(sentence.text)
            self.sentence_input.show_read(sentence.text, sentence)
        if self.stores is not None and not self.stores.labels.is_known:
            self._run(self._label, "labels")

    async def _label(self) -> None:
        """Learn what the heads are called; where that fails, the next sentence is another chance."""
        stores = self.stores
        assert stores is not None
        try:
            labels = await asyncio.wrap_future(self.engine.labels(stores.report))
            stores.labels = HeadLabels(labels, is_known=True)
        except EngineError:
            stores.report(Progress("", 1, 1, ""))
        stores.arrived()

    def advance(self, progress: Progress) -> None:
        """Show how far a model is loaded, or a sentence read, also where that is waited for."""
        if self.stores is not None:
            self.stores.maps.advance(progress)
            progress = self.stores.tables.advance(progress)
        self.show_progress(progress)

    def show_progress(self, progress: Progress) -> None:
        """Show how far long work has come; nothing once it is done."""
        self.progress_line.show("" if progress.finished else describe(progress))

    def has(self, name: Head) -> bool:
        """Say whether the open model has a head or layer."""
        try:
            return self.stores is not None and name.head < self.stores.outline.layer(name).heads
        except EngineError:
            return False

    # --- the focus

    @property
    def focus_chain(self) -> list[Widget]:
        """What tab goes through: the tree and the views, and no field, where the next key would be a letter."""
        return [each for each in super().focus_chain if not isinstance(each, Input)]

    def set_focus(self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False) -> None:
        """Move the focus, but not to what another view has taken the place of and is on screen still.

        The mouse can meet it there until all is laid out anew; then it would go, and leave the focus to nobody. Where
        nobody is to have it, or who has it has gone, as when the terminal becomes smaller, the active view has it
        instead, or while there are no views the tree; only another window takes it from all.
        """
        if widget is not None and not is_displayed(widget):
            if self.focused is not None and is_displayed(self.focused):
                return
            widget = None
        if isinstance(widget, Input) and not isinstance(self.focused, Input) and not from_app_focus:
            self.before_field = self.focused
        if widget is None and self.app.app_focus:
            chain = self.focus_chain
            in_view = (each for each in chain if self.is_ready and self.views.active in each.ancestors)
            widget = next(in_view, self.tree_widget if self.tree_widget in chain else None)
        super().set_focus(widget, scroll_visible, from_app_focus)

    def fill_focus(self) -> None:
        """Have somebody get the focus where nobody has it."""
        if self.focused is None:
            self.set_focus(None)

    def _update_auto_focus(self) -> None:
        """Fill the focus when the screen is there, or there again; the toolkit takes the first, displayed or not."""
        self.fill_focus()

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Find what the mouse is over, and which letter of its text; there is none in what is drawn cell by cell.

        Of that the toolkit would draw a line all the same, be it before it is ready for it.
        """
        try:
            widget, _ = self.get_widget_at(x, y)
        except NoWidget:
            return None, None
        return super().get_widget_and_offset_at(x, y) if widget.allow_select else (widget, None)

    def on_screen_suspend(self) -> None:
        """Show the keys of the screen that has come over this one."""
        self.key_line.follow(self.app.screen)

    def on_screen_resume(self) -> None:
        """Show the keys of this one again."""
        self.key_line.follow(self)

    @property
    def foot_keys(self) -> dict[str, str]:
        """The keys of any view that the line at the foot shows; where there is little room, the first ones."""
        return {
            "app.search": "Search",
            "app.jump": "Go to",
            "app.sentence": "Sentence",
            "app.spectra": "Spectra",
            "app.ranks": "Ranks",
            "app.attention": "Attention",
            "app.overview": "All heads",
            "app.text": "Text",
            "app.maps": "Maps",
            "app.pin": "Pin",
            "app.export": "Export",
            "app.palette": "Commands",
            "app.zoom": "Share room" if self.has_class("-zoomed") else "All room",
            "app.back": "Back",
            "app.next_head": "Next head",
            "app.circuits": "Circuits",
            "app.patterns": "Patterns",
            "app.predictions": "Predictions",
        }

    def has_no_effect(self, name: str) -> bool:
        """Say of a binding, by its id, whether it could now only say why it does nothing, or does something else."""
        stores, shown = self.stores, self.session.shown
        if stores is None:
            return name == "app.back"
        match name:
            case "app.scale":
                return self.views.scaled is None
            case "app.distance":
                return bool(stores.outline.no_rotation)
            case "app.back":
                return not self._history.has_before
            case "table.all_rows":
                return stores.tables.stoppable is not None  # which is what the key stops
            case "table.switch":
                return self.views.table is not None and self.views.table.is_on_row_of_no_head
            case "table.fold":
                return not (stores.outline.has_known_norms or shown.folds)  # what is folded can be left out again
        return False

    # --- heads and layers

    @on(Tree.NodeHighlighted)
    def _node_highlighted(self, event: Tree.NodeHighlighted[Head | None]) -> None:
        """Show what the tree's cursor is on."""
        if self.stores is not None and event.node is self.tree_widget.cursor_node:  # else it has moved on already
            self.session.change(selected=event.node.data)

    @on(Tree.NodeSelected)
    def _node_selected(self, event: Tree.NodeSelected[Head | None]) -> None:
        """Open or close a layer on Enter; go from a head to its view, unless it is of a model that was put away."""
        if event.node.allow_expand:
            event.node.toggle()
        elif event.node.data is not None and self.has(event.node.data):
            self._enter(event.node.data)

    @on(HeadEntered)
    def _head_entered(self, event: HeadEntered) -> None:
        """Go into a head, from a place that counts as visited, unless it is of a model that has been put away."""
        if self.has(event.head):
            self._history.jump()
            self._enter(event.head)

    def _enter(self, head: Head) -> None:
        """Select a head and go to the view of one that was looked at before; from any other view, into that."""
        self.session.change(selected=head)
        if self.views.active.view in (OVERVIEW, HEADS.name):
            self.views.go_to(self.views.before.view)
        else:
            self.views.active.focus_view()

    @on(HeadPicked)
    def _head_picked(self, event: HeadPicked) -> None:
        """Show the head or layer of a row, unless it is of a model that has been put away."""
        if not self.has(event.name):
            return
        if event.is_jump and event.name == self.session.shown.selected:
            self.key_line.say(f"{event.name} is selected already")
        elif event.is_jump:
            self.jump(event.name)
        else:
            self.session.change(selected=event.name)

    @on(PlaceWanted)
    def _place_wanted(self, event: PlaceWanted) -> None:
        """Go to a head, a layer or a view."""
        if isinstance(event.place, Head):
            self.jump(event.place)
        else:
            self.show_named(event.place)

    def jump(self, head: Head | None) -> None:
        """Go to a head from a place that counts as visited."""
        self._history.jump()
        self.session.change(selected=head)

    def _take_row(self, *, is_step: bool = False, view: str = "") -> None:
        """Select the head of the row under the cursor, before a view of it is gone to or another head.

        Where the table is about the selected head, or the cursor has not been moved from where the table began, that
        one stays; so it is said once of both, but not of the model as a whole, of which such a table is.

        Parameters
        ----------
        is_step : whether another head is gone to from there.
        view : which view is gone to, where it is known; what is looked at already is none to go to.
        """
        self._settle()
        row, shown = self.views.row_head, self.session.shown
        if row is None or row == shown.selected or view == shown.view or not self.has(row):
            return
        if self.views.chosen_head is not None:
            if not is_step:
                self._history.jump()
            self.session.change(selected=row)
        elif not is_step and shown.selected is not None and self._stayed != (shown.view, shown.selected):
            self._stayed = (shown.view, shown.selected)
            how = f"in {shown.view} {key_of(self, 'table.choose')} selects a row's head, there {row}"
            self.key_line.say(f"{shown.selected} stays selected; {how}")

    def _settle(self) -> None:
        """Select the head that the overview's cursor is on, though it may be moving still."""
        if (head := self.views.overview.settle()) is not None:
            self.session.change(selected=head)

    def action_step_head(self, step: int) -> None:
        """Go to the next or previous head, across layers."""
        self._take_row(is_step=True)
        if self.stores and (head := head_after(self.stores.outline, self.session.shown.selected, step)):
            self.session.change(selected=head)

    def action_step_layer(self, step: int) -> None:
        """Go to the same head of the next or previous layer."""
        self._take_row(is_step=True)
        if self.stores:
            self.session.change(selected=layer_after(self.stores.outline, self.session.shown.selected, step))

    def action_visited(self, step: int) -> None:
        """Go back to the place visited before, or forward again."""
        place = self._history.step(step)
        if place is None:
            self.key_line.say("nothing to go back to" if step < 0 else "nothing to go forward to")
            return
        self._is_going_back = True
        is_in_tree = self.tree_widget.has_focus
        self.session.change(selected=place.selected)
        self.show_view(place.view, takes_focus=not is_in_tree)
        self._is_going_back = False
        self.refresh_bindings()

    def action_search(self) -> None:
        """Ask what to search in the tree."""
        from tui.screens.questions import Search

        if self.stores is not None:
            self.prompt.ask(Search(self.views, self.tree_widget))

    def action_match(self, step: int) -> None:
        """Go to the next match of the search, or to the one before, and say which it is."""
        searched = self.session.shown.searched
        if not searched or self.stores is None:
            search = key_of(self, "app.search")
            self.key_line.say(f"nothing has been searched yet: {search} searches in the tree")
            return
        if not (found := self.stores.found(searched, self.session.shown)):
            self.key_line.say(f"no match for {searched}")
            return
        place, is_round = place_after(found, self.session.shown.selected, self.stores.outline, step)
        self.tree_widget.mark_found(found)
        self.session.change(selected=found[place])
        end = " · past the end, on from the top" if step > 0 else " · past the top, on from the end"
        self.key_line.say(f"/{searched}  {place + 1} of {len(found)}{end if is_round else ''}")

    def action_jump(self) -> None:
        """Ask where to go, or what to do."""
        from tui.screens.questions import WhereTo

        if self.stores is not None:
            self.prompt.ask(WhereTo(self.views, self.tree_widget))

    def action_command_palette(self) -> None:
        """Offer every command by its name."""
        from tui.screens.palette import Palette
        from tui.state.places import example

        self.app.push_screen(Palette("L0H0" if self.stores is None else str(example(self.stores.outline))))

    def action_switch(self) -> None:
        """Switch the selected head off, or on again."""
        self._settle()
        if self.stores is not None and (refusal := self._switch(self.session.shown.selected)):
            self.notify(refusal)

    @on(HeadSwitched)
    def _switch_row(self, event: HeadSwitched) -> None:
        """Switch a row's head off, or on again, and say what is off: the tree, which shows it, may have no room."""
        if self.has(event.name):
            all_on = key_of(self, "app.all_on")
            self.key_line.say(self._switch(event.name) or say_off(self.session.shown.off, all_on))

    def _switch(self, head: Head | None) -> str:
        """Switch a head off, or on again, or say why that cannot be."""
        off = self.session.shown.off
        refusal = why_not_switched(head, key_of(self, "app.switch"))
        if head is not None and not refusal:
            self.switch_off(switched(off, [head], is_off=head not in off.heads))
        return refusal

    def switch_off(self, off: Off) -> None:
        """Have other heads off."""
        self.session.change(**off_fields(self.session.shown, off, is_comparing=self.engine.is_comparing))

    def action_all_on(self) -> None:
        """Switch all heads on again."""
        off = self.session.shown.off
        self.switch_off(replace(off, heads=()))
        self.key_line.say("" if off.heads else ALL_ON)

    def action_off_way(self) -> None:
        """Switch heads off by their mean over the sentence's tokens, or by zero again; say so where none is off."""
        off = self.session.shown.off
        self.switch_off(replace(off, by_mean=not off.by_mean))
        if not off.heads:
            way = "zero" if off.by_mean else "its mean"
            self.key_line.say(f"no head is off; {key_of(self, 'app.switch')} switches one off, now by {way}")

    def action_pin(self) -> None:
        """Pin the head of the row under the cursor, or the selected one, or unpin it; the tree shows which are."""
        from tui.widgets.table_grid import NO_ROWS

        self._settle()
        if self.stores is None or self.views.awaits_row:
            self.key_line.say(NO_ROWS)
            return
        row = self.views.row_head
        head = self.session.shown.selected if row is None else row
        if refusal := toggle_pin(self.session, head, key_of(self, "app.pin")):
            self.notify(refusal)
        elif head is not None:
            several = len(self.stores.outline.stacks) > 1
            name, *pins = (
                f"{each.stack} {each}" if several else str(each) for each in (head, *self.session.shown.pins)
            )
            pinned = ", ".join(pins)
            still = f"{pinned} still pinned" if pinned else "none is pinned"
            is_pinned = f"{pinned} pinned; {key_of(self, 'app.compare')} compares"
            self.key_line.say(is_pinned if name in pins else f"{name} unpinned; {still}")

    # --- views

    def action_view(self, view: str) -> None:
        """Go to a view, of those that share a key to the one looked at last, or on from there to the next.

        A table of theirs that was stopped goes on.
        """
        if view not in VIEWS or VIEWS[view].scope is not Scope.MODEL:
            self._take_row(view=view)
        self.has_chosen_view, views, ring = True, self.views, ring_of(view)
        if views.table is not None and views.table.is_stopped and views.table.view in (view, *ring):
            self.show_view(views.table.view)
        elif not views.return_to(*ring):
            self.show_view(view_after(views.active.view, views.last_like(view)))

    def show_view(self, view: str, *, takes_focus: bool = True) -> None:
        """Go to a view by its name; one of two models takes a second one."""
        if not self.can_show(view):
            self.notify(HOW_TO_COMPARE)
        else:
            self.views.go_to(view, takes_focus=takes_focus)
        if self.stores is not None:
            self.stores.tables.resume()

    def can_show(self, view: str) -> bool:
        """Say whether a view has the two models that it may need."""
        return view not in VIEWS or "vs" not in VIEWS[view].needs or self.engine.is_comparing

    def show_named(self, name: str) -> None:
        """Go to a view that a person names, or to the list of sentences; one that is shown stays as it is."""
        self._history.jump()
        if name not in VIEWS or VIEWS[name].scope is not Scope.MODEL:
            self._take_row(view=name)
        if name == "sentences":
            self.action_sentences()
        elif name in ("text", "compare") and name != self.session.shown.view:
            getattr(self, f"action_{name}")()
        else:
            self.show_view(name)

    def action_compare(self) -> None:
        """Show the pinned heads beside each other, or the next thing of them."""
        self._take_row(view="compare")
        shown = self.session.shown
        if not shown.pins:
            self.notify(how_to_pin(key_of(self, "app.pin"), key_of(self, "app.compare")))
        elif shown.view == "compare" and not self.views.return_to("compare"):
            self.session.change(side=shown.side.next)
        else:
            self.views.go_to("compare")

    def action_maps(self) -> None:
        """Show all heads of the selected layer as small maps."""
        self._take_row(view="maps")
        self.views.go_to("maps")

    def action_text(self) -> None:
        """Show the sentence as coloured text, or its map again."""
        self._take_row(view="text")
        if not self.views.return_to("text"):
            self.views.go_to("attention" if self.session.shown.view == "text" else "text")

    def action_open_map(self, view: str) -> None:
        """Show the selected head's map in large, from where escape leads back to the view that it was opened from."""
        self.views.attention.opened_from = view
        self.session.change(averaging=Averaging.NOTHING)
        self.action_view(self.views.attention.view)

    def action_stop_or_view(self, view: str) -> None:
        """Stop what is worked out, or else go to a view."""
        if not self._stop():
            self.action_view(view)

    def action_zoom(self) -> None:
        """Give the active view all the room, or share it again."""
        self.views.zoom()

    def action_tree(self) -> None:
        """Go back to the tree, and show it where the active view had its room."""
        if self.is_ready and not self.tree_widget.display:
            self.views.zoom()
        self.set_focus(self.tree_widget)

    def action_leave(self) -> None:
        """Stop what is worked out and waited for, or a file; else go a step back in the view, or to the tree."""
        is_in_view = self.is_ready and self.focused is not None and self.views.active in self.focused.ancestors
        if not (self._stop() or (is_in_view and self.views.active.step_back())):
            self.action_tree()

    def _stop(self) -> bool:
        """Stop a table that is worked out and waited for, or a file that is written; False where there is none."""
        return self.stores is not None and (self.stores.tables.stop_work() or self.exporting.stop())

    @on(ConditionWanted)
    def _condition_wanted(self, event: ConditionWanted) -> None:
        """Show the heads of which a condition is true, in their table."""
        from tui.views.rows import RowsPane  # for which the first frame does not wait

        self.show_view(HEADS.name)
        if isinstance(pane := self.views.active, RowsPane):
            pane.call_after_refresh(pane.filter_by, event.text)

    @on(RoomChanged)
    def _room_changed(self) -> None:
        """Draw several heads with the detail that there is room for now."""
        if self.is_ready:
            self.views.draw_soon()

    @on(CellMoved)
    def _cell_moved(self) -> None:
        """Draw what follows the map's cursor."""
        if self.is_ready:
            self.views.draw()

    # --- scales, measures, positions

    def action_scale(self) -> None:
        """Change the scale of the active view; say where none is in view."""
        if not self.views.toggle_scale():
            self.key_line.say("nothing in view has a scale; spectra and maps of a head or a layer have one")

    def action_baseline(self) -> None:
        """Show or hide the baseline; say where there is none in view."""
        if not self.views.toggle_baseline():
            if self.views.active is self.views.spectra:
                self.key_line.say("only the spectra of a head or a layer have a line of chance")
            else:
                self.key_line.say(f"spectra alone have a line of chance: {key_of(self, 'app.spectra')} shows them")

    def action_measure(self, step: int) -> None:
        """Show the next or previous measure."""
        self.session.change(**next_measure(self.session.shown, step))

    def action_epsilon(self, step: int) -> None:
        """Change ε to the next larger or smaller one; say so where there is none."""
        before = self.session.shown.epsilon
        if (epsilon := epsilon_after(before, step)) is None:
            self.key_line.say(f"ε {before:g} is the {'largest' if step > 0 else 'smallest'} that the keys go to")
        else:
            self.session.change(epsilon=epsilon)

    def action_distance(self) -> None:
        """Show QK with the key at a distance from the query, 0 to begin with, or without positions again."""
        self.action_show_distance(0 if self.session.shown.distance is None else None)

    def action_turn(self, step: int) -> None:
        """Move the key away from the query, or nearer, where QK is shown at a distance."""
        if (distance := self.session.shown.distance) is not None:
            self.action_show_distance(max(distance + step, 0))

    @on(DistanceChanged)
    def _distance_changed(self, event: DistanceChanged) -> None:
        """Show QK at another distance."""
        self.action_turn(event.step)

    def action_show_distance(self, distance: int | None) -> None:
        """Show QK with the key at a distance from the query, or without positions; say why there is none here."""
        if self.stores is None:
            return
        shown = self.session.shown
        why_not = "" if self.session.shown.selected else "QK at a distance is that of a head or a layer; choose one"
        if self.stores.outline.no_rotation:
            self.notify(self.stores.outline.no_rotation, severity="warning")
        elif why_not:
            self.key_line.say(why_not)
        elif shown.view == "compare" and shown.side is not Side.SPECTRA:
            on = key_of(self, "app.compare")
            self.key_line.say(f"these are maps of the sentence; a distance is of spectra: {on} goes on to them")
        else:
            self.session.change(distance=distance)

    @on(GainsFolded)
    def _gains_folded(self) -> None:
        """Show directions with the gains of norms, or without."""
        self.session.change(folds=not self.session.shown.folds)
        self.refresh_bindings()  # a key that can only lead back is offered for that alone

    @on(TokenPicked)
    def _token_picked(self, event: TokenPicked) -> None:
        """Show what the logit of another token is made of; switching heads off is of that token from then on too."""
        if self.is_ready:
            self.session.change(token=f"#{event.number}")
            self.show_view(CONTRIBUTIONS.name)

    @on(PositionMoved)
    def _position_moved(self, event: PositionMoved) -> None:
        """Predict at another token, once a sentence has been read; say so where there is none."""
        sentence, here = self._sentence, self.session.shown.position
        tokens = 0 if sentence is None else len(sentence.ids)
        here = here if here is not None else tokens - 1 if event.here is None else event.here
        if tokens and not 0 <= here + event.step < tokens:
            last = "last" if event.step > 0 else "first"
            self.key_line.say(f"this is the {last} of {quantity(tokens, 'token')}")
        elif tokens:
            self.session.change(position=here + event.step, token=None)

    # --- the sentence and its maps

    def action_sentence(self) -> None:
        """Go to the sentence, at once: what is typed next takes its place, unless a key for the cursor comes first."""
        self.sentence_input.begin()
        self.set_focus(self.sentence_input)

    def action_leave_sentence(self) -> None:
        """Go back from the sentence to what had the keys, or to the tree where that has gone."""
        self.sentence_input.put_back()
        if self.before_field is not None and self.before_field.focusable and is_displayed(self.before_field):
            self.set_focus(self.before_field)
        else:
            self.action_tree()

    def action_read_sentence(self) -> None:
        """Leave the sentence for its map at once, and read it."""
        self.read_sentence(self.sentence_input.value)
        if self.views.active is self.views.attention:
            self.set_focus(self.views.attention.heatmap)

    def read_sentence(self, text: str) -> None:
        """Read a sentence and look at what is shown of it, its attention unless a table is looked at."""
        self.sentence_input.finish(text)
        self.sentences.submit(text)
        self.read(text)
        active = self.views.active
        is_of_sentence = active.is_of_sentence or (active.view in VIEWS and "text" in VIEWS[active.view].options)
        self.views.go_to(active.view if is_of_sentence else "attention")

    def read(self, text: str) -> None:
        """Have the model read a sentence, once there is one."""
        self.sentence_input.show_read(text, None)
        if self.stores is None:
            self.session.change(waiting_text=text)
            return
        is_read_again = text == self.session.shown.text
        self.session.change(text=text, waiting_text=None, position=None, token=None)
        if is_read_again:
            self.stores.maps.read_again()
        elif (sentence := self._sentence) is not None:
            self._has_read(sentence)  # which is known from before

    def action_sentences(self, is_finding: bool = False) -> None:
        """List the sentences; the one that is chosen is read at once."""
        from tui.screens.sentences_screen import SentencesScreen

        def take(text: str | None) -> None:
            if text is not None:
                self.read_sentence(text)

        self.app.push_screen(SentencesScreen(self.sentences, is_finding=is_finding), take)

    @property
    def _sentence(self) -> Sentence | None:
        """The sentence as the model reads it, once it is read."""
        from engine.values.attention import Sentence

        sentence = None if self.stores is None else self.stores.maps.sentence(self.session.shown)
        return sentence if isinstance(sentence, Sentence) else None

    def action_averaging(self) -> None:
        """Show the head's map, or a mean; say which where no map is in view."""
        from tui.state.maps import next_averaging

        attention = key_of(self, "app.attention")
        if self.views.active.view == "compare":
            self.key_line.say(f"heads are compared one by one; means are of the map, {attention}")
        elif self.stores is not None:
            is_long = self._sentence is not None and self._sentence.is_long
            averaging = next_averaging(self.session.shown, self.stores.outline, is_long=is_long)
            self.session.change(averaging=averaging)
            said = averaging.value
            if not (self.views.attention.display or self.views.active.view == "text"):
                self.key_line.say(f"{said}: {attention} shows the map")

    def action_difference(self) -> None:
        """Show what maps are different in, the other model's or those with heads off; where that is seen, the maps."""
        self._take_row(view="difference")
        if not self.engine.is_comparing and not self.session.shown.off.heads:
            self.notify(f"{HOW_TO_COMPARE}; or switch a head off, with {key_of(self, 'app.switch')}")
            return
        is_seen, shown = self.views.attention.display, self.session.shown
        self.views.go_to("attention")
        if shown.averaging is Averaging.ROLLOUT:  # which has no other
            self.session.change(averaging=Averaging.NOTHING, difference=True)
        elif is_seen or not shown.difference:
            self.session.change(difference=not shown.difference)

    @on(TokenPointed)
    def _token_pointed(self, event: TokenPointed) -> None:
        """Move the map's cursor to a token of the text."""
        if self.is_ready:
            heatmap = self.views.attention.heatmap
            to = zip(heatmap.cursor, (event.query, event.key), strict=True)
            heatmap.move_to(*(old if new is None else new for old, new in to))

    # --- taking away

    def action_copy_text(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy_text()
        say_copied(self.app)

    def action_copy(self, what: str) -> None:
        """Copy the cell under the active view's cursor, the row, or the table that the view draws."""
        self.app.clear_notifications()
        begin(self, partial(self._copy, what), "copy")

    async def _copy(self, what: str) -> None:
        """Hand text to the terminal, and say what; whether the terminal took it nobody can know."""
        from tui.export import clipboard

        try:
            copied = await getattr(clipboard, f"copied_{what}")(self.views)
        except Superseded:
            return
        except EngineError as error:
            self.notify(str(error), severity="error")
            return
        self.app.copy_to_clipboard(copied.text)
        hint, self._clipboard_hint = self._clipboard_hint, ""
        self.notify("\n".join(filter(None, (copied.says, copied.beginning, hint))), title="copied")

    async def action_export(self, name: str = "") -> None:
        """Offer what can be written, or write it under a name; keys that come at once wait for it."""
        from tui.screens.export_screen import ExportScreen

        def take(chosen: tuple[Choice, Path, bool] | None) -> None:
            if chosen is not None:
                begin(self, partial(self._export, *chosen), "export", is_alone=False)

        self.app.clear_notifications()
        await self.app.push_screen(ExportScreen(self.exporting, name), take)

    async def _export(self, choice: Choice, path: Path, may_replace: bool) -> None:
        """Write a file and say what is in it and where it is."""
        says = self.exporting.says(choice.what)
        try:
            written = await self.exporting.write(choice, path, may_replace=may_replace)
        except Superseded:
            self.notify("nothing of the file is left", title="stopped")
        except EngineError as error:
            self.notify(str(error), severity="error")
        except Exception as error:  # a file that could not be made is no reason to lose what is on screen
            self.notify(write_log(error), severity="error")
        else:
            self.notify(written, title=f"{says}: written")

    def action_check(self) -> None:
        """Prove the heads against the model's own numbers."""
        from tui.screens.check_screen import CheckScreen

        self.app.push_screen(CheckScreen(self.engine))


def _clipboard_hint() -> str:
    """Say what stands between this program and the clipboard."""
    if os.environ.get("TMUX"):
        return "in tmux this takes: set -g set-clipboard on"
    return "GNU screen keeps it for itself; tmux passes it on" if os.environ.get("STY") else ""
