"""A table that grows, as its states reach the event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.progress import Progress
from engine.values.tables import Table
from engine.values.view import Query

_NUMBERS = itertools.count()
"""Tell requests apart, so that giving one up leaves a newer one alone."""


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
