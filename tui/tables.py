"""The tables that are worked out: which is looked at, what of it is known, and what is asked of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from engine.service.engine import Engine
from engine.values.errors import EngineError, NotFinite, NotFolded
from engine.values.heads import Head
from engine.values.left_out import none_left
from engine.values.model import ModelOutline
from engine.values.off import Off
from engine.values.plural import counted
from engine.values.progress import Progress
from engine.values.tables import Cell, Table
from engine.values.view import Query
from engine.values.views import PREDICTIONS, VIEWS
from tui.beside import Run
from tui.facts import at_distance
from tui.growing import grown
from tui.key_names import key_of
from tui.panes.table import TablePane
from tui.patience import patiently
from tui.status_line import describe
from tui.table_choice import FOLDED, TableChoice
from tui.unread import no_place, no_sentence
from tui.views import Views

KEPT = 64
"""Tables that are remembered, so that a head looked at before is there at once."""

Key = tuple[str, Query]


class Tables:
    """One open model's worked-out tables.

    Parameters
    ----------
    engine : who works them out.
    views : among which the panes are.
    outline : of the model.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    report : told how far a table has come that takes long.
    epsilon : of the energy rank, to begin with.
    """

    def __init__(
        self,
        engine: Engine,
        views: Views,
        outline: ModelOutline,
        run: Run,
        report: Callable[[Progress], None],
        epsilon: float,
    ) -> None:
        self._engine = engine
        self._views = views
        self._outline = outline
        self._run = run
        self._report = report
        self._chosen = TableChoice(epsilon)
        self._sweeping: Key | None = None
        self._stopped: Key | None = None
        self._partial: tuple[Key, str, Table] | None = None
        self._is_announced = False
        self._known: dict[Key, Table | EngineError] = {}
        self._complete: set[Key] = set()
        self._trouble: dict[Key, str] = {}
        self._following: Key | None = None
        self._has_come = ""

    @property
    def asked(self) -> Query:
        """What was chosen of the tables: the token, and the position in the sentence."""
        return self._chosen.asked

    def read(self, text: str) -> None:
        """Show tables of another sentence, if one is looked at."""
        self._chosen, self._sweeping = replace(self._chosen, text=text, asked=Query()), None
        self.draw()

    def turn(self, distance: int | None, *, is_announced: bool = False) -> None:
        """Show QK with the key so many tokens before the query, or without positions (None); announced, only say so."""
        self._chosen, self._is_announced = replace(self._chosen, distance=distance), is_announced
        self.draw()

    @property
    def folds(self) -> bool:
        """Whether the gains of norms are folded into directions."""
        return self._chosen.folds

    def fold(self) -> None:
        """Fold the gains of norms into directions, or leave them out again."""
        self._chosen = replace(self._chosen, folds=not self.folds)
        self.draw()

    def measure_again(self, epsilon: float) -> None:
        """Show ranks of another ε, where a table has them."""
        self._chosen = replace(self._chosen, epsilon=epsilon)
        self.draw()

    def switch_off(self, off: Off) -> None:
        """Show what becomes of predictions with other heads switched off."""
        self._chosen = replace(self._chosen, off=off)
        self.draw()

    def choose_token(self, number: int) -> None:
        """Show what becomes of another token than the model's first choice."""
        self._chosen = replace(self._chosen, asked=replace(self.asked, token=f"#{number}"))
        self.draw()

    def step_position(self, step: int, tokens: int) -> str:
        """Show what is predicted at a token before or after, of so many; say so where there is none."""
        here = self.asked.position
        if here is None:
            here = next((int(row[0]) for row in self._predicted()), tokens - 1)
        if not 0 <= here + step < tokens:
            return f"this is the {'last' if step > 0 else 'first'} of {counted(tokens, 'token')}"
        self._chosen = replace(self._chosen, asked=replace(self.asked, position=here + step, token=None))
        self.draw()
        return ""

    def _predicted(self) -> Table:
        """Give the predictions that are known of what is asked, whose rows say at which token."""
        query = self._chosen.query(PREDICTIONS, None)
        found = self._known.get((PREDICTIONS.name, query)) if query is not None else None
        return found if isinstance(found, Table) else Table(PREDICTIONS.name, PREDICTIONS.columns, ())

    def resume(self) -> None:
        """Let a sweep go on that was stopped, if its table is looked at."""
        self._stopped = None
        self.draw()

    def stop(self) -> bool:
        """Stop a sweep; what it has found stays. False where there is none."""
        if self._sweeping is None:
            return False
        self._stopped, self._sweeping = self._sweeping, None
        return True

    def select(self, name: Head | None) -> None:
        """Show the table of a head, a layer, or the model (None), if a table is looked at."""
        self._chosen = replace(self._chosen, selected=name)
        self.draw()

    def draw(self) -> None:
        """Draw the table that is looked at, ask for it when it is not known, or say why there is none."""
        pane = self._views.table
        if pane is None:
            return
        chosen, view, attention = self._chosen, VIEWS[pane.view], self._views.attention
        title = chosen.title(view, self._outline, attention)
        title += at_distance(chosen.distance, self._outline) if "distance" in view.options else ""
        if "text" in view.needs and not chosen.text:
            message, is_waiting = no_sentence(pane.app)
            pane.grid.expect(None)
            pane.show_message(title, message, is_waiting=is_waiting)
            return
        query = chosen.query(view, attention.cell)
        if query is None:
            message, is_waiting = no_place(view, chosen.selected, attention)
            pane.grid.expect(None)
            pane.show_message(title, message, is_waiting=is_waiting)
            return
        if query.distance is not None and self._is_announced:
            pane.grid.expect(None)
            pane.show_waiting(title)
            return
        key = (pane.view, query)
        found = self._known.get(key)
        if found is None:
            pane.grid.expect(key)
        if view.grows and key != self._following and (found is None or key not in self._complete):
            self._following = key
            self._run(partial(self._follow, key, pane), f"growing {view.name}")
        if found is None and view.ranked_by and view.goes_by_layer(query):
            if self._partial is not None and self._partial[0] == key:
                pane.show(*self._partial[1:], None, is_growing=True)
            if key not in (self._sweeping, self._stopped):
                self._sweeping, self._stopped = key, None
                self._run(partial(self._sweep, key, pane), "sweep of heads")
        elif found is None and view.grows:
            pane.show_message(title, "reading …", is_waiting=True)
        elif found is None:
            self._run(partial(self._fetch, key, pane, title), "table")
        elif isinstance(found, NotFolded):
            leave_out = f"{key_of(pane.app, 'table.fold')} leaves norms out"
            pane.show_message(title.replace(FOLDED, ""), f"{found.what}; {leave_out}")
        elif isinstance(found, EngineError):
            pane.show_message(title, str(found))
        else:
            is_growing = view.grows and key not in self._complete
            said = self._trouble.get(key) or (self._has_come if is_growing else "")
            pane.is_folded = query.fold_norm
            pane.show("  ".join(filter(None, (title, said))), found, chosen.selected, is_growing=is_growing)

    async def _sweep(self, key: Key, pane: TablePane) -> None:
        """Learn a table layer by layer, and show what there is of it; other work is done between two layers."""
        name, query = key
        layers, rows, left_out = self._outline.attending_layers, list[Sequence[Cell]](), dict[Head, str]()
        lacking: dict[str, None] = {}

        def waiting() -> None:
            if not rows:
                pane.show_message("", "computing …", is_waiting=True)

        if pane.is_blank:
            waiting()
        for done, layer in enumerate(layers):
            self._report(Progress(name, done, len(layers), "layers"))
            answer = await patiently(
                self._engine.table(name, replace(query, layer=layer.name), "sweep of heads"), waiting
            )
            if isinstance(answer, NotFinite):
                left_out[layer.name] = answer.what
            elif isinstance(answer, EngineError):
                self._known[key] = answer
                break
            else:
                rows += answer
                lacking |= dict.fromkeys(answer.lacking)
            part = Table(name, VIEWS[name].columns, tuple(VIEWS[name].ranked(rows)), dict(left_out), tuple(lacking))
            if done + 1 == len(layers):
                self._known[key] = none_left(left_out) if len(left_out) == len(layers) else part
                break
            goes_on = key == self._sweeping
            said = (
                f"{key_of(pane.app, 'app.leave')} stops" if goes_on
                else f"stopped, {key_of(pane.app, f'app.{name}')} goes on"
            )  # fmt: skip
            self._partial = (key, f"{done + 1} of {counted(len(layers), 'layer')}, {said}", part)
            self.draw()
            if not goes_on:
                break
        self._sweeping = None if key == self._sweeping else self._sweeping
        self._report(Progress("", 1, 1, ""))
        self.draw()

    async def _fetch(self, key: Key, pane: TablePane, title: str) -> None:
        """Learn a table; the one before stays on screen for a moment, if there is one."""

        def waiting() -> None:
            pane.show_message(title, "computing …", is_waiting=True)

        if pane.is_blank:
            waiting()
        answer = await patiently(self._engine.table(*key, "table"), waiting)
        self._keep(key, answer)
        self.draw()

    async def _follow(self, key: Key, pane: TablePane) -> None:
        """Draw a table as it grows, for as long as it is looked at; later it goes on from there."""
        self._trouble.pop(key, None)
        self._has_come = "computing …"

        def report(progress: Progress) -> None:
            if not progress.finished:
                self._has_come = f"computing … {describe(progress)}"
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
