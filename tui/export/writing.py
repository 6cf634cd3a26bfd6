"""Files written beside the event loop, one at a time, with word of what takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.service.queue import Check
from engine.values.errors import EngineError
from engine.values.progress import Progress
from tui.messages import Advanced
from tui.toolkit.keys import key_of

if TYPE_CHECKING:
    from tui.parts import Parts

Answer = TypeVar("Answer")
Report = Callable[[Progress], None]

LOOK = 0.02
"""Seconds between two looks at whether a file has been written."""

LOOKS = 50
"""How often that is looked at before another file is refused."""


class Writing:
    """The file that is being written, if any."""

    def __init__(self, app: Parts) -> None:
        self._app = app
        self._written: Path | None = None

    @property
    def said(self) -> str:
        """What stands before how far a file is."""
        return f"writing, {key_of(self._app, 'app.leave')} stops:"

    async def settle(self) -> None:
        """Wait a moment for a file that is nearly written."""
        for _ in range(LOOKS):
            if self._written is None:
                return
            await asyncio.sleep(LOOK)

    def refuse_a_second(self) -> None:
        """See to it that files are written one after the other.

        Raises
        ------
        EngineError : while one is still being written.
        """
        if self._written is not None:
            raise EngineError(
                f"{self._written.name} is still being written; try again when it is done, "
                f"or {key_of(self._app, 'app.leave')} stops it"
            )

    def stop(self) -> bool:
        """Give up the file that is being written, of which nothing is left; False where there is none."""
        if self._written is None:
            return False
        self._app.engine.stop_writing()
        return True

    async def write(self, path: Path, work: Callable[[Check, Report], Answer]) -> Answer:
        """Do the work that writes a file.

        Parameters
        ----------
        path : of the file.
        work : called on a thread of its own, with what it calls now and then, which raises when the file is not wanted
            any more, and with what it may tell how far it is.

        Raises
        ------
        Superseded : when the file was given up.
        EngineError : when it cannot be written.
        """
        has_told = False

        def report(progress: Progress) -> None:
            nonlocal has_told
            has_told = True
            self._app.post_message(Advanced(progress))

        self._written = path
        try:
            return await asyncio.wrap_future(self._app.engine.write(lambda check: work(check, report)))
        finally:
            self._written = None
            if has_told:
                self._app.post_message(Advanced(Progress("", 1, 1, "")))
