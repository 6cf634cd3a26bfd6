"""A store knows answers by what they are of, and asks for what is missing."""

from __future__ import annotations

import asyncio
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


async def test_a_missing_answer_is_asked_for_once_and_its_arrival_is_announced() -> None:
    asked = Asked()
    assert asked.store.get("a") is None
    assert asked.store.get("a") is None
    asked.futures["a"].set_result(1)
    await asyncio.sleep(TURN)
    assert asked.store.get("a") == 1
    asked.store.get("b")
    asked.futures["b"].set_exception(EngineError("no b"))
    await asyncio.sleep(TURN)
    assert str(asked.store.get("b")) == "no b"
    assert asked.asked == ["a", "b"]
    assert asked.arrivals == 2


async def test_replaced_work_is_asked_for_again() -> None:
    asked = Asked()
    asked.store.get("a")
    asked.futures["a"].set_exception(Superseded("replaced"))
    await asyncio.sleep(TURN)
    assert asked.store.peek("a") is None
    assert asked.arrivals == 0
    asked.store.get("a")
    assert asked.asked == ["a", "a"]


async def test_a_late_answer_is_announced_and_a_partial_one_is_shown() -> None:
    asked = Asked()
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
    assert asked.asked == ["a"]


async def test_only_the_answers_looked_at_last_are_remembered() -> None:
    asked = Asked(room=2)
    asked.store.put("a", 1)
    asked.store.put("b", 2)
    asked.store.get("a")
    asked.store.put("c", 3)
    assert [asked.store.peek(key) for key in "abc"] == [1, None, 3]
    asked.store.forget()
    assert asked.store.peek("a") is None


async def test_an_unexpected_error_is_raised_by_get() -> None:
    asked = Asked()
    asked.store.get("a")
    asked.futures["a"].set_exception(ZeroDivisionError())
    await asyncio.sleep(TURN)
    with pytest.raises(ZeroDivisionError):
        asked.store.get("a")
