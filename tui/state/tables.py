"""The tables of the open model, and the queries for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from engine.service.engine import Engine
from engine.values.errors import EngineError, Superseded
from engine.values.heads import NOTHING_OFF
from engine.values.progress import DONE, Progress
from engine.values.table import Table
from engine.values.views import ABLATION, DEFAULT_TOP, LENS, VIEWS, Query, Scope, View
from tui.state.session import Shown
from tui.state.store import Store

TableKey = tuple[str, Query]
"""The name of a view, and its query."""

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
    name, options = shown.selected, view.options
    off = shown.off if "off" in options else NOTHING_OFF
    token, against = measured_tokens(shown, view)
    asked = Query(
        distance=shown.distance if "distance" in options else None,
        fold_norm=shown.folds and "fold_norm" in options,
        text=(shown.text or None) if "text" in options else None,
        top=view.top if "text" in options else DEFAULT_TOP,
        position=shown.position if "position" in options and view is not LENS else None,
        all_positions=view is LENS,
        token=token,
        against=against,
        off=off.heads,
        by_mean=off.by_mean,
        epsilon=shown.epsilon if "energy" in options else None,
        norms="norms" in options,
        with_other=is_comparing and "vs" in view.option_columns and not off.heads,
    )
    if view.scope is Scope.MODEL:
        return asked
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
    """Say whether a table gets its rows layer by layer, which can be stopped."""
    view, query = VIEWS[key[0]], key[1]
    return bool(view.ranked_by) and view.is_by_layer and not query.off


def _comes_in_parts(key: TableKey) -> bool:
    return VIEWS[key[0]].grows or is_swept(key)


def _work_on(key: TableKey) -> str:
    """Name the engine's work on a table; newer work of a name replaces older."""
    return f"growing {key[0]}" if _comes_in_parts(key) else "table"


class TableStore(Store[TableKey, Table]):
    """The known tables; of one that grows or is swept, parts arrive before it is complete.

    Parameters
    ----------
    engine : of the open model.
    arrived : called when a table or a part of one arrives.
    report : called on any thread with the progress of long work.

    Attributes
    ----------
    progress : how far each unfinished table is.
    """

    def __init__(self, engine: Engine, arrived: Callable[[], None], report: Callable[[Progress], None]) -> None:
        super().__init__(self._work, arrived)
        self._engine = engine
        self._report = report
        self.progress: dict[TableKey, Progress] = {}

    @property
    def swept(self) -> TableKey | None:
        """The table that is being swept."""
        return next(filter(is_swept, self._asked), None)

    @property
    def stoppable(self) -> TableKey | None:
        """The table whose work a person can stop: a sweep, or one that is late."""
        return self.swept or next((key for key in self._late if not VIEWS[key[0]].grows), None)

    def stop_work(self) -> bool:
        """Stop the work on the stoppable table and keep the rows found so far; False if there is none."""
        if (key := self.stoppable) is None:
            return False
        self.stop(key)
        self._engine.give_up(_work_on(key))
        return True

    def give_up(self, key: TableKey) -> None:
        """Give up the work on a table that nobody looks at any more."""
        if key in self._asked:
            self._engine.give_up(_work_on(key))

    def _work(self, key: TableKey) -> Coroutine[Any, Any, Table]:
        return self._grow(key) if _comes_in_parts(key) else self._fetch(key)

    async def _fetch(self, key: TableKey) -> Table:
        """Ask for a table; if it cannot be had of both models, for the open one's alone."""
        (name, query), work = key, _work_on(key)
        try:
            table = await asyncio.wrap_future(self._engine.table(name, query, work))
        except EngineError as error:
            if isinstance(error, Superseded) or not query.with_other:
                raise
            alone = await asyncio.wrap_future(self._engine.table(name, replace(query, with_other=False), work))
            table = replace(alone, left_out={}, lacking=(f"without the other model: {error}",))
        await asyncio.to_thread(getattr, table, "rows")  # a large table would keep the event loop waiting
        return table

    async def _grow(self, key: TableKey) -> Table:
        """Ask for a table whose rows or cells arrive in parts; after an error, the parts that arrived stay."""
        loop = asyncio.get_running_loop()

        def keep(table: Table, progress: Progress) -> None:
            if key in self._asked:
                self.progress[key] = progress
                self.put(key, table, is_complete=False)

        def deliver(table: Table, progress: Progress) -> None:
            if progress.total and not is_swept(key):
                self._report(progress)
            if len(table.rows):  # which makes the rows on this thread, not on the event loop's
                loop.call_soon_threadsafe(keep, table, progress)

        try:
            return await asyncio.wrap_future(self._engine.growing_table(*key, deliver, _work_on(key)))
        except EngineError as error:
            known = self.peek(key)
            if isinstance(error, Superseded) or not isinstance(known, Table):
                raise
            return replace(known, lacking=(*known.lacking, str(error)))
        finally:
            self._report(DONE)
