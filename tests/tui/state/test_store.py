"""A store knows answers by what they are of, and asks for what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

import pytest

from engine.values.errors import EngineError, Superseded
from tui.state.store import PATIENCE, Store

TURN = 0.01
"""Seconds in which the event loop does what is due."""


class Asked:
    """A store whose answers a test gives."""

    def __init__(self, room: int = 8) -> None:
        self.futures: dict[str, Future[int]] = {}
        self.asked: list[str] = []
        self.arrivals = 0
        self.store: Store[str, int] = Store(self._ask, self._arrive, room)

    def _ask(self, key: str) -> Future[int]:
        self.asked.append(key)
        self.futures[key] = Future()
        return self.futures[key]

    def _arrive(self) -> None:
        self.arrivals += 1


def played(play: Callable[[Asked], Awaitable[None]], room: int = 8) -> Asked:
    """Play on an event loop, and give what was asked."""

    async def run() -> Asked:
        asked = Asked(room)
        await play(asked)
        return asked

    return asyncio.run(run())


def test_what_is_missing_is_asked_for_once_and_an_answer_is_told() -> None:
    async def play(asked: Asked) -> None:
        assert asked.store.get("a") is None
        assert asked.store.get("a") is None
        asked.futures["a"].set_result(1)
        await asyncio.sleep(TURN)
        assert asked.store.get("a") == 1
        asked.store.get("b")
        asked.futures["b"].set_exception(EngineError("no b"))
        await asyncio.sleep(TURN)
        assert str(asked.store.get("b")) == "no b"

    asked = played(play)
    assert asked.asked == ["a", "b"]
    assert asked.arrivals == 2


def test_work_that_was_replaced_is_forgotten_and_asked_for_again() -> None:
    async def play(asked: Asked) -> None:
        asked.store.get("a")
        asked.futures["a"].set_exception(Superseded("replaced"))
        await asyncio.sleep(TURN)
        assert asked.store.peek("a") is None
        assert asked.arrivals == 0
        asked.store.get("a")

    assert played(play).asked == ["a", "a"]


def test_what_comes_late_is_told_of_and_what_comes_bit_by_bit_is_shown() -> None:
    async def play(asked: Asked) -> None:
        asked.store.get("a")
        await asyncio.sleep(PATIENCE + 5 * TURN)
        assert asked.store.is_late("a")
        assert asked.arrivals == 1
        asked.store.put("a", 1, is_complete=False)
        assert asked.store.get("a") == 1
        assert not asked.store.is_complete("a")
        asked.futures["a"].set_result(2)
        await asyncio.sleep(TURN)
        assert asked.store.get("a") == 2
        assert asked.store.is_complete("a")
        assert not asked.store.is_late("a")

    assert played(play).asked == ["a"]


def test_what_was_stopped_keeps_what_has_come_and_goes_on_when_it_is_resumed() -> None:
    async def play(asked: Asked) -> None:
        asked.store.get("a")
        asked.store.put("a", 1, is_complete=False)
        asked.store.stop("a")
        await asyncio.sleep(TURN)
        assert asked.futures["a"].cancelled()
        assert asked.store.get("a") == 1
        assert asked.store.is_stopped("a")
        assert asked.asked == ["a"]
        asked.store.resume()
        asked.store.get("a")

    assert played(play).asked == ["a", "a"]


def test_only_the_answers_looked_at_last_are_remembered() -> None:
    async def play(asked: Asked) -> None:
        asked.store.put("a", 1)
        asked.store.put("b", 2)
        asked.store.get("a")
        asked.store.put("c", 3)
        assert [asked.store.peek(key) for key in "abc"] == [1, None, 3]
        asked.store.forget()
        assert asked.store.peek("a") is None

    played(play, room=2)


def test_an_error_that_nobody_foresaw_is_raised_where_the_answer_is_looked_at() -> None:
    async def play(asked: Asked) -> None:
        asked.store.get("a")
        asked.futures["a"].set_exception(ZeroDivisionError())
        await asyncio.sleep(TURN)
        with pytest.raises(ZeroDivisionError):
            asked.store.get("a")

    played(play)
