"""What the keys ask for, turned into changes of what is shown, and the parts that show the open model."""

from __future__ import annotations

from functools import partial
from weakref import WeakSet

from textual.worker import Worker

from engine.values.attention import AttentionMap, Sentence
from engine.values.comparison import HOW_TO_COMPARE
from engine.values.display_text import quantity
from engine.values.errors import EngineError, Superseded
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import AnyTable
from engine.values.views import CONTRIBUTIONS, HEADS, OVERVIEW, VIEWS, Scope, ring_of, view_after
from tui.app.learning import Learning
from tui.export.view_table import subject_of, table_on_screen
from tui.parts import Parts
from tui.sentences import Sentences
from tui.state.heads_off import HeadsOff
from tui.state.maps import next_averaging
from tui.state.overview_measures import epsilon_after
from tui.state.pins import how_to_pin, toggle_pin
from tui.state.places import head_after, layer_after
from tui.state.session import Averaging, Side
from tui.state.spectra_store import measure_named
from tui.state.stores import Stores
from tui.toolkit.keys import key_of
from tui.toolkit.tasks import Work, begin
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.overview_view import OverviewPane
from tui.views.ranks_view import RanksPane
from tui.views.table_view import CellPane, TablePane
from tui.views.text_view import TextPane
from tui.ways import Ways
from tui.widgets.table_grid import NO_ROWS


