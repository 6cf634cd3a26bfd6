"""What is known of an open model, by what it is of; what is missing is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

from engine.values.errors import EngineError, Superseded

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

PATIENCE = 0.2
"""Seconds for which what was there before stays on screen while the next is computed."""

ROOM = 64
"""Answers that are remembered, so that what was looked at before is there at once."""


class Store(Generic[Key, Value]):
    """Answers by key, of which those looked at last are remembered. All of it happens on the event loop.

    Newer work replaces older by the name under which ``ask`` gives it to the engine; work that was replaced or given up
    is forgotten, and asked for again with the next `get`. An answer that comes when nobody asks any more is kept.

    Parameters
    ----------
    ask : begins the work for a key, and gives its future answer, or a coroutine that gives it.
    arrived : called when there is another answer, or when one is not there after a moment.
    room : how many answers are remembered.
    """

    def __init__(
        self,
        ask: Callable[[Key], Future[Value] | Coroutine[Any, Any, Value]],
        arrived: Callable[[], None],
        room: int = ROOM,
    ) -> None:
        self._ask = ask
        self._arrived = arrived
        self._room = room
        self._known: dict[Key, Value | Exception] = {}
        self._complete: set[Key] = set()
        self._asked: dict[Key, asyncio.Future[Value]] = {}
        self._late: set[Key] = set()
        self._stopped: Key | None = None

    def get(self, key: Key) -> Value | EngineError | None:
        """Give what is known, or why there will be nothing; None while nothing is. What is missing is asked for.

        Raises
        ------
        Exception : whatever the work has failed with that is no `EngineError`.
        """
        if key not in self._complete and key not in self._asked and key != self._stopped:
            self._begin(key)
        known = self._known.get(key)
        if known is not None:
            self._known[key] = self._known.pop(key)  # the one looked at last
        if isinstance(known, Exception) and not isinstance(known, EngineError):
            raise known
        return known

    def peek(self, key: Key) -> Value | EngineError | None:
        """Give what is known, and ask for nothing."""
        known = self._known.get(key)
        return None if isinstance(known, Exception) and not isinstance(known, EngineError) else known

    def put(self, key: Key, value: Value | Exception, *, is_complete: bool = True) -> None:
        """Remember an answer, or as much of it as there is by now."""
        self._known.pop(key, None)
        self._known[key] = value
        if is_complete:
            self._complete.add(key)
        for oldest in list(self._known)[: -self._room]:
            del self._known[oldest]
            self._complete.discard(oldest)
        self._arrived()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._asked

    def is_asked(self, key: Key) -> bool:
        """Say whether an answer, or the rest of it, is on its way."""
        return key in self._asked

    def is_complete(self, key: Key) -> bool:
        """Say whether all is known that will be."""
        return key in self._complete

    def is_late(self, key: Key) -> bool:
        """Say whether an answer has been on its way for longer than a moment."""
        return key in self._late

    def stop(self, key: Key) -> None:
        """Ask no more for the rest of an answer; what is known of it stays."""
        self._stopped = key
        if (work := self._asked.pop(key, None)) is not None:
            work.cancel()
            self._late.discard(key)
            self._arrived()

    def is_stopped(self, key: Key) -> bool:
        """Say whether a person has stopped an answer."""
        return key == self._stopped

    def resume(self) -> None:
        """Have what was stopped asked for again."""
        if self._stopped is not None:
            self._stopped = None
            self._arrived()

    def forget(self, key: Key | None = None) -> None:
        """Forget an answer, or all that is known, so that it is asked for again."""
        for each in [key] if key is not None else list(self._known):
            self._known.pop(each, None)
            self._complete.discard(each)

    def close(self) -> None:
        """Wait for nothing any more."""
        self._arrived = lambda: None
        for work in self._asked.values():
            work.cancel()

    def _begin(self, key: Key) -> None:
        """Ask for an answer."""
        asked = self._ask(key)
        work = asyncio.wrap_future(asked) if isinstance(asked, Future) else asyncio.ensure_future(asked)
        self._asked[key] = work
        work.add_done_callback(partial(self._end, key))
        asyncio.get_running_loop().call_later(PATIENCE, self._grow_late, key, work)

    def _grow_late(self, key: Key, work: asyncio.Future[Value]) -> None:
        """Have it said that an answer is waited for."""
        if self._asked.get(key) is work:
            self._late.add(key)
            self._arrived()

    def _end(self, key: Key, work: asyncio.Future[Value]) -> None:
        """Remember what work has come to, unless it was given up."""
        if self._asked.get(key) is not work:
            return
        del self._asked[key]
        self._late.discard(key)
        error = None if work.cancelled() else work.exception()
        if isinstance(error, Exception) and not isinstance(error, Superseded):
            self.put(key, error)
        elif error is None and not work.cancelled():
            self.put(key, work.result())
