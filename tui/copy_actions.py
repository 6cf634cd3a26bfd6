"""Keys that copy what is on screen to the clipboard of the terminal, through OSC 52, which crosses SSH."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from engine.values.errors import EngineError, Superseded
from tui.beside import begin
from tui.key_groups import TAKING_AWAY
from tui.parts import Parts

if TYPE_CHECKING:
    from engine.values.attention import AttentionMap
    from engine.values.table import AnyTable
    from tui.export.clipboard import Copied

SHOWN = 48
"""Characters of what was copied that are shown."""


class CopyActions(Parts):
    """An application from which a cell, a row or a whole table can be copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_cell", "Copy the cell under the cursor", show=False, id="app.copy_cell", group=TAKING_AWAY),
        Binding("Y", "copy_row", "Copy the row", show=False, id="app.copy_row", group=TAKING_AWAY),
        Binding(
            "ctrl+y",
            "copy_view",
            "Copy the whole view, tab separated",
            show=False,
            id="app.copy_view",
            group=TAKING_AWAY,
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._has_explained = False

    def action_copy_cell(self) -> None:
        """Copy the cell under the active view's cursor."""
        self._copy(self._cell)

    def action_copy_row(self) -> None:
        """Copy the row under the active view's cursor."""
        self._copy(self._row)

    def action_copy_view(self) -> None:
        """Copy the table that the active view draws."""
        self._copy(self._all)

    def _copy(self, find: Callable[[], Awaitable[Copied]]) -> None:
        """Copy what may have to be waited for."""
        self.clear_notifications()
        begin(self, partial(self._send, find), "copy")

    async def _send(self, find: Callable[[], Awaitable[Copied]]) -> None:
        """Hand text to the terminal, and say what; whether the terminal took it nobody can know."""
        try:
            copied = await find()
        except Superseded:
            return
        except EngineError as error:
            self.notify(str(error), severity="error")
            return
        self.copy_to_clipboard(copied.text)
        from tui.drawing.text import fit, harmless

        begin = harmless(copied.text.partition("\n")[0][: 2 * SHOWN].replace("\t", " "))
        shown = fit(begin, SHOWN).rstrip() if len(begin) > SHOWN else begin
        lines = [copied.says, shown, *self._hint()]
        self.notify("\n".join(filter(None, lines)), title="copied")

    def _hint(self) -> list[str]:
        """Say once what stands between this program and the clipboard."""
        if self._has_explained:
            return []
        self._has_explained = True
        if os.environ.get("TMUX"):
            return ["in tmux this takes: set -g set-clipboard on"]
        return ["GNU screen keeps it for itself; tmux passes it on"] if os.environ.get("STY") else []

    async def _cell(self) -> Copied:
        """Find the cell."""
        from tui.export.clipboard import cell_of

        return cell_of(self.views.active, self.conductor)

    async def _row(self) -> Copied:
        """Find the row."""
        from tui.export.clipboard import row_of

        several = await self._compared()
        return row_of(self.views.active, self.conductor, await self._map(), several)

    async def _compared(self) -> AnyTable | None:
        """Wait for the table of pinned heads, where the active view is of them."""
        from tui.export.clipboard_of_compare import refuse_long_difference
        from tui.panes.compare import ComparePane

        if not isinstance(self.views.active, ComparePane):
            return None
        refuse_long_difference(self.views.active)
        return await self._several()

    async def _several(self) -> AnyTable | None:
        """Wait for the table of the active view, where several heads are beside each other in it."""
        comparing = self.conductor.comparing
        return None if comparing is None else await comparing.table()

    async def _all(self) -> Copied:
        """Find the table, unless a glance says that it is too large."""
        from tui.export.clipboard import all_of, refuse_large_map

        refuse_large_map(self.views.active)
        several = await self._several()
        return all_of(self.views.active, self.conductor, await self._map(), several)

    async def _map(self) -> AttentionMap | None:
        """Wait for all weights of the map, where the active view is one."""
        reading = self.conductor.reading
        if reading is None or self.views.active is not self.views.attention:
            return None
        return await reading.whole_map()
