"""The overview of all heads: which measure it shows, what of that is known, and what is asked of the engine for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from engine.service.engine import Engine
from engine.values.display_text import plural
from engine.values.errors import EngineError
from engine.values.heads import Head
from engine.values.outline import ModelOutline, head_places
from engine.values.progress import Progress
from engine.values.table import CHANCE, Table
from engine.values.views import HEADS, OVERVIEW, RANK_MEASURES, Query
from tui.drawing.levels import Scale
from tui.drawing.measure_scale import scale_of
from tui.growing_tables import PLACES, Grown, grown
from tui.state.measure_map import SIGNED, MeasureMap, part_of
from tui.state.overview_measures import group_after, measure_after, overview_fields
from tui.state.session import Session
from tui.toolkit.tasks import Run
from tui.views.overview_view import Said
from tui.views.switcher import Views
from tui.weights import Weights, measure_named

EVERY = 0.1
"""Seconds between two drawings while values come in."""


class Overview:
    """What the overview shows of an open model.

    Ranks are measured of the spectra that the sweep brings, beside the event loop. What takes more, circuits and the
    model's own attention, is worked out when a measure of it is looked at, and for as long as it is.

    Parameters
    ----------
    engine : who works out circuits and patterns.
    session : which says what is shown.
    views : among which the pane is.
    run : awaits work beside the event loop; newer work under the same name replaces older.
    report : told how far it has come.
    go_to : selects a head.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        views: Views,
        run: Run,
        report: Callable[[Progress], None],
        go_to: Callable[[Head], None],
    ) -> None:
        self._engine = engine
        self._session = session
        self._views = views
        self._pane = views.overview
        self._run = run
        self._report = report
        self._go_to = go_to
        self._weights: Weights | None = None
        self._layers: tuple[Head, ...] = ()
        self._scales: dict[str, Scale] = {name: "log" for name in RANK_MEASURES if "condition" in name}
        self._places: dict[Head, int] = {}
        self._is_to_draw = False
        self._drawn = 0.0
        self._grown: dict[str, Grown] = {}
        self._following: Query | None = None
        session.follow(self._follow_session)

    def _follow_session(self, changed: frozenset[str]) -> None:
        """Put the cursor on the selected head, and go on with what is looked at now."""
        shown = self._session.shown
        if "selected" in changed and shown.selected is not None:
            self._pane.follow(shown.selected)
        if "overview" in changed:
            self._draw()
        if changed & {"epsilon", "overview", "text"}:
            self.resume()

    @property
    def measure(self) -> str:
        """The measure that is shown."""
        return self._session.shown.overview

    @property
    def is_active(self) -> bool:
        """Whether the overview is the view that keys are for."""
        return self._views.active is self._pane

    @property
    def is_of_sentence(self) -> bool:
        """Whether it is that view, and a measure of heads in a sentence is looked at."""
        return self.is_active and part_of(self.measure) == "patterns"

    def open(self, outline: ModelOutline, weights: Weights) -> None:
        """Show the heads of a model that has just been opened."""
        self._weights = weights
        weights.noticed = lambda layer: self.resume()
        self._layers = tuple(layer.name for layer in outline.layers)
        self._places = head_places(outline.layers)
        self._pane.open(outline.layers, self._said)
        self._draw()

    def read_out(self) -> None:
        """Say again what is under the cursor, of which more is known now."""
        self._pane.read_out()

    def resume(self) -> None:
        """Go on with what is looked at."""
        if not self._pane.display or self._weights is None:
            return
        part = part_of(self.measure)
        if part == "ranks":
            if not self._is_to_draw:
                self._is_to_draw = True
                self._run(self._draw_soon, "overview ranks")
            return
        query = Query(text=(self._session.shown.text or None) if part == "patterns" else None, parts=(part,))
        known = self._grown.get(part)
        if known is None or known.query != query:
            self._grown[part] = known = Grown(query)
        if not known.is_complete and query != self._following:
            self._following = query
            self._run(partial(self._follow, part, query), "overview")

    async def _draw_soon(self) -> None:
        """Draw what has been measured by now, a moment after it was drawn before."""
        try:
            await asyncio.sleep(max(self._drawn + EVERY - time.monotonic(), 0))
        finally:
            self._is_to_draw = False
        self._draw()

    async def _follow(self, part: str, query: Query) -> None:
        """Draw circuits or patterns as they are worked out, for as long as they are looked at."""
        try:
            async with aclosing(grown(self._engine, HEADS.name, query, self._report)) as states:
                async for state in states:
                    self._keep(part, query, state)
                    if not self._pane.display or part_of(self.measure) != part:
                        return
                    self._draw()
            if self._grown[part].query == query:
                self._grown[part] = replace(self._grown[part], is_complete=True)
            self._draw()
        finally:
            if self._following == query:
                self._following = None

    def _keep(self, part: str, query: Query, state: Table | EngineError) -> None:
        """Remember what has come of a part, or why no more will."""
        known = self._grown[part]
        if known.query == query:
            trouble = str(state) if isinstance(state, EngineError) else known.trouble
            rows = known.rows if isinstance(state, EngineError) else state.rows
            self._grown[part] = Grown(query, rows, trouble)

    def show_measure(self, measure: str) -> None:
        """Show a measure."""
        self._session.change(**overview_fields(measure))

    def change_measure(self, step: int) -> None:
        """Go on to another measure."""
        self.show_measure(measure_after(self.measure, step))

    def change_group(self, step: int) -> None:
        """Go on to another matrix, or to circuits or patterns."""
        self.show_measure(group_after(self.measure, step))

    @property
    def _scale(self) -> Scale:
        """The scale that the measure is drawn on where its values allow it."""
        return self._scales.get(self.measure, "linear")

    def toggle_scale(self) -> str:
        """Change between the linear and the logarithmic scale; say why that cannot be, where it cannot."""
        wanted: Scale = "linear" if self._scale == "log" else "log"
        self._scales[self.measure] = wanted
        self._draw()
        scale = self._pane.scale
        if scale is None or scale.scale == wanted:
            return ""
        self._scales[self.measure] = "linear"
        return f"{self.measure} has no log scale: {'it has a sign' if scale.is_signed else 'it is not above zero'}"

    def enter(self, head: Head) -> None:
        """Select a head and go to the view of one that was looked at before; from any other view, into that."""
        self._go_to(head)
        if self._views.active.view in (OVERVIEW, HEADS.name):
            self._views.go_to(self._views.before.view)
        else:
            self._views.active.focus_view()

    def table(self) -> tuple[Table, str]:
        """Give the table of what is shown, and what it is of, for a file's name."""
        return self._pane.table_on_screen(), self.measure

    def _draw(self) -> None:
        """Draw the measure of the heads of which it is known."""
        if self._weights is None or not self._pane.display:
            return
        self._drawn = time.monotonic()
        part, trouble = part_of(self.measure), ""
        if part == "ranks":
            cells = self._weights.rank_cells(self._places, *RANK_MEASURES[self.measure])
        else:
            known = self._grown.get(part, Grown(Query()))
            cells = known.cells(self.measure, len(self._places))
            if known.is_complete and not any(isinstance(cell, int | float) for cell in cells):
                trouble = known.trouble or known.note(self.measure)
        shown = MeasureMap(self.measure, self._places, cells)
        scale = scale_of(shown.finite, self._scale, self.measure in SIGNED)
        said = [self.measure]
        if self.measure.endswith("energy_rank"):
            said.append(f"ε {self._session.shown.epsilon:g}")
        if scale is not None and scale.scale == "log":
            said.append("log scale")
        count = f"{shown.known} of {len(self._places)}" if shown.known < len(self._places) else f"{len(self._places)}"
        self._pane.show("  ".join((*said, f"{count} {plural('head', len(self._places))}")), shown, scale, trouble)

    def _said(self, head: Head) -> Said:
        """Name a head, with its label, and give what chance makes of the measure for it."""
        if self._weights is None:
            return Said(str(head))
        stack = f"{head.stack} " if len({each.stack for each in self._layers}) > 1 else ""
        if self.measure in RANK_MEASURES:
            trouble = self._weights.knowledge.trouble(head.whole_layer)
        else:
            trouble = self._grown.get(part_of(self.measure), Grown(Query())).note(self.measure, self._places[head])
        return Said(f"{stack}{head}", self._weights.labels.of(head), self._chance(head, self._weights), trouble)

    def _chance(self, head: Head, weights: Weights) -> float | None:
        """Give what chance makes of the measure for a head, where that is known."""
        if self.measure not in RANK_MEASURES:
            known, column = self._grown.get(part_of(self.measure)), f"{self.measure}{CHANCE}"
            if known is None or not known.rows or column not in PLACES:
                return None
            cell = known.rows[self._places[head]][PLACES[column]]
            return float(cell) if isinstance(cell, int | float) else None
        matrix, name = RANK_MEASURES[self.measure]
        return weights.knowledge.chance(head, measure_named(name), self._session.shown.epsilon).get(matrix)
