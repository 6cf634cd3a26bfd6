"""The tables that are worked out: which is looked at, what of it is known, and what is asked of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from engine.service.engine import Engine
from engine.values.display_text import quantity
from engine.values.errors import EngineError, NotFolded, Superseded
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import Notes, Table
from engine.values.views import PREDICTIONS, VIEWS, Query, View, ring_of
from tui.drawing.facts import at_distance
from tui.drawing.view_titles import COMPUTING
from tui.growing_tables import SWEEP, grown, swept
from tui.state.session import Session
from tui.status_line import describe
from tui.table_query import FOLDED, query_of, title_of
from tui.toolkit.keys import key_of
from tui.toolkit.tasks import Run, patiently
from tui.views.switcher import Views
from tui.views.table_view import TablePane
from tui.waiting import TableAwaited, no_place, no_sentence

KEPT = 64
"""Tables that are remembered, so that a head looked at before is there at once."""

LARGE = 10_000
"""Rows of a table from which on they are taken out of its frame beside the event loop."""

Key = tuple[str, Query]

ASKED = frozenset(("selected", "text", "epsilon", "distance", "off", "position", "token", "folds"))
"""Fields of what is shown that a table may be of."""

STOPPED = "stopped"
"""How far a sweep is that does not go on by itself."""

TABLE = "table"
"""What work on one table is called, by which newer work takes its place."""


class Tables:
    """One open model's worked-out tables.

    Parameters
    ----------
    engine : who works them out.
    session : which says what is shown.
    views : among which the panes are.
    outline : of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    report : told how far a table has come that takes long.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        views: Views,
        outline: ModelOutline,
        run: Run,
        report: Callable[[Progress], None],
    ) -> None:
        self._engine = engine
        self._session = session
        self._views = views
        self._outline = outline
        self._run = run
        self._report = report
        self._sweeping: Key | None = None
        self._stopped: Key | None = None
        self._partial: tuple[Key, str, Table] | None = None
        self._known: dict[Key, Table | EngineError] = {}
        self._complete: set[Key] = set()
        self._trouble: dict[Key, str] = {}
        self._following: Key | None = None
        self._has_come = ""
        self._fetching: Key | None = None
        self._awaited = TableAwaited(lambda: key_of(views.app, "app.leave"))
        self._waiting: TablePane | None = None
        session.follow(self._follow_session)

    def _follow_session(self, changed: frozenset[str]) -> None:
        """Show the table of what is shown now, if a table is looked at."""
        if "text" in changed:
            self._sweeping = None
        if changed & ASKED:
            self.draw()

    def step_position(self, step: int, tokens: int) -> str:
        """Show what is predicted at a token before or after, of so many; say so where there is none."""
        here = self._session.shown.position
        if here is None:
            here = self._predicted_at(tokens - 1)
        if not 0 <= here + step < tokens:
            return f"this is the {'last' if step > 0 else 'first'} of {quantity(tokens, 'token')}"
        self._session.change(position=here + step, token=None)
        return ""

    def _predicted_at(self, last: int) -> int:
        """Say at which token is predicted: what the rows say, or the last one."""
        query = self._query(PREDICTIONS, None)
        found = self._known.get((PREDICTIONS.name, query)) if query is not None else None
        return next((int(str(row[0])) for row in found.rows), last) if isinstance(found, Table) else last

    def _query(self, view: View, cell: tuple[int, int] | None) -> Query | None:
        """Say what to ask for, of both models where there are two and the table has room for them."""
        query = query_of(self._session.shown, view, cell)
        is_of_two = bool(view.beside) and self._engine.is_comparing
        return replace(query, of_two=True) if query is not None and is_of_two else query

    async def _ask(self, name: str, query: Query, waiting: Callable[[], None]) -> Table | EngineError:
        """Ask for a table; where the other model cannot stand beside this one, for this one's alone."""
        answer = await patiently(self._engine.table(name, query, TABLE), waiting)
        if query.of_two and isinstance(answer, EngineError):
            alone = await patiently(self._engine.table(name, replace(query, of_two=False), TABLE), waiting)
            if isinstance(alone, Table):
                return replace(alone, notes=Notes(lacking=(f"without the other model: {answer}",)))
        if isinstance(answer, Table) and answer.frame.height > LARGE:
            await asyncio.to_thread(getattr, answer, "rows")  # here it would keep keys waiting
        return answer

    def resume(self) -> None:
        """Let a sweep go on that was stopped, if its table is looked at."""
        self._stopped = None
        self.draw()

    @property
    def stoppable(self) -> Key | None:
        """What is worked out and can be stopped: a sweep, or a table that is waited for."""
        return self._fetching if self._sweeping is None and self._waiting is not None else self._sweeping

    def stop(self) -> bool:
        """Stop a sweep, of which what it has found stays, or give up a table that is waited for; False without any."""
        if (asked := self.stoppable) is None:
            return False
        work = TABLE if self._sweeping is None else SWEEP
        self._stopped, self._sweeping = asked, None
        self._engine.give_up(work)
        return True

    def stopped(self, *views: str) -> str:
        """Name the view of a table that was stopped, where it is in view and one of these; nothing where none is."""
        pane, stopped = self._views.table, self._stopped
        return pane.view if pane is not None and stopped is not None and pane.view == stopped[0] in views else ""

    def advance(self, progress: Progress) -> Progress:
        """Say how far the table is that is waited for, and give that as it is shown."""
        shown = self._awaited.advance(progress)
        if self._waiting is not None:
            self._waiting.grid.say(self._awaited.message)
        return shown

    def draw(self) -> None:
        """Draw the table that is looked at, ask for it when it is not known, or say why there is none."""
        pane = self._views.table
        if pane is None:
            return
        shown, view, attention = self._session.shown, VIEWS[pane.view], self._views.attention
        pane.is_stopped = False
        title = title_of(shown, view, self._outline, attention, is_beside=self._engine.is_comparing)
        title += at_distance(shown.distance, self._outline) if "distance" in view.options else ""
        if "text" in view.needs and not shown.text:
            message, is_waiting = no_sentence(pane.app, self._outline, shown)
            pane.grid.expect(None)
            pane.show_message(title, message, is_waiting=is_waiting)
            return
        query = self._query(view, attention.cell)
        if query is None:
            message, is_waiting = no_place(view, shown.selected, attention)
            pane.grid.expect(None)
            pane.show_message(title, message, is_waiting=is_waiting)
            return
        key = (pane.view, query)
        found = self._known.get(key)
        if found is None:
            pane.grid.expect((pane.view, replace(query, text=None)))  # the sentence may come while it is worked out
            pane.is_waiting = True
        if view.grows and key != self._following and (found is None or key not in self._complete):
            self._following = key
            self._run(partial(self._follow, key, pane), f"growing {view.name}")
        if found is None and view.ranked_by and view.is_by_layer and not query.off:
            if self._partial is not None and self._partial[0] == key:
                state = self._swept(*self._partial[:2], pane)
                pane.is_stopped = key == self._stopped
                pane.show(title, self._partial[2], None, state, is_growing=True)
            elif key == self._stopped:
                pane.show_message(title, self._how_to_go_on(pane))
            if key not in (self._sweeping, self._stopped):
                self._sweeping, self._stopped = key, None
                pane.refresh_bindings()  # escape stops it, before it shows all rows again
                self._run(partial(self._sweep, key, pane), SWEEP)
        elif found is None and view.grows:
            pane.show_message(title, "reading …", is_waiting=True)
        elif found is None and key == self._stopped:
            pane.show_message(title, self._how_to_go_on(pane))
        elif found is None:
            if key != self._fetching:  # else it is being worked out, and would begin anew
                self._fetching = key
                self._run(partial(self._fetch, key, pane, title), TABLE)
        elif isinstance(found, NotFolded):
            leave_out = f"{key_of(pane.app, 'table.fold')} leaves norms out"
            pane.show_message(title.replace(FOLDED, ""), f"{found.what}; {leave_out}")
        elif isinstance(found, EngineError):
            pane.show_message(title, str(found))
        else:
            is_growing = view.grows and key not in self._complete
            trouble = self._trouble.get(key, "")
            state = (self._has_come, COMPUTING) if is_growing and not trouble else ()
            pane.is_folded = query.fold_norm
            said = "  ".join(filter(None, (title, trouble)))
            pane.show(said, found, shown.selected, state, is_growing=is_growing)

    async def _sweep(self, key: Key, pane: TablePane) -> None:
        """Learn a table layer by layer, and show what there is of it; other work is done between two layers."""
        name, layers = key[0], len(self._outline.attending_layers)

        def begin(done: int, heads: int) -> None:
            self._report(self._awaited.sweep(name, done, heads))

        def waiting() -> None:
            if pane.shown is None:
                self._wait(pane, "")

        self._awaited.begin()
        if pane.is_blank:
            waiting()
        done = 0
        try:
            async with aclosing(swept(self._engine, self._outline, *key, begin, waiting)) as states:
                async for state in states:
                    done += 1
                    if done == layers or isinstance(state, EngineError):
                        self._known[key] = state
                        break
                    self._partial = (key, f"{done} of {quantity(layers, 'layer')}", state)
                    self.draw()
                    if key != self._sweeping:
                        break
        except Superseded:
            if key != self._stopped:
                raise
        self._sweeping = None if key == self._sweeping else self._sweeping
        self._awaited.end()
        self._report(Progress("", 1, 1, ""))
        pane.refresh_bindings()
        self.draw()

    def _swept(self, key: Key, layers: str, pane: TablePane) -> tuple[str, ...]:
        """Say how much of a sweep is on screen, and which key stops it or has it go on; then in fewer words."""
        if key == self._sweeping:
            return f"{layers}, {key_of(pane.app, 'app.leave')} stops", layers
        how = self._how_to_go_on(pane)
        return f"{layers}, {how}", how, STOPPED

    def _how_to_go_on(self, pane: TablePane) -> str:
        """Say that a table was stopped, and which key has it go on."""
        ring = ring_of(pane.view)
        return f"{STOPPED}, {key_of(pane.app, f'app.{ring[0] if ring else pane.view}')} goes on"

    def _wait(self, pane: TablePane, title: str) -> None:
        """Say that a table is waited for, and how far it is."""
        pane.show_message(title, self._awaited.message, is_waiting=True)
        self._waiting = pane

    async def _fetch(self, key: Key, pane: TablePane, title: str) -> None:
        """Learn a table; the one before stays on screen for a moment, if there is one."""
        self._awaited.begin()
        self._waiting = None
        if pane.is_blank:
            self._wait(pane, title)
        try:
            answer = await self._ask(*key, partial(self._wait, pane, title))
            self._keep(key, answer)
        except Superseded:
            if key != self._stopped:
                raise
        finally:
            if self._fetching is key:  # and not the same again, which has taken its place
                self._fetching = self._waiting = None
                self._awaited.end()
        pane.refresh_bindings()  # escape shows all rows again, and has nothing to stop
        self.draw()

    async def _follow(self, key: Key, pane: TablePane) -> None:
        """Draw a table as it grows, for as long as it is looked at; later it goes on from there."""
        self._trouble.pop(key, None)
        self._has_come = COMPUTING

        def report(progress: Progress) -> None:
            if not progress.finished:
                self._has_come = f"{COMPUTING} {describe(progress)}"
            self._report(progress)

        try:
            async with aclosing(grown(self._engine, *key, report)) as states:
                async for state in states:
                    if isinstance(state, EngineError) and isinstance(self._known.get(key), Table):
                        self._trouble[key] = str(state)  # what has come stays
                    else:
                        self._keep(key, state)
                    if self._views.active is not pane:
                        return
                    self.draw()
            self._complete.add(key)
            self.draw()
        finally:
            if self._following == key:
                self._following = None

    def _keep(self, key: Key, answer: Table | EngineError) -> None:
        """Remember a table, or why there is none."""
        self._known[key] = answer
        for oldest in list(self._known)[:-KEPT]:
            del self._known[oldest]
