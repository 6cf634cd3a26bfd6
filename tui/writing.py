"""Tables written to files beside the event loop, one file at a time, with word of what takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from engine.service.files import unused_path, write_csv
from engine.values.attention import AttentionMap
from engine.values.errors import EngineError
from engine.values.memory import size
from engine.values.progress import Progress
from engine.values.tables import Table
from tui.export_view import LONG, Counted, estimated_bytes
from tui.messages import Advanced

if TYPE_CHECKING:
    from tui.app import Explorer


class Writing:
    """The file that is being written, if any."""

    def __init__(self, app: Explorer) -> None:
        self._app = app
        self._written: Path | None = None

    def refuse_a_second(self) -> None:
        """See to it that files are written one after the other.

        Raises
        ------
        EngineError : while one is still being written.
        """
        if self._written is not None:
            raise EngineError(f"{self._written.name} is still being written; try again when it is done")

    async def write(self, table: Table, stem: str, attention: AttentionMap | None) -> tuple[Path, int]:
        """Write a table where the program was started; give the path and the number of rows.

        Parameters
        ----------
        table : what is written.
        stem : what the file's name begins with.
        attention : the map, where the table is of one.

        Raises
        ------
        EngineError : when there is no place to write to.
        """
        path = unused_path(stem, ".csv")
        total = 0 if attention is None else attention.weights.size
        is_long = total > LONG
        if attention is not None and is_long:
            estimate = size(estimated_bytes(attention))
            self._app.notify(f"{total:,} rows, about {estimate}, are written to {path}", title="writing", markup=False)
        counted: list[Counted] = []

        def report(rows: int) -> None:
            if is_long:
                self._app.post_message(Advanced(Progress("writing", rows, total, "rows")))

        def write(breathe: Callable[[], None]) -> Path:
            counted.append(Counted(table, breathe, report))
            return write_csv(Table(table.view, table.columns, counted[0]), path)

        future: Future[Path] = self._app.engine.write(write, is_long)
        self._written = path
        try:
            return await asyncio.wrap_future(future), counted[0].count
        finally:
            self._written = None
            if is_long:
                self._app.post_message(Advanced(Progress("", 1, 1, "")))
