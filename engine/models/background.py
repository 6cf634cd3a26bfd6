"""A call on a thread of its own, because it may hang where no timeout reaches; whoever waits can do other things."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

_NETWORK = ("httpx", "httpx2", "httpcore", "httpcore2", "requests")
"""Libraries whose own errors the Hub's client raises; their names differ between its versions."""


class Background(Generic[Answer]):
    """A call on a daemon thread of its own (a name look-up can hang, say)."""

    def __init__(self, call: Callable[[], Answer]) -> None:
        self._call = call
        self._answers: list[Answer] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="hub", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Make the call; what it raises is handed to whoever waits."""
        try:
            self._answers.append(self._call())
        except BaseException as error:
            self._failure = error

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the call; say whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def answer(self) -> Answer:
        """Give what an ended call returned, or raise what it raised; any network failure is a ConnectionError."""
        if self._failure is None:
            return self._answers[0]
        # An answer of the Hub that is an error has one of its own classes, which keeps what the Hub says.
        if type(self._failure).__module__.partition(".")[0] in _NETWORK:
            raise ConnectionError(str(self._failure)) from self._failure
        raise self._failure
