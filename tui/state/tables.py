"""The tables of the open model, and the queries for them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from engine.service.engine import Engine
from engine.values.errors import EngineError, LayerLeftOut, Superseded
from engine.values.heads import Head
from engine.values.outline import ModelOutline
from engine.values.progress import DONE, SWITCHING, Progress, Rate
from engine.values.table import Cell, Table, no_rows_error
from engine.values.views import ABLATION, LENS, VIEWS, Query, Scope, View
from tui.state.session import Shown
from tui.state.store import Store

TableKey = tuple[str, Query]
"""The name of a view, and its query."""

LARGE = 10_000
"""Rows of a table that would keep the event loop waiting; another thread takes them out of the frame."""

TABLE, SWEEP = "table", "sweep of heads"
"""The names of the engine's work on one table, and on one layer after the other; newer work replaces older."""

WORDS = 4
"""Tokens that describe a side of a term."""


def measured_tokens(shown: Shown, view: View) -> tuple[str | None, str | None]:
    """Give the token whose logit a table measures, and the one whose logit is subtracted.

    A table that lists tokens has none, except for a difference.
    """
    lists_tokens = "chosen" in view.columns_with({"against"}) or (view is ABLATION and bool(shown.off.heads))
    if "token" not in view.options or (shown.against is None and lists_tokens):
        return None, None
    return shown.token, shown.against


def table_query(shown: Shown, view: View, cell: tuple[int, int] | None, *, is_comparing: bool) -> Query | None:
    """Give the query for a view's table; None where the selection or the cell that it needs is missing.

    Parameters
    ----------
    cell : the query and the key under the map's cursor.
    is_comparing : whether a second model is open.
    """
    name = shown.selected
    is_without_heads = bool(shown.off.heads) and "off" in view.options
    asked = Query(
        distance=shown.distance if "distance" in view.options else None,
        fold_norm=shown.folds and "fold_norm" in view.options,
        with_other=is_comparing and "vs" in view.option_columns and not is_without_heads,
    )
    if "text" in view.options:
        position = shown.position if "position" in view.options else None
        asked = replace(asked, text=shown.text or None, top=view.top, position=position)
        if view is LENS:
            asked = replace(asked, position=None, all_positions=True)
        token, against = measured_tokens(shown, view)
        asked = replace(asked, token=token, against=against)
        if "off" in view.options:
            asked = replace(asked, off=shown.off.heads, by_mean=shown.off.by_mean)
    if "energy" in view.options:
        asked = replace(asked, epsilon=shown.epsilon)
    if view.scope is Scope.MODEL:
        return replace(asked, norms="norms" in view.options)
    if view.scope is Scope.LAYER:
        is_of_layer = view.has_whole_layers and name is not None and name.is_layer
        layer = None if name is None else name.whole_layer
        return replace(asked, layer=layer, whole_layers=is_of_layer, eigenvalues=is_of_layer)
    if name is None or (name.is_layer and view.scope is Scope.HEAD):
        return None
    asked = replace(asked, layer=name.whole_layer, head=None if name.is_layer else name.head)
    if view.scope is not Scope.CELL:
        return asked
    return None if cell is None or name.is_layer else replace(asked, position=cell[0], key=cell[1], top=WORDS)


def is_swept(key: TableKey) -> bool:
    """Say whether a table is computed, and shown, layer by layer."""
    view, query = VIEWS[key[0]], key[1]
    return bool(view.ranked_by) and view.is_by_layer and not query.off


