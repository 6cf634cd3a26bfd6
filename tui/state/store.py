"""Answers of the engine by key; looking up a missing one asks for it."""

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
"""Seconds for which the last answer stays on screen while the next is computed."""

ROOM = 64
"""Answers that a store keeps."""


class Store(Generic[Key, Value]):
    """Answers by key; the ones looked up last are kept. For the event loop's thread alone.

    The engine may drop work when newer work of the same name comes; the next `get` asks for it again.

    Parameters
    ----------
    ask : starts the work for a key; gives a future or a coroutine, or the answer itself if that is at hand.
    arrived : called when an answer arrives, and when one is late.
    room : how many answers are kept.

    Attributes
    ----------
    stopped : the answer that a person has stopped; None for none.
    """

    def __init__(
        self,
        ask: Callable[[Key], Future[Value] | Coroutine[Any, Any, Value] | Value],
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
        self.stopped: Key | None = None

    def get(self, key: Key) -> Value | EngineError | None:
        """Give the answer, or the error in its place; None while it is missing, which asks for it.

        Raises
        ------
        Exception : what the work failed with, if that is no `EngineError`.
        """
        if key not in self._complete and key not in self._asked and key != self.stopped:
            self._begin(key)
        known = self._known.get(key)
        if known is not None:
            self._known[key] = self._known.pop(key)  # now the one looked up last
        if isinstance(known, Exception) and not isinstance(known, EngineError):
            raise known
        return known

    async def wait_for(self, key: Key) -> Value:
        """Give the answer once it is known; raise what the work failed with."""
        if key not in self._complete and key not in self._asked:
            self._begin(key)
        if (work := self._asked.get(key)) is not None:
            return await work
        known = self._known[key]
        if isinstance(known, Exception):
            raise known
        return known

    def peek(self, key: Key) -> Value | EngineError | None:
        """Give what `get` gives, but ask for nothing."""
        known = self._known.get(key)
        return None if isinstance(known, Exception) and not isinstance(known, EngineError) else known

    def put(self, key: Key, value: Value | Exception, *, is_complete: bool = True) -> None:
        """Keep an answer, or a part of one."""
        self._keep(key, value)
        if is_complete:
            self._complete.add(key)
        self._arrived()

    def _keep(self, key: Key, value: Value | Exception) -> None:
        self._known.pop(key, None)
        self._known[key] = value
        for oldest in list(self._known)[: -self._room]:
            del self._known[oldest]
            self._complete.discard(oldest)

    @property
    def is_late(self) -> bool:
        """Whether an answer has been on its way for longer than `PATIENCE`."""
        return bool(self._late)

    def is_complete(self, key: Key) -> bool:
        """Say whether the whole answer, or an error, is known."""
        return key in self._complete

    def stop(self, key: Key) -> None:
        """Stop the work on an answer; the part that is known stays."""
        self.stopped = key
        if (work := self._asked.pop(key, None)) is not None:
            work.cancel()
            self._late.discard(key)
            self._arrived()

    def resume(self) -> None:
        """Let the stopped answer be asked for again."""
        if self.stopped is not None:
            self.stopped = None
            self._arrived()

    def forget(self) -> None:
        """Forget all answers."""
        self._known.clear()
        self._complete.clear()

    def close(self) -> None:
        """Cancel all work."""
        for work in self._asked.values():
            work.cancel()

    def _begin(self, key: Key) -> None:
        asked = self._ask(key)
        if not isinstance(asked, Future | Coroutine):
            self._keep(key, asked)
            self._complete.add(key)
            return
        work = asyncio.wrap_future(asked) if isinstance(asked, Future) else asyncio.ensure_future(asked)
        self._asked[key] = work
        work.add_done_callback(partial(self._take_result, key))
        asyncio.get_running_loop().call_later(PATIENCE, self._mark_late, key, work)

    def _mark_late(self, key: Key, work: asyncio.Future[Value]) -> None:
        if self._asked.get(key) is work:
            self._late.add(key)
            self._arrived()

    def _take_result(self, key: Key, work: asyncio.Future[Value]) -> None:
        """Keep the result of work, unless it was stopped or replaced."""
        if self._asked.get(key) is not work:
            return
        del self._asked[key]
        self._late.discard(key)
        error = None if work.cancelled() else work.exception()
        if isinstance(error, Exception) and not isinstance(error, Superseded):
            self.put(key, error)
        elif error is None and not work.cancelled():
            self.put(key, work.result())
