"""Files written on threads of their own, so that neither the screen nor the engine waits for a disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from engine.service.queue import FOR_A_FILE, end_with_program
from engine.store.log import write_log
from engine.values.errors import EngineError, Superseded

Answer = TypeVar("Answer")
Check = Callable[[], None]

VIEW = "writing"
"""What the engine's work for a file is for."""


class Writer:
    """Writes files; every public method may be called from any thread.

    Parameters
    ----------
    give_up : stops the engine's work for a view.
    """

    def __init__(self, give_up: Callable[[str], None]) -> None:
        self._give_up = give_up
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[Check], Answer]) -> Future[Answer]:
        """Begin to write a file.

        Parameters
        ----------
        work : called on a thread of its own with ``check``, which it calls now and then and which raises
            `Superseded` once it is not wanted any more. What it asks of the engine comes after what is looked at.
        """
        future: Future[Answer] = Future()
        future.set_running_or_notify_cancel()  # who no longer awaits it cannot take the place of its answer
        cancelled = self._cancelled = threading.Event()

        def check() -> None:
            if cancelled.is_set():
                raise Superseded("the file is not wanted any more")

        def run() -> None:
            FOR_A_FILE.set(VIEW)
            try:
                answer = work(check)
            except EngineError as error:
                future.set_exception(error)
            except BaseException as error:  # whatever it raises is its answer
                unforeseen = EngineError(write_log(error))
                unforeseen.__cause__ = error
                future.set_exception(unforeseen)
            else:
                future.set_result(answer)

        self._thread = threading.Thread(target=run, name="writer", daemon=True)
        end_with_program(self._thread, cancelled.set)
        self._thread.start()
        return future

    def cancel(self) -> None:
        """Give up the file that is being written, at its next step."""
        self._cancelled.set()
        self._give_up(VIEW)

    def join(self, seconds: float) -> None:
        """Wait until nothing of a file that was given up is left, but no longer than that."""
        if self._thread is not None:
            self._thread.join(seconds)