class TableStore(Store[TableKey, Table]):
    """The known tables; of one that grows or is swept, parts arrive before it is complete.

    Parameters
    ----------
    engine, outline : of the open model.
    arrived : called when a table or a part of one arrives.
    report : called on any thread with the progress of long work.

    Attributes
    ----------
    progress : how far each unfinished table is.
    told : the progress of the engine's present work; None where it reports none.
    """

    def __init__(
        self,
        engine: Engine,
        outline: ModelOutline,
        arrived: Callable[[], None],
        report: Callable[[Progress], None],
    ) -> None:
        super().__init__(self._work, arrived)
        self._engine = engine
        self._outline = outline
        self._report = report
        self._swept: Progress | None = None
        self.progress: dict[TableKey, Progress] = {}
        self.told: Progress | None = None

    @property
    def stoppable(self) -> TableKey | None:
        """The table whose work a person can stop: a sweep, or one that is late."""
        return next(
            (key for key in self._asked if is_swept(key) or (key in self._late and not VIEWS[key[0]].grows)), None
        )

    def stop_work(self) -> bool:
        """Stop the work on the stoppable table and keep the rows found so far; False if there is none."""
        if (key := self.stoppable) is None:
            return False
        self.stop(key)
        self._engine.give_up(SWEEP if is_swept(key) else TABLE)
        return True

    def advance(self, progress: Progress) -> Progress:
        """Note the engine's progress, and give it as it is shown: in a sweep, heads of earlier layers count too."""
        shown, before = progress, self._swept
        if before is not None and progress.activity == SWITCHING:
            shown = replace(progress, activity=before.activity, done=before.done + progress.done, total=before.total)
        elif before is not None and progress.finished:
            shown = before
        self.told = None if shown.finished else shown
        if self._late:
            self._arrived()
        return shown

    def _work(self, key: TableKey) -> Coroutine[Any, Any, Table]:
        self.told = None
        if is_swept(key):
            return self._sweep(key)
        return self._grow(key) if VIEWS[key[0]].grows else self._fetch(key)

    async def _fetch(self, key: TableKey) -> Table:
        """Ask for a table; if it cannot be had of both models, for the open one's alone."""
        name, query = key
        try:
            table = await self._table(name, query, TABLE)
        except EngineError as error:
            if isinstance(error, Superseded) or not query.with_other:
                raise
            alone = await self._table(name, replace(query, with_other=False), TABLE)
            table = replace(alone, left_out={}, lacking=(f"without the other model: {error}",))
        if table.frame.height > LARGE:
            await asyncio.to_thread(getattr, table, "rows")
        return table

    async def _grow(self, key: TableKey) -> Table:
        """Ask for a table whose cells arrive in parts; after an error, the parts that arrived stay."""
        loop = asyncio.get_running_loop()

        def keep(table: Table, progress: Progress) -> None:
            if key in self._asked:
                self.progress[key] = progress
                self.put(key, table, is_complete=False)

        def deliver(table: Table, progress: Progress) -> None:
            if progress.total:
                self._report(progress)
            len(table.rows)  # makes the rows on this thread, not on the event loop's
            loop.call_soon_threadsafe(keep, table, progress)

        try:
            return await asyncio.wrap_future(self._engine.growing_table(*key, deliver, f"growing {key[0]}"))
        except EngineError as error:
            known = self.peek(key)
            if isinstance(error, Superseded) or not isinstance(known, Table):
                raise
            return replace(known, lacking=(*known.lacking, str(error)))
        finally:
            self._report(DONE)

    async def _sweep(self, key: TableKey) -> Table:
        """Ask for a table layer by layer, so that the engine can do other work in between."""
        name, query = key
        view, layers, pace = VIEWS[name], self._outline.attending_layers, Rate()
        columns = view.columns_with(query.column_options)
        heads = list(itertools.accumulate((layer.heads for layer in layers), initial=0))
        rows, left_out, lacking = list[Sequence[Cell]](), dict[Head, str](), dict[str, None]()
        swept = self._swept
        try:
            for done, layer in enumerate(layers):
                rate = pace.rate(time.monotonic(), heads[done])
                swept = self._swept = Progress(name, heads[done], heads[-1], "heads", rate)
                self._report(swept)
                try:
                    answer = await self._table(name, replace(query, layer=layer.name), SWEEP)
                except LayerLeftOut as error:
                    left_out[layer.name] = error.what
                else:
                    rows += answer.rows
                    lacking |= dict.fromkeys(answer.lacking)
                if len(left_out) == len(layers):
                    raise no_rows_error(left_out)
                table = Table.of_rows(name, columns, view.sort_rows(rows, columns), dict(left_out), tuple(lacking))
                if done + 1 < len(layers):
                    self.progress[key] = Progress(name, done + 1, len(layers), "layers")
                    self.put(key, table, is_complete=False)
            return table
        finally:
            if self._swept is swept:  # no newer sweep has taken its place
                self._swept = None
                self._report(DONE)

    def _table(self, name: str, query: Query, work: str) -> asyncio.Future[Table]:
        return asyncio.wrap_future(self._engine.table(name, query, work))
