"""Circuits and patterns of all heads, as far as they are known: what the overview shows beside ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from engine.service.engine import Engine
from engine.values.errors import EngineError
from engine.values.progress import Progress
from engine.values.table import Table
from engine.values.views import HEADS, Query
from tui.state.store import Store

_WORK = "parts of all heads"


class HeadParts(Store[Query, Table]):
    """A part of the table of all heads, which grows for as long as it is looked at.

    Parameters
    ----------
    engine : who works it out.
    arrived : called when there is more of it.
    report : told how far it has come; on the engine thread.
    """

    def __init__(self, engine: Engine, arrived: Callable[[], None], report: Callable[[Progress], None]) -> None:
        super().__init__(self._grow, arrived)
        self._engine = engine
        self._report = report
        self._seen: Query | None = None

    def look_at(self, query: Query | None) -> Table | EngineError | None:
        """Give what is known of a part, or why there is none; that of which nobody sees anything is given up."""
        if self._seen not in (None, query):
            self.stop(self._seen)
            self._engine.give_up(_WORK)
            self._report(Progress("", 1, 1, ""))
        self.resume()
        self._seen = query
        return None if query is None else self.get(query)

    def _grow(self, query: Query) -> Future[Table]:
        """Have a part worked out, and keep what comes of it."""
        loop = asyncio.get_running_loop()

        def deliver(table: Table, progress: Progress) -> None:
            if progress.total:
                self._report(progress)
            loop.call_soon_threadsafe(self._take, query, table)

        return self._engine.growing(HEADS.name, query, deliver, _WORK)

    def _take(self, query: Query, table: Table) -> None:
        """Keep what there is by now, unless it has been given up."""
        if self.is_asked(query):
            self.put(query, table, is_complete=False)
