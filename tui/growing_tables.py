"""Tables that come bit by bit: as rows come, or layer by layer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from engine.service.engine import Engine
from engine.values.errors import EngineError, LayerLeftOut, Superseded
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.progress import Progress
from engine.values.table import Cell, Table, no_rows_error
from engine.values.views import HEADS, VIEWS, Query
from tui.toolkit.tasks import patiently

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


SWEEP = "sweep of heads"
"""What the work is called, by which newer work takes its place."""


async def swept(
    engine: Engine,
    outline: ModelOutline,
    name: str,
    query: Query,
    begin: Callable[[int, int], None],
    waiting: Callable[[], None],
) -> AsyncGenerator[Table | EngineError, None]:
    """Yield what there is of a table after each layer, the last complete, or at the end why there is none.

    Parameters
    ----------
    engine, outline : of the model.
    name, query : of the table.
    begin : called before each layer with how many heads are done, and how many there are.
    waiting : called when a layer has not come after a moment.

    Raises
    ------
    Superseded : when it is given up.
    """
    layers, rows, left_out = outline.attending_layers, list[Sequence[Cell]](), dict[Head, str]()
    heads = list(itertools.accumulate((layer.heads for layer in layers), initial=0))
    lacking: dict[str, None] = {}
    for done, layer in enumerate(layers):
        begin(heads[done], heads[-1])
        answer = await patiently(engine.table(name, replace(query, layer=layer.name), SWEEP), waiting)
        if isinstance(answer, LayerLeftOut):
            left_out[layer.name] = answer.what
        elif isinstance(answer, EngineError):
            yield answer
            return
        else:
            rows += answer.rows
            lacking |= dict.fromkeys(answer.notes.lacking)
        if len(left_out) == len(layers):
            yield no_rows_error(left_out)
        else:
            view = VIEWS[name]
            yield Table.of_rows(name, view.columns, view.sort_rows(rows), dict(left_out), tuple(lacking))
