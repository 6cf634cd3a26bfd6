"""Coming back to what was looked at last, and keeping what is looked at now."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.mathematics.measures import DEFAULT_EPSILON, MEASURES
from engine.values.errors import EngineError
from engine.values.heads import Head, parse_head
from engine.values.outline import ModelOutline
from engine.values.views import VIEWS
from tui.start import Start
from tui.state.overview_measures import MEASURES as OVERVIEW_MEASURES
from tui.state.overview_measures import measure_fields, overview_fields
from tui.state.pins import MOST
from tui.state.saved import LONGEST, Remembered, model_key, recall, remember
from tui.state.session import SAVED, Shown
from tui.views.compare_view import ComparePane
from tui.views.layer_maps_view import HeadsPane
from tui.views.text_view import TextPane

if TYPE_CHECKING:
    from tui.app.conductor import Conductor
    from tui.parts import Parts

CALM = 2.0
"""Seconds after which what has changed is kept, so that a connection that is lost loses next to nothing."""

LEAVING = 0.1
"""Seconds that leaving waits for the last of it to be kept."""


class Restoring:
    """What the explorer was left with, and is left with.

    Parameters
    ----------
    app : whose state it is.
    conductor : what shows the model.
    start : what was asked for, which comes before what is remembered.
    """

    def __init__(self, app: Parts, conductor: Conductor, start: Start) -> None:
        self._app = app
        self._conductor = conductor
        self._start = start
        self._key = ""
        self._outline: ModelOutline | None = None
        self._last = Remembered()
        self._kept = Remembered()
        self._writer: threading.Thread | None = None
        self._has_changed = False
        app.session.follow(self._follow)
        self._timer = app.set_interval(CALM, self.keep) if start.is_restoring else None

    def _follow(self, changed: frozenset[str]) -> None:
        """Take note that there is something to keep."""
        self._has_changed |= not changed.isdisjoint((*SAVED, "waiting_text"))

    async def recall(self, outline: ModelOutline) -> None:
        """Learn how a model was left."""
        self._outline, self._key = outline, ""
        self._last = self._kept = Remembered()
        if self._start.is_restoring:
            key = model_key(outline.name, self._app.engine.options.revision)
            self._last = self._kept = await asyncio.to_thread(recall, key)
            self._key = key

    @property
    def head(self) -> Head | None:
        """The head or layer that was looked at, if the model still has it."""
        return self._known(self._last.head)

    def _known(self, name: str) -> Head | None:
        """Give a head or layer that is remembered, if the model still has it."""
        if self._outline is None or not name:
            return None
        try:
            head = parse_head(name, self._outline.stacks)
            self._outline.layer(head)
        except EngineError:
            return None
        return head

    @property
    def epsilon(self) -> float:
        """The ε to begin with."""
        return self._start.epsilon or self._last.epsilon or self._start.epsilon_before or DEFAULT_EPSILON

    @property
    def text(self) -> str | None:
        """The sentence to begin with, if one was asked for or is remembered."""
        return self._last.text or None if self._start.text is None else self._start.text

    def show_measures(self) -> None:
        """Show the measures that were looked at, of the ranks and of the overview, unless others have been chosen."""
        session, usual = self._app.session, Shown()
        if (session.shown.measure, session.shown.overview) != (usual.measure, usual.overview):
            return
        if self._last.measure in [each.name for each in MEASURES]:
            session.change(**measure_fields(session.shown, self._last.measure))
        if self._last.overview in OVERVIEW_MEASURES:
            session.change(**overview_fields(self._last.overview))

    def show_view(self) -> None:
        """Pin the heads that were, and show the view to begin with, before anything is drawn in it."""
        views, name = self._app.views, self._last.view
        pinned = [head for each in self._last.pins.split(",") if (head := self._known(each)) and not head.is_layer]
        self._app.session.change(pins=tuple(dict.fromkeys(pinned))[:MOST])
        if name in (TextPane.view, HeadsPane.view) or (name == ComparePane.view and pinned):
            views.go_to(name, takes_focus=False)
        elif name in VIEWS:
            if "vs" not in VIEWS[name].needs or self._app.engine.is_comparing:
                views.go_to(name, takes_focus=False)
        elif name in [pane.view for pane in views.panes]:
            views.go_to(name, takes_focus=False)

    @property
    def _now(self) -> Remembered:
        """How the model would be left now."""
        conductor = self._conductor
        if not conductor.is_open:
            return self._kept
        shown, text = self._app.session.shown, conductor.text or ""
        selected = shown.selected
        return Remembered(
            model=self._key,
            head=self._kept.head if selected is None else f"{selected.stack}.{selected}",  # looked at last
            view=shown.view,
            text=text if len(text) <= LONGEST else "",
            measure=shown.measure,
            overview=shown.overview,
            epsilon=shown.epsilon,
            pins=",".join(f"{head.stack}.{head}" for head in shown.pins),
        )

    def keep(self) -> None:
        """Keep what has changed, off the event loop: a disk far away may take its time."""
        if not (self._key and self._has_changed) or (self._writer and self._writer.is_alive()):
            return
        self._has_changed, now = False, self._now
        if replace(now, model="") == replace(self._kept, model=""):
            return
        self._kept = now
        self._writer = threading.Thread(target=remember, args=(self._key, now), daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Keep the last of a model that another one takes the place of, and nothing after that."""
        if self._timer is not None:
            self._timer.stop()
        self.keep()
        self._key = ""

    def finish(self) -> None:
        """Keep the last of it before the program ends."""
        if self._writer is not None:
            self._writer.join(LEAVING)
        self.keep()
        if self._writer is not None:
            self._writer.join(LEAVING)