class Conductor:
    """Shows one model; everything here happens on the event loop.

    Attributes
    ----------
    off : switches heads off.
    has_chosen_view : whether a person has chosen a view before the first head is on screen.
    outline, stores : the open model and what is known of it; None until there is one.
    """

    def __init__(self, app: Parts, sentences: Sentences) -> None:
        self._app = app
        self._session = app.session
        self._is_drawn = False
        keys = (partial(key_of, app, f"app.{name}") for name in ("switch", "all_on"))
        self.off = HeadsOff(app.session, *keys, is_comparing=app.engine.is_comparing)
        self.sentences = sentences
        self.has_chosen_view = False
        self._stayed: tuple[str, Head] | None = None
        self._workers: WeakSet[Worker[None]] = WeakSet()
        self.outline: ModelOutline | None = None
        self.stores: Stores | None = None

    def close(self) -> None:
        """Wait for nothing any more: another model takes the place of this one."""
        for worker in list(self._workers):
            worker.cancel()
        if self._app.views.stores is not None:
            self._app.views.stores.close()

    @property
    def is_open(self) -> bool:
        """Whether a model is open."""
        return self.outline is not None

    @property
    def text(self) -> str | None:
        """The sentence that is read, or is to be once the first head is on screen."""
        shown = self._session.shown
        return shown.text if shown.waiting_text is None else shown.waiting_text

    @property
    def meant(self) -> Head | None:
        """The head, or layer, of the row that a person has moved to in a table that has the keys; else the selected."""
        row = self._app.views.chosen_head
        return self._session.shown.selected if row is None else row

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of what is selected."""
        selected = self._session.shown.selected
        return () if self.outline is None or selected is None else self.outline.layer(selected).marks

    def has(self, name: Head) -> bool:
        """Say whether the open model has a head or layer."""
        try:
            return self.outline is not None and name.head < self.outline.layer(name).heads
        except EngineError:
            return False

    def show(self, outline: ModelOutline) -> tuple[Stores, Learning]:
        """Make what shows a model whose headers have been read."""
        app, engine, session, views, run = self._app, self._app.engine, self._session, self._app.views, self.run
        self.outline = outline
        stores = self.stores = views.stores = Stores(engine, outline, self._draw, app.report)
        stores.maps.has_read = self._has_read
        app.ways = Ways(
            views, app.tree_widget, session, outline, lambda: stores.labels,
            is_comparing=engine.is_comparing, go_to=self.go_to, show=self.show_named,
            come_back=lambda view, takes_focus: self.show_view(view, takes_focus=takes_focus),
        )  # fmt: skip
        self._learning = Learning(app, session, stores, run)
        session.follow(self._follow)
        self._follow(frozenset(("measure",)))
        return stores, self._learning

    def _follow(self, changed: frozenset[str]) -> None:
        """Have the tree say what is shown now beside its heads."""
        tree, shown = self._app.tree_widget, self._session.shown
        if "measure" in changed:
            tree.title_line.name_measure(measure_named(shown.measure).title)
        if changed & {"epsilon", "measure", "off", "pins"}:
            tree.refresh_notes()

    def _draw(self) -> None:
        """Draw what a store has an answer to by now."""
        self._app.views.draw_soon()
        self._app.tree_widget.refresh_notes()

    def run(self, work: Work, group: str) -> None:
        """Await an answer beside the event loop's other work; a newer one of the same group replaces it."""

        async def quietly() -> None:
            try:
                await work()
            except Superseded:
                return

        self._workers.add(begin(self._app, quietly, group))

    def _has_read(self, sentence: Sentence) -> None:
        """List a sentence that was read, and have the heads labelled."""
        if sentence.text == self._session.shown.text:
            self.sentences.has_read(sentence)
        self._learning.label()

    @property
    def _sentence(self) -> Sentence | None:
        """The sentence as the model reads it, once it is read."""
        stores = self._app.views.stores
        sentence = None if stores is None else stores.maps.sentence(self._session.shown)
        return sentence if isinstance(sentence, Sentence) else None

    def choose_token(self, number: int) -> None:
        """Take another token's numbers where tables are of one, and show what its logit is made of."""
        self._session.change(token=f"#{number}")
        self.show_view(CONTRIBUTIONS.name)

    def step_position(self, step: int, here: int | None) -> None:
        """Go to what is predicted at another token than the one that a table is of; say so where there is none."""
        sentence, at = self._sentence, self._session.shown.position
        tokens = 0 if sentence is None else len(sentence.ids)
        at = at if at is not None else tokens - 1 if here is None else here
        if tokens and not 0 <= at + step < tokens:
            self._app.key_line.say(f"this is the {'last' if step > 0 else 'first'} of {quantity(tokens, 'token')}")
        elif tokens:
            self._session.change(position=at + step, token=None)

    def fold_gains(self) -> None:
        """Show directions with the gains of norms, or without."""
        self._session.change(folds=not self._session.shown.folds)
        self._app.refresh_bindings()  # a key that can only lead back is offered for that alone

    def stop(self) -> bool:
        """Stop a table that is worked out and waited for; False where there is none."""
        return self.stores is not None and self.stores.tables.stop_work()

    def advance(self, progress: Progress) -> Progress:
        """Say how far the model is where that is waited for, and give it as it is shown."""
        if self.stores is None:
            return progress
        self.stores.maps.advance(progress)
        return self.stores.tables.advance(progress)

    def change_epsilon(self, step: int) -> str:
        """Change ε to the next larger or smaller one; say so where there is none."""
        before = self._session.shown.epsilon
        if (epsilon := epsilon_after(before, step)) is None:
            return f"ε {before:g} is the {'largest' if step > 0 else 'smallest'} that the keys go to"
        self._session.change(epsilon=epsilon)
        return ""

    def enter(self, head: Head) -> None:
        """Select a head and go to the view of one that was looked at before; from any other view, into that."""
        self.go_to(head)
        views = self._app.views
        if views.active.view in (OVERVIEW, HEADS.name):
            views.go_to(views.before.view)
        else:
            views.active.focus_view()

    def toggle_distance(self) -> None:
        """Show QK with the key at a distance from the query, 0 to begin with, or without positions again."""
        self.show_distance(0 if self._session.shown.distance is None else None)

    def step_distance(self, step: int) -> None:
        """Move the key away from the query, or nearer, where QK is shown at a distance."""
        distance = self._session.shown.distance
        if distance is not None:
            self.show_distance(max(distance + step, 0))

    def show_distance(self, distance: int | None) -> None:
        """Show QK with the key at a distance from the query, or without positions; say why there is none here."""
        if self.outline is None:
            return
        pane, shown = self._app.views.active, self._session.shown
        why_not = "" if self._session.shown.selected else "QK at a distance is that of a head or a layer; choose one"
        if self.outline.no_rotation:
            self._app.notify(self.outline.no_rotation, severity="warning")
        elif why_not:
            self._app.key_line.say(why_not)
        elif isinstance(pane, ComparePane) and shown.side is not Side.SPECTRA:
            on = key_of(self._app, "app.compare")
            self._app.key_line.say(f"these are maps of the sentence; a distance is of spectra: {on} goes on to them")
        else:
            self._session.change(distance=distance)

    def go_to(self, name: Head | None) -> None:
        """Move the tree's cursor to a head, a layer, or the model (None), and show it."""
        self._app.tree_widget.go_to(name)
        self.select(name)

    def select(self, name: Head | None) -> bool:
        """Show a head, a whole layer, or the model (None); False where it is shown, or no model is open."""
        if not self.is_open:
            return False
        was_drawn, self._is_drawn = self._is_drawn, True
        if self._session.change(selected=name):
            return True
        if not was_drawn:
            self._session.tell(frozenset(("selected",)))
        return not was_drawn

    def look_at(self, view: str) -> None:
        """Go to a view, of those that share a key to the one looked at last, or on from there to the next.

        A table of theirs that was stopped goes on.
        """
        self.has_chosen_view, views = True, self._app.views
        table = views.table
        if table is not None and table.is_stopped and table.view in (view, *ring_of(view)):
            self.show_view(table.view)
        elif not views.return_to(*ring_of(view)):
            self.show_view(view_after(views.active.view, views.last_like(view)))

    def show_view(self, view: str, *, takes_focus: bool = True) -> None:
        """Go to a view by its name; one of two models takes a second one."""
        if view in VIEWS and "vs" in VIEWS[view].needs and not self._app.engine.is_comparing:
            self._app.notify(HOW_TO_COMPARE)
            return
        self._app.views.go_to(view, takes_focus=takes_focus)
        if self.stores is not None:
            self.stores.tables.resume()

    def show_named(self, name: str) -> None:
        """Go to a view that a person names, or to the list of sentences; one that is shown stays as it is."""
        if name not in VIEWS or VIEWS[name].scope is not Scope.MODEL:
            self.take_row(view=name)
        if name == "sentences":
            self._app.call_later(self._app.run_action, "app.sentences")
        elif name == self._session.shown.view:
            self._app.views.go_to(name)
        elif name == "text":
            self.toggle_text()
        elif name == "compare":
            self.compare()
        else:
            self.show_view(name)

    def take_row(self, *, is_step: bool = False, view: str = "") -> None:
        """Select the head of the row under the cursor, before a view of it is gone to or another head.

        Where the table is about the selected head, or the cursor has not been moved from where the table began, that
        one stays; so it is said once of both, but not of the model as a whole, of which such a table is.

        Parameters
        ----------
        is_step : whether another head is gone to from there.
        view : which view is gone to, where it is known; what is looked at already is none to go to.
        """
        views, row, shown = self._app.views, self._app.views.row_head, self._session.shown
        if row is None or row == shown.selected or view == shown.view or not self.has(row):
            return
        if views.chosen_head is not None:
            if is_step or self._app.ways is None:
                self.go_to(row)
            else:
                self._app.ways.jump(row)
        elif not is_step and shown.selected is not None and self._stayed != (shown.view, shown.selected):
            self._stayed = (shown.view, shown.selected)
            how = f"in {shown.view} {key_of(self._app, 'table.choose')} selects a row's head, there {row}"
            self._app.key_line.say(f"{shown.selected} stays selected; {how}")

    def look_at_cell(self) -> None:
        """Follow the map's cursor with what is in view beside the map."""
        self._app.views.draw(only_beside_map=True)

    def read(self, text: str) -> None:
        """Have the model read a sentence, once there is one."""
        self.sentences.begin(text)
        stores = self._app.views.stores
        if stores is None:
            self._session.change(waiting_text=text)
            return
        is_read_again = text == self._session.shown.text
        self._session.change(text=text, waiting_text=None, position=None, token=None)
        if is_read_again:
            stores.maps.read_again()

    def change_averaging(self) -> str:
        """Go on to the next kind of mean that shows another map, and say which."""
        if self.outline is None:
            return ""
        is_long = self._sentence is not None and self._sentence.is_long
        averaging = next_averaging(self._session.shown, self.outline, is_long=is_long)
        self._session.change(averaging=averaging)
        return averaging.value

    def toggle_text(self) -> None:
        """Go to the coloured text, or back to the map."""
        views = self._app.views
        if not views.return_to("text"):
            views.go_to("attention" if views.active.view == "text" else "text")

    def point(self, query: int | None, key: int | None) -> None:
        """Move the map's cursor; None leaves that part of it alone."""
        heatmap = self._app.views.attention.heatmap
        heatmap.move_to(*(old if new is None else new for old, new in zip(heatmap.cursor, (query, key), strict=True)))

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
            self._app.key_line.say(self._said_of_pin(head))

    def _said_of_pin(self, head: Head) -> str:
        """Say whether a head is pinned by now, and which are."""
        pins, several = self._session.shown.pins, self.outline is not None and len(self.outline.stacks) > 1
        pinned = ", ".join(f"{each.stack} {each}" if several else str(each) for each in pins)
        if head in pins:
            return f"{pinned} pinned; {key_of(self._app, 'app.compare')} compares"
        name = f"{head.stack} {head}" if several else str(head)
        return f"{name} unpinned; {f'{pinned} still pinned' if pinned else 'none is pinned'}"

    def compare(self) -> None:
        """Show the pinned heads beside each other; where they are shown, the next thing of them."""
        views, shown = self._app.views, self._session.shown
        if not shown.pins:
            self._app.notify(how_to_pin(key_of(self._app, "app.pin"), key_of(self._app, "app.compare")))
        elif shown.view == ComparePane.view and not views.return_to(ComparePane.view):
            self._session.change(side=shown.side.next)
        else:
            views.go_to(ComparePane.view)

    def change_difference(self) -> None:
        """Show what maps are different in, the other model's or those with heads off; where that is seen, the maps."""
        if not self._app.engine.is_comparing and not self._session.shown.off.heads:
            switch = key_of(self._app, "app.switch")
            self._app.notify(f"{HOW_TO_COMPARE}; or switch a head off, with {switch}")
            return
        is_seen, shown = self._app.views.attention.display, self._session.shown
        self._app.views.go_to("attention")
        if shown.averaging is Averaging.ROLLOUT:  # which has no other
            self._session.change(averaging=Averaging.NOTHING, difference=True)
        elif is_seen or not shown.difference:
            self._session.change(difference=not shown.difference)

    def step_head(self, step: int) -> None:
        """Go to the head after or before, across layers."""
        selected = self._session.shown.selected
        if self.outline is not None and (head := head_after(self.outline, selected, step)):
            self.go_to(head)

    def step_layer(self, step: int) -> None:
        """Go to the same head of the layer after or before."""
        if self.outline is not None:
            self.go_to(layer_after(self.outline, self._session.shown.selected, step))

    @property
    def name_of_heads(self) -> tuple[str, str] | None:
        """Name the table that the active view draws, and what it is of; None where it is not of several heads."""
        pane, stores = self._app.views.active, self._app.views.stores
        if stores is None or not isinstance(pane, ComparePane | HeadsPane):
            return None
        return pane.table_name(self._session.shown, stores)

    async def table_of_heads(self) -> AnyTable | None:
        """Give the table that the active view draws; None where it is not of several heads.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        pane, stores = self._app.views.active, self._app.views.stores
        if stores is None or not isinstance(pane, ComparePane | HeadsPane):
            return None
        return await pane.table_of_heads(self._session.shown, stores)

    async def whole_map(self) -> AttentionMap:
        """Give all weights of the map on screen.

        Raises
        ------
        EngineError : when there is no map on screen, or it cannot be had any more.
        """
        if (stores := self._app.views.stores) is None:
            raise EngineError("no model is open yet; nothing was written")
        return await self._app.views.attention.whole_map(stores)

    def table(self, attention: AttentionMap | None = None) -> tuple[AnyTable, str]:
        """Give the table that the active view draws, and what it is of.

        Parameters
        ----------
        attention : all weights of the map, where that is the view; None where those on screen are all.

        Raises
        ------
        EngineError : when the view shows nothing yet.
        """
        shown, views = self._session.shown, self._app.views
        if views.stores is None:
            raise EngineError("no model is open yet; nothing was written")
        pane, selected = views.active, shown.selected
        if isinstance(pane, TablePane):
            view = VIEWS[pane.view]
            distance = shown.distance if "distance" in view.options else None
            subject = subject_of(None if view.scope is Scope.MODEL else selected, distance) + "-folded" * pane.is_folded
            cell = views.attention.cell if isinstance(pane, CellPane) else None
            return pane.table_on_screen(), subject if cell is None else f"{subject}-q{cell[0]}-k{cell[1]}"
        if isinstance(pane, TextPane):
            return pane.table_on_screen(), subject_of(selected, None)
        if isinstance(pane, OverviewPane):
            return pane.table_on_screen(), shown.overview
        table, subject = table_on_screen(shown, views.stores, attention)
        return pane.narrowed(table) if isinstance(pane, RanksPane) else table, subject
