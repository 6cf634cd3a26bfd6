"""A table that grows, as its states reach the event loop, and what is known of one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.progress import Progress
from engine.values.table import Cell, Table
from engine.values.views import HEADS, Query

PLACES = {name: place for place, name in enumerate(HEADS.columns)}
"""Where a column stands in the table of all heads."""

_NUMBERS = itertools.count()
"""Tell requests apart, so that giving one up leaves a newer one alone."""


@dataclass(frozen=True)
class Grown:
    """What has come of a part of the table of all heads.

    Attributes
    ----------
    query : what was asked for.
    rows : of all heads, in their order; none before the first has come.
    trouble : why no more will come; empty otherwise.
    is_complete : whether all has come that will.
    """

    query: Query
    rows: Sequence[Sequence[Cell]] = ()
    trouble: str = ""
    is_complete: bool = False

    def cells(self, column: str, heads: int) -> tuple[Cell | None, ...]:
        """Give a column of so many heads; a cell that is empty may still come until all has."""
        place, missing = PLACES[column], "" if self.is_complete else None
        found = [missing if row[place] is None else row[place] for row in self.rows]
        return tuple(found) or (missing,) * heads

    def note(self, column: str, only: int | None = None) -> str:
        """Give the first note of a head, or that of the one in this place, that has nothing in a column."""
        rows = self.rows if only is None else self.rows[only : only + 1]
        return next((str(row[-1]) for row in rows if row[-1] and row[PLACES[column]] is None), "")


async def grown(
    engine: Engine, name: str, query: Query, report: Callable[[Progress], None]
) -> AsyncGenerator[Table | EngineError, None]:
    """Yield the states of a table, the last one complete, or at the end why there is no more of it.

    The work is given up when this is closed.

    Parameters
    ----------
    engine : who works it out.
    name, query : of the table.
    report : told how far it has come; on the engine thread.
    """
    view = f"growing {name} {next(_NUMBERS)}"
    loop = asyncio.get_running_loop()
    states: asyncio.Queue[Table | EngineError | None] = asyncio.Queue()

    def deliver(table: Table, progress: Progress) -> None:
        if progress.total:
            report(progress)
        loop.call_soon_threadsafe(states.put_nowait, table)

    def end(done: Future[Table]) -> None:
        error = done.exception()
        loop.call_soon_threadsafe(states.put_nowait, error if isinstance(error, EngineError) else None)

    engine.growing(name, query, deliver, view).add_done_callback(end)
    try:
        while (state := await states.get()) is not None:
            if isinstance(state, Superseded):
                return
            yield state
            if isinstance(state, EngineError):
                return
    finally:
        engine.give_up(view)
        report(Progress("", 1, 1, ""))
